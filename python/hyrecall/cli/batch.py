"""Answers queries slice by slice in bounded memory, and isolates queries that are refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hyrecall.ask.scope import Scope
from hyrecall.cli.batch_output import Output, Refused
from hyrecall.cli.query_files import QueryFile, QueryRows
from hyrecall.embed import StaticEmbedder
from hyrecall.errors import (
    DTypeError,
    HyrecallError,
    OptionError,
    ScopeError,
    ShapeError,
    error,
)
from hyrecall.index import Index

__all__ = ["Batch", "QueryColumns", "run"]

_MOST_QUERIES = 2**31  # in a file: query numbers of hits are int32
_MAX_QUERIES = 4096  # in a slice: enough to keep all threads busy
_ARM_BYTES = 256  # upper estimate for a document in an arm's list during a batch
_WORK_BYTES = 96 << 20  # for the arms' lists of a slice
_REPLY_BYTES = 64 << 20  # for the hits of a slice; above this, the next slice is smaller
_OF_A_QUERY = (DTypeError, OptionError, ScopeError, ShapeError)  # errors caused by a query


@dataclass(frozen=True)
class QueryColumns:
    """The roles of columns in the query file; a str applies to all arms."""

    text: str | dict[str, str] | None
    vector: str | dict[str, str] | None
    scope: tuple[str, ...]
    key: str | None

    def wanted(self) -> dict[str, str]:
        """Return the columns to read, each with the first option that names it."""
        wanted: dict[str, str] = {}
        for option, given in (("--query-text", self.text), ("--query-vector", self.vector)):
            for column in given.values() if isinstance(given, dict) else [given]:
                if column is not None:
                    wanted.setdefault(column, option)
        for column in self.scope:
            wanted.setdefault(column, "--query-scope")
        if self.key is not None:
            wanted.setdefault(self.key, "--query-key")
        return wanted


@dataclass(frozen=True)
class Batch:
    """The settings of all slices of a run."""

    index: Index
    asked: QueryColumns
    scope: Scope | None  # of all queries; None if columns hold the scopes or there are no cells
    options: dict[str, Any]
    embed: tuple[str, StaticEmbedder] | None  # the arm whose vectors come from the texts

    def n_queries(self) -> int:
        """Return the number of queries whose lists fit into the memory limit."""
        facts = self.index._facts
        recipe = self.options.get("recipe")
        held = max(self.options["depth"], self.options["offset"] + self.options["limit"])
        held, n_more = (held, 0) if recipe is None else (max(held, recipe.depth), len(recipe.more))
        lists = held * _ARM_BYTES * (len(facts.arms) + n_more)
        return max(1, min(_MAX_QUERIES, int(_WORK_BYTES // (lists + 4 * sum(facts.dims.values())))))

    def answer(self, queries: pa.Table, first: int) -> pa.Table:
        """Return the hits of queries; `first` is the number of the first query in the file."""
        hits = self.index.recall(
            **self._texts(queries), scope=self._scopes(queries), **self.options
        ).to_arrow()
        local = hits.column("query")
        hits = hits.set_column(0, "query", pa.array(local.to_numpy() + np.int32(first)))
        if self.asked.key is not None:
            if "query_key" in hits.column_names:
                raise error(OptionError, "--columns", "no column named query_key", "one")
            keys = queries.column(self.asked.key).combine_chunks()
            keys = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
            try:
                keys.validate(full=True)
            except pa.ArrowInvalid as fault:
                wish = f"UTF-8 in column {self.asked.key!r}"
                raise error(DTypeError, "--query-key", wish, fault) from None
            hits = hits.add_column(1, "query_key", keys.take(local.combine_chunks()))
        return hits

    def _texts(self, queries: pa.Table) -> dict[str, Any]:
        made: dict[str, Any] = {}
        text, vector = self.asked.text, self.asked.vector
        if isinstance(text, dict):
            made["text"] = {arm: _strings(queries, column) for arm, column in text.items()}
        elif text is not None and (self.index.schema.text_arms or self.embed is None):
            made["text"] = _strings(queries, text)
        if self.embed is not None and isinstance(text, str):
            arm, embedder = self.embed
            made["vectors"] = {arm: embedder.embed(_strings(queries, text))}
        elif isinstance(vector, dict):
            made["vectors"] = {arm: queries.column(column) for arm, column in vector.items()}
        elif vector is not None:
            made["vectors"] = queries.column(vector)
        return made

    def _scopes(self, queries: pa.Table) -> Scope | list[Any] | None:
        if not self.asked.scope:
            return self.scope
        columns = [_values(queries, name, "--query-scope") for name in self.asked.scope]
        if len(columns) > 1:
            return [tuple(parts) for parts in zip(*columns, strict=True)]
        return [_scope(value) for value in columns[0]]


def _scope(value: Any) -> Any:
    """Convert a list to a Scope of cells, each a value, or a list or struct for several columns."""
    if not isinstance(value, list):
        return value
    return Scope([_parts(cell) for cell in value])


def _parts(cell: Any) -> Any:
    if isinstance(cell, dict):
        return tuple(cell.values())
    return tuple(cell) if isinstance(cell, list) else cell


def _strings(queries: pa.Table, name: str) -> list[str | None]:
    column = queries.column(name)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_null(kind)
    ):
        raise error(DTypeError, "--query-text", f"strings in column {name!r}", column.type)
    return _values(queries, name, "--query-text")


def _values(queries: pa.Table, name: str, option: str) -> list[Any]:
    try:
        values: list[Any] = queries.column(name).to_pylist()
    except UnicodeDecodeError as fault:
        raise error(DTypeError, option, f"UTF-8 in column {name!r}", fault) from None
    return values


def run(
    job: Batch,
    source: QueryFile,
    output: Output,
    advance: Callable[[int, int], None],
    *,
    empty: pa.Table,
    skips: bool,
) -> None:
    """Answer the queries of a file that are not finished yet, in file order.

    Parameters
    ----------
    advance : callable
        Called with the numbers of (queries, hits) after each slice.
    empty : pyarrow.Table
        The columns of the hits, written if no query is answered.
    skips : bool
        Continue after a refused query and pass it to the output. If False, write the queries before
        it and raise its error.
    """
    _check_count(source.n_rows or 0, source.name)  # Parquet has the count at once
    step = job.n_queries()
    first = output.n_queries
    for rows in source.slices(step, first=first):
        begin = 0
        while begin < rows.n_rows:
            some = rows.slice(begin, step)
            _check_count(first + some.n_rows, source.name)
            made: list[pa.Table] = []
            refused: list[Refused] = []
            fault: Refused | None = None
            for one in _answered(job, some, first, output.schema):
                if isinstance(one, pa.Table):
                    made.append(one)
                elif skips:
                    refused.append(one)
                else:
                    fault = one
                    break
            n_done = some.n_rows if fault is None else fault.query - first
            hits = pa.concat_tables(made) if made else None
            if n_done:
                output.write(hits, refused, n_done)
            if fault is not None:
                raise _named(fault, source.name)
            begin += n_done
            first += n_done
            advance(n_done, 0 if hits is None else hits.num_rows)
            if hits is not None and hits.nbytes > _REPLY_BYTES:
                step = max(1, step // 2)
    if output.schema is None:  # no query was answered: write the columns without rows
        output.write(empty, (), 0)


def _check_count(n_rows: int, name: str) -> None:
    if n_rows > _MOST_QUERIES:
        wish = f"at most {_MOST_QUERIES:,} queries in a file"
        raise error(OptionError, name, wish, f"{n_rows:,} or more")


def _answered(
    job: Batch, rows: QueryRows, first: int, schema: pa.Schema | None
) -> Iterator[pa.Table | Refused]:
    """Answer a slice at once, or if it is refused, each half of it, down to single queries.

    A reply does not depend on the other queries of its slice, so splitting does not change it.
    """
    try:
        hits = job.answer(rows.table(), first)
        _check_same(schema, hits.schema)
    except _OF_A_QUERY as fault:
        if rows.n_rows == 1:
            key = None if job.asked.key is None else rows.key(job.asked.key)
            _renumber(fault, first)
            yield Refused(first, key, fault)
            return
    else:
        yield hits
        return
    half = rows.n_rows // 2
    for one in _answered(job, rows.slice(0, half), first, schema):
        if schema is None and isinstance(one, pa.Table):
            schema = one.schema
        yield one
    yield from _answered(job, rows.slice(half, rows.n_rows - half), first + half, schema)


def _check_same(first: pa.Schema | None, now: pa.Schema) -> None:
    """Refuse hits with other types than before: only the type of query keys can change."""
    for old, new in zip(first or (), now, strict=first is not None):
        if old.type != new.type:
            got = f"{new.type} after {old.type}"
            raise error(DTypeError, "--query-key", "keys of one type", got)


def _renumber(fault: HyrecallError, query: int) -> None:
    """Replace the query number 0 in an error by the number in the file."""
    text = re.sub(r"\bquery 0\b", f"query {query}", str(fault), count=1)
    fault.args = (re.sub(r"^(\w+)\[0\]", rf"\1[{query}]", text),)


def _named(refused: Refused, name: str) -> Exception:
    """Return the error of a query, with its number, its key and the file in the message."""
    key = "" if refused.key is None else f", key {refused.key!r},"
    fault = refused.fault
    fault.args = (f"{fault} (query {refused.query}{key} of {name}; the first is 0)",)
    vars(fault)["query"] = refused.query
    return fault
