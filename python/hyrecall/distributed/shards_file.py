"""Reads and writes ``shards.json``: the shards of a folder, and the placement of cells.

Replacing this file is the only commit point of a build and of a rebalancing. The format is in
docs/format.md.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import xxhash

from hyrecall.ask.scope import encode_part
from hyrecall.base import disk
from hyrecall.base.arguments import (
    as_int,
    as_items,
    check_keywords,
    check_objects,
    read_path,
    set_fields,
)
from hyrecall.base.disk import check_int, check_text
from hyrecall.base.malformed import MALFORMED
from hyrecall.base.version import __version__
from hyrecall.errors import CorruptIndexError, IndexNotFoundError, OptionError, ScopeError, error
from hyrecall.parts.messages import hash_of
from hyrecall.segments.manifest import MANIFEST, SHARDS, Manifest, read_seal
from hyrecall.segments.opening import OpenOptions, open_index
from hyrecall.segments.parts import UNFINISHED
from hyrecall.segments.segments import IndexFacts, State

# ---- Maps each cell to its shards: a frozen table of slots, and the cells that are split ----

N_SLOTS = 4096
"""Slots of a placement. More slots even out sizes better; fewer make a smaller manifest."""

N_PARTS = 256
"""Parts of a cell that is split over several shards."""

_KINDS = {"large_string": pa.large_string(), "int64": pa.int64(), "bool": pa.bool_()}

Cell = tuple[object, ...]


def slot_of(cell: bytes) -> int:
    """Return the slot of an encoded cell: its XXH3-64 (seed 0) modulo the number of slots."""
    return xxhash.xxh3_64_intdigest(cell) % N_SLOTS


def part_of(cell: bytes, member: bytes) -> int:
    """Return the part of a split cell in which a row lies, by its encoded thread or key."""
    return xxhash.xxh3_64_intdigest(cell + member) % N_PARTS


@check_keywords
@dataclass(frozen=True, init=False)
class Placement:
    """Maps each cell to the shards that hold its documents.

    The hash of a cell gives its slot, and each slot has a shard. A cell with more documents than a
    shard should have is split into 256 parts, each of which has a shard: by the hash of a
    document's thread, or of its key if it has none. So a thread, and each key without a thread,
    lies in one shard. The bytes that are hashed are in docs/format.md.

    Parameters
    ----------
    columns : mapping of str to str, or pairs
        The type of each cell column: "large_string", "int64" or "bool". Empty: a single cell.
    slots : sequence of int
        The shard of each of the 4,096 slots.
    split : mapping of tuple to sequence of int, or pairs, default ()
        For each split cell, the shard of each of its 256 parts.

    Examples
    --------
    >>> placement = Placement({"user": "large_string"}, [slot % 3 for slot in range(4096)])
    >>> placement.shards_of("ann")
    (0,)
    >>> placement.n_shards
    3
    """

    columns: tuple[tuple[str, str], ...]
    slots: tuple[int, ...]
    split: tuple[tuple[Cell, tuple[int, ...]], ...]

    def __init__(
        self,
        columns: Mapping[str, str] | Iterable[tuple[str, str]],
        slots: Sequence[int],
        split: Mapping[Cell, Sequence[int]] | Iterable[tuple[Cell, Sequence[int]]] = (),
    ) -> None:
        """Check the arguments."""
        columns, parts = _mapping("columns", columns), _mapping("split", split)
        for name, kind in columns.items():
            if kind not in _KINDS:
                raise error(OptionError, f"columns[{name!r}]", f"one of {list(_KINDS)}", repr(kind))
        set_fields(
            self,
            columns=tuple(columns.items()),
            slots=_numbers("slots", slots, N_SLOTS),
            split=tuple(
                (cell, _numbers(f"split[{cell!r}]", shards, N_PARTS))
                for cell, shards in parts.items()
            ),
        )
        for cell, _ in self.split:
            self.encode(cell)

    @property
    def n_shards(self) -> int:
        """The number of the highest shard that has a slot or a part, plus 1."""
        return 1 + max((*self.slots, *(one for _, parts in self.split for one in parts)))

    def shards_of(self, cell: object) -> tuple[int, ...]:
        """Return the shards that may hold documents of a cell, ascending.

        Parameters
        ----------
        cell : str or int or bool or None or tuple
            As in a scope: a value, or a tuple of one for each cell column.
        """
        return self.shards_of_bytes(self.encode(cell))

    @check_objects
    def shards_of_bytes(self, cell: bytes) -> tuple[int, ...]:
        """Return the shards of an encoded cell, ascending."""
        parts = self.parts.get(cell)
        return (self.slots[slot_of(cell)],) if parts is None else tuple(sorted(set(parts)))

    def encode(self, cell: object) -> bytes:
        """Return the bytes of a cell, which has a value for each cell column."""
        values = cell if isinstance(cell, tuple) else (cell,)
        if len(values) != len(self.columns):
            wish = f"a value for each of ({', '.join(name for name, _ in self.columns)})"
            raise error(ScopeError, "cell", wish, repr(cell))
        return encode_cell(values, self.columns)

    @cached_property
    def parts(self) -> dict[bytes, tuple[int, ...]]:
        """The shards of the parts of each split cell, by its bytes."""
        return {self.encode(cell): shards for cell, shards in self.split}

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        split = [{"cell": list(cell), "parts": list(parts)} for cell, parts in self.split]
        return {
            "hash": "xxh3_64",
            "columns": [list(one) for one in self.columns],
            "slots": list(self.slots),
            "split": split,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Placement:
        """Make a placement from the result of :meth:`to_dict`."""
        try:
            if data["hash"] != "xxh3_64":
                raise error(OptionError, "hash", "'xxh3_64'", repr(data["hash"]))
            columns = {str(name): str(kind) for name, kind in data["columns"]}
            split = {tuple(one["cell"]): one["parts"] for one in data["split"]}
            return cls(columns, data["slots"], split)
        except MALFORMED as fault:
            if isinstance(fault, OptionError):
                raise
            raise error(OptionError, "data", "the data of a placement", repr(fault)) from fault


def encode_cell(values: Iterable[object], columns: Sequence[tuple[str, str]]) -> bytes:
    """Return the bytes of a cell, as scopes are encoded for the engine."""
    return b"".join(
        encode_part(value, name, _KINDS[kind], "cell")
        for value, (name, kind) in zip(values, columns, strict=True)
    )


def _mapping(argument: str, given: Any) -> dict[Any, Any]:
    try:
        return dict(given)
    except (TypeError, ValueError):
        raise error(OptionError, argument, "a mapping, or its pairs", repr(given)) from None


def _numbers(argument: str, given: object, n: int) -> tuple[int, ...]:
    shards = as_items(given)
    if shards is None or len(shards) != n:
        got = type(given).__name__ if shards is None else f"{len(shards)} entries"
        raise error(OptionError, argument, f"{n} numbers of shards", got)
    made = tuple(as_int(one) for one in shards)
    if any(one is None or one < 0 for one in made):
        raise error(OptionError, argument, "numbers of shards from 0 on", "others")
    return made  # type: ignore[return-value]


# ---- Reads and writes ``shards.json``: the shards of a folder, and the placement of cells ----

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
    name, folder : str
        For example "shard-0003", the same in every generation, and the folder of its saved index,
        beside ``shards.json``. A folder is written once.
    rows, cells, bytes, first_seq, last_seq : int
        The insertion numbers are the lowest and the highest; 0 and -1 without rows.
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
        """Read the ``shards.json`` of a folder.

        Parameters
        ----------
        folder : path-like
            A folder that :func:`build_shards` wrote.

        Raises
        ------
        IndexNotFoundError, CorruptIndexError
            The folder has no ``shards.json``, or a damaged one.
        """
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
    disk.put(folder, SHARDS, shards.to_bytes())


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


# ---- Opens saved indexes of shards, describes them for ``shards.json``, and makes empty ones ----


def opened(folder: Path, threads: int = 1) -> tuple[IndexFacts, State]:
    """Open the saved index of a shard, mapped; analyzers of shards have no callables."""
    facts, state, _ = open_index(folder, OpenOptions(verify="structure", threads=threads))
    return facts, state


def cells_of(facts: IndexFacts, state: State) -> list[bytes]:
    """Return the encoded cells that have live documents."""
    return state.snapshot.matching([None] * len(facts.schema.cell_columns))


def described(folder: Path, number: int) -> tuple[ShardEntry, str]:
    """Return the entry of a saved shard, and the hash of the facts that all shards share."""
    facts, state, seal = open_index(folder, OpenOptions(verify="structure"))
    manifest = Manifest.from_bytes(disk.read_bytes(folder / MANIFEST), folder / MANIFEST)
    seqs: list[np.ndarray] = [one.core.seqs for one in state.segments if one.rows.num_rows]
    entry = ShardEntry(
        name=f"shard-{number:04d}",
        folder=folder.name,
        rows=state.n_docs,
        cells=len(cells_of(facts, state)) if state.n_docs else 0,
        bytes=manifest.n_bytes,
        first_seq=min((int(one.min()) for one in seqs), default=0),
        last_seq=max((int(one.max()) for one in seqs), default=-1),
        manifest=seal,
    )
    return entry, hash_of(facts)


# ---- Opens a folder of shards: reads ``shards.json`` and checks the saved indexes against it ----


class PlacedShards(NamedTuple):
    """A generation of the shards of a folder."""

    folder: Path
    shards: Shards

    @classmethod
    def read(cls, folder: Path) -> PlacedShards:
        """Read ``shards.json``, and check that each saved index is the one that it names."""
        while True:
            placed = cls(folder, Shards.read(folder))
            try:
                check_seals(folder, placed.shards)
            except CorruptIndexError:
                if placed.is_current:  # otherwise a rebalancing removed this generation meanwhile
                    raise
            else:
                return placed

    @property
    def is_current(self) -> bool:
        """Whether the folder still has this generation; one that is built anew has another."""
        return Shards.read(self.folder) == self.shards

    @property
    def folders(self) -> list[Path]:
        """The saved indexes, in the order of the placement's numbers."""
        return [self.folder / one.folder for one in self.shards.shards]

    def check(self, opened: Sequence[tuple[IndexFacts, State]], *, cells: bool = False) -> None:
        """Check that indexes match ``shards.json``, and if asked, the place of each cell."""
        path = str(self.folder / SHARDS)
        placement = self.shards.placement
        for number, (entry, (facts, state)) in enumerate(
            zip(self.shards.shards, opened, strict=True)
        ):
            kinds = tuple((name, str(kind)) for name, kind in facts.cell_types.items())
            if hash_of(facts) != self.shards.index or kinds != placement.columns:
                wish = f"the schema, analyzers and types of {entry.folder}"
                raise error(CorruptIndexError, path, wish, "others")
            if state.n_docs != entry.rows:
                got = f"{entry.rows}"
                raise error(CorruptIndexError, path, f"{state.n_docs} rows in {entry.name}", got)
            for cell in cells_of(facts, state) if cells and state.n_docs else ():
                if number not in placement.shards_of_bytes(cell):
                    wish = f"a placement that puts each cell of {entry.folder} there"
                    got = f"one that puts a cell into {placement.shards_of_bytes(cell)}"
                    raise error(CorruptIndexError, path, wish, got)


