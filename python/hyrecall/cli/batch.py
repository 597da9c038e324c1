"""Answers queries slice by slice in bounded memory, and isolates queries that are refused."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hyrecall.ask.scope import Scope
from hyrecall.cli.batch_output import Output, Refused
from hyrecall.cli.batch_workers import Workers
from hyrecall.cli.query_files import QueryFile, QueryRows
from hyrecall.distributed.query_columns import QueryColumns, renumbered, with_keys
from hyrecall.distributed.saved import (
    Opened,
    facts_of,
    n_shards,
    reasons_in,
    recall_whole,
    with_reasons,
)
from hyrecall.distributed.slices import MAX_QUERIES, answered, renumber, slice_size
from hyrecall.embed import StaticEmbedder
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.recall.embedders import Embedders

__all__ = ["OPTIONS", "Batch", "run"]

OPTIONS = {
    "text": "--query-text", "vectors": "--query-vector", "scope": "--query-scope",
    "key": "--query-key",
}  # fmt: skip
"""What the command calls the columns of queries."""

_DEGRADED = "degraded"  # the column of reasons
_MOST_QUERIES = 2**31  # in a file: query numbers of hits are int32
_MAX_QUERIES = MAX_QUERIES  # in a slice
_REPLY_BYTES = 64 << 20  # for the hits of a slice; above this, the next slice is smaller


@dataclass(frozen=True)
class Batch:
    """The settings of all slices of a run."""

    index: Opened
    asked: QueryColumns
    scope: Scope | None  # of all queries; None if columns hold the scopes or there are no cells
    options: dict[str, Any]
    embed: tuple[str, StaticEmbedder] | None  # the arm whose vectors come from the texts
    embedders: Embedders  # which the files name

    def n_queries(self) -> int:
        """Return the number of queries whose lists fit into the memory limit."""
        return slice_size(facts_of(self.index), self.options, n_shards(self.index), _MAX_QUERIES)

    def answer(self, queries: pa.Table, first: int) -> pa.Table:
        """Return the hits of queries; `first` is the number of the first query in the file."""
        named = OPTIONS.__getitem__
        has_texts = bool(facts_of(self.index).text_arms)
        given = self.asked.arguments(
            queries, has_texts=has_texts, scope=self.scope, embed=self.embed, named=named
        )
        found, why = recall_whole(self.index, given, self.options, self.embedders)
        hits = _with_degraded(found.to_arrow(), why)
        if self.asked.key is not None:
            key = self.asked.key
            hits = with_keys(hits, queries, key, argument=named("key"), columns="--columns")
        reasons = {
            first + query: [f"query {first + query}: {one}" for one in told]
            for query, told in why.items()
        }
        return with_reasons(renumbered(hits, first), reasons)


def _with_degraded(hits: pa.Table, why: Mapping[int, Sequence[str]]) -> pa.Table:
    """Add a column of reasons; a degraded query without hits gets a row that has nothing else."""
    if _DEGRADED in hits.column_names:
        raise error(OptionError, "--columns", f"no column named {_DEGRADED}", "one")
    told = {query: "; ".join(reasons) for query, reasons in why.items()}
    missing = np.setdiff1d(np.array(list(told), np.int32), hits.column("query").to_numpy())
    if len(missing):
        rows = pa.table({"query": missing})
        hits = pa.concat_tables([hits, rows], promote_options="default")
        hits = hits.take(np.argsort(hits.column("query").to_numpy(), kind="stable"))
    reasons = [told.get(query) for query in hits.column("query").to_pylist()] if told else None
    column = pa.nulls(len(hits), pa.string()) if reasons is None else pa.array(reasons, pa.string())
    return hits.append_column(_DEGRADED, column)


class _Asked(NamedTuple):
    """A slice whose answer is awaited."""

    rows: QueryRows
    first: int  # the number of its first query in the file
    answer: Callable[[], pa.Table]


def run(
    job: Batch,
    source: QueryFile,
    output: Output,
    advance: Callable[[int, int], None],
    *,
    workers: Workers,
    empty: pa.Table,
    skips: bool,
) -> dict[str, list[str]]:
    """Answer the queries of a file that are not finished yet, in file order.

    Return why queries were not answered as asked, by their numbers.

    Parameters
    ----------
    advance : callable
        Called with the numbers of (queries, hits) after each slice.
    workers : Workers
        Who answers; they may be a few slices ahead of what is written.
    empty : pyarrow.Table
        The columns of the hits, written if no query is answered.
    skips : bool
        Continue after a refused query and pass it to the output. If False, write the queries before
        it and raise its error.
    """
    _check_count(source.n_rows or 0, source.name)  # Parquet has the count at once
    step = job.n_queries()
    first = output.n_queries
    asked: deque[_Asked] = deque()
    reasons: dict[str, list[str]] = {}

    def write_next() -> None:
        nonlocal step
        n_done, hits = _write(asked.popleft(), job, workers, output, source.name, reasons, skips)
        advance(n_done, 0 if hits is None else len(hits) - hits.column("rank").null_count)
        if hits is not None and hits.nbytes > _REPLY_BYTES:
            step = max(1, step // 2)

    for rows in source.slices(step, first=first):
        begin = 0
        while begin < rows.n_rows:
            some = rows.slice(begin, step)
            _check_count(first + some.n_rows, source.name)
            asked.append(_Asked(some, first, workers.ask(some, first)))
            begin += some.n_rows
            first += some.n_rows
            while len(asked) > workers.n_ahead:
                write_next()
    while asked:
        write_next()
    if output.schema is None:  # no query was answered: write the columns without rows
        output.write(empty, (), 0)
    return reasons


def _write(
    asked: _Asked,
    job: Batch,
    workers: Workers,
    output: Output,
    name: str,
    reasons: dict[str, list[str]],
    skips: bool,
) -> tuple[int, pa.Table | None]:
    """Write the answer to a slice; return how many queries it has, and their hits."""
    made: list[pa.Table] = []
    refused: list[Refused] = []
    fault: Refused | None = None
    for one in _answered(asked, job, workers, output.schema):
        if isinstance(one, pa.Table):
            reasons |= reasons_in([one])
            made.append(one.replace_schema_metadata(None))
        elif skips:
            refused.append(one)
        else:
            fault = one
            break
    n_done = asked.rows.n_rows if fault is None else fault.query - asked.first
    hits = pa.concat_tables(made) if made else None
    if n_done:
        output.write(hits, refused, n_done)
    if fault is not None:
        raise _named(fault, name)
    return n_done, hits


def _check_count(n_rows: int, name: str) -> None:
    if n_rows > _MOST_QUERIES:
        wish = f"at most {_MOST_QUERIES:,} queries in a file"
        raise error(OptionError, name, wish, f"{n_rows:,} or more")


def _answered(
    asked: _Asked, job: Batch, workers: Workers, schema: pa.Schema | None
) -> Iterator[pa.Table | Refused]:
    """Answer a slice; if it is refused, its halves are asked, down to single queries."""
    rows, first = asked.rows, asked.first
    known = schema

    def answer(begin: int, n_rows: int) -> pa.Table:
        nonlocal known
        if n_rows == rows.n_rows:
            hits = asked.answer()
        else:
            hits = workers.ask(rows.slice(begin, n_rows), first + begin)()
        _check_same(known, hits.schema)
        known = known or hits.schema
        return hits

    for one in answered(answer, 0, rows.n_rows):
        if isinstance(one, pa.Table):
            yield one
        else:
            begin, fault = one
            key = None if job.asked.key is None else rows.slice(begin, 1).key(job.asked.key)
            yield Refused(first + begin, key, renumber(fault, first + begin))


def _check_same(first: pa.Schema | None, now: pa.Schema) -> None:
    """Refuse hits with other types than before: only the type of query keys can change."""
    for old, new in zip(first or (), now, strict=first is not None):
        if old.type != new.type:
            got = f"{new.type} after {old.type}"
            raise error(DTypeError, "--query-key", "keys of one type", got)


def _named(refused: Refused, name: str) -> Exception:
    """Return the error of a query, with its number, its key and the file in the message."""
    key = "" if refused.key is None else f", key {refused.key!r},"
    fault = refused.fault
    fault.args = (f"{fault} (query {refused.query}{key} of {name}; the first is 0)",)
    vars(fault)["query"] = refused.query
    return fault
