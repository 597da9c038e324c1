"""Small questions about documents that a shard answers before or after a recall over shards.

A look-up asks about the documents that each of its queries may see, such as which of some keys
exist. Unlike the questions of a recall, it needs neither texts nor vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.filter_program import read_filters
from hyrecall.ask.scope import read_scopes
from hyrecall.errors import OptionError, ShapeError, error
from hyrecall.parts.frames import pack, pack_table, reading, unpack, unpack_table
from hyrecall.parts.plain import decode, encode
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.segments import State

__all__ = [
    "QUERY",
    "Ask",
    "Looked",
    "Lookup",
    "audience_of",
    "cell_column",
    "join_looked",
    "lookup_keys",
    "sound_rows",
]

KIND = "hyrecall lookup"
ANSWER = "hyrecall looked"

QUERY: Final = "query"
"""The column that names the query of each row, in questions and answers."""

Queries = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Lookup:
    """A question about the documents that some queries may see."""

    kind: str
    request: str
    n_queries: int
    scope: object
    rows: pa.Table
    filter: object = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    versions: tuple[str, ...] = ()

    @property
    def query(self) -> Queries:
        """The query of each row."""
        return np.asarray(self.rows.column(QUERY).to_numpy(), np.int64)

    def of_queries(self, queries: Queries) -> Lookup:
        """Return the question of some queries, ascending, numbered from 0."""
        at = np.minimum(np.searchsorted(queries, self.query), max(len(queries) - 1, 0))
        kept = np.flatnonzero(queries[at] == self.query) if len(queries) else np.zeros(0, np.int64)
        rows = self.rows.take(pa.array(kept))
        rows = rows.set_column(rows.schema.names.index(QUERY), QUERY, pa.array(at[kept]))
        return replace(
            self, n_queries=len(queries), rows=rows,
            scope=_of_queries(self.scope, queries), filter=_of_queries(self.filter, queries),
        )  # fmt: skip

    def to_bytes(self) -> bytes:
        """Return the question as bytes for another process."""
        return self._packed

    @cached_property
    def _packed(self) -> bytes:
        header = {
            "kind": self.kind, "request": self.request, "n_queries": self.n_queries,
            "scope": encode("scope", self.scope), "filter": encode("filter", self.filter),
            "settings": dict(self.settings), "versions": list(self.versions),
        }  # fmt: skip
        return pack(KIND, header, {"rows": pack_table(self.rows)})

    @classmethod
    def from_bytes(cls, data: bytes) -> Lookup:
        """Make a question from the bytes of :meth:`to_bytes`."""
        header, arrays = unpack(KIND, data)
        with reading("the bytes of a look-up"):
            n, rows = int(header["n_queries"]), unpack_table(arrays["rows"])
            made = cls(
                str(header["kind"]), str(header["request"]), n, decode("scope", header["scope"]),
                rows, decode("filter", header["filter"]), dict(header["settings"]),
                tuple(map(str, header["versions"])),
            )  # fmt: skip
            _check_queries(rows, n)
        return made


@dataclass(frozen=True, eq=False)
class Looked:
    """The answer of one shard to a look-up."""

    request: str
    index: str
    version: str
    rows: pa.Table

    def to_bytes(self) -> bytes:
        """Return the answer as bytes for another process."""
        header = {"request": self.request, "index": self.index, "version": self.version}
        return pack(ANSWER, header, {"rows": pack_table(self.rows)})

    @classmethod
    def from_bytes(cls, data: bytes) -> Looked:
        """Make an answer from the bytes of :meth:`to_bytes`."""
        header, arrays = unpack(ANSWER, data)
        with reading("the answer to a look-up"):
            request, index, version = (str(header[one]) for one in ("request", "index", "version"))
            made = cls(request, index, version, unpack_table(arrays["rows"]))
            _check_queries(made.rows, None)
        return made


Ask: TypeAlias = Callable[[Lookup], Sequence[pa.Table]]
"""Asks shards a look-up; returns the rows of each answer, with the query numbers of the batch."""


def _check_queries(rows: pa.Table, n_queries: int | None) -> None:
    """Refuse rows whose queries are not ascending numbers; they may come from another process."""
    is_there = rows.schema.names.count(QUERY) == 1
    column = rows.column(QUERY) if is_there else None
    fits = column is not None and column.type == pa.int64() and not column.null_count
    if column is not None and fits and rows.num_rows:
        query = column.to_numpy()
        fits = query[0] >= 0 and bool((query[1:] >= query[:-1]).all())
        fits &= n_queries is None or bool(query[-1] < n_queries)
    if not fits:
        raise error(OptionError, "data", f"a column {QUERY!r} of ascending numbers", "others")


def _of_queries(value: object, queries: Queries) -> object:
    if not isinstance(value, list):
        return value
    return [value[query] for query in queries.tolist()]


def cell_column(at: int) -> str:
    """Name the column of an answer that has a part of the cells."""
    return f"cell {at}"  # the index may have a column of any name


def audience_of(facts: IndexFacts, state: State, lookup: Lookup) -> _core.arms.Audience:
    """Return what each query of a look-up may see."""
    n = lookup.n_queries
    filters, filter_of = read_filters(facts.attribute_types, lookup.filter, n)
    request = _core.BatchRequest(
        scopes=read_scopes(facts.cell_types, state.snapshot, lookup.scope, n),
        filters=filters, filter_of=filter_of, depth=1, limit=0, offset=0, threads=facts.threads,
    )  # fmt: skip
    return _core.arms.Audience(state.snapshot, request)


def sound_rows(
    rows: pa.Table, kinds: Mapping[str, pa.DataType], others: Sequence[str] = ()
) -> pa.Table:
    """Return some columns of an answer, which may come from another process."""
    names, schema = [*kinds, *others], rows.schema
    for name in names:
        kind = kinds.get(name)
        if schema.names.count(name) != 1 or kind not in (None, schema.field(name).type):
            raise error(OptionError, "lookup", f"an answer with columns {names}", schema.names)
    return rows.select(names)


def lookup_keys(
    facts: IndexFacts, request: str, scopes: Sequence[object], keys: Sequence[pa.Array]
) -> Lookup:
    """Return the look-up of the documents of each scope that have one of its keys."""
    kind = facts.row_types[facts.schema.key]
    query = np.repeat(np.arange(len(keys)), [len(one) for one in keys])
    rows = {QUERY: pa.array(query, pa.int64()),
            "key": pa.concat_arrays([pa.array([], kind), *keys])}  # fmt: skip
    scope = list(scopes) if facts.cell_types else None
    return Lookup("keys", request, len(keys), scope, pa.table(rows))


def join_looked(
    lookup: Lookup, answers: list[tuple[Looked, Queries | None]]
) -> tuple[tuple[Looked, pa.Table], ...]:
    """Return the answers of shards with the query numbers of the whole look-up."""
    out = []
    for looked, queries in answers:
        if looked.request != lookup.request or looked.index != answers[0][0].index:
            raise error(OptionError, "lookup", "answers to this look-up, of one index", "others")
        query = looked.rows.column(QUERY).to_numpy()
        n = lookup.n_queries if queries is None else len(queries)
        if len(query) and query[-1] >= n:
            raise error(ShapeError, "lookup", f"rows of {n} queries", f"query {query[-1]}")
        rows = looked.rows
        if queries is not None:
            at = rows.schema.names.index(QUERY)
            rows = rows.set_column(at, QUERY, pa.array(queries[query], pa.int64()))
        out.append((looked, rows))
    return tuple(out)
