"""Opens a folder of shards: reads ``shards.json`` and checks the saved indexes against it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hyrecall.distributed.shard_folders import cells_of
from hyrecall.distributed.shards_file import SHARDS, Shards, check_seals
from hyrecall.errors import CorruptIndexError, error
from hyrecall.parts.part import hash_of
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.opening import Opening, open_index
from hyrecall.segments.segments import State

__all__ = ["PlacedShards", "verify_shards"]

CHECKED_CELLS = 10_000
"""Number of cells of a shard whose place is checked at open, at even distances among all."""


class PlacedShards(NamedTuple):
    """A generation of the shards of a folder."""

    folder: Path
    shards: Shards

    @classmethod
    def read(cls, folder: Path) -> PlacedShards:
        """Read ``shards.json``, and check that each saved index is the one that it names."""
        while True:
            placed = cls(folder, Shards.read(folder))
            try:
                check_seals(folder, placed.shards)
            except CorruptIndexError:
                if placed.is_current:  # otherwise a rebalancing removed this generation meanwhile
                    raise
            else:
                return placed

    @property
    def is_current(self) -> bool:
        """Whether the folder still has this generation; one that is built anew has another."""
        return Shards.read(self.folder) == self.shards

    @property
    def folders(self) -> list[Path]:
        """The saved indexes, in the order of the placement's numbers."""
        return [self.folder / one.folder for one in self.shards.shards]

    @property
    def seals(self) -> list[str | None]:
        """The version of each saved index: later versions may have cells of other shards."""
        return [one.manifest for one in self.shards.shards]

    def check(
        self, opened: Sequence[tuple[IndexFacts, State]], most_cells: int | None = CHECKED_CELLS
    ) -> None:
        """Check that opened indexes match ``shards.json``, and that their cells lie in place."""
        path = str(self.folder / SHARDS)
        placement = self.shards.placement
        for number, (entry, (facts, state)) in enumerate(
            zip(self.shards.shards, opened, strict=True)
        ):
            kinds = tuple((name, str(kind)) for name, kind in facts.cell_types.items())
            if hash_of(facts) != self.shards.index or kinds != placement.columns:
                wish = f"the schema, analyzers and types of {entry.folder}"
                raise error(CorruptIndexError, path, wish, "others")
            if state.n_docs != entry.rows:
                got = f"{entry.rows}"
                raise error(CorruptIndexError, path, f"{state.n_docs} rows in {entry.name}", got)
            for cell in _some(cells_of(facts, state) if state.n_docs else [], most_cells):
                if number not in placement.shards_of_bytes(cell):
                    wish = f"a placement that puts each cell of {entry.folder} there"
                    got = f"one that puts a cell into {placement.shards_of_bytes(cell)}"
                    raise error(CorruptIndexError, path, wish, got)


def _some(cells: list[bytes], most: int | None) -> list[bytes]:
    if most is None or len(cells) <= most:
        return cells
    return [cells[at] for at in np.linspace(0, len(cells) - 1, most).astype(np.int64).tolist()]


def verify_shards(folder: Path) -> Shards:
    """Check every block of the saved indexes of a folder, and the place of every cell."""
    placed = PlacedShards.read(folder)
    opened = []
    for path in placed.folders:
        facts, state, _ = open_index(path, Opening(verify="full"))
        opened.append((facts, state))
    placed.check(opened, None)
    return placed.shards
