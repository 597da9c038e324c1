"""SQLite's way to a disk that writes down what it is asked, and what a power cut leaves of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

SECTOR = 512

FATES = ("what was not synced is lost", "some of it is there", "some sectors of it are there")


@dataclass
class Recording:
    """The operations in their order: (verb, file, ...), and what was told of between them.

    ``deaf_to``: the end of a file's name whose syncs are not done, for the control.
    """

    operations: list[tuple[Any, ...]] = field(default_factory=list)
    deaf_to: str | None = None

    def tell(self) -> None:
        """Note that the caller was told of a commit."""
        self.operations.append(("told", ""))

    def cuts(self) -> Iterator[tuple[list[tuple[Any, ...]], int]]:
        """Return every beginning of the operations, and how often was told in it."""
        told = 0
        for at, operation in enumerate(self.operations):
            told += operation[0] == "told"
            yield self.operations[: at + 1], told


@dataclass
class _Left:
    """A file: what of it is safe, and what was asked since its last sync."""

    content: bytearray = field(default_factory=bytearray)
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    def take(self, operation: tuple[Any, ...], *, sectors: random.Random | None = None) -> None:
        """Let an operation reach the disk; some sectors of it, if a choice is given."""
        verb, _, *rest = operation
        if verb == "truncate":
            (size,) = rest
            self.content = self.content[:size].ljust(size, b"\0")
            return
        data, offset = rest
        self.content.extend(bytes(max(0, offset + len(data) - len(self.content))))
        for at in range(0, len(data), SECTOR):
            if sectors is None or sectors.random() < 0.5:
                part = data[at : at + SECTOR]
                self.content[offset + at : offset + at + len(part)] = part


def left_by(operations: list[tuple[Any, ...]], fate: str, draw: random.Random) -> dict[str, bytes]:
    """Return the files after a power cut that came when these operations were asked."""
    files: dict[str, _Left] = {}
    for operation in operations:
        verb, name, *_ = operation
        if verb == "told":
            continue
        if verb == "delete":
            files.pop(name, None)
            continue
        file = files.setdefault(name, _Left())
        if verb == "sync":
            for one in file.asked:
                file.take(one)
            file.asked.clear()
        else:
            file.asked.append(operation)
    for file in files.values():
        for one in file.asked:
            if fate == FATES[1] and draw.random() < 0.5:
                file.take(one)
            elif fate == FATES[2]:
                file.take(one, sectors=draw)
    return {name: bytes(file.content) for name, file in files.items()}


class _File(apsw.VFSFile):
    def __init__(self, recording: Recording, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        path = name.filename() if hasattr(name, "filename") else str(name)
        self._name = Path(path).name
        self._recording = recording

    def xWrite(self, data: bytes, offset: int) -> None:
        self._recording.operations.append(("write", self._name, bytes(data), offset))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        self._recording.operations.append(("truncate", self._name, size))
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        deaf_to = self._recording.deaf_to
        if deaf_to is None or not self._name.endswith(deaf_to):
            self._recording.operations.append(("sync", self._name))
        super().xSync(flags)


class _Vfs(apsw.VFS):
    def __init__(self, name: str, recording: Recording) -> None:
        self._recording = recording
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> _File:
        return _File(self._recording, name, flags)

    def xDelete(self, name: str, sync_folder: bool) -> None:
        self._recording.operations.append(("delete", Path(name).name))
        super().xDelete(name, sync_folder)


@contextmanager
def recording_vfs(recording: Recording) -> Iterator[str]:
    """A VFS that records, by its name."""
    name = f"recording-{id(recording)}"
    vfs = _Vfs(name, recording)
    try:
        yield name
    finally:
        vfs.unregister()
