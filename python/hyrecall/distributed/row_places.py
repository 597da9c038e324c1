"""Finds the cell, slot and shard of each row of a table, and counts rows by them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hyrecall.ask.scope import encode_part
from hyrecall.distributed.shards_file import (
    N_PARTS,
    N_SLOTS,
    Placement,
    encode_cell,
    part_of,
    slot_of,
)
from hyrecall.segments.segments import one_array
from hyrecall.table.columns import read_rows
from hyrecall.table.schema import Schema

Numbers = npt.NDArray[np.int64]


@dataclass
class RowCounts:
    """Numbers of rows by slot, cell and part."""

    slots: Numbers = field(default_factory=lambda: np.zeros(N_SLOTS, np.int64))
    cells: dict[bytes, int] = field(default_factory=dict)
    parts: dict[bytes, Numbers] = field(default_factory=dict)
    values: dict[bytes, tuple[object, ...]] = field(default_factory=dict)

    def add(self, rows: Placed, heavy: Collection[int] = (), large: Collection[bytes] = ()) -> None:
        """Count the rows of a table."""
        sizes = np.bincount(rows.codes, minlength=len(rows.cells))
        np.add.at(self.slots, rows.slots, sizes)
        for at, (cell, slot) in enumerate(zip(rows.cells, rows.slots.tolist(), strict=True)):
            if cell in large:
                own = np.bincount(rows.parts(at), minlength=N_PARTS)
                self.parts[cell] = self.parts.get(cell, 0) + own
                self.values[cell] = rows.values[at]
            elif slot in heavy:
                self.cells[cell] = self.cells.get(cell, 0) + int(sizes[at])
                self.values[cell] = rows.values[at]


@dataclass(frozen=True, eq=False)
class Placed:
    """The cells of a table's rows."""

    codes: Numbers
    cells: list[bytes]
    values: list[tuple[object, ...]]
    slots: Numbers
    _keys: pa.Array
    _threads: pa.Array | None

    def parts(self, at: int) -> Numbers:
        """Return the part of each row of a distinct cell, in the order of the rows."""
        rows = pa.array(np.flatnonzero(self.codes == at))
        cell, keys = self.cells[at], self._keys.take(rows)
        members = _members(keys)
        if self._threads is not None:
            threads = self._threads.take(rows)
            own = _members(threads.drop_null())
            in_thread = threads.is_valid().to_numpy(zero_copy_only=False)
            for row, member in zip(np.flatnonzero(in_thread).tolist(), own, strict=True):
                members[row] = member
        known: dict[bytes, int] = {}
        for member in members:
            if member not in known:
                known[member] = part_of(cell, member)
        return np.array([known[member] for member in members], np.int64)

    def shards(self, placement: Placement) -> Numbers:
        """Return the shard of each row."""
        of_cells = np.array(placement.slots, np.int64)[self.slots]
        out = of_cells[self.codes]
        for at, cell in enumerate(self.cells):
            parts = placement.parts.get(cell)
            if parts is not None:
                out[self.codes == at] = np.array(parts, np.int64)[self.parts(at)]
        return out


def _members(values: pa.Array) -> list[bytes]:
    """Encode keys or threads; numbers, dates and times are encoded as their stored integers."""
    kind = values.type
    if pa.types.is_large_string(kind):
        return [encode_part(one, "", kind) for one in values.to_pylist()]
    if pa.types.is_boolean(kind):
        return [encode_part(one, "", kind) for one in values.to_pylist()]
    width = kind.bit_width
    if pa.types.is_temporal(kind):
        values = values.view(pa.int32() if width == 32 else pa.int64())
    whole = pc.cast(values, pa.int64(), safe=False)  # a uint64 keeps its bits
    return [encode_part(one, "", pa.int64()) for one in whole.to_pylist()]


def cell_kinds(
    columns: Mapping[str, pa.ChunkedArray], schema: Schema
) -> tuple[tuple[str, str], ...]:
    """Return the type of each cell column, as a placement names it."""
    return tuple((name, str(columns[name].type)) for name in schema.cell_columns)


def rows_of(table: pa.Table, schema: Schema) -> Placed:
    """Return the places of a table's rows; only its cells, keys and threads are read."""
    thread = () if schema.thread is None else (schema.thread,)
    names = tuple(dict.fromkeys((*schema.cell_columns, schema.key, *thread)))
    columns = read_rows(table, schema, names)
    codes, values = _distinct([columns[name] for name in schema.cell_columns], table.num_rows)
    kinds = cell_kinds(columns, schema)
    cells = [encode_cell(one, kinds) for one in values]
    slots = np.array([slot_of(one) for one in cells], np.int64)
    threads = None if schema.thread is None else one_array(columns[schema.thread])
    return Placed(codes, cells, values, slots, one_array(columns[schema.key]), threads)


def _distinct(
    columns: Sequence[pa.ChunkedArray], n_rows: int
) -> tuple[Numbers, list[tuple[object, ...]]]:
    """Return the number of each row's tuple, and the distinct tuples of the columns."""
    codes = np.zeros(n_rows, np.int64)
    values: list[tuple[object, ...]] = [()] if n_rows else []
    for column in columns:
        encoded = one_array(column).dictionary_encode(null_encoding="encode")
        own = encoded.indices.to_numpy().astype(np.int64)
        named = encoded.dictionary.to_pylist()
        pairs, codes = np.unique(codes * max(len(named), 1) + own, return_inverse=True)
        values = [
            (*values[pair // len(named)], named[pair % len(named)]) for pair in pairs.tolist()
        ]
    return codes, values


# ---- Chooses the shard of each slot, and of each part of a split cell, by numbers of rows ----

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


def place_counts(
    counted: Callable[[Collection[int], Collection[bytes]], RowCounts],
    n_rows: int,
    n_shards: int,
    split: Iterable[bytes] = (),
) -> RowCounts:
    """Count rows by slot, and by part those of cells that are or become split."""
    # ``counted`` counts all rows, by cell in heavy slots, and by part in large cells.
    most = most_rows(n_rows, n_shards)
    counts, large = counted((), ()), set(split)
    if n_shards > 1 and (heavy := heavy_slots(counts, most)):
        large |= large_cells(counted(heavy, ()), most)
    return counted((), large) if large else counts


def pack(
    kinds: Sequence[tuple[str, str]],
    counts: RowCounts,
    n_shards: int,
    before: Placement | None = None,
) -> Placement:
    """Distribute slots, and the parts of the cells in ``counts.parts``, evenly over shards."""
    # The largest goes first, into the shard with the fewest rows. Slots and parts stay in their
    # shard of ``before``, unless that shard is too large or does not exist any more.
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
