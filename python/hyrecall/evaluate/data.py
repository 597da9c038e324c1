"""Loads retrieval sets: documents, queries, and judgements of the relevant documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from hyrecall.base.arguments import read_path
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.evaluate.files import read_pairs, read_rows

__all__ = ["CELL", "VECTOR", "Dataset", "Judgements", "Part", "load_dataset"]

Judgements: TypeAlias = Mapping[str, Mapping[str, int]]
Part: TypeAlias = Literal["even", "odd"]

CELL = "tenant"
"""The column of tenants; in a set with tenants, each query sees only its own tenant."""

VECTOR = "embedding"
"""The column of vectors."""

_GRADES = range(-100, 1001)  # ir-measures' memory grows with the largest grade


@check_keywords
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
        """Check the columns."""
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


@check_keywords
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
