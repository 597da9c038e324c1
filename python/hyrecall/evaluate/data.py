"""Loads retrieval sets: documents, queries, and judgements of the relevant documents."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from hyrecall.base.arguments import check_objects, read_path
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.embed import Embedder
from hyrecall.embed.guard import Guard, embed_texts
from hyrecall.errors import DTypeError, OptionError, error

# ---- Reads the files of a retrieval set: rows from Parquet or JSON lines, pairs from TSV ----

_TEXTS = ("id", "title", "text")
_IDS = {"id", "_id"}
_VECTOR = "embedding"


def read_rows(folder: Path, name: str) -> pa.Table:
    """Read ``name.parquet`` or ``name.jsonl`` as a table with string ``id``, ``text``,
    ``title``.
    """
    found = [path for kind in ("parquet", "jsonl") if (path := folder / f"{name}.{kind}").is_file()]
    if len(found) != 1:
        wish = f"a folder with either {name}.parquet or {name}.jsonl"
        raise error(OptionError, str(folder), wish, "both" if found else "neither")
    (path,) = found
    table = _read_jsonl(path) if path.suffix == ".jsonl" else _read_parquet(path)
    if "_id" in table.column_names and "id" not in table.column_names:
        names = ["id" if column == "_id" else column for column in table.column_names]
        table = table.rename_columns(names)
    for column in ("id", "text"):
        if column not in table.column_names:
            raise error(OptionError, str(path), f"a column {column!r}", table.column_names)
    for column in _TEXTS:
        if column in table.column_names:
            at = table.column_names.index(column)
            table = table.set_column(at, column, _as_text(path, column, table[column]))
    if table["id"].null_count:
        row = table["id"].is_null().to_pylist().index(True) + 1
        raise error(DTypeError, f"{path} row {row}", "an id", "null")
    return table


def _as_text(path: Path, column: str, values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column to strings; only ids may be integers."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    fits = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)
    if not fits and not (column == "id" and pa.types.is_integer(kind)):
        raise error(DTypeError, str(path), f"text in column {column!r}", kind)
    return values.cast(pa.string())


def _read_parquet(path: Path) -> pa.Table:
    try:
        return pq.read_table(path)
    except pa.ArrowException as fault:
        raise error(DTypeError, str(path), "a Parquet file", fault) from fault


def _read_jsonl(path: Path) -> pa.Table:
    """Read one JSON object per line; a missing key is null."""
    rows: list[dict[str, Any]] = []
    dim = 0  # of the first vector
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                needed = rows[0].keys() & _IDS if rows else set()
                row = _read_object(f"{path} line {number}", line, needed, dim)
                dim = dim or len(row.get(_VECTOR) or ())
                rows.append(row)
    columns: dict[str, pa.Array] = {}
    for name in {name: None for row in rows for name in row}:
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(
                values, pa.list_(pa.float32(), dim) if name == _VECTOR else None
            )
        except pa.ArrowException as fault:
            raise error(DTypeError, f"{path}: {name}", "values of one type", fault) from None
    return pa.table(columns)


def _read_object(where: str, line: bytes, needed: set[str], dim: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as fault:
        raise error(DTypeError, where, "a JSON object", fault) from None
    if not isinstance(row, dict):
        raise error(DTypeError, where, "a JSON object", type(row).__name__)
    for name in needed | row.keys() & {*_TEXTS, *_IDS}:
        kinds: tuple[type, ...] = (str, int) if name in _IDS else (str, type(None))
        value = row.get(name)
        if not isinstance(value, kinds) or isinstance(value, bool):
            wish = f"{name!r} as {' or '.join(kind.__name__ for kind in kinds)}"
            raise error(DTypeError, where, wish, repr(value))
        row[name] = None if value is None else str(value)
    vector = row.get(_VECTOR)
    numbers = isinstance(vector, list) and all(type(one) in (int, float) for one in vector)
    if vector is not None and not (numbers and len(vector) == (dim or len(vector))):
        wish = f"{_VECTOR!r} as a list of {dim or 'some'} numbers"
        raise error(DTypeError, where, wish, repr(vector))
    return row


def read_pairs(path: Path, n_fields: int, ids: set[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of a TSV after its header: the place, for messages, and the fields."""
    # A first line that begins with one of the ids or ends in a number is refused: it is not a
    # header.
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            where = f"{path} line {number}"
            try:
                fields = [field.strip() for field in line.decode().split("\t")]
            except UnicodeDecodeError as fault:
                raise error(DTypeError, where, "UTF-8", fault) from None
            if not any(fields):
                continue
            if len(fields) != n_fields or not all(fields):
                wish = f"{n_fields} fields separated by tabs"
                raise error(DTypeError, where, wish, repr(line.decode().rstrip("\r\n")))
            if number > 1:
                yield where, fields
            elif fields[0] in ids or fields[-1].lstrip("+-").replace(".", "", 1).isdigit():
                # This first line of data would be lost silently.
                raise error(DTypeError, where, "a header line", repr(line.decode().rstrip("\r\n")))


