"""Retrieval sets: documents, queries, and judgements of the relevant documents."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from hyrecall.base.arguments import check_objects
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.embed import Embedder
from hyrecall.embed.guard import Guard, embed_texts
from hyrecall.errors import OptionError, error

Judgements: TypeAlias = Mapping[str, Mapping[str, int]]
Part: TypeAlias = Literal["even", "odd"]

CELL = "tenant"
"""The column of tenants; in a set with tenants, each query sees only its own tenant."""

VECTOR = "embedding"
"""The column of vectors."""


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

    def count_by(self, column: str) -> Dataset:
        """Return the set with the values of a column as classes, such as the session of a turn.

        A value then counts once, at the rank of its best document; it is relevant if a document
        with it is.

        Parameters
        ----------
        column : str
            A column of the corpus. A document without a value counts for itself.

        Raises
        ------
        OptionError
            Not such a column, the set has classes, or an id has several values.
        """
        if column not in self.corpus.column_names or self.classes is not None:
            got = repr(column) if self.classes is None else "classes of duplicates"
            raise error(OptionError, "column", f"one of {self.corpus.column_names}", got)
        pairs = (
            self.corpus.select(["id", column]).drop_null().group_by(["id", column]).aggregate([])
        )
        ids = pairs["id"].to_pylist()
        classes = dict(zip(ids, map(str, pairs[column].to_pylist()), strict=True))
        if len(classes) < len(ids):
            raise error(OptionError, "column", "one value for each id", f"several of {column!r}")
        return replace(self, name=f"{self.name}, by {column}", classes=classes)


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
        Called with 64 texts at a time, each text once, each call with a limit of 60 seconds.
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
    row_of = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    with closing(Guard(embedder, workers=1)) as guard:
        rows = embed_texts(guard, [*row_of], tell=tell)[[row_of[text] for text in texts]]
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
