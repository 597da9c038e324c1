"""The saved index of a store: taken, kept, dropped."""

from __future__ import annotations

import shutil
from pathlib import Path

from hyrecall import disk
from hyrecall.errors import DeviceUnavailableError, HyrecallError
from hyrecall.graph import Graph
from hyrecall.index import Index
from hyrecall.memory.derived import Derived, Wish
from hyrecall.memory.header import HEADER, PARTS, Header, StaleError, read_header, write_header

__all__ = ["drop_snapshot", "keep_snapshot", "take_snapshot"]

_TRIES = 5


def take_snapshot(folder: Path, wish: Wish, now: Header) -> Derived:
    """Open what is saved, if it is a state of this store; every block of it is checked.

    Raises
    ------
    StaleError
        It is not, or is damaged.
    DeviceUnavailableError
        The device is not there.
    """
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
        # The process that writes may have put newer manifests there meanwhile.
        if read_header(folder) == header:
            return found
    raise StaleError("replaced again and again")


def _open(folder: Path, wish: Wish, header: Header) -> Derived:
    nodes, edges = (folder / part for part in PARTS)
    index = Index.open(nodes, device=wish.device, threads=wish.threads, verify="full")
    graph = Graph.open(edges, wish.layout.edge_schema, nodes=index)
    return Derived(wish, index, graph, header.sequence, header.erasures)


def keep_snapshot(folder: Path, held: Derived, header: Header) -> None:
    """Save an index, and of what it is a snapshot.

    Raises
    ------
    CorruptIndexError
        What is saved there is no index that can be replaced.
    OSError
        From the disk.
    """
    nodes, edges = (folder / part for part in PARTS)
    held.index.save(nodes)
    held.graph.save(edges)
    folder.chmod(0o700)
    write_header(folder, header)


def drop_snapshot(folder: Path) -> None:
    """Remove what is saved for good: what is of no use now must not be taken later."""
    if folder.is_dir():
        disk.remove([folder / HEADER])
        for part in PARTS:
            shutil.rmtree(folder / part, ignore_errors=True)
