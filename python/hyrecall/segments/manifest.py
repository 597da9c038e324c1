"""The MANIFEST of a saved index: its settings, and its files with the checksums of their blocks.

Converts a manifest to its text form and back, without disk access. The format is in docs/format.md.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import xxhash

from hyrecall.base import disk
from hyrecall.base.disk import FileEnd, FileEntry, check_int, check_text
from hyrecall.base.malformed import MALFORMED
from hyrecall.errors import CorruptIndexError, SaveConflictError, error
from hyrecall.table.columns import MOST_ROWS

MANIFEST = "MANIFEST"

SHARDS = "shards.json"
"""The file of a folder that has no MANIFEST of its own, but shards of an index."""

FORMAT = 2
"""Increased by each change of the files; a reader refuses another one."""

_MOST_DIM = 2**31 - 1
_MOST_SEQ = 2**63 - 1
_SEGMENT_NAME = re.compile(r"[0-9a-f]{16}")
_SEAL = re.compile(rb"xxh3_64 ([0-9a-f]{16})\n")
_SEAL_BYTES = len(b"xxh3_64 0123456789abcdef\n")


@dataclass(frozen=True)
class SegmentEntry:
    """One segment of a saved index."""

    name: str
    n_rows: int
    n_dead: int
    files: Mapping[str, FileEntry]

    def __post_init__(self) -> None:
        check_text("segment", self.name, _SEGMENT_NAME)
        check_int(f"n_rows of {self.name}", self.n_rows, 0, MOST_ROWS)
        check_int(f"n_dead of {self.name}", self.n_dead, 0, self.n_rows)


@dataclass(frozen=True)
class TextFacts:
    """The analyzer and the BM25 constants of a lexical arm."""

    analyzer: Mapping[str, Any]
    analyzer_hash: str
    bm25: Mapping[str, Any]
    in_schema: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse values that a save cannot have written; opening checks the mappings' content."""
        if not isinstance(self.analyzer, dict) or not isinstance(self.bm25, dict):
            raise TypeError("text without analyzer and bm25")
        check_text("analyzer_hash", self.analyzer_hash)
        if not {*self.in_schema} <= {"analyzer", "bm25"}:
            raise ValueError(f"in_schema {self.in_schema!r}")


@dataclass(frozen=True)
class Manifest:
    """One version of a saved index."""

    generator: str
    version: int
    next_seq: int
    schema: Mapping[str, Any]
    texts: Mapping[str, TextFacts]
    dims: Mapping[str, int]
    segments: tuple[SegmentEntry, ...]
    folder: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_text("generator", self.generator)
        check_int("version", self.version, 1, 2**63 - 1)
        check_int("next_seq", self.next_seq, 0, _MOST_SEQ)
        if not isinstance(self.schema, dict):
            raise TypeError("schema that is not a mapping")
        if not isinstance(self.folder, dict | None):
            raise TypeError("folder that is not a mapping")
        for arm, dim in self.dims.items():
            check_int(f"dim of {arm!r}", dim, 0, _MOST_DIM)  # 0: sparse
        if not self.segments:
            raise ValueError("no segment")
        names = [segment.name for segment in self.segments]
        names += [file.name for segment in self.segments for file in segment.files.values()]
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise ValueError(f"{twice} listed twice")

    @property
    def files(self) -> dict[str, FileEntry]:
        """All files by name."""
        return {f.name: f for segment in self.segments for f in segment.files.values()}

    @property
    def n_bytes(self) -> int:
        """Size of all files in bytes."""
        return sum(file.size for file in self.files.values())

    def to_bytes(self) -> bytes:
        """Return the text form: a line of JSON and a line with its checksum."""
        data = asdict(self)
        if self.folder is None:
            del data["folder"]
        for file in (file for one in data["segments"] for file in one["files"].values()):
            ends = [[end["size"], end["checksum"]] for end in file.pop("ends")]
            file.update({"ends": ends} if ends else {})
        text = json.dumps({"format": FORMAT, **data}, separators=(",", ":")) + "\n"
        return disk.sealed(text.encode())

    @classmethod
    def from_bytes(cls, text: bytes, path: Path) -> Manifest:
        """Make a manifest from its text form; ``path`` is for messages."""
        body, seal = text[:-_SEAL_BYTES], seal_of(text, path)
        if xxhash.xxh3_64_hexdigest(body) != seal:
            raise error(CorruptIndexError, str(path), "a body with its checksum", "another body")
        try:
            data = json.loads(body)
            found = data.pop("format")
            if type(found) is int and found == FORMAT:
                return cls._from_data(data)
        except MALFORMED as fault:
            raise error(CorruptIndexError, str(path), "the fields of a MANIFEST", fault) from fault
        got = f"format {found} (written by {data.get('generator', 'an unknown program')})"
        wish = f"format {FORMAT}, which this version of hyrecall reads"
        raise error(CorruptIndexError, str(path), wish, got)

    @classmethod
    def _from_data(cls, data: dict[str, Any]) -> Manifest:
        texts = {
            arm: TextFacts(**{**facts, "in_schema": tuple(facts["in_schema"])})
            for arm, facts in data.pop("texts").items()
        }
        segments = tuple(_segment(segment) for segment in data.pop("segments"))
        made = cls(texts=texts, segments=segments, **data)
        # JSON can contain lone surrogates, which are not valid text: encoding them fails.
        json.dumps([made.schema, [*texts], made.dims, made.folder], ensure_ascii=False).encode()
        return made


