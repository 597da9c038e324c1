"""Maps each cell to its shards: a frozen table of slots, and the cells that are split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import xxhash

from hyrecall.ask.scope import encode_part
from hyrecall.base.arguments import as_int, as_items, set_fields
from hyrecall.base.keywords import check_keywords
from hyrecall.base.malformed import MALFORMED
from hyrecall.errors import OptionError, ScopeError, error

__all__ = ["N_PARTS", "N_SLOTS", "Placement", "part_of", "slot_of"]

N_SLOTS = 4096
"""Slots of a placement. More slots even out sizes better; fewer make a smaller manifest."""

N_PARTS = 256
"""Parts of a cell that is split over several shards."""

_KINDS = {"large_string": pa.large_string(), "int64": pa.int64(), "bool": pa.bool_()}

Cell = tuple[object, ...]


def slot_of(cell: bytes) -> int:
    """Return the slot of an encoded cell: its XXH3-64 (seed 0) modulo the number of slots."""
    return xxhash.xxh3_64_intdigest(cell) % N_SLOTS


def part_of(cell: bytes, member: bytes) -> int:
    """Return the part of a split cell in which a row lies, by its encoded thread or key."""
    return xxhash.xxh3_64_intdigest(cell + member) % N_PARTS


@check_keywords
@dataclass(frozen=True, init=False)
class Placement:
    """Maps each cell to the shards that hold its documents.

    A cell is encoded as bytes: for each of its columns a byte for the type (0 null, 1 bool, 2 int,
    3 string) and the value (1 byte; 8 bytes, little-endian; 4 bytes of length and UTF-8). So
    cells that look alike differ: "1" and 1, None and "", ("a", "bc") and ("ab", "c"). The XXH3-64
    of these bytes (seed 0) modulo 4,096 is the slot, and each slot has a shard.

    A cell with more documents than a shard should have is split into 256 parts, each of which has
    a shard. The part of a document is the XXH3-64, modulo 256, of the cell's bytes followed by
    those of the document's thread, or of its key if it has no thread. So a thread, and each key
    without a thread, lies in one shard.

    Parameters
    ----------
    columns : mapping of str to str, or pairs
        The type of each cell column: "large_string", "int64" or "bool". Empty: a single cell.
    slots : sequence of int
        The shard of each of the 4,096 slots.
    split : mapping of tuple to sequence of int, or pairs, default ()
        For each split cell, the shard of each of its 256 parts.

    Raises
    ------
    OptionError
        Another number of slots or parts, or another type.
    ScopeError
        A split cell that does not fit the columns.

    Examples
    --------
    >>> placement = Placement({"user": "large_string"}, [slot % 3 for slot in range(4096)])
    >>> placement.shards_of("ann")
    (0,)
    >>> placement.n_shards
    3
    """

    columns: tuple[tuple[str, str], ...]
    slots: tuple[int, ...]
    split: tuple[tuple[Cell, tuple[int, ...]], ...]

    def __init__(
        self,
        columns: Mapping[str, str] | Iterable[tuple[str, str]],
        slots: Sequence[int],
        split: Mapping[Cell, Sequence[int]] | Iterable[tuple[Cell, Sequence[int]]] = (),
    ) -> None:
        """Check the arguments."""
        columns, parts = dict(columns), dict(split)
        for name, kind in columns.items():
            if kind not in _KINDS:
                raise error(OptionError, f"columns[{name!r}]", f"one of {list(_KINDS)}", repr(kind))
        set_fields(
            self,
            columns=tuple(columns.items()),
            slots=_numbers("slots", slots, N_SLOTS),
            split=tuple(
                (cell, _numbers(f"split[{cell!r}]", shards, N_PARTS))
                for cell, shards in parts.items()
            ),
        )
        for cell, _ in self.split:
            self.encode(cell)

    @property
    def n_shards(self) -> int:
        """The number of the highest shard that has a slot or a part, plus 1."""
        return 1 + max((*self.slots, *(one for _, parts in self.split for one in parts)))

    def shards_of(self, cell: object) -> tuple[int, ...]:
        """Return the shards that may hold documents of a cell, ascending.

        Parameters
        ----------
        cell : str or int or bool or None or tuple
            As in a scope: a value, or a tuple of one for each cell column.

        Raises
        ------
        ScopeError
            A cell that does not fit the cell columns in width or type.
        """
        return self.shards_of_bytes(self.encode(cell))

    def shards_of_bytes(self, cell: bytes) -> tuple[int, ...]:
        """Return the shards of an encoded cell, ascending."""
        parts = self.parts.get(cell)
        return (self.slots[slot_of(cell)],) if parts is None else tuple(sorted(set(parts)))

    def encode(self, cell: object) -> bytes:
        """Return the bytes of a cell.

        Raises
        ------
        ScopeError
            A cell that does not fit the cell columns in width or type.
        """
        values = cell if isinstance(cell, tuple) else (cell,)
        if len(values) != len(self.columns):
            wish = f"a value for each of ({', '.join(name for name, _ in self.columns)})"
            raise error(ScopeError, "cell", wish, repr(cell))
        return encode_cell(values, self.columns)

    @cached_property
    def parts(self) -> dict[bytes, tuple[int, ...]]:
        """The shards of the parts of each split cell, by its bytes."""
        return {self.encode(cell): shards for cell, shards in self.split}

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        split = [{"cell": list(cell), "parts": list(parts)} for cell, parts in self.split]
        return {
            "hash": "xxh3_64",
            "columns": [list(one) for one in self.columns],
            "slots": list(self.slots),
            "split": split,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Placement:
        """Make a placement from the result of :meth:`to_dict`."""
        try:
            if data["hash"] != "xxh3_64":
                raise error(OptionError, "hash", "'xxh3_64'", repr(data["hash"]))
            columns = {str(name): str(kind) for name, kind in data["columns"]}
            split = {tuple(one["cell"]): one["parts"] for one in data["split"]}
            return cls(columns, data["slots"], split)
        except MALFORMED as fault:
            if isinstance(fault, OptionError):
                raise
            raise error(OptionError, "data", "the data of a placement", repr(fault)) from fault


def encode_cell(values: Iterable[object], columns: Sequence[tuple[str, str]]) -> bytes:
    """Return the bytes of a cell, as scopes are encoded for the engine."""
    return b"".join(
        encode_part(value, name, _KINDS[kind], "cell")
        for value, (name, kind) in zip(values, columns, strict=True)
    )


def _numbers(argument: str, given: object, n: int) -> tuple[int, ...]:
    shards = as_items(given)
    if shards is None or len(shards) != n:
        got = type(given).__name__ if shards is None else f"{len(shards)} entries"
        raise error(OptionError, argument, f"{n} numbers of shards", got)
    made = tuple(as_int(one) for one in shards)
    if any(one is None or one < 0 for one in made):
        raise error(OptionError, argument, "numbers of shards from 0 on", "others")
    return made  # type: ignore[return-value]
