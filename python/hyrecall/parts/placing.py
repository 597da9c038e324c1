"""Checks the placement of documents in shards: a key once in a cell, a thread in one shard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hyrecall import _core
from hyrecall.errors import KeyConflictError, OptionError, error
from hyrecall.parts.part import hash_of
from hyrecall.segments.segments import gather, seqs_of

if TYPE_CHECKING:
    from hyrecall.segments.facts import IndexFacts
    from hyrecall.segments.segments import State
    from hyrecall.table.schema import Schema

__all__ = ["check_found_threads", "check_shards"]

_SHARD = "shard of a row"  # beside columns of the index; users do not choose such names


def check_shards(shards: Sequence[tuple[str, IndexFacts, State]]) -> None:
    """Check that indexes are shards of one index; each has a name for messages."""
    first, facts, _ = shards[0]
    for name, own, _ in shards[1:]:
        if hash_of(own) != hash_of(facts):
            wish = f"the schema, analyzers, BM25 constants, dimensions and types of {first}"
            raise error(OptionError, name, wish, "others")
    schema = facts.schema
    names = [schema.key, *schema.cell_columns]
    names += [] if schema.thread is None else [schema.thread]
    tables, seqs = [], []
    for number, (_, _, state) in enumerate(shards):
        if not state.segments:
            continue
        segment, row = _core.rows.merge_order(list(state.views), [])
        with state.reading():
            table = gather(state.segments, segment, row, list(dict.fromkeys(names)))
        tables.append(_numbered(table, number))
        seqs.append(seqs_of(state.segments, segment, row))
    if not tables:
        return
    _check_seqs(np.concatenate(seqs))
    rows = pa.concat_tables(tables)
    keyed = rows.group_by([*schema.cell_columns, schema.key]).aggregate([(_SHARD, "count")])
    twice = keyed.filter(pc.greater(keyed[f"{_SHARD}_count"], 1))
    if twice.num_rows:
        got = f"{twice[schema.key][0].as_py()!r} in two of them"
        raise error(KeyConflictError, schema.key, "keys that no other shard has in that cell", got)
    _check_threads(rows, schema)


def _numbered(table: pa.Table, number: int) -> pa.Table:
    return table.append_column(_SHARD, pa.array(np.full(table.num_rows, number, np.int32)))


def _check_seqs(seqs: np.ndarray) -> None:
    values, counts = np.unique(seqs, return_counts=True)
    if (counts > 1).any():
        wish = "insertion numbers that no other shard has"
        remedy = "give each shard numbers of its own: Index.build(..., first_seq=)"
        got = f"{int(values[counts > 1][0])} in two of them"
        raise error(OptionError, "first_seq", wish, got, remedy)


def _check_threads(rows: pa.Table, schema: Schema) -> None:
    """Refuse a thread with rows in two shards; the table has the shard of each row."""
    if schema.thread is None:
        return
    kept = rows.filter(pc.is_valid(rows[schema.thread]))
    keys = list(dict.fromkeys((*schema.cell_columns, schema.thread)))
    found = kept.group_by(keys).aggregate([(_SHARD, "count_distinct")])
    torn = found.filter(pc.greater(found[f"{_SHARD}_count_distinct"], 1))
    if torn.num_rows:
        wish = "all rows of a thread in one shard"
        got = f"those of {torn[schema.thread][0].as_py()!r} in two"
        raise error(OptionError, schema.thread, wish, got)


def check_found_threads(tables: Sequence[pa.Table], schema: Schema) -> None:
    """Refuse rows of a thread in several parts of a request, as :func:`check_shards` does."""
    if schema.thread is None:
        return
    names = list(dict.fromkeys((*schema.cell_columns, schema.thread)))
    numbered = [_numbered(one.select(names), number) for number, one in enumerate(tables)]
    _check_threads(pa.concat_tables(numbered), schema)
