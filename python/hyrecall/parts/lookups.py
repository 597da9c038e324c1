"""Look-ups of documents in a shard, before or after the search itself.

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
from hyrecall.ask.expansion import MOST_BESIDE
from hyrecall.ask.filter_program import read_filters
from hyrecall.ask.scope import read_scopes
from hyrecall.base.options import integer
from hyrecall.errors import OptionError, ShapeError, StaleStatisticsError, error
from hyrecall.parts.frames import decode, encode, pack, pack_table, reading, unpack, unpack_table
from hyrecall.parts.part import hash_of
from hyrecall.segments.segments import IndexFacts, State, gather_column, seqs_of
from hyrecall.table.attributes import tag_attribute
from hyrecall.text.analyzer import Analyzer

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
class LookupAnswer:
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
    def from_bytes(cls, data: bytes) -> LookupAnswer:
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
    lookup: Lookup, answers: list[tuple[LookupAnswer, Queries | None]]
) -> tuple[tuple[LookupAnswer, pa.Table], ...]:
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


# ---- Look-ups about tags, of an index whose documents lie in shards ----
# A shard knows the tags of its own documents only. So the tags that a query names, and those near
# them, are asked of all shards, one hop after the other; the documents of a tag that is reached in
# one shard may lie in another one.


def named_tags(facts: IndexFacts, state: State, lookup: Lookup) -> pa.Table:
    """Find the tags that share a token with a query."""
    # The question has the ``text`` of each query, and the settings ``column``, ``analyzer`` and
    # ``partial`` of the arm. The answer has ``tag`` and ``documents``, the number of documents in
    # scope that have it.
    texts: list[bytes | None] = [None] * lookup.n_queries
    given = _column(lookup, "text", pa.large_binary()).to_pylist()
    for query, text in zip(lookup.query.tolist(), given, strict=True):
        texts[query] = text
    analyzer = Analyzer(_setting(lookup, "analyzer")).native
    found = audience_of(facts, state, lookup).named_tags(
        _attribute(facts, lookup), analyzer, texts, bool(_setting(lookup, "partial"))
    )
    offsets, tags, documents = found
    return pa.table(
        {
            QUERY: _queries(offsets),
            "tag": pa.array(tags, pa.large_string()),
            "documents": pa.array(documents, pa.int64()),
        }
    )


def tags_beside(facts: IndexFacts, state: State, lookup: Lookup) -> pa.Table:
    """Find the other tags of the documents that have one of the column ``tag``."""
    tags = _column(lookup, "tag", pa.large_string())
    offsets = _offsets(lookup, lookup.query)
    audience = audience_of(facts, state, lookup)
    offsets, found = audience.tags_beside(_attribute(facts, lookup), offsets, tags)
    return pa.table({QUERY: _queries(offsets), "tag": pa.array(found, pa.large_string())})


def documents_sharing(facts: IndexFacts, state: State, lookup: Lookup) -> pa.Table:
    """Find the ``n`` documents with most of some tags, for each query."""
    # Each row of the question has a ``tag``, or the insertion number ``seq`` of a document that is
    # left out. The answer has ``key``, the parts of the cell, ``seq`` and ``shared``, the number of
    # these tags.
    tags, seqs = _column(lookup, "tag", pa.large_string()), _column(lookup, "seq", pa.int64())
    query = lookup.query
    is_tag, is_seq = (np.asarray(one.is_valid()) for one in (tags, seqs))
    n = integer("n", _setting(lookup, "n"), 1, MOST_BESIDE)
    offsets, segment, row, shared = audience_of(facts, state, lookup).sharing(
        _attribute(facts, lookup),
        _offsets(lookup, query[is_tag]),
        tags.drop_null(),
        _offsets(lookup, query[is_seq]),
        np.asarray(seqs.drop_null(), np.int64),
        n,
    )
    columns: dict[str, Any] = {QUERY: _queries(offsets)}
    names = {"key": facts.schema.key}
    names |= {cell_column(at): name for at, name in enumerate(facts.schema.cell_columns)}
    for name, column in names.items():
        columns[name] = gather_column(state.segments, segment, row, column)
    columns["seq"] = pa.array(seqs_of(state.segments, segment, row), pa.int64())
    columns["shared"] = pa.array(shared.astype(np.int64))
    return pa.table(columns)


def _attribute(facts: IndexFacts, lookup: Lookup) -> int:
    return tag_attribute("column", _setting(lookup, "column"), facts)


def _setting(lookup: Lookup, name: str) -> Any:
    if name not in lookup.settings:
        raise error(OptionError, "lookup", f"the setting {name!r}", sorted(lookup.settings))
    return lookup.settings[name]


def _column(lookup: Lookup, name: str, kind: pa.DataType) -> pa.Array:
    """Return a column of a question, which may come from another process."""
    names = lookup.rows.schema.names
    if names.count(name) != 1 or lookup.rows.schema.field(name).type != kind:
        raise error(OptionError, "lookup", f"a column {name!r} of {kind}", names)
    return lookup.rows.column(name).combine_chunks()


def _offsets(lookup: Lookup, query: np.ndarray) -> np.ndarray:
    """Return where the rows of each query begin and end."""
    return np.searchsorted(query, np.arange(lookup.n_queries + 1)).astype(np.int64)


def _queries(offsets: np.ndarray) -> pa.Array:
    """Return the query of each row."""
    return pa.array(np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), pa.int64())


# ---- Answers look-ups from one index ----


def look_up(facts: IndexFacts, state: State, version: str, lookup: Lookup) -> LookupAnswer:
    """Answer a look-up from one state of an index."""
    answer = LOOKUPS.get(lookup.kind)
    if answer is None:
        raise error(OptionError, "kind", f"one of {sorted(LOOKUPS)}", repr(lookup.kind))
    if lookup.versions and version not in lookup.versions:
        wish, remedy = "the documents that were counted", "the index changed: count again"
        raise error(StaleStatisticsError, "lookup", wish, "others", remedy)
    return LookupAnswer(lookup.request, hash_of(facts), version, answer(facts, state, lookup))


def _keys(facts: IndexFacts, state: State, lookup: Lookup) -> pa.Table:
    """Find the documents that have one of the column ``key``: ``key`` and the parts of its cell."""
    schema = facts.schema
    keys, query = lookup.rows.column("key").combine_chunks(), lookup.query
    kind = facts.row_types[schema.key]
    if keys.type != kind:
        raise error(OptionError, "key", f"keys of {kind}", keys.type)
    which, segment, row = audience_of(facts, state, lookup).locate(keys, query.astype(np.uint32))
    columns = {QUERY: pa.array(query[which], pa.int64()), "key": keys.take(pa.array(which))}
    for at, name in enumerate(schema.cell_columns):
        columns[cell_column(at)] = gather_column(state.segments, segment, row, name)
    return pa.table(columns)


LOOKUPS: Mapping[str, Callable[[IndexFacts, State, Lookup], pa.Table]] = {
    "keys": _keys,
    "named tags": named_tags,
    "tags": tags_beside,
    "related": documents_sharing,
}
"""What answers each kind of look-up."""
