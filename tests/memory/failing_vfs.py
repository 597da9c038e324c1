"""SQLite's way to a disk that fails when told to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import apsw


@dataclass
class Faults:
    """Which operation fails, and what happened.

    ``fail_at``: the number of the first operation that fails, from 1; 0: none does. ``for_ever``:
    and all after it. ``halves``: half of a write that fails is on the disk. ``lies``: what fails is
    told of as done.
    """

    verbs: tuple[str, ...] = ("write", "sync", "truncate")
    fail_at: int = 0
    for_ever: bool = False
    halves: bool = False
    lies: bool = False
    kind: type[apsw.Error] = apsw.IOError
    done: list[tuple[str, str]] = field(default_factory=list)
    failed: int = 0

    def meet(self, verb: str, name: str) -> bool:
        """Count an operation; raise if it is the one, or say that it is passed over."""
        if verb not in self.verbs:
            return False
        self.done.append((verb, name.rpartition("/")[2]))
        at = len(self.done)
        if at != self.fail_at and not (self.for_ever and 0 < self.fail_at <= at):
            return False
        self.failed += 1
        if self.lies:
            return True
        fault = self.kind("planted")
        if self.kind is apsw.IOError:
            fault.extendedresult = {
                "write": apsw.SQLITE_IOERR_WRITE,
                "sync": apsw.SQLITE_IOERR_FSYNC,
                "truncate": apsw.SQLITE_IOERR_TRUNCATE,
            }[verb]
        raise fault


class _File(apsw.VFSFile):
    def __init__(self, faults: Faults, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._faults = faults
        self._name = name.filename() if hasattr(name, "filename") else str(name)

    def xWrite(self, data: bytes, offset: int) -> None:
        try:
            is_passed_over = self._faults.meet("write", self._name)
        except apsw.Error:
            if self._faults.halves:
                super().xWrite(data[: len(data) // 2], offset)
            raise
        if not is_passed_over:
            super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        if not self._faults.meet("sync", self._name):
            super().xSync(flags)

    def xTruncate(self, size: int) -> None:
        if not self._faults.meet("truncate", self._name):
            super().xTruncate(size)


class _Vfs(apsw.VFS):
    def __init__(self, name: str, faults: Faults) -> None:
        self._faults = faults
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> _File:
        self._faults.meet("open", name.filename() if hasattr(name, "filename") else str(name))
        return _File(self._faults, name, flags)


@contextmanager
def failing_vfs(faults: Faults) -> Iterator[str]:
    """A VFS of these faults, by its name."""
    name = f"failing-{id(faults)}"
    vfs = _Vfs(name, faults)
    try:
        yield name
    finally:
        vfs.unregister()
