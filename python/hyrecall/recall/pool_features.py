"""Features that other candidates of its query give a row: common tags, scores beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.recall.fused_lists import order_codes
from hyrecall.segments.segments import gather_column, seqs_of

if TYPE_CHECKING:
    from hyrecall.recall.fused_lists import FusedLists
    from hyrecall.segments.segments import State
    from hyrecall.table.schema import Schema

__all__ = ["Threads", "best_namesake"]

Floats = npt.NDArray[np.float64]

N_NAMESAKES = 3
"""Candidates whose tags are compared with those of each row."""


def best_namesake(pool: FusedLists, tags: pa.Array) -> Floats:
    """Return the best product of fused score and common tags with one of the best other rows."""
    owner, tag, n_tags = _tags(tags)
    n_own = np.bincount(owner, minlength=len(pool))
    fused, query = pool.arrays["fused_score"], pool.query
    place = np.empty(len(pool), np.int64)
    place[np.lexsort((pool.arrays["tie_rank"], -fused, query))] = pool.places
    best = np.zeros(len(pool))
    for at in range(N_NAMESAKES + 1):
        is_head = place == at
        # The last one is heard by the rows that are among the best themselves.
        hears = ~is_head & ((at < N_NAMESAKES) | (place < N_NAMESAKES))
        head = np.zeros(len(pool.offsets) - 1, np.int64)
        head[query[is_head]] = np.flatnonzero(is_head)
        of_heads = is_head[owner]
        known = query[owner[of_heads]] * n_tags + tag[of_heads]
        is_common = np.isin(query[owner] * n_tags + tag, known)
        common = np.bincount(owner, is_common, minlength=len(pool))
        heard = hears & (common > 0)
        other = head[query[heard]]
        either = n_own[heard] + n_own[other] - common[heard]
        best[heard] = np.maximum(best[heard], fused[other] * (common[heard] / either))
    return best


def _tags(column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Return each pair of a row and its tag once, and how many tags there are."""
    import pyarrow.compute as pc

    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    rows = pc.list_parent_indices(column) if is_list else pa.array(np.arange(len(column)))
    flat = (pc.list_flatten(column) if is_list else column).dictionary_encode()
    n_tags = max(len(flat.dictionary), 1)
    is_tag = flat.is_valid()
    row = rows.filter(is_tag).to_numpy().astype(np.int64)
    tag = flat.indices.filter(is_tag).to_numpy().astype(np.int64)
    row, tag = np.divmod(np.unique(row * n_tags + tag), n_tags)
    return row, tag, n_tags


class Threads:
    """The candidates of each query by thread, each thread in its order."""

    def __init__(self, pool: FusedLists, schema: Schema, state: State) -> None:
        """Order the candidates by their places, then by insertion."""
        assert schema.thread is not None
        segment, row = pool.arrays["segment"], pool.arrays["row"]

        def column(name: str) -> pa.Array:
            return gather_column(state.segments, segment, row, name)

        encoded = [
            column(name).dictionary_encode(null_encoding="encode").indices.to_numpy()
            for name in (*schema.cell_columns, schema.thread)
        ]
        by = [seqs_of(state.segments, segment, row)]
        if schema.place is not None:
            by.append(order_codes(column(schema.place), descending=False))
        same = (pool.query, *encoded)
        self._order = np.lexsort((*by, *same))
        begins = np.zeros(len(pool), np.bool_)
        for codes in same:
            ordered = codes[self._order]
            begins[1:] |= ordered[1:] != ordered[:-1]
        self._thread = np.cumsum(begins)
        is_none = column(schema.thread).is_null().to_numpy(zero_copy_only=False)
        self._is_none = is_none[self._order]
        self._found: dict[int, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = {}

    def beside(self, values: Floats, steps: int) -> Floats:
        """Return the value of the candidate so many places behind each row; 0 if there is none."""
        rows, others = self._pairs(steps)
        out = np.zeros(len(values))
        out[rows] = values[others]
        return out

    def _pairs(self, steps: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the rows that have a candidate so many places behind them, and these."""
        if steps not in self._found:
            n = len(self._order)
            at = np.arange(max(0, -steps), max(0, min(n, n - steps)))
            at = at[(self._thread[at] == self._thread[at + steps]) & ~self._is_none[at]]
            self._found[steps] = self._order[at], self._order[at + steps]
        return self._found[steps]
