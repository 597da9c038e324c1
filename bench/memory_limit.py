"""Keeps a process within a number of bytes of memory, pages of files included.

A memory cgroup does it (version 2 or 1) where one can be made below that of this process: the
kernel counts every page that a process of the group was the first to read, and drops some before it
takes more. Elsewhere a thread looks every few milliseconds at what is resident and drops the pages
of the mapped index files when it is too much: they have to be read again, as after the system has
dropped them. It can be late by what is read in between.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_V2 = Path("/sys/fs/cgroup")
_V1 = Path("/sys/fs/cgroup/memory")
_PAGEOUT = 21  # MADV_PAGEOUT: also drops clean pages of files from the page cache
_EVERY_SECONDS = 0.005


@dataclass(frozen=True)
class Group:
    """A memory cgroup that was made for one process.

    Attributes
    ----------
    folder : Path
    version : int
        1 or 2.
    """

    folder: Path
    version: int

    @property
    def most_bytes(self) -> int | None:
        """The most that was charged to it, pages of files included; None if it does not tell."""
        name = "memory.peak" if self.version == 2 else "memory.max_usage_in_bytes"
        try:
            return int((self.folder / name).read_text())
        except OSError:
            return None


@contextmanager
def group_within(n_bytes: int) -> Iterator[Group | None]:
    """Make a cgroup for one process to run in; yields None where that cannot be done."""
    group = _made(n_bytes)
    try:
        yield group
    finally:
        if group is not None:
            group.folder.rmdir()


def run_in(group: Group | None, command: Sequence[str], folder: Path) -> str:
    """Run a command in a group from its first page on, and return what it printed."""
    if group is not None:  # the shell enters the group, and becomes the command
        enter = 'echo $$ > "$0" && exec "$@"'
        command = ["sh", "-c", enter, str(group.folder / "cgroup.procs"), *command]
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def _made(n_bytes: int) -> Group | None:
    """Make a group below the own one of this process; None where that cannot be done."""
    try:
        lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    except OSError:
        return None
    for number, controllers, own in lines:
        if number == "0":
            parent, version, limit = _V2 / own.lstrip("/"), 2, "memory.max"
            allowed = parent / "cgroup.subtree_control"
            if not (allowed.exists() and "memory" in allowed.read_text().split()):
                continue
        elif "memory" in controllers.split(","):
            parent, version, limit = _V1 / own.lstrip("/"), 1, "memory.limit_in_bytes"
        else:
            continue
        group = Group(parent / f"hyrecall-{os.getpid()}", version)
        try:
            group.folder.mkdir()
        except OSError:
            continue
        try:
            (group.folder / limit).write_text(str(n_bytes))
        except OSError:
            group.folder.rmdir()
            continue
        return group
    return None


@contextmanager
def dropping(n_bytes: int) -> Iterator[None]:
    """Drop pages of mapped index files of this process while it holds more than so many bytes."""
    stop = threading.Event()
    dropper = threading.Thread(target=_drop_while, args=(stop, n_bytes), daemon=True)
    dropper.start()
    try:
        yield
    finally:
        stop.set()
        dropper.join()


def resident_bytes() -> int:
    """Return the resident bytes of this process, anonymous ones and those of files."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def own_bytes() -> int:
    """Return the resident bytes of this process that are not pages of files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))


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


@contextmanager
def peak_of_own() -> Iterator[list[int]]:
    """Watch own memory; the list that it yields has the peak of `own_bytes` at the end."""
    found = [own_bytes()]
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(_EVERY_SECONDS):
            found[0] = max(found[0], own_bytes())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        with contextlib.suppress(GeneratorExit):
            yield found
    finally:
        stop.set()
        watcher.join()
