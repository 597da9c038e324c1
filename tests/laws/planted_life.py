"""Planted bugs in the life of an index (L3) and in batches (L4)."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from laws.planted import LEFT_TO_RIGHT, WEIGHTS, mutant, mutation, mutations
from laws.subject import OracleSubject
from oracle.bm25 import mean_doc_length
from oracle.documents import Call, Reply, Row, Scope, Shape
from oracle.life import Life
from oracle.recall import Oracle
from oracle.recipe import RecipeOracle
from oracle.scope import Predicate
from oracle.words import Leaf, Mask

# L3: history


def in_place(self: Life, was: Any, rows: Sequence[Row]) -> None:
    """An updated document keeps its old place in the order."""
    for row in rows:
        self._live[row.identity] = row


def from_everywhere(self: Life, was: Any, keys: Sequence[Any], scopes: Any) -> int:
    """A key is deleted from every cell that has it."""
    doomed = [identity for identity in self._live if identity[1] in keys]
    for identity in doomed:
        del self._live[identity]
    return len(doomed)


def one_by_one(self: Life, was: Any, rows: Sequence[Row]) -> None:
    """An add that fails has added what came before the conflict."""
    for row in rows:
        was([row])


def updated_in_place(self: Life, was: Any, rows: Sequence[Row], names: Sequence[str]) -> None:
    """A document of which some columns change keeps its old place in the order."""
    order = list(self._live)
    was(rows, names)
    self._live = {identity: self._live[identity] for identity in order}


def those_that_are_there(self: Life, was: Any, rows: Sequence[Row], names: Sequence[str]) -> None:
    """An update passes over documents that are not there."""
    was([row for row in rows if row.identity in self._live], names)


def step_by_step(self: Life, was: Any, rows: Sequence[Row], cells: Any, predicate: Any) -> int:
    """A replacement that fails has removed the old documents."""
    gone = self.delete_where(cells, predicate)
    self.add(rows)
    return gone


LIVES = mutations(
    {
        "an update keeps its place": {"upsert": in_place},
        "a key is deleted in every cell": {"delete": from_everywhere},
        "a filter deletes in every cell": {
            "delete_where": lambda self, was, cells, predicate: was(
                frozenset(row.cell for row in self.rows), predicate
            )
        },
        "half of an add stays": {"add": one_by_one},
        "an update of some columns changes all": {
            "update": lambda self, was, rows, names: self.upsert(rows)
        },
        "an update of some columns keeps its place": {"update": updated_in_place},
        "an update passes over what is not there": {"update": those_that_are_there},
        "half of a replacement stays": {"replace": step_by_step},
        "a replacement removes in every cell": {
            "replace": lambda self, was, rows, cells, predicate: was(
                rows, frozenset(row.cell for row in self.rows), predicate
            )
        },
    }
)


class Ghosts(OracleSubject):
    """An index that keeps the rows that went: an oracle has them in their old places."""

    ghostly: type[Oracle]

    def __init__(self, shape: Shape, rows: Sequence[Row]) -> None:
        super().__init__(shape, rows, oracle=RecipeOracle)
        self.all_rows = list(rows)

    def add(self, rows: Sequence[Row]) -> None:
        super().add(rows)
        self.all_rows += rows

    def upsert(self, rows: Sequence[Row]) -> None:
        super().upsert(rows)
        self.all_rows += rows

    def update(self, rows: Sequence[Row], names: Collection[str]) -> None:
        super().update(rows, names)
        self._add_new()

    def replace(self, rows: Sequence[Row], cells: Scope, predicate: Predicate) -> int:
        gone = super().replace(rows, cells, predicate)
        self._add_new()
        return gone

    def _add_new(self) -> None:
        known = {id(row) for row in self.all_rows}
        self.all_rows += [row for row in self.life.rows if id(row) not in known]

    def recall(self, call: Call) -> list[Reply]:
        live = {id(row) for row in self.life.rows}
        oracle: Any = self.ghostly(self.shape, self.all_rows)
        oracle.is_live = np.array([id(row) in live for row in self.all_rows], bool)
        return [oracle.recall(call, query) for query in range(len(call.scopes))]


def places_of_ghosts(
    self: Any, was: Any, threads: Mapping[Any, list[int]], doc: int, distance: int
) -> list[int]:
    """A deleted row leaves a gap between the places of its neighbours."""
    thread = self.thread(doc)
    if thread not in threads:
        return []
    rows = [row for row in range(len(self.rows)) if self.thread(row) == thread]
    near = was({thread: sorted(rows, key=self.place)}, doc, distance)
    return [row for row in near if self.is_live[row]]


def only_live(self: Any, was: Callable[..., Any], *given: Any) -> Any:
    """Without those that went."""
    return was(*given) & self.is_live


class GhostStatistics(Ghosts):
    """Deleted documents are never found, but count in N, doc_freq and mean length."""

    ghostly = mutant(RecipeOracle, mutation({"visible": only_live}))


class ThreadGhosts(Ghosts):
    """Deleted rows keep their places in their threads."""

    ghostly = mutant(RecipeOracle, mutation({"authorised": only_live, "near": places_of_ghosts}))


# L3: weights of columns

_WEIGHTLESS = mutant(
    RecipeOracle,
    mutation(WEIGHTS["lengths go without weights"] | WEIGHTS["frequencies go without weights"]),
)


class WeightlessDeletes(Ghosts):
    """A deleted document's length leaves the totals without the weights of its columns."""

    def recall(self, call: Call) -> list[Reply]:
        live = {id(row) for row in self.life.rows}
        dead = [row for row in self.all_rows if id(row) not in live]
        whole, bare = (kind(self.shape, dead) for kind in (RecipeOracle, _WEIGHTLESS))
        oracle = RecipeOracle(self.shape, self.life.rows)

        def mean(arm: str, counted: Mask) -> float:
            own = {self.life.rows[row].cell for row in np.flatnonzero(counted)}
            left = (whole.lengths[arm] - bare.lengths[arm])[[row.cell in own for row in dead]]
            total = oracle.lengths[arm][counted].sum() + left.sum()
            return mean_doc_length(int(counted.sum()), int(total))

        oracle.mean_doc_length = mean  # type: ignore[method-assign]
        return [oracle.recall(call, query) for query in range(len(call.scopes))]


