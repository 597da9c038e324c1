"""Reads and writes ``shards.json``: the shards of a folder, and the placement of cells.

Replacing this file is the only commit point of a build and of a rebalancing. The format is in
docs/format.md.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import xxhash

from hyrecall.base import disk
from hyrecall.base.arguments import read_path
from hyrecall.base.file_entry import check_int, check_text
from hyrecall.base.keywords import check_keywords
from hyrecall.base.malformed import MALFORMED
from hyrecall.base.version import __version__
from hyrecall.distributed.placement import Placement
from hyrecall.errors import CorruptIndexError, IndexNotFoundError, error
from hyrecall.segments.manifest import MANIFEST, SHARDS, read_seal

__all__ = [
    "GENERATOR",
    "SHARDS",
    "WORK",
    "ShardEntry",
    "Shards",
    "check_seals",
    "folder_name",
    "remove_unused",
    "write_shards",
]

WORK = "building"
"""The folder beside ``shards.json`` that holds the unfinished work of a build."""

GENERATOR = f"hyrecall {__version__}"

FORMAT = 1
"""Increased by each change of the file; a reader refuses another one."""

_FOLDER = re.compile(r"shard-\d{4,9}-\d{1,18}")
_UNFINISHED = re.compile(rf"{_FOLDER.pattern}\.unfinished")
_NAME = re.compile(r"shard-\d{4,9}")
_SEAL = re.compile(r"[0-9a-f]{16}")
_HASH = re.compile(r"[0-9a-f]{32}")
_MOST = 2**63 - 1


def folder_name(number: int, generation: int) -> str:
    """Return the name of a shard's folder that was written for a generation."""
    return f"shard-{number:04d}-{generation}"


@check_keywords
@dataclass(frozen=True)
class ShardEntry:
    """One shard.

    Attributes
    ----------
    name : str
        For example "shard-0003"; the same in every generation.
    folder : str
        The folder of the saved index, beside ``shards.json``. A folder is written once.
    rows, cells, bytes : int
    first_seq, last_seq : int
        The lowest and highest insertion number; 0 and -1 without rows. Numbers of other shards may
        lie between them.
    manifest : str
        The seal of the saved index: the checksum in the last line of its MANIFEST.
    """

    name: str
    folder: str
    rows: int
    cells: int
    bytes: int
    first_seq: int
    last_seq: int
    manifest: str

    def __post_init__(self) -> None:
        """Refuse values that a build cannot have written."""
        check_text("name", self.name, _NAME)
        check_text("folder", self.folder, _FOLDER)
        check_text("manifest", self.manifest, _SEAL)
        for name in ("rows", "cells", "bytes", "first_seq"):
            check_int(name, getattr(self, name), 0, _MOST)
        check_int("last_seq", self.last_seq, self.first_seq - 1, _MOST)


