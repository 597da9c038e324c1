"""Builds the index and the graph of a store, and applies changes to them."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import apsw
import pyarrow as pa

from hyrecall.arm.newest import Newest
from hyrecall.ask.scope import ANY, Scope
from hyrecall.base import disk
from hyrecall.base.progress import ProgressFunction
from hyrecall.errors import DeviceUnavailableError, HyrecallError
from hyrecall.graph.graph import Graph
from hyrecall.index import Index
from hyrecall.memory.derived import projection
from hyrecall.memory.derived.layout import CELL, Layout
from hyrecall.memory.sql.codec import rows
from hyrecall.memory.sql.lost_changes import (
    HEADER,
    PARTS,
    Header,
    StaleError,
    read_header,
    write_header,
)
from hyrecall.memory.sql.schema import meta
from hyrecall.segments.manifest import MANIFEST, Manifest
from hyrecall.table.arrow_read import read_batch

_log = logging.getLogger("hyrecall.memory")


MOST_KEPT = 10_000
"""Changes that are kept in memory until an index takes them; more are read from the database."""

MOST_JOINED = 32
"""Changes of several transactions that are joined: each commit looks at the names of all these."""


@dataclass(frozen=True)
class Wish:
    """The wanted settings of an index: layout, model, length of vectors."""

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
    """An index and a graph with all changes up to the numbers ``sequence`` and ``erasures``."""

    # Both indexes change in place; a new one of these says that they did. ``holds_erased``: rows
    # that an erasure removed are deleted here, but their bytes are in the segments until
    # :func:`compact`.

    wish: Wish
    index: Index
    graph: Graph
    sequence: int
    erasures: int
    holds_erased: bool = False


@dataclass(frozen=True)
class IndexChanges:
    """The changes of transactions, as rows for an index."""

    # They follow the change ``after`` and end with the change ``last``. No document and no edge is
    # in them twice.

    wish: Wish
    after: int
    last: int
    documents: projection.ChangeTables | None
    edges: projection.ChangeTables | None

    def followed_by(self, next_: IndexChanges) -> IndexChanges | None:
        """Return both as one, or None if they must be read from the database again."""
        # That is so where they do not follow each other, change one document twice, or are too
        # many.
        if self.wish != next_.wish or self.last != next_.after:
            return None
        pairs = (
            (self.documents, next_.documents, self.wish.layout.key),
            (self.edges, next_.edges, "id"),
        )
        if not all(_may_join(*pair) for pair in pairs):
            return None
        documents, edges = (_joined(first, second) for first, second, _ in pairs)
        return IndexChanges(self.wish, self.after, next_.last, documents, edges)


def _may_join(
    first: projection.ChangeTables | None, second: projection.ChangeTables | None, key: str
) -> bool:
    if first is None or second is None:
        return True
    is_small = first.n_read + second.n_read <= MOST_JOINED
    return is_small and _names(first, key).isdisjoint(_names(second, key))


def _joined(
    first: projection.ChangeTables | None, second: projection.ChangeTables | None
) -> projection.ChangeTables | None:
    if first is None or second is None:
        return first or second
    return projection.ChangeTables(
        pa.concat_tables([first.live, second.live]),
        [*first.gone, *second.gone],
        second.last,
        first.n_read + second.n_read,
        first.n_damaged + second.n_damaged,
    )


def _names(batch: projection.ChangeTables, key: str) -> set[tuple[object, ...]]:
    """Return id and cell of every document in a batch."""
    columns = (batch.live.column(name).to_pylist() for name in (key, *CELL))
    return {*zip(*columns, strict=True), *((name, *cell) for name, cell in batch.gone)}


def project(connection: apsw.Connection, wish: Wish, after: int) -> IndexChanges | None:
    """Return the changes after a sequence as rows for an index."""
    # It fails where an index could not take the changes. None: they are too many to be kept.
    last = int(meta(connection, "sequence"))
    kept: list[projection.ChangeTables | None] = []
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
    return IndexChanges(wish, after, last, *kept) if is_small else None


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
    connection: apsw.Connection, held: Derived, made: IndexChanges | None = None
) -> tuple[Derived, int, int]:
    """Bring an index to the state that this transaction sees."""
    # What fails half-way may be applied again: that changes nothing that was right.
    wish = held.wish
    now = wish.header(connection)
    documents: Iterable[projection.ChangeTables | None]
    edges: Iterable[projection.ChangeTables | None]
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


# ---- Opens, saves and deletes the saved index of a store ----

_TRIES = 5
_PAUSE = 0.02  # seconds


def take_snapshot(folder: Path, wish: Wish, now: Header) -> Derived:
    """Open the saved index if it is of a state of this store; checks every block."""
    for _ in range(_TRIES):
        header = read_header(folder)
        reason = header.reason_against(now)
        if reason is not None:
            raise StaleError(reason)
        try:
            found = _open(folder, wish, header)
        except DeviceUnavailableError:
            raise
        except (HyrecallError, MemoryError, OSError) as fault:
            raise StaleError(f"damaged, or too large ({fault!r})") from None
        # The writing process may have saved newer manifests meanwhile.
        if read_header(folder) == header:
            return found
    raise StaleError("replaced again and again")


def _open(folder: Path, wish: Wish, header: Header) -> Derived:
    nodes, edges = (folder / part for part in PARTS)
    analyzer = wish.layout.analyzer
    index = Index.open(
        nodes, analyzer=analyzer, device=wish.device, threads=wish.threads, verify="full"
    )
    graph = Graph.open(edges, wish.layout.edge_schema, nodes=index, analyzer=analyzer)
    return Derived(wish, index, graph, header.sequence, header.erasures)


def keep_snapshot(folder: Path, held: Derived, header: Header) -> None:
    """Save an index with a header that names its state of the store."""
    nodes, edges = (folder / part for part in PARTS)
    # The store's own lock keeps other writers away, and HEADER tells what the folders are of.
    held.index.save(nodes, overwrite=True)
    held.graph.save(edges, overwrite=True)
    folder.chmod(0o700)
    write_header(folder, header)


def drop_snapshot(folder: Path) -> None:
    """Delete the saved index, so that it cannot be opened later."""
    if folder.is_dir():
        disk.remove([folder / HEADER])
        for part in PARTS:
            shutil.rmtree(folder / part, ignore_errors=True)


def saved_rows(part: Path) -> Iterator[pa.RecordBatch]:
    """Read the rows of each segment in a part of a snapshot, deleted rows included."""
    path = part / MANIFEST
    for segment in Manifest.from_bytes(disk.read_bytes(path), path).segments:
        file = segment.files["rows"]
        buffer = disk.read_file(part / file.name, file.size, "mmap")
        disk.check_blocks(part / file.name, file, buffer)
        yield read_batch(part / file.name, buffer)


def may_hold_erased(folder: Path, connection: apsw.Connection, *, full: bool) -> bool:
    """Return whether the files of a saved index may contain erased rows."""
    n_erasures = int(meta(connection, "erasures"))
    for _ in range(_TRIES):
        files = (file for part in PARTS for file in (folder / part).glob("*.arrow"))
        if not n_erasures or next(files, None) is None:
            return False
        try:
            if read_header(folder).erasures != n_erasures:
                return True
            return full and _has_erased_rows(folder, connection)
        except (StaleError, HyrecallError, OSError):
            time.sleep(_PAUSE)  # the process that writes may be replacing them
    return True  # nobody knows what they hold


def _has_erased_rows(folder: Path, connection: apsw.Connection) -> bool:
    """Look for rows without a version and for edges without an id in the store."""
    kept = {row for (row,) in connection.execute("SELECT row FROM versions")}
    nodes, edges = (folder / part for part in PARTS)
    if any(set(batch.column("row").to_pylist()) - kept for batch in saved_rows(nodes)):
        return True
    select = f"SELECT e.id, {', '.join(CELL.values())} FROM edges e JOIN cells USING (cell)"
    known = set(rows(connection, select))  # a damaged text may be no UTF-8
    for batch in saved_rows(edges):
        columns = (batch.column(name).to_pylist() for name in ("id", *CELL))
        if set(zip(*columns, strict=True)) - known:
            return True
    return False
