"""A disk that fails when told to, and one that remembers what it was asked, for tests of saves."""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHANGES = ("mkdir", "open", "write", "fsync", "replace", "unlink")


class FailingOs:
    """The os module, whose n-th operation fails (and, with ``for_ever``, all after it).

    Failing for ever is what a killed process looks like: nothing after that point takes place.
    """

    def __init__(self, fail_at: int = 0, *, for_ever: bool = False, code: int = errno.EIO) -> None:
        self.count = 0
        self.failed: str | None = None
        self._fail_at = fail_at
        self._for_ever = for_ever
        self._code = code

    def __getattr__(self, name: str) -> Any:
        function = getattr(os, name)
        return self._guarded(name, function) if name in CHANGES else function

    def _guarded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            self.count += 1
            now = self.count == self._fail_at
            if now or (self._for_ever and 0 < self._fail_at < self.count):
                self.failed = self.failed or name
                if name == "write" and now:  # half of it is on the disk already
                    function(args[0], args[1][: len(args[1]) // 2])
                raise OSError(self._code, os.strerror(self._code))
            return function(*args, **options)

        return call


class ShortWritingOs:
    """The os module, whose writes take at most a few bytes at a time."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, handle: int, data: memoryview) -> int:
        return os.write(handle, data[:37])


@dataclass
class File:
    """What is in a file, and what of it a power cut leaves."""

    content: bytes = b""
    synced: bytes = b""


@dataclass
class Disk:
    """One folder: its names now, and those that a power cut leaves."""

    names: dict[str, File] = field(default_factory=dict)
    synced: dict[str, File] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path) -> "Disk":
        """A folder on which all is synced."""
        files = {file.name: file.read_bytes() for file in folder.iterdir()}
        held = {name: File(content, content) for name, content in files.items()}
        return cls(dict(held), dict(held))

    def apply(self, operation: tuple[Any, ...]) -> None:
        """Do what the recorder saw."""
        verb, name, *rest = operation
        if verb == "create":
            self.names[name] = File()
        elif verb == "write":
            self.names[name].content += rest[0]
        elif verb == "sync":
            self.names[name].synced = self.names[name].content
        elif verb == "sync names":
            self.synced = dict(self.names)
        elif verb == "replace":
            self.names[rest[0]] = self.names.pop(name)
        elif verb == "unlink":
            self.names.pop(name, None)

    def after(self, fate: str) -> dict[str, bytes]:
        """What is found after the process died, or after a power cut of one of three kinds."""
        if fate == "process killed":
            return {name: file.content for name, file in self.names.items()}
        if fate == "unsynced is lost":
            return {name: file.synced for name, file in self.synced.items()}
        files = {**self.synced, **self.names} if fate == "no name is lost" else self.names
        if fate == "names first, data torn":
            return {name: torn(file) for name, file in files.items()}
        return {name: file.synced for name, file in files.items()}

    FATES = ("process killed", "unsynced is lost", "no name is lost", "names first, data torn")


def torn(file: File) -> bytes:
    """Every second sector of what was not synced is on the disk, the others are zero."""
    new = bytearray(file.content)
    for at in range(len(file.synced), len(new), 1024):
        new[at : at + 512] = bytes(len(new[at : at + 512]))
    return bytes(new)


class RecordingOs:
    """The os module, which writes down what a save changes in its folder.

    ``forget`` names kinds of sync that are left out, for the control.
    """

    def __init__(self, *, forget: str = "") -> None:
        self.operations: list[tuple[Any, ...]] = []
        self._forget = forget
        self._open: dict[int, str | None] = {}  # None: a folder

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        handle = os.open(path, flags, mode)
        self._open[handle] = None if flags & os.O_DIRECTORY else Path(path).name
        if flags & os.O_EXCL:
            self.operations.append(("create", Path(path).name))
        return handle

    def write(self, handle: int, data: memoryview) -> int:
        n_bytes = os.write(handle, data)
        self.operations.append(("write", self._open[handle], bytes(data[:n_bytes])))
        return n_bytes

    def fsync(self, handle: int) -> None:
        name = self._open[handle]
        kind = "names" if name is None else "manifest" if "MANIFEST" in name else "data"
        if kind != self._forget:
            self.operations.append(("sync names", "") if name is None else ("sync", name))

    def replace(self, source: Path, target: Path) -> None:
        os.replace(source, target)
        self.operations.append(("replace", source.name, target.name))

    def unlink(self, path: Path) -> None:
        os.unlink(path)
        self.operations.append(("unlink", Path(path).name))
