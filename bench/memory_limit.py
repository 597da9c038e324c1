"""Keeps this process within a number of bytes of memory, pages of mapped files included.

A cgroup v2 does it where one can be made. Elsewhere a thread looks every few milliseconds at what
is resident and drops the pages of the mapped index files when it is too much: they have to be read
again, as after the system has dropped them. It can be late by what is read in between.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_PAGEOUT = 21  # MADV_PAGEOUT: also drops clean pages of files from the page cache
_EVERY_SECONDS = 0.005


@contextmanager
def within(n_bytes: int) -> Iterator[str]:
    """Run a block within a limit; yields in words how it is kept."""
    group = _own_group(n_bytes)
    if group is not None:
        try:
            yield f"a cgroup v2 with memory.max = {n_bytes}"
        finally:
            (group.parent / "cgroup.procs").write_text(str(os.getpid()))
            group.rmdir()
        return
    stop = threading.Event()
    dropper = threading.Thread(target=_drop_while, args=(stop, n_bytes), daemon=True)
    dropper.start()
    try:
        yield f"no cgroup v2 with memory: a thread drops pages of mapped files beyond {n_bytes}"
    finally:
        stop.set()
        dropper.join()


def _own_group(n_bytes: int) -> Path | None:
    """Put this process in a new cgroup v2 below its own; None where that cannot be done."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        own = next(line[3:] for line in lines if line.startswith("0::"))
        parent = _GROUPS / own.lstrip("/")
        if "memory" not in (parent / "cgroup.subtree_control").read_text().split():
            return None
        group = parent / f"hyrecall-{os.getpid()}"
        group.mkdir()
    except (OSError, StopIteration):
        return None
    try:
        (group / "memory.max").write_text(str(n_bytes))
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        with contextlib.suppress(OSError):
            group.rmdir()
        return None
    return group


def resident_bytes() -> int:
    """Return the resident bytes of this process, anonymous ones and those of files."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def _drop_while(stop: threading.Event, n_bytes: int) -> None:
    madvise = ctypes.CDLL(None, use_errno=True).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    while not stop.wait(_EVERY_SECONDS):
        if resident_bytes() <= n_bytes:
            continue
        for line in Path("/proc/self/maps").read_text().splitlines():
            if not line.endswith(".arrow"):
                continue
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            madvise(begin, end - begin, _PAGEOUT)
            if resident_bytes() <= 0.8 * n_bytes:
                break