def seal_of(text: bytes, path: Path) -> str:
    """Return the seal of a version: the checksum in the last line of its MANIFEST."""
    found = _SEAL.fullmatch(text[-_SEAL_BYTES:])
    if found is None:
        raise error(CorruptIndexError, str(path), "a last line with its checksum", "none")
    return found[1].decode()


def read_seal(path: Path) -> str:
    """Return the seal of a MANIFEST file; reads only its last line."""
    with open(disk.open_to_read(path), "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _SEAL_BYTES))
        return seal_of(file.read(), path)


def _segment(data: dict[str, Any]) -> SegmentEntry:
    files = {role: _file(file) for role, file in data.pop("files").items()}
    return SegmentEntry(files=files, **data)


def _file(data: Mapping[str, Any]) -> FileEntry:
    ends = tuple(FileEnd(*end) for end in data.get("ends", ()))
    return FileEntry(**{**data, "blocks": tuple(data["blocks"]), "ends": ends})


# ---- Records the saved versions that an index contains: its next save may replace only these ----
# A version is identified by the seal of its MANIFEST, the checksum in the last line. Segments have
# random names and saves are counted, so versions of different content have different seals.


class Lineage:
    """The versions that an index was last opened from or saved as, by folder."""

    def __init__(self) -> None:
        self.home: Path | None = None
        self._seals: dict[Path, set[str]] = {}

    @property
    def seals(self) -> tuple[str, ...]:
        """Return the seals that the home folder may have; () without a home folder."""
        return () if self.home is None else tuple(sorted(self._seals[self.home]))

    def holds(self, seal: str) -> bool:
        """Return whether the index contains a version, in any folder."""
        return any(seal in seals for seals in self._seals.values())

    def check(self, folder: Path, seal: str, version: int) -> None:
        """Refuse to replace a version that may have documents which this index does not contain."""
        if self.holds(seal):
            return
        known = self._seals.get(folder.absolute())
        if known is None:
            wish = "a folder without an index, or the one this index was opened from or saved to"
            got = f"version {version} of another index in {folder}"
            raise error(
                SaveConflictError, "path", wish, got, "replace it: index.save(path, overwrite=True)"
            )
        wish = f"the version of {folder} that this index was opened from or last saved to"
        got = f"version {version} of another writer"
        remedy = "load it: index.reload(), or replace it: index.save(path, overwrite=True)"
        raise error(SaveConflictError, "path", wish, got, remedy)

    def expect(self, folder: Path, seal: str) -> None:
        """Add a version that is about to be committed."""
        # A commit whose last sync fails raises an error, but its version may be in place.
        self._seals.setdefault(folder.absolute(), set()).add(seal)

    def settle(self, folder: Path, seal: str) -> None:
        """Record the folder's current version as the only one of that folder, and its home."""
        self.home = folder.absolute()
        self._seals[self.home] = {seal}

    def begin_at(self, folder: Path, seal: str) -> None:
        """Record the version that all documents were just read from, and forget all others."""
        self.home = folder.absolute()
        self._seals = {self.home: {seal}}
