"""Answer queries batch by batch, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hyrecall.cli.query_files import QueryFile
from hyrecall.embed import StaticEmbedder
from hyrecall.errors import DTypeError, HyrecallError, OptionError, error
from hyrecall.index import Index
from hyrecall.output import replaced
from hyrecall.scope import Scope

__all__ = ["Batch", "QueryColumns", "run"]

_MOST_QUERIES = 2**31  # of a file: the number of a hit's query is an int32
_MAX_QUERIES = 4096  # at once: enough to keep every thread busy
_ARM_BYTES = 256  # of a document in an arm's list while a batch runs, generously
_WORK_BYTES = 96 << 20  # of the lists of a batch
_REPLY_BYTES = 64 << 20  # of a batch's hits; long stored texts make the next batch smaller


@dataclass(frozen=True)
class QueryColumns:
    """Which column of the query file has what; a str is for the only or for all arms."""

    text: str | dict[str, str] | None
    vector: str | dict[str, str] | None
    scope: tuple[str, ...]
    key: str | None

    def wanted(self) -> dict[str, str]:
        """Name the columns to read, each with the option that asks for it first."""
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
    """What every batch of a run has in common."""

    index: Index
    asked: QueryColumns
    scope: Scope | None  # of all queries; None: a column has each one's, or the index has no cells
    options: dict[str, Any]
    embed: tuple[str, StaticEmbedder] | None  # the arm whose vectors are made from the texts

    def n_queries(self) -> int:
        """Give the number of queries whose lists fit into the memory allowed."""
        facts = self.index._facts
        held = max(self.options["depth"], self.options["offset"] + self.options["limit"])
        lists = held * _ARM_BYTES * len(facts.arms)
        return max(1, min(_MAX_QUERIES, int(_WORK_BYTES // (lists + 4 * sum(facts.dims.values())))))

    def answer(self, queries: pa.Table, first: int) -> pa.Table:
        """Give the hits of some queries, the first of which has this number in the file."""
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
        columns = [queries.column(name).to_pylist() for name in self.asked.scope]
        if len(columns) > 1:
            return [tuple(parts) for parts in zip(*columns, strict=True)]
        return [_scope(value) for value in columns[0]]


def _scope(value: Any) -> Any:
    """A list is several cells, each a value or (as list or struct) one per cell column."""
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
    texts: list[str | None] = column.to_pylist()
    return texts


def run(
    job: Batch, source: QueryFile, output: Path, advance: Callable[[int, int], None], *, name: str
) -> None:
    """Answer every query of a file; the output appears under its name only when it is whole.

    Parameters
    ----------
    advance : callable
        Told (queries, hits) after each batch.
    name : str
        Of the query file, for messages.
    """
    _check_count(source.n_rows or 0, name)  # of Parquet known before the first query
    writer: pq.ParquetWriter | None = None
    step = job.n_queries()
    first = 0
    with replaced("--output", output) as file, ExitStack() as opened:

        def begin_file(schema: pa.Schema) -> pq.ParquetWriter:
            return opened.enter_context(pq.ParquetWriter(file, schema, compression="zstd"))

        for batch in source.batches(step):
            begin = 0
            while begin < batch.num_rows:
                some = batch.slice(begin, step)
                _check_count(first + some.num_rows, name)
                hits = _answer(job, some, first, name)
                if writer is None:
                    writer = begin_file(hits.schema)
                _check_same(writer.schema, hits.schema, name)
                writer.write_table(hits)
                begin += some.num_rows
                first += some.num_rows
                advance(some.num_rows, hits.num_rows)
                if hits.nbytes > _REPLY_BYTES:
                    step = max(1, step // 2)
        if writer is None:  # no query: the columns without a row
            hits = _answer(job, source.empty(), 0, name)
            begin_file(hits.schema).write_table(hits)


def _check_count(n_rows: int, name: str) -> None:
    if n_rows > _MOST_QUERIES:
        wish = f"at most {_MOST_QUERIES:,} queries in a file"
        raise error(OptionError, name, wish, f"{n_rows:,} or more")


def _check_same(first: pa.Schema, now: pa.Schema, name: str) -> None:
    """Refuse keys whose type changes on the way; all other columns have theirs from the index."""
    for old, new in zip(first, now, strict=True):
        if old.type != new.type:
            got = f"{new.type} after {old.type}"
            raise error(DTypeError, "--query-key", f"keys of one type in {name}", got)


def _answer(job: Batch, queries: pa.Table, first: int, name: str) -> pa.Table:
    try:
        return job.answer(queries, first)
    except HyrecallError as fault:
        last = first + queries.num_rows - 1
        fault.args = (f"{fault} (rows count from {first}, of rows {first} to {last} in {name})",)
        raise
