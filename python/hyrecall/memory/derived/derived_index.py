"""Builds the index and the graph of a store, and applies changes to them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace

import apsw
import pyarrow as pa

from hyrecall.ask.arms import Newest
from hyrecall.ask.scope import ANY, Scope
from hyrecall.base.progress import ProgressFunction
from hyrecall.graph.graph import Graph
from hyrecall.index import Index
from hyrecall.memory.derived import projection
from hyrecall.memory.derived.layout import CELL, Layout
from hyrecall.memory.sql.index_header import Header
from hyrecall.memory.sql.schema import meta

_log = logging.getLogger("hyrecall.memory")

__all__ = ["Changes", "Derived", "Wish", "apply", "build", "compact", "project"]

MOST_KEPT = 10_000
"""Changes that are kept in memory until an index takes them; more are read from the database."""

MOST_JOINED = 32
"""Changes of several transactions that are joined: each commit looks at the names of all these."""


@dataclass(frozen=True)
class Wish:
    """What an index is to be built from: layout, model, length of vectors."""

    layout: Layout
    model: str | None
    dim: int
    device: str = "cpu"
    threads: int | None = None

    def header(self, connection: apsw.Connection) -> Header:
        """Return the header of such an index for the state that this transaction sees."""
        return Header(
            str(meta(connection, "store_id")),
            int(meta(connection, "sequence")),
            int(meta(connection, "erasures")),
            self.layout.hash,
            self.model,
            self.dim,
        )


@dataclass(frozen=True)
class Derived:
    """An index and a graph with every change up to ``sequence`` and erasure up to ``erasures``."""

    # Both indexes change in place; a new one of these says that they did. ``holds_erased``:
    # rows that
    # an erasure removed are deleted here, but their bytes are in the segments until
    # :func:`compact`.

    wish: Wish
    index: Index
    graph: Graph
    sequence: int
    erasures: int
    holds_erased: bool = False


@dataclass(frozen=True)
class Changes:
    """The changes of transactions, as rows for an index."""

    # They follow the change ``after`` and end with the change ``last``. No document and no
    # edge is in
    # them twice.

    wish: Wish
    after: int
    last: int
    documents: projection.Batch | None
    edges: projection.Batch | None

    def followed_by(self, next_: Changes) -> Changes | None:
        """Return both as one, or None if they must be read from the database again."""
        # That is so where they do not follow each other, change one document twice, or
        # are too many.
        if self.wish != next_.wish or self.last != next_.after:
            return None
        pairs = (
            (self.documents, next_.documents, self.wish.layout.key),
            (self.edges, next_.edges, "id"),
        )
        if not all(_may_join(*pair) for pair in pairs):
            return None
        documents, edges = (_joined(first, second) for first, second, _ in pairs)
        return Changes(self.wish, self.after, next_.last, documents, edges)


def _may_join(first: projection.Batch | None, second: projection.Batch | None, key: str) -> bool:
    if first is None or second is None:
        return True
    is_small = first.n_read + second.n_read <= MOST_JOINED
    return is_small and _names(first, key).isdisjoint(_names(second, key))


def _joined(
    first: projection.Batch | None, second: projection.Batch | None
) -> projection.Batch | None:
    if first is None or second is None:
        return first or second
    return projection.Batch(
        pa.concat_tables([first.live, second.live]),
        [*first.gone, *second.gone],
        second.last,
        first.n_read + second.n_read,
        first.n_damaged + second.n_damaged,
    )


def _names(batch: projection.Batch, key: str) -> set[tuple[object, ...]]:
    """Return id and cell of every document in a batch."""
    columns = (batch.live.column(name).to_pylist() for name in (key, *CELL))
    return {*zip(*columns, strict=True), *((name, *cell) for name, cell in batch.gone)}


def project(connection: apsw.Connection, wish: Wish, after: int) -> Changes | None:
    """Return the changes after a sequence as rows for an index."""
    # It fails where an index could not take the changes. None: they are too many to be kept.
    last = int(meta(connection, "sequence"))
    kept: list[projection.Batch | None] = []
    is_small = True
    for batches in (
        projection.documents(connection, wish.layout, model=wish.model, dim=wish.dim, after=after),
        projection.edges(connection, after=after),
    ):
        first = next(batches, None)
        kept.append(first)
        is_small &= first is None or first.n_read <= MOST_KEPT
        for _ in batches:  # each is made, and none of them is kept
            is_small = False
    return Changes(wish, after, last, *kept) if is_small else None


def build(
    connection: apsw.Connection, wish: Wish, progress: ProgressFunction | None = None
) -> Derived:
    """Index every live row in one pass."""
    now = wish.header(connection)
    analyzer = wish.layout.analyzer
    documents = list(
        projection.documents(
            connection, wish.layout, model=wish.model, dim=wish.dim, only_live=True
        )
    )
    index = Index.build(
        pa.concat_tables([batch.live for batch in documents]),
        wish.layout.schema,
        analyzer=analyzer,
        device=wish.device,
        threads=wish.threads,
        progress=progress,
    )
    edges = list(projection.edges(connection, only_live=True))
    n_damaged = sum(batch.n_damaged for batch in (*documents, *edges))
    if n_damaged:
        _log.error("%d damaged rows are not indexed: doctor(full=True) names them", n_damaged)
    graph = Graph.build(
        pa.concat_tables([batch.live for batch in edges]),
        wish.layout.edge_schema,
        nodes=index,
        analyzer=analyzer,
        threads=wish.threads,
    )
    return Derived(wish, index, graph, now.sequence, now.erasures)


def apply(
    connection: apsw.Connection, held: Derived, made: Changes | None = None
) -> tuple[Derived, int, int]:
    """Bring an index to the state that this transaction sees."""
    # What fails half-way may be applied again: that changes nothing that was right.
    wish = held.wish
    now = wish.header(connection)
    documents: Iterable[projection.Batch | None]
    edges: Iterable[projection.Batch | None]
    # The wishes must be equal, or the index would get columns of another recipe.
    if made is not None and (made.wish, made.after, made.last) == (
        wish,
        held.sequence,
        now.sequence,
    ):
        documents, edges = (made.documents,), (made.edges,)
    else:
        documents = projection.documents(
            connection, wish.layout, model=wish.model, dim=wish.dim, after=held.sequence
        )
        edges = projection.edges(connection, after=held.sequence)
    n_changes = n_dropped = 0
    for target, batches in ((held.index, documents), (held.graph, edges)):
        for batch in batches:
            if batch is None:
                continue
            if batch.live.num_rows:
                target.upsert(batch.live)
            if batch.gone:
                keys, cells = zip(*batch.gone, strict=True)
                target.delete(keys, scope=list(cells))
            n_changes += batch.n_read
    if now.erasures != held.erasures:
        rows, changes = projection.live_rows(connection), projection.live_edges(connection)
        edge_index = held.graph.edges
        n_dropped = _drop_others(held.index, "updated_at", "row", rows)
        n_dropped += _drop_others(edge_index, "recorded_at", "changed", changes)
        # Also if nothing was dropped now: erased rows may have been deleted here earlier.
        held = replace(held, holds_erased=True)
    return replace(held, sequence=now.sequence, erasures=now.erasures), n_changes, n_dropped


def compact(held: Derived) -> Derived:
    """Drop the bytes of all rows that were deleted."""
    held.graph.compact()
    held.index.compact()
    return replace(held, holds_erased=False)


def _drop_others(index: Index, newest: str, identity: str, kept: set[int]) -> int:
    """Delete the documents that are not to be kept and return how many."""
    everywhere = Scope.matching(**dict.fromkeys(CELL, ANY))
    arm, limit = Newest(newest), max(len(index), 1)
    hits = index.recall(arms=arm, scope=everywhere, limit=limit, columns=(identity,))
    found = hits.to_arrow()
    others = [
        at for at, number in enumerate(found.column(identity).to_pylist()) if number not in kept
    ]
    if not others:
        return 0
    rows = found.take(others)
    cells = zip(*(rows.column(name).to_pylist() for name in CELL), strict=True)
    return index.delete(rows.column("key").to_pylist(), scope=list(cells))