@check_keywords
@dataclass(frozen=True)
class Shards:
    """One generation of the shards of a folder, the content of ``shards.json``.

    Attributes
    ----------
    generation : int
        1 after the build; each rebalancing adds 1.
    index : str
        The hash of the facts that all shards share: schema, analyzers, BM25, dimensions, types.
    asked : str
        The hash of the build's arguments: source files, schema and options.
    placement : Placement
    shards : tuple of ShardEntry
        In the order of the placement's numbers.
    generator : str
        The program that wrote it.
    """

    generation: int
    index: str
    asked: str
    placement: Placement
    shards: tuple[ShardEntry, ...]
    generator: str = GENERATOR

    def __post_init__(self) -> None:
        """Refuse values that a build cannot have written."""
        check_int("generation", self.generation, 1, _MOST)
        check_text("index", self.index, _HASH)
        check_text("asked", self.asked, _HASH)
        check_text("generator", self.generator)
        wanted = [f"shard-{number:04d}" for number in range(len(self.shards))]
        if not wanted or [one.name for one in self.shards] != wanted:
            raise ValueError(f"the shards {[one.name for one in self.shards]}")
        if len({one.folder for one in self.shards}) < len(self.shards):
            raise ValueError("a folder of two shards")
        if self.placement.n_shards > len(self.shards):
            raise ValueError(f"{self.placement.n_shards} shards in the placement")

    @property
    def rows(self) -> int:
        """The number of documents in all shards."""
        return sum(one.rows for one in self.shards)

    def to_bytes(self) -> bytes:
        """Return the content of the file: JSON, with a checksum of the other fields."""
        data = {
            "format": FORMAT, "generator": self.generator, "generation": self.generation,
            "index": self.index, "asked": self.asked, "placement": self.placement.to_dict(),
            "shards": [asdict(one) for one in self.shards],
        }  # fmt: skip
        return _text({**data, "xxh3_64": _checksum(data)}).encode()

    @classmethod
    def from_bytes(cls, content: bytes, path: Path) -> Shards:
        """Read the content of a file; ``path`` is for messages."""
        try:
            data = json.loads(content)
            found, told = data.pop("xxh3_64"), data.get("format")
            if type(told) is not int or told != FORMAT:
                got = f"format {told} (written by {data.get('generator', 'an unknown program')})"
                wish = f"format {FORMAT}, which this version of hyrecall reads"
                raise error(CorruptIndexError, str(path), wish, got)
            if found != _checksum(data):
                wish = "the checksum of its content"
                raise error(CorruptIndexError, str(path), wish, repr(found))
            shards = tuple(ShardEntry(**one) for one in data["shards"])
            placement = Placement.from_dict(data["placement"])
            hashes = data["index"], data["asked"]
            return cls(data["generation"], *hashes, placement, shards, data["generator"])
        except CorruptIndexError:
            raise
        except MALFORMED as fault:
            wish = "the fields of shards.json"
            raise error(CorruptIndexError, str(path), wish, fault) from fault

    @classmethod
    def read(cls, folder: str | Path) -> Shards:
        """Read the ``shards.json`` of a folder."""
        folder = read_path(folder)
        path = folder / SHARDS
        try:
            return cls.from_bytes(disk.read_bytes(path), path)
        except (FileNotFoundError, NotADirectoryError):
            got, remedy = f"none in {folder}", ""
            if (folder / WORK).exists():
                got = f"an unfinished build in {folder}"
                remedy = "finish it: build_shards(..., resume=True)"
            wish = f"a folder of shards, with {SHARDS}"
            raise error(IndexNotFoundError, "path", wish, got, remedy) from None


def write_shards(folder: Path, shards: Shards) -> None:
    """Write ``shards.json``: a temporary file, synced, then renamed."""
    disk.prepare(folder, SHARDS, shards.to_bytes())
    disk.commit(folder, SHARDS)


def check_seals(folder: Path, shards: Shards) -> None:
    """Check that each saved index is the version that was built."""
    for one in shards.shards:
        path = folder / one.folder / MANIFEST
        wish = f"the version {one.manifest} that {SHARDS} names"
        try:
            found = read_seal(path)
        except (FileNotFoundError, NotADirectoryError):
            found = "no such file"
        except IsADirectoryError:
            found = "a folder"
        if found != one.manifest:
            raise error(CorruptIndexError, str(path), wish, found)


def remove_unused(folder: Path, used: Sequence[ShardEntry]) -> None:
    """Remove the folders of earlier generations and of unfinished work."""
    # Files that a reader has opened stay readable for it.
    kept = {one.folder for one in used}
    for path in list(folder.iterdir()):
        is_old = _FOLDER.fullmatch(path.name) is not None and path.name not in kept
        if is_old:
            # Renamed first: a process of this shard sees that its folder is gone, never half of it.
            path = path.rename(path.with_name(f"{path.name}.unfinished"))  # noqa: PLW2901
        if is_old or _UNFINISHED.fullmatch(path.name) or path.name == WORK:
            shutil.rmtree(path, ignore_errors=True)


def _text(data: Mapping[str, Any]) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":")) + "\n"


def _checksum(data: Mapping[str, Any]) -> str:
    return xxhash.xxh3_64_hexdigest(_text(data).encode())
