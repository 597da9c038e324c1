"""Finds documents by key or filter within a scope, and returns their rows as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.filter_program import read_filters
from hyrecall.ask.scope import check_no_list, read_scopes, scope_entries
from hyrecall.base.arguments import as_items, is_one_of
from hyrecall.errors import DTypeError, KeyConflictError, OptionError, error
from hyrecall.segments.segments import IndexFacts, Segment, State, gather_values, seqs_of

Rows = npt.NDArray[np.uint32]


def rows_where(
    facts: IndexFacts, state: State, scope: object, where: object = None
) -> tuple[Rows, Rows]:
    """Return (segment, row) of the documents of one scope that pass one filter, in any order."""
    check_no_list(scope)
    return _audience(facts, state, scope, 1, where).rows(0)


def rows_of_keys(
    facts: IndexFacts, state: State, keys: object, scope: object, where: object = None
) -> tuple[npt.NDArray[np.int64], Rows, Rows]:
    """Return (number of the key, segment, row) of each document with a key in that key's scope."""
    # A scope of several cells may hold a key several times. A filter drops rows that do not pass.
    wanted = read_keys(keys, facts.row_types[facts.schema.key])
    scope = scope_entries(facts.cell_types, scope, "key")
    n = len(wanted) if isinstance(scope, list) else 1
    audience = _audience(facts, state, scope, n, where)
    asked = np.arange(n) if isinstance(scope, list) else np.zeros(len(wanted))
    return audience.locate(wanted, asked.astype(np.uint32))


def count_where(facts: IndexFacts, state: State, scope: object, where: object) -> int:
    """Count the documents of one scope that pass one filter."""
    return len(rows_where(facts, state, scope, where)[0])


def table_of_keys(
    facts: IndexFacts, state: State, keys: object, scope: object, columns: object
) -> pa.Table:
    """Return the rows of keys as a table, in the order of the keys; see :meth:`Index.get`."""
    schema = facts.schema
    asked = read_columns(facts, columns)
    which, segment, row = rows_of_keys(facts, state, keys, scope)
    order = np.lexsort((seqs_of(state.segments, segment, row), which))
    segment, row = segment[order], row[order]
    named = {"key": schema.key} | {name: name for name in (*schema.cell_columns, *asked)}
    gathered = [gather_values(facts, state.segments, segment, row, name) for name in named.values()]
    return pa.Table.from_arrays(gathered, names=list(named))


def _audience(
    facts: IndexFacts, state: State, scope: object, n: int, where: object
) -> _core.arms.Audience:
    """Return the audience of n queries without arms, narrowed by one filter if given."""
    if isinstance(where, list | tuple):
        raise error(OptionError, "filter", "one filter", f"a {type(where).__name__}")
    filters, filter_of = read_filters(facts.attribute_types, where, n)
    request = _core.BatchRequest(
        scopes=read_scopes(facts.cell_types, state.snapshot, scope, n, per="key"),
        filters=filters,
        filter_of=filter_of,
        depth=1,
        limit=0,
        offset=0,
        threads=facts.threads,
    )
    return _core.arms.Audience(state.snapshot, request)


def read_columns(facts: IndexFacts, columns: object) -> tuple[str, ...]:
    """Check names of row columns (key, cell, attribute and stored ones) and of vector arms."""
    if isinstance(columns, tuple) and not columns:
        return ()
    known = facts.returned_columns
    named = (columns,) if isinstance(columns, str) else as_items(columns)
    if named is None or not all(is_one_of(name, known) for name in named):
        wish = f"a column, or a sequence of columns, of {list(known)}"
        raise error(OptionError, "columns", wish, repr(columns))
    return named


def read_keys(keys: object, kind: pa.DataType) -> pa.Array:
    """Check keys of exactly the index's type: a str is one key, and 1.5 and True are not 1."""
    is_text = pa.types.is_large_string(kind)
    wish = f"a sequence of {'str' if is_text else 'int64'} keys"
    items = None if isinstance(keys, str | bytes | Mapping) else as_items(keys)
    if items is None:
        raise error(DTypeError, "keys", wish, f"{type(keys).__name__} {keys!r}")
    given: list[Any] = list(items)
    for at, key in enumerate(given):
        if key is None:
            raise error(KeyConflictError, "keys", "no null key", f"None at {at}")
        fits = isinstance(key, str) if is_text else isinstance(key, int | np.integer)
        if not fits or isinstance(key, bool):
            raise error(DTypeError, "keys", wish, f"{type(key).__name__} {key!r} at {at}")
    try:
        return pa.array(given, kind)
    except (OverflowError, pa.ArrowInvalid) as fault:
        raise error(OptionError, "keys", wish, fault) from None
    except UnicodeEncodeError as fault:  # a lone surrogate, which no key of the index has
        raise error(OptionError, "keys", "keys of valid Unicode", fault) from None


# ---- Sizes and settings of an index, as :meth:`Index.stats` shows them ----


def describe(facts: IndexFacts, state: State, device: str) -> dict[str, Any]:
    """Return sizes and settings, without any content of documents."""
    return {
        "device": device,
        "threads": facts.threads,
        "isa": _core.arithmetic.isa(),
        "n_docs": state.n_docs,
        "n_dead": sum(view.n_dead for view in state.views),
        "n_segments": len(state.segments),
        "next_seq": state.next_seq,
        "device_bytes": state.snapshot.device_bytes,
        "host_rates": None if facts.host_rates is None else facts.host_rates.as_dict(),
        "dims": dict(facts.dims),
        "embedded_by": {arm: one.model for arm, one in facts.embedded.items()},
        "analyzers": {arm: analyzer.hash for arm, analyzer in facts.analyzers.items()},
        "segments": [
            {
                "n_rows": view.n_rows,
                "n_dead": view.n_dead,
                "n_cells": segment.core.n_cells,
                "nbytes": _nbytes(segment),
                "plane": {arm: _plane(column) for arm, column in segment.dense.items()},
            }
            for segment, view in zip(state.segments, state.views, strict=True)
        ],
    }


def _plane(column: _core.DenseColumn) -> dict[str, int]:
    """Return how often queries read a window of 4,096 rows and how often they scored all of it."""
    windows, plain = column.plane_use
    return {"windows": windows, "plain": plain}


def _nbytes(segment: Segment) -> dict[str, Any]:
    return {
        **segment.core.nbytes,
        "lexical": {arm: column.nbytes for arm, column in segment.lexical.items()},
        "dense": {arm: column.nbytes for arm, column in segment.dense.items()},
        "rows": segment.rows.nbytes,
    }
