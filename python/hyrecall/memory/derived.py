"""The index and the graph that are made of a store: built anew, or brought to its last change."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import apsw
import pyarrow as pa

from hyrecall.arms import Newest
from hyrecall.graph import Graph
from hyrecall.index import Index
from hyrecall.memory import projection
from hyrecall.memory.header import Header
from hyrecall.memory.layout import CELL, Layout
from hyrecall.memory.schema import meta
from hyrecall.progress import ProgressFunction
from hyrecall.scope import ANY, Scope

_log = logging.getLogger("hyrecall.memory")

__all__ = ["Derived", "Wish", "apply", "build", "compact"]


@dataclass(frozen=True)
class Wish:
    """What is to be derived.

    Attributes
    ----------
    layout : Layout
    model : str or None
        Whose vectors are indexed; None: of whatever model.
    dim : int
        Their length; others are left out.
    device, threads
        As in :meth:`hyrecall.Index.build`.
    """

    layout: Layout
    model: str | None
    dim: int
    device: str = "cpu"
    threads: int | None = None

    def header(self, connection: apsw.Connection) -> Header:
        """Describe it for the state of the store that this transaction sees."""
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
    """What was derived, with every change up to ``sequence`` and every erasure up to ``erasures``.

    Both indexes change in place; a new one of these says that they did. ``holds_erased``: rows that
    an erasure removed are deleted here, but their bytes are in the segments until :func:`compact`.
    """

    wish: Wish
    index: Index
    graph: Graph
    sequence: int
    erasures: int
    holds_erased: bool = False


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


def apply(connection: apsw.Connection, held: Derived) -> tuple[Derived, int, int]:
    """Bring an index to the state that this transaction sees.

    What fails half-way may be applied again: that changes nothing that was right.

    Returns
    -------
    Derived
    int
        How many changes were applied.
    int
        How many documents and edges an erasure had left behind.
    """
    wish = held.wish
    now = wish.header(connection)
    documents = projection.documents(
        connection, wish.layout, model=wish.model, dim=wish.dim, after=held.sequence
    )
    edges = projection.edges(connection, after=held.sequence)
    n_changes = n_dropped = 0
    for target, batches in ((held.index, documents), (held.graph, edges)):
        for batch in batches:
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
        # Also where none was dropped: what was erased may have been deleted here long before.
        held = replace(held, holds_erased=True)
    return replace(held, sequence=now.sequence, erasures=now.erasures), n_changes, n_dropped


def compact(held: Derived) -> Derived:
    """Drop the bytes of all rows that were deleted."""
    held.graph.compact()
    held.index.compact()
    return replace(held, holds_erased=False)


def _drop_others(index: Index, newest: str, identity: str, kept: set[int]) -> int:
    """Delete what is not to be kept; give how many that were."""
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
