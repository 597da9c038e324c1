"""Planted bugs in the life of an index (L3) and in batches (L4)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from laws.planted import LeftToRightDot
from laws.subject import OracleSubject
from oracle.documents import Call, Key, Reply, Row, Scope, Shape
from oracle.life import Life
from oracle.recall import Oracle
from oracle.scope import Predicate
from oracle.words import Mask

# L3: history


class OldPlace(Life):
    """An updated document keeps its old place in the order."""

    def upsert(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._live[row.identity] = row


class DeleteEverywhere(Life):
    """A key is deleted from every cell that has it."""

    def delete(self, keys: Sequence[Key], scopes: Sequence[Scope]) -> int:
        doomed = [identity for identity in self._live if identity[1] in keys]
        for identity in doomed:
            del self._live[identity]
        return len(doomed)


class FilterEverywhere(Life):
    """A filter deletes what passes it in every cell."""

    def delete_where(self, cells: Scope, predicate: Predicate | None) -> int:
        return super().delete_where(frozenset(row.cell for row in self.rows), predicate)


class GhostLife(Life):
    """Remembers the documents that went."""

    def __init__(self, rows: Sequence[Row] = ()) -> None:
        self.ghosts: list[Row] = []
        super().__init__(rows)

    def upsert(self, rows: Sequence[Row]) -> None:
        self.ghosts += [self._live[row.identity] for row in rows if row.identity in self._live]
        super().upsert(rows)

    def delete(self, keys: Sequence[Key], scopes: Sequence[Scope]) -> int:
        before = self.rows
        gone = super().delete(keys, scopes)
        self.ghosts += [row for row in before if row.identity not in self._live]
        return gone

    def delete_where(self, cells: Scope, predicate: Predicate | None) -> int:
        before = self.rows
        gone = super().delete_where(cells, predicate)
        self.ghosts += [row for row in before if row.identity not in self._live]
        return gone


class GhostOracle(Oracle):
    """Takes its last rows for ghosts."""

    n_ghosts = 0

    def visible(self, allowed: Mask, predicate: Predicate | None) -> Mask:
        return super().visible(allowed, predicate) & (
            np.arange(len(self.rows)) < len(self.rows) - self.n_ghosts
        )


class GhostStatistics(OracleSubject):
    """Deleted documents are never found, but they still count in N, doc_freq and mean length."""

    def __init__(self, shape: Shape, rows: Sequence[Row]) -> None:
        super().__init__(shape, rows, oracle=GhostOracle, life=GhostLife)

    def recall(self, call: Call) -> list[Reply]:
        oracle = GhostOracle(self.shape, [*self.life.rows, *self.life.ghosts])
        oracle.n_ghosts = len(self.life.ghosts)
        return [oracle.recall(call, query) for query in range(len(call.scopes))]


class HalfAdd(Life):
    """An add that fails has added what came before the conflict."""

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            super().add([row])


# L4: the same bits in every batch


class NeighboursScope(OracleSubject):
    """In a batch, the last query is answered in the scope of the first."""

    def recall(self, call: Call) -> list[Reply]:
        scopes = (*call.scopes[:-1], call.scopes[0])
        return super().recall(replace(call, scopes=scopes))


class BatchKernel(OracleSubject):
    """Batches of 16 and more take another dot product."""

    def recall(self, call: Call) -> list[Reply]:
        oracle = LeftToRightDot if len(call.scopes) >= 16 else Oracle
        return OracleSubject(self.shape, self.life.rows, oracle=oracle).recall(call)