def verify_shards(folder: Path) -> Shards:
    """Check every block of the saved indexes of a folder, and the place of every cell."""
    placed = PlacedShards.read(folder)
    opened = []
    for path in placed.folders:
        facts, state, _ = open_index(path, OpenOptions(verify="full"))
        opened.append((facts, state))
    placed.check(opened, cells=True)
    return placed.shards


# ---- Finds the saved indexes that paths name: an index, shards of one, or a folder of shards ----


class SavedFolders(NamedTuple):
    """Saved indexes."""

    folders: list[Path]
    placed: PlacedShards | None
    is_index: bool

    @property
    def seals(self) -> tuple[str, ...]:
        """The seal of each saved version: the one to open, or else the one that is there now."""
        if self.placed is not None:
            return tuple(one.manifest for one in self.placed.shards.shards)
        try:
            return tuple(read_seal(one / MANIFEST) for one in self.folders)
        except (FileNotFoundError, NotADirectoryError) as fault:
            wish = "the folder of a saved index"
            raise error(IndexNotFoundError, str(fault.filename), wish, "none") from None


def read_folders(argument: str, value: object) -> tuple[Path, ...]:
    """Return the paths of an argument, which is a path or a sequence of paths."""
    if isinstance(value, str | Path):
        return (read_path(value),)
    named = as_items(value)
    if not named:
        wish = "a sequence of at least one path, or a path"
        raise error(OptionError, argument, wish, repr(value))
    return tuple(read_path(one) for one in named)


