"""Chooses the shard of each slot, and of each part of a split cell, by numbers of rows."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hyrecall.distributed.placement import N_PARTS, N_SLOTS, Placement, slot_of
from hyrecall.distributed.row_places import RowCounts

__all__ = ["heavy_slots", "large_cells", "most_rows", "pack"]

SLACK = 1.1
"""How much larger than the mean a shard may stay before a rebalancing takes rows from it."""


class _Item(NamedTuple):
    """A slot, or a part of a split cell: its rows lie in one shard."""

    rows: int
    number: int  # of the slot; parts of split cells have the numbers after the slots
    shard: int | None  # the shard that holds it now


def most_rows(n_rows: int, n_shards: int) -> int:
    """Return the largest number of rows of a cell that is not split: the mean of a shard."""
    return max(1, -(-n_rows // n_shards))


def heavy_slots(counts: RowCounts, most: int) -> set[int]:
    """Return the slots that may hold a cell of more than ``most`` rows."""
    return set(np.flatnonzero(counts.slots > most).tolist())


def large_cells(counts: RowCounts, most: int) -> set[bytes]:
    """Return the cells that have more than ``most`` rows."""
    return {cell for cell, n_rows in counts.cells.items() if n_rows > most}


def pack(
    kinds: Sequence[tuple[str, str]],
    counts: RowCounts,
    n_shards: int,
    before: Placement | None = None,
) -> Placement:
    """Distribute slots, and the parts of the cells in ``counts.parts``, evenly over shards."""
    # The largest goes first, into the shard with the fewest rows. Slots and parts stay in
    # their shard
    # of ``before``, unless that shard is too large or does not exist any more.
    split = sorted(counts.parts)
    loads = [counts.slots.copy(), *(counts.parts[cell] for cell in split)]
    for cell in split:
        loads[0][slot_of(cell)] -= counts.parts[cell].sum()
    rows = np.concatenate(loads)
    at = _current(split, before)
    items = [_Item(int(n), number, at[number]) for number, n in enumerate(rows.tolist())]
    chosen = _assign(items, n_shards)
    slots, rest = chosen[:N_SLOTS], chosen[N_SLOTS:]
    parts = {
        counts.values[cell]: rest[place * N_PARTS : (place + 1) * N_PARTS]
        for place, cell in enumerate(split)
    }
    return Placement(dict(kinds), slots, parts)


def _current(split: Sequence[bytes], before: Placement | None) -> list[int | None]:
    """Return the shard of each item in a placement; a newly split cell still lies in one shard."""
    if before is None:
        return [None] * (N_SLOTS + N_PARTS * len(split))
    out: list[int | None] = list(before.slots)
    for cell in split:
        out += before.parts.get(cell, (before.slots[slot_of(cell)],) * N_PARTS)
    return out


def _assign(items: Sequence[_Item], n_shards: int) -> list[int]:
    """Return the shard of each item, in the order of the items."""
    most = SLACK * sum(one.rows for one in items) / n_shards
    loads = [0] * n_shards
    out = [one.number % n_shards for one in items]
    moving = []
    for one in sorted(items, key=lambda item: (-item.rows, item.number)):
        if one.shard is None or one.shard >= n_shards:
            moving.append(one)
        elif not one.rows or loads[one.shard] + one.rows <= most:
            loads[one.shard] += one.rows
            out[one.number] = one.shard
        else:
            moving.append(one)
    room = [(load, shard) for shard, load in enumerate(loads)]
    heapq.heapify(room)
    for one in moving:
        if one.rows:
            load, shard = heapq.heappop(room)
            out[one.number] = shard
            heapq.heappush(room, (load + one.rows, shard))
    return out
