"""One file of a saved index as its MANIFEST lists it: name, size and checksums."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["FILE_NAME", "FileEntry", "check_int", "check_text"]

FILE_NAME = re.compile(r"[0-9a-f]{16}-[a-z]+(-[0-9a-f]{1,16})?\.arrow")
"""The only names a MANIFEST may hold: none of them leaves the folder."""

CHECKSUM = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class FileEntry:
    """One file: its name, its size in bytes, and the xxh3_64 of each of its 4 MiB blocks."""

    name: str
    size: int
    blocks: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse values that a save cannot have written."""
        check_text("file name", self.name, FILE_NAME)
        check_int(f"size of {self.name}", self.size, 1, 2**63 - 1)
        for block in self.blocks:
            check_text(f"checksum of {self.name}", block, CHECKSUM)


def check_int(what: str, value: object, low: int, high: int) -> None:
    """Raise ValueError unless a value is an int in [low, high]."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{what} {value!r}")


def check_text(what: str, value: object, pattern: re.Pattern[str] | None = None) -> None:
    """Raise ValueError unless a value is a string that matches the pattern."""
    if not isinstance(value, str) or (pattern is not None and not pattern.fullmatch(value)):
        raise ValueError(f"{what} {value!r}")