def find_folders(paths: Sequence[Path]) -> SavedFolders:
    """Return the saved indexes of paths."""
    # Several paths are the folders of the shards of one index. A single path is a saved index, a
    # folder with ``shards.json``, or a folder whose sub-folders are the shards, sorted by name.
    folder = paths[0]
    if len(paths) > 1:
        _check_whole(paths)
    if len(paths) > 1 or (folder / MANIFEST).exists():
        return SavedFolders(list(paths), None, len(paths) == 1)
    if (folder / SHARDS).exists() or (folder / WORK).exists():  # even if the build is unfinished
        placed = PlacedShards.read(folder)
        return SavedFolders(placed.folders, placed, is_index=False)
    wish = f"the folder of a saved index, one with such folders, or one with {SHARDS}"
    begun = set(folder.glob(f"*{UNFINISHED}"))
    found = sorted({one.parent for one in folder.glob(f"*/{MANIFEST}")} - begun)
    left = {one.with_suffix("") for one in begun}.difference(found)
    if left:  # the finished shards are not all shards of the index
        raise error(IndexNotFoundError, "path", wish, f"an unfinished build of {min(left)}")
    if not found:
        raise error(IndexNotFoundError, "path", wish, f"none in {folder}")
    return SavedFolders(found, None, is_index=False)


def _check_whole(paths: Sequence[Path]) -> None:
    """Refuse some shards of a folder without the others: replies would lack their rows."""
    absolute = {path.absolute() for path in paths}
    for parent in sorted({path.parent for path in absolute}):
        if not (parent / SHARDS).is_file():
            continue
        shards = {parent / entry.folder for entry in Shards.read(parent).shards}
        n = len(shards & absolute)
        if 0 < n < len(shards):
            wish, remedy = f"all {len(shards)} shards of {parent}", "open the folder of the shards"
            raise error(OptionError, "paths", wish, f"{n} of them", remedy)