# ---- Loads retrieval sets: documents, queries, and judgements of the relevant documents ----

Judgements: TypeAlias = Mapping[str, Mapping[str, int]]
Part: TypeAlias = Literal["even", "odd"]

CELL = "tenant"
"""The column of tenants; in a set with tenants, each query sees only its own tenant."""

VECTOR = "embedding"
"""The column of vectors."""

_GRADES = range(-100, 1001)  # ir-measures' memory grows with the largest grade


@check_objects
@dataclass(frozen=True, eq=False)
class Dataset:
    """A retrieval set.

    Parameters
    ----------
    name : str
    corpus : pyarrow.Table
        With string columns ``id`` and ``text``, and optional columns ``title``, ``tenant``,
        ``embedding`` (of any norm) and others.
    queries : pyarrow.Table
        With string columns ``id`` and ``text``, ``tenant`` if the corpus has it, and optionally
        ``embedding``.
    judgements : mapping of str to mapping of str to int
        For each query, the grade of each judged document; above 0 means relevant.
    classes : mapping of str to str, optional
        The class of each document that has duplicates.

    Raises
    ------
    OptionError
        A missing column.

    Examples
    --------
    >>> corpus = pa.table({"id": ["a", "b"], "text": ["hot tea", "cold milk"]})
    >>> queries = pa.table({"id": ["q", "r"], "text": ["tea", "milk"]})
    >>> data = Dataset("drinks", corpus, queries, {"q": {"a": 1}})
    >>> data.judged["id"].to_pylist()
    ['q']
    """

    name: str
    corpus: pa.Table
    queries: pa.Table
    judgements: Judgements
    classes: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        wanted = ["id", "text"]
        for part, table in (("corpus", self.corpus), ("queries", self.queries)):
            for column in wanted:
                if column not in table.column_names:
                    wish = f"a column {column!r}"
                    raise error(OptionError, f"{self.name} {part}", wish, table.column_names)
            if CELL in self.corpus.column_names:
                wanted = [*wanted, CELL]
        if CELL in self.queries.column_names and not self.has_cells:
            wish = f"a column {CELL!r}, as in the queries"
            raise error(OptionError, f"{self.name} corpus", wish, self.corpus.column_names)

    @property
    def has_cells(self) -> bool:
        """Whether each query sees only its own tenant."""
        return CELL in self.corpus.column_names

    @property
    def has_vectors(self) -> bool:
        """Whether documents and queries both have vectors."""
        return all(VECTOR in table.column_names for table in (self.corpus, self.queries))

    @property
    def judged(self) -> pa.Table:
        """The queries with judgements, in their order."""
        known = pa.array(
            [query for query, grades in self.judgements.items() if grades], pa.string()
        )
        return self.queries.filter(pc.is_in(self.queries["id"], known))

    def split(self, part: Part) -> Dataset:
        """Return one half of the queries, to tune on one half and evaluate on the other.

        Parameters
        ----------
        part : {"even", "odd"}
            Chosen by the 64-bit xxh3 hash of the query's id in UTF-8, so that other queries in the
            set do not affect the half of a query.

        Raises
        ------
        OptionError
            Another part.
        """
        if part not in get_args(Part):
            raise error(OptionError, "split", "'even' or 'odd'", repr(part))
        odd = part == "odd"
        ids = self.queries["id"].to_pylist()
        is_in = [xxhash.xxh3_64_intdigest(query.encode()) % 2 == odd for query in ids]
        queries = self.queries.filter(pa.array(is_in, pa.bool_()))
        kept = set(queries["id"].to_pylist())
        judgements = {query: docs for query, docs in self.judgements.items() if query in kept}
        name = f"{self.name}, {part} queries"
        return replace(self, name=name, queries=queries, judgements=judgements)


@check_objects
def load_dataset(folder: str | Path, *, qrels: str | Path | None = None) -> Dataset:
    """Read a retrieval set from a folder.

    ``corpus.parquet`` or ``corpus.jsonl``, ``queries.parquet`` or ``queries.jsonl``, ``qrels.tsv``
    or ``qrels/test.tsv`` (a header line, then query id, corpus id, grade), and ``classes.tsv``
    (a header line, then document id, class) if documents have duplicates. The id column is
    ``id``, or ``_id`` as in BEIR.

    Parameters
    ----------
    folder : path-like
        Its name becomes the set's.
    qrels : path-like, optional
        Another file of judgements, relative to the folder.

    Raises
    ------
    OptionError, DTypeError
        A missing or wrong file, column or value; the message names file and line. Judgements and
        classes may name only queries and documents of the set.
    """
    folder = read_path(folder)
    corpus = read_rows(folder, "corpus")
    queries = read_rows(folder, "queries")
    known = set(corpus["id"].to_pylist())
    asked = queries["id"].to_pylist()
    if len(set(asked)) < len(asked):
        twice = next(query for query, times in Counter(asked).items() if times > 1)
        raise error(OptionError, f"{folder}: queries", "each id once", f"{twice!r} twice")
    classes = folder / "classes.tsv"
    return Dataset(
        folder.resolve().name,
        corpus,
        queries,
        _read_judgements(_find_judgements(folder, qrels), set(asked), known),
        _read_classes(classes, known) if classes.exists() else None,
    )