class WeightlessMerges(OracleSubject):
    """Documents that were merged count without the weights of their columns."""

    def __init__(self, shape: Shape, rows: Sequence[Row]) -> None:
        super().__init__(shape, rows, oracle=RecipeOracle)
        self.merged: set[int] = set()

    def compact(self) -> None:
        self.merged = set(map(id, self.life.rows))

    def recall(self, call: Call) -> list[Reply]:
        rows = self.life.rows
        oracle, whole, bare = (k(self.shape, rows) for k in (*[RecipeOracle] * 2, _WEIGHTLESS))
        merged = np.array([id(row) in self.merged for row in rows], bool)
        for arm, lengths in oracle.lengths.items():
            oracle.lengths[arm] = np.where(merged, bare.lengths[arm], lengths)

        def occurrences(arm: str, leaf: Leaf) -> Any:
            return np.where(merged, bare.occurrences(arm, leaf), whole.occurrences(arm, leaf))

        oracle.occurrences = occurrences  # type: ignore[method-assign]
        return [oracle.recall(call, query) for query in range(len(call.scopes))]


# L4: the same bits in every batch


class NeighboursScope(OracleSubject):
    """In a batch, the last query is answered in the scope of the first."""

    def recall(self, call: Call) -> list[Reply]:
        scopes = (*call.scopes[:-1], call.scopes[0])
        return super().recall(replace(call, scopes=scopes))


class BatchKernel(OracleSubject):
    """Batches of 16 and more take another dot product."""

    def recall(self, call: Call) -> list[Reply]:
        oracle = mutant(Oracle, mutation(LEFT_TO_RIGHT)) if len(call.scopes) >= 16 else Oracle
        return OracleSubject(self.shape, self.life.rows, oracle=oracle).recall(call)
