"""The file REMOTE in a folder: where it is pushed to, or which pushed generation it is a copy of.

A folder is a *source* or a *replica* of one remote place. A source notes which generations it has
published, so that it does not replace those of others. A replica notes which one it holds. Both
note a new generation before they begin with it, so that an interruption at any point leaves a true
file: the version of the content tells which of the noted generations is there.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import xxhash

from hyrecall.base import disk
from hyrecall.base.file_entry import check_int, check_text
from hyrecall.base.malformed import MALFORMED
from hyrecall.errors import CorruptRemoteError, error

__all__ = [
    "MARK",
    "REPLICA",
    "SOURCE",
    "Mark",
    "Noted",
    "read_mark",
    "read_utc",
    "replica_mark",
    "write_mark",
]

MARK = "REMOTE"
FORMAT = 1
SOURCE, REPLICA = "source", "replica"

_SEAL = re.compile(rb"xxh3_64 ([0-9a-f]{16})\n")
_SEAL_BYTES = len(b"xxh3_64 0123456789abcdef\n")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Noted:
    """One generation of a remote place."""

    url: str
    number: int
    manifest: str
    version: str
    pushed_at: str
    line: str

    def __post_init__(self) -> None:
        """Refuse values that no push can have written."""
        check_text("url", self.url)
        check_int("generation", self.number, 1, 2**63 - 1)
        check_text("manifest", self.manifest, _SHA256)
        check_text("version", self.version)
        check_text("line", self.line)
        read_utc(self.pushed_at)

    @property
    def pushed(self) -> datetime:
        """When the generation was published."""
        return read_utc(self.pushed_at)


@dataclass(frozen=True)
class Mark:
    """The content of REMOTE."""

    role: str
    noted: tuple[Noted, ...]

    def __post_init__(self) -> None:
        """Refuse values that no push or pull can have written."""
        check_text("role", self.role, re.compile(f"{SOURCE}|{REPLICA}"))
        if not self.noted:
            raise ValueError("no generation")

    def knows(self, manifest: str) -> bool:
        """Return whether a generation is among those noted."""
        return any(one.manifest == manifest for one in self.noted)

    def holds(self, version: str) -> Noted | None:
        """Return the oldest noted generation whose content has this version."""
        # Of two generations of a store with one version, a pull that was interrupted may
        # have brought
        # the first only.
        return next((one for one in self.noted if one.version == version), None)

    def with_coming(self, coming: Noted) -> Mark:
        """Return the mark with one more generation, which a push or pull begins with."""
        others = tuple(one for one in self.noted if one.manifest != coming.manifest)
        return replace(self, noted=(*others, coming))

    def settled(self, done: Noted) -> Mark:
        """Return the mark with one generation of its place, which a push or pull ended with."""
        others = tuple(one for one in self.noted if one.url != done.url)
        return replace(self, noted=(*others, done) if self.role == SOURCE else (done,))


def read_mark(folder: Path) -> Mark | None:
    """Read REMOTE of a folder; None: the folder was neither pushed nor pulled."""
    path = folder / MARK
    try:
        text = disk.read_bytes(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    body, seal = text[:-_SEAL_BYTES], _SEAL.fullmatch(text[-_SEAL_BYTES:])
    if seal is None or xxhash.xxh3_64_hexdigest(body).encode() != seal[1]:
        raise error(CorruptRemoteError, str(path), "a body with its checksum", "another body")
    try:
        data: dict[str, Any] = json.loads(body)
        found = data.pop("format")
        if found == FORMAT:
            noted = tuple(Noted(**one) for one in data.pop("noted"))
            return Mark(noted=noted, **data)
    except MALFORMED as fault:
        raise error(CorruptRemoteError, str(path), f"the fields of {MARK}", fault) from fault
    raise error(CorruptRemoteError, str(path), f"format {FORMAT}", f"format {found!r}")


def replica_mark(folder: Path) -> Mark | None:
    """Read REMOTE of a folder if the folder is a replica, else return None."""
    mark = read_mark(folder)
    return mark if mark is not None and mark.role == REPLICA else None


def write_mark(folder: Path, mark: Mark) -> None:
    """Write REMOTE of a folder, durably."""
    text = json.dumps({"format": FORMAT, **asdict(mark)}, separators=(",", ":")) + "\n"
    seal = f"xxh3_64 {xxhash.xxh3_64_hexdigest(text.encode())}\n"
    disk.prepare(folder, MARK, f"{text}{seal}".encode())
    disk.commit(folder, MARK)


def read_utc(text: str) -> datetime:
    """Read an ISO 8601 time in UTC."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"time without a zone {text!r}")
    try:
        return found.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"time outside the years 1 to 9999 {text!r}") from None
