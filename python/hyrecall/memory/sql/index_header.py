"""Reads and writes the HEADER of a saved index: the store and the change that it is of.

It is written last, after index and graph are saved. A crash before that leaves a HEADER that does
not fit their manifests, and such a snapshot is not used.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import xxhash

from hyrecall.base import disk
from hyrecall.base.malformed import MALFORMED
from hyrecall.segments.manifest import MANIFEST

__all__ = [
    "HEADER",
    "INDEX",
    "PARTS",
    "Header",
    "StaleError",
    "read_header",
    "read_sealed",
    "write_header",
]

INDEX = "index"
"""The folder of a snapshot, in that of the store."""

HEADER = "HEADER"
PARTS = ("nodes", "edges")
"""The folders of a snapshot."""

FORMAT = 1
_SEAL = re.compile(rb"xxh3_64 ([0-9a-f]{16})\n")
_SEAL_BYTES = len(b"xxh3_64 0123456789abcdef\n")


class StaleError(Exception):
    """A snapshot that cannot be used, and why. Raised inside the package only."""


@dataclass(frozen=True)
class Header:
    """The store, change, layout and model that a snapshot is of."""

    store_id: str
    sequence: int
    erasures: int
    layout: str
    model: str | None
    dim: int

    def reason_against(self, now: Header) -> str | None:
        """Return why the snapshot does not fit a store in this state, or None."""
        if self.store_id != now.store_id:
            return "of another store"
        if (self.layout, self.model, self.dim) != (now.layout, now.model, now.dim):
            return "of another layout or model"
        if self.sequence > now.sequence:
            return f"of a later state ({self.sequence}) than the store's ({now.sequence})"
        if self.erasures != now.erasures:
            return "from before an erasure"
        return None


def write_header(folder: Path, header: Header) -> None:
    """Write the header of the two indexes in a folder, durably."""
    body = {"format": FORMAT, **asdict(header), "manifests": _manifests(folder)}
    text = json.dumps(body, separators=(",", ":")) + "\n"
    seal = f"xxh3_64 {xxhash.xxh3_64_hexdigest(text.encode())}\n"
    disk.prepare(folder, HEADER, f"{text}{seal}".encode())
    disk.commit(folder, HEADER)


def read_header(folder: Path) -> Header:
    """Read the header of the two indexes in a folder, and compare it with their manifests."""
    header, manifests = _read(folder)
    if manifests != _manifests(folder):
        raise StaleError("HEADER is of other manifests")
    return header


def read_sealed(folder: Path) -> Header:
    """Read the header alone, without comparing manifests."""
    return _read(folder)[0]


def _read(folder: Path) -> tuple[Header, object]:
    try:
        text = disk.read_bytes(folder / HEADER)
    except FileNotFoundError:
        raise StaleError("none there") from None
    except OSError as fault:
        raise StaleError(f"HEADER cannot be read ({fault.strerror or fault})") from None
    body, seal = text[:-_SEAL_BYTES], _SEAL.fullmatch(text[-_SEAL_BYTES:])
    if seal is None or xxhash.xxh3_64_hexdigest(body).encode() != seal[1]:
        raise StaleError("HEADER is damaged")
    try:
        fields = json.loads(body)
        found = fields.pop("format")
        if found != FORMAT:
            raise StaleError(f"HEADER is of format {found}")
        manifests = fields.pop("manifests")
        return Header(**fields), manifests
    except MALFORMED as fault:
        raise StaleError(f"HEADER has other fields ({fault})") from None


def _manifests(folder: Path) -> dict[str, str | None]:
    return {part: _hash_of(folder / part / MANIFEST) for part in PARTS}


def _hash_of(path: Path) -> str | None:
    try:
        return xxhash.xxh3_64_hexdigest(disk.read_bytes(path))
    except OSError:
        return None
