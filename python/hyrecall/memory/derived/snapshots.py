"""Opens, saves and deletes the saved index of a store."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import pyarrow as pa

from hyrecall.base import disk
from hyrecall.errors import DeviceUnavailableError, HyrecallError
from hyrecall.graph.graph import Graph
from hyrecall.index import Index
from hyrecall.memory.derived.derived_index import Derived, Wish
from hyrecall.memory.derived.layout import CELL
from hyrecall.memory.sql.damaged_rows import rows
from hyrecall.memory.sql.index_header import (
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

__all__ = ["drop_snapshot", "keep_snapshot", "may_hold_erased", "saved_rows", "take_snapshot"]

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
