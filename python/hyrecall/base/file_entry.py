"""One file of a saved index as its MANIFEST lists it: name, size and checksums."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["FILE_NAME", "FileEnd", "FileEntry", "check_int", "check_text"]

FILE_NAME = re.compile(r"[0-9a-f]{16}-[a-z]+(-[0-9a-f]{1,16})?\.arrow")
"""The only names a MANIFEST may hold: none of them leaves the folder."""

CHECKSUM = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class FileEnd:
    """The first bytes of a file, or the last: how many, and their xxh3_64."""

    size: int
    checksum: str


@dataclass(frozen=True)
class FileEntry:
    """One file: its name, its size in bytes, and checksums."""

    name: str
    size: int
    blocks: tuple[str, ...]
    ends: tuple[FileEnd, ...] = ()

    def __post_init__(self) -> None:
        """Refuse values that a save cannot have written."""
        check_text("file name", self.name, FILE_NAME)
        check_int(f"size of {self.name}", self.size, 1, 2**63 - 1)
        for block in self.blocks:
            check_text(f"checksum of {self.name}", block, CHECKSUM)
        if len(self.ends) not in (0, 2):
            raise ValueError(f"{len(self.ends)} ends of {self.name}")
        for end in self.ends:
            check_int(f"size of an end of {self.name}", end.size, 1, 2**63 - 1)
            check_text(f"checksum of an end of {self.name}", end.checksum, CHECKSUM)


def check_int(what: str, value: object, low: int, high: int) -> None:
    """Raise ValueError unless a value is an int in [low, high]."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{what} {value!r}")


def check_text(what: str, value: object, pattern: re.Pattern[str] | None = None) -> None:
    """Raise ValueError unless a value is a string that matches the pattern."""
    if not isinstance(value, str) or (pattern is not None and not pattern.fullmatch(value)):
        raise ValueError(f"{what} {value!r}")