def _find_judgements(folder: Path, qrels: str | Path | None) -> Path:
    names = ("qrels.tsv", "qrels/test.tsv") if qrels is None else (str(qrels),)
    found = next((folder / name for name in names if (folder / name).is_file()), None)
    if found is None:
        raise error(OptionError, str(folder), f"a file {' or '.join(names)}", "none")
    return found


def _read_judgements(path: Path, queries: set[str], known: set[str]) -> dict[str, dict[str, int]]:
    judgements: dict[str, dict[str, int]] = {}
    for where, (query, document, given) in read_pairs(path, 3, queries):
        _check_known(where, "a query of the set", query, queries)
        _check_known(where, "a document of the set", document, known)
        grades = judgements.setdefault(query, {})
        if document in grades:
            raise error(OptionError, where, "each pair once", f"({query}, {document}) again")
        grades[document] = _grade(where, given)
    return judgements


def _read_classes(path: Path, known: set[str]) -> dict[str, str]:
    classes: dict[str, str] = {}
    for where, (document, name) in read_pairs(path, 2, known):
        _check_known(where, "a document of the set", document, known)
        if document in classes:
            raise error(OptionError, where, "each document once", f"{document!r} again")
        classes[document] = name
    return classes


def _check_known(where: str, wish: str, name: str, known: set[str]) -> None:
    if name not in known:
        raise error(OptionError, where, wish, repr(name))


def _grade(where: str, given: str) -> int:
    try:
        number = float(given)
        if number not in _GRADES:
            raise ValueError
    except ValueError:
        wish = f"a whole grade in [{_GRADES[0]}, {_GRADES[-1]}]"
        raise error(DTypeError, where, wish, repr(given)) from None
    return int(number)


# ---- Adds vectors to a retrieval set by embedding its texts ----


@check_objects
def embed_dataset(
    dataset: Dataset, embedder: Embedder, *, progress: ProgressFunction | None = None
) -> Dataset:
    """Return a set with vectors of its documents and judged queries.

    Parameters
    ----------
    dataset : Dataset
        A set without vectors.
    embedder : Embedder
        Called with 64 texts at a time, each call with a limit of 60 seconds.
    progress : callable, optional
        ``progress(done, total)``, called with numbers of texts after each call of the embedder.

    Returns
    -------
    Dataset
        With a column ``embedding`` of float32 vectors. A document is embedded as its title, a space
        and its text. Queries without judgements and blank texts have no vector.

    Raises
    ------
    OptionError
        The set already has vectors.
    EmbedError
        The embedder fails, or its reply is not vectors.
    DTypeError
        ``embedder`` is not an embedder.

    Examples
    --------
    >>> from hyrecall.embed import HashEmbedder
    >>> corpus = pa.table({"id": ["a", "b"], "text": ["hot tea", "cold milk"]})
    >>> queries = pa.table({"id": ["q"], "text": ["tea"]})
    >>> data = Dataset("drinks", corpus, queries, {"q": {"a": 1}})
    >>> embed_dataset(data, HashEmbedder(dim=16)).has_vectors
    True
    """
    tell = read_progress(progress)
    parts = {"corpus": dataset.corpus, "queries": dataset.queries}
    for part, table in parts.items():
        if VECTOR in table.column_names:
            wish = f"no column {VECTOR!r}"
            raise error(OptionError, f"{dataset.name} {part}", wish, table.column_names)
    judged = set(dataset.judged["id"].to_pylist())
    asked = zip(*(dataset.queries[name].to_pylist() for name in ("id", "text")), strict=True)
    texts = _documents(dataset.corpus)
    texts += [text if name in judged else None for name, text in asked]
    rows = _rows(texts, embedder, tell)
    column = pa.FixedSizeListArray.from_arrays(
        pa.array(rows.ravel()), rows.shape[1], mask=pa.array(~rows.any(axis=1))
    )
    n_docs = dataset.corpus.num_rows
    return replace(
        dataset,
        corpus=dataset.corpus.append_column(VECTOR, column.slice(0, n_docs)),
        queries=dataset.queries.append_column(VECTOR, column.slice(n_docs)),
    )


def _documents(corpus: pa.Table) -> list[str | None]:
    """Return the text of each document to embed: its title and text, as in the text arm."""
    names = [name for name in ("title", "text") if name in corpus.column_names]
    columns: Any = (corpus[name].to_pylist() for name in names)
    return [" ".join(part for part in row if part) for row in zip(*columns, strict=True)]


def _rows(
    texts: Sequence[str | None], embedder: Embedder, tell: ProgressFunction | None
) -> npt.NDArray[np.float32]:
    """Return one row per text, a zero row for a text without a vector."""
    guard = Guard(embedder, workers=1)
    try:
        return embed_texts(guard, texts, tell=tell)
    finally:
        guard.close()
