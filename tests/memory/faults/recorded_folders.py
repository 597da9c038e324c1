"""An os module that writes down what changes under a folder, and what a power cut leaves of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.disk_faults import Disk

FATES = Disk.FATES
Operation = tuple[Path, tuple[Any, ...]]  # in which folder, and what


class RecordingFolders:
    """The os module, which remembers what is asked of the files under a folder.

    ``deaf_to`` says which syncs are left out, for the controls: (folder or None, name or None);
    a sync of the names of a folder has no name.
    """

    def __init__(self, top: Path, *, deaf_to: tuple[str | None, str | None] | None = None) -> None:
        self.operations: list[Operation] = []
        self._top = top
        self._deaf_to = deaf_to
        self._open: dict[int, tuple[Path, str | None]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def _place(self, path: Path) -> tuple[Path, str]:
        return path.parent.relative_to(self._top), path.name

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        handle = os.open(path, flags, mode)
        if flags & os.O_DIRECTORY:
            inside = path.is_relative_to(self._top)
            self._open[handle] = (path.relative_to(self._top) if inside else Path("/"), None)
            return handle
        self._open[handle] = self._place(Path(path))
        if flags & os.O_EXCL:
            folder, name = self._place(Path(path))
            self.operations.append((folder, ("create", name)))
        return handle

    def write(self, handle: int, data: memoryview) -> int:
        n_bytes = os.write(handle, data)
        folder, name = self._open[handle]
        self.operations.append((folder, ("write", name, bytes(data[:n_bytes]))))
        return n_bytes

    def fsync(self, handle: int) -> None:
        folder, name = self._open[handle]
        told = None if name is None else name.removesuffix(".tmp")
        if (folder.as_posix(), told) != self._deaf_to:
            verb = ("sync names", "") if name is None else ("sync", name)
            self.operations.append((folder, verb))

    def replace(self, source: Path, target: Path) -> None:
        os.replace(source, target)
        folder, name = self._place(Path(source))
        self.operations.append((folder, ("replace", name, Path(target).name)))

    def unlink(self, path: Path) -> None:
        os.unlink(path)
        folder, name = self._place(Path(path))
        self.operations.append((folder, ("unlink", name)))


def left_by(
    before: Path, operations: list[Operation], fate: str, cuts: Iterator[int]
) -> Iterator[tuple[int, dict[Path, bytes]]]:
    """Return what lies under a folder after so many of the operations and a power cut of a kind.

    Everything that was there before them is synced.
    """
    folders = {path.relative_to(before) for path in before.rglob("*") if path.is_dir()}
    for n_done in cuts:
        disks = {folder: _files_of(before / folder) for folder in {Path(), *folders}}
        for folder, operation in operations[:n_done]:
            if folder in disks:
                disks[folder].apply(operation)
        left = {
            folder / name: content
            for folder, one in disks.items()
            for name, content in one.after(fate).items()
        }
        yield n_done, left


def _files_of(folder: Path) -> Disk:
    files = [path for path in folder.iterdir() if path.is_file()]
    made = Disk()
    for path in files:
        made.apply(("create", path.name))
        made.apply(("write", path.name, path.read_bytes()))
        made.apply(("sync", path.name))
    made.apply(("sync names", ""))
    return made
