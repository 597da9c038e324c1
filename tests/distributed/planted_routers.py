"""Planted bugs: routers that leave out a shard which holds a cell of the scope."""

from __future__ import annotations

import hyrecall as hr
from seams import ShardRouter, slot_of


class HashesText(ShardRouter):
    """Looks for a cell by the hash of its text, in which 1 and "1" are one."""

    def _shards(self, scope: object) -> frozenset[int]:
        if not isinstance(scope, hr.Scope):
            return super()._shards(scope)
        slots = (slot_of(str(cell).encode()) for cell in scope.cells)
        return frozenset(self._placement.slots[slot] for slot in slots)


class FirstCellOnly(ShardRouter):
    """Asks the shards of the first cell of a scope."""

    def _shards(self, scope: object) -> frozenset[int]:
        if isinstance(scope, hr.Scope):
            scope = hr.Scope(scope.cells[:1])
        return super()._shards(scope)


class FirstShardOfACell(ShardRouter):
    """Takes a cell that is split for one that lies in a single shard."""

    def _shards(self, scope: object) -> frozenset[int]:
        found = super()._shards(scope)
        return frozenset(sorted(found)[:1]) if not self._types else found


ROUTERS = (HashesText, FirstCellOnly, FirstShardOfACell)
