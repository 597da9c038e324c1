"""Builds the shards of a large table from Parquet files, placed by cell, in steps that resume.

All rows are indexed in parts, as one saved index; then the rows of each shard are merged out of it.
A rebalancing does the second step alone, out of the shards that are there.
"""

from __future__ import annotations

import heapq
import json
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from hyrecall import _core
from hyrecall.ask.scope import encode_part
from hyrecall.base import disk
from hyrecall.base.arguments import as_int, check_keywords, read_path
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.base.runtime import choose_threads
from hyrecall.distributed.shards_file import (
    GENERATOR,
    N_PARTS,
    N_SLOTS,
    WORK,
    PlacedShards,
    Placement,
    ShardEntry,
    Shards,
    described,
    encode_cell,
    folder_name,
    opened,
    part_of,
    remove_unused,
    slot_of,
    write_shards,
)
from hyrecall.distributed.source_files import (
    SourceFile,
    batches_of,
    described_files,
    dims_of,
    nothing_of,
    source_files,
)
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.parts.messages import hash_of
from hyrecall.segments import writer
from hyrecall.segments.manifest import SHARDS, Lineage
from hyrecall.segments.opening import OpenOptions, open_index
from hyrecall.segments.parts import LEAST_MEMORY, PartsBuild, unfinished_folder
from hyrecall.segments.saving import save_index
from hyrecall.segments.segments import IndexFacts, Segment, State, one_array, seqs_of
from hyrecall.segments.writer import merge_order, take_rows
from hyrecall.table.columns import read_rows
from hyrecall.table.schema import Schema
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

MEMORY = 2 * 2**30
"""Bytes that a build or a rebalancing may use, unless ``memory_limit`` is given."""

MOST_SHARDS = 4096
"""One shard for each slot."""


@check_keywords
def build_shards(
    source: str | Path,
    schema: Schema,
    output: str | Path,
    *,
    shards: int | None = None,
    shard_rows: int | None = None,
    memory_limit: int | None = None,
    analyzer: Analyzer | None = None,
    bm25: BM25 | None = None,
    threads: int | None = None,
    resume: bool = False,
    progress: ProgressFunction | None = None,
) -> Shards:
    """Index Parquet files as the shards of one index, which :meth:`ShardedIndex.open` opens.

    Replies equal those of ``Index.build`` of all rows, bit for bit; rows are numbered file by file,
    in the order of the file names. A cell lies in one shard, unless it has more rows than a shard;
    see :class:`Placement`. All rows are first indexed in parts, which are then
    merged into shards by cell.

    Parameters
    ----------
    source : path-like
        A folder, whose ``.parquet`` files are read, or one such file. The columns that the schema
        names must have the same types in all files. Vectors are columns. A folder with JSON lines,
        CSV or folders of tables (such as hive partitions) is refused.
    schema : Schema
        As in :meth:`hyrecall.Index.build`.
    output : path-like
        The folder to write: ``shards.json``, whose writing is the only commit point, and a saved
        index for each shard. During the build it also holds the parts: twice the room.
    shards : int, optional
        Number of shards, up to 4,096.
    shard_rows : int, optional
        Instead of ``shards``: the approximate number of rows of a shard.
    memory_limit : int, optional
        Bytes that the call may use, at least 256 MiB, without pages of mapped files and 40 bytes
        for each row; default: 2 GiB.
    analyzer, bm25
        As in :meth:`hyrecall.Index.build`. An analyzer with a callable is refused.
    threads : int, optional
        Default: all that the machine allows.
    resume : bool, default False
        Continue an earlier call with the same arguments that was interrupted or killed, if there
        was one. If it was complete, nothing is done. Other arguments or changed files are refused.
    progress : callable, optional
        ``progress(done, total)`` in rows. Each row counts twice: when it is indexed and when it is
        written to its shard.

    Returns
    -------
    Shards
        The content of ``shards.json``.

    Raises
    ------
    OptionError
        Files or folders that are not read, or whose types differ; an output folder that is in use
        without ``resume``; an unfinished or complete build with other arguments.
    DTypeError, ShapeError
        A column that the schema cannot take, or a file that is not Parquet.
    KeyConflictError
        A null key, or a duplicate key in a cell.
    WriterBusyError
        Another build or rebalancing of the folder is running.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> import hyrecall as hr
    >>> from hyrecall.distributed import ShardedIndex, build_shards
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> rows = {"id": [1, 2, 3], "user": ["ann", "bob", "ann"], "text": ["tea", "milk", "hot tea"]}
    >>> pq.write_table(pa.table(rows), folder / "rows.parquet")
    >>> schema = hr.Schema(key="id", cell="user", text="text")
    >>> build_shards(folder, schema, folder / "shards", shards=2).rows
    3
    >>> with ShardedIndex.open(folder / "shards") as index:
    ...     index.recall_one(text="tea", scope="ann").keys
    [1, 3]
    """
    if not isinstance(schema, Schema):
        raise error(DTypeError, "schema", "an hr.Schema", type(schema).__name__)
    if not isinstance(resume, bool):
        raise error(DTypeError, "resume", "True or False", repr(resume))
    read_sizes(shards, shard_rows)
    tell, memory = read_progress(progress), read_memory(memory_limit)
    folder = read_path(output)
    files = described_files(source_files(read_path(source)), schema)
    n_shards = read_sizes(shards, shard_rows, sum(one.rows for one in files))
    plan = BuildPlan(files, schema, analyzer, bm25, n_shards, memory, choose_threads(threads))
    plan.check()
    _check_free(folder, resume=resume)
    disk.make_folder(folder)
    with disk.writer_lock(folder):
        _check_free(folder, resume=resume)  # another build may have ended meanwhile
        if (folder / SHARDS).exists():
            made = Shards.read(folder)
            if made.asked != plan.digest:
                raise _others("complete", "", folder)
        else:
            made = _built(folder, plan, tell)
            write_shards(folder, made)
        remove_unused(folder, made.shards)
    return made


def _built(folder: Path, plan: BuildPlan, tell: ProgressFunction | None) -> Shards:
    """Index all rows, and write them by shard; each step does what earlier calls did not."""
    work = folder / WORK
    plan.begin(work)
    whole, twice = work / folder_name(0, 1), 2 * plan.rows  # as one shard

    def told(done: int, _: int) -> None:
        if tell is not None:
            tell(done, twice)

    if not plan.rows:  # the types come from the first source file
        nothing = nothing_of(plan.files[0], plan.schema)
        options = (plan.analyzer, plan.bm25, plan.threads, 0)
        facts, state = writer.build(nothing, plan.schema, None, *options)
        save_index(whole, facts, state, Lineage(), overwrite=True)
    elif not whole.exists():
        build = PartsBuild(
            whole, plan.schema, plan.memory, plan.analyzer, plan.bm25, plan.threads,
            progress=told, dims=dims_of(plan.files, plan.schema), join=False,
        )  # fmt: skip
        build.run(batches_of(plan.files, plan.schema), resume=True)
        for file in plan.files:  # they are not read after this
            file.check_same()
    n_bytes = described(whole, 0)[0].bytes
    move = Move(folder, [opened(whole, plan.threads)], n_bytes, plan.n_shards, plan.memory)
    placement, wanted = move.place(), range(plan.n_shards)
    of_rows = move.shards_of(placement)
    entries = move.write(of_rows, 1, wanted, lambda done, _: told(plan.rows + done, twice))
    return Shards(1, hash_of(move.facts), plan.digest, placement, tuple(entries.values()))


def read_sizes(shards: object, shard_rows: object, n_rows: int = 0) -> int:
    """Return the number of shards that a caller asks for."""
    if (shards is None) == (shard_rows is None):
        got = "none" if shards is None else "both"
        raise error(OptionError, "shards", "shards= or shard_rows=", got)
    name, given = ("shards", shards) if shards is not None else ("shard_rows", shard_rows)
    count = as_int(given)
    most = MOST_SHARDS if name == "shards" else 2**32 - 2
    if count is None or not 1 <= count <= most:
        raise error(OptionError, name, f"an int in [1, {most}]", repr(given))
    if name == "shards":
        return count
    n_shards = max(1, -(-n_rows // count))
    if n_shards > MOST_SHARDS:
        got = f"{count}, which makes {n_shards}"
        raise error(OptionError, name, f"rows that make at most {MOST_SHARDS} shards", got)
    return n_shards


def read_memory(limit: object) -> int:
    """Return the bytes that a call may use."""
    given = MEMORY if limit is None else as_int(limit)
    if given is None or given < LEAST_MEMORY:
        wish = f"an int of at least {LEAST_MEMORY} bytes"
        raise error(OptionError, "memory_limit", wish, repr(limit))
    return given


def _check_free(folder: Path, *, resume: bool) -> None:
    held = [one.name for one in folder.iterdir()] if folder.is_dir() else []
    if not folder.exists() or (folder.is_dir() and not set(held) - {disk.LOCK}):
        return
    ours = SHARDS in held or WORK in held
    if resume and ours:
        return
    what = ("shards" if SHARDS in held else "an unfinished build") if ours else "other files"
    remedy = "pass resume=True" if what == "an unfinished build" else ""
    got = f"{folder}, which holds {what}"
    raise error(OptionError, "output", "a new or an empty folder", got, remedy)


@check_keywords
def rebalance(
    folder: str | Path,
    *,
    shards: int | None = None,
    shard_rows: int | None = None,
    memory_limit: int | None = None,
    threads: int | None = None,
    progress: ProgressFunction | None = None,
) -> Shards:
    """Change the number of shards of a folder, or even out their sizes.

    Cells move, not documents: the rows of a slot, or of a part of a split cell, move to another
    shard together, with their insertion numbers, analyzed texts, and vectors. Only shards that gain
    or lose rows are written, beside the old ones. Then ``shards.json`` is replaced, and the old
    folders are removed. Replies stay the same, bit for bit. If the call is killed at any time, the
    folder holds the old generation or the new one; call it again then.

    Parameters
    ----------
    folder : path-like
        A folder that :func:`build_shards` wrote.
    shards : int, optional
        Number of shards, up to 4,096; the present number evens out their sizes.
    shard_rows : int, optional
        Instead of ``shards``: the approximate number of rows of a shard.
    memory_limit : int, optional
        Bytes that the call may use, without pages of mapped files, at least 256 MiB; default:
        2 GiB. A lower limit makes more segments.
    threads : int, optional
        Default: all that the machine allows.
    progress : callable, optional
        ``progress(done, total)`` in rows of the written shards.

    Returns
    -------
    Shards
        The new generation; the old one if nothing moves.

    Raises
    ------
    OptionError, IndexNotFoundError, CorruptIndexError
        A number out of range; no shards, or damaged ones.
    WriterBusyError
        Another build or rebalancing of the folder is running.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> import hyrecall as hr
    >>> from hyrecall.distributed import build_shards, rebalance
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> rows = {"id": [1, 2, 3], "user": ["ann", "bob", "cyd"], "text": ["tea", "milk", "hot tea"]}
    >>> pq.write_table(pa.table(rows), folder / "rows.parquet")
    >>> schema = hr.Schema(key="id", cell="user", text="text")
    >>> build_shards(folder, schema, folder / "shards", shards=1).generation
    1
    >>> moved = rebalance(folder / "shards", shards=3)
    >>> moved.generation, sorted(one.rows for one in moved.shards)
    (2, [1, 1, 1])
    """
    read_sizes(shards, shard_rows)
    limit, count, tell = read_memory(memory_limit), choose_threads(threads), read_progress(progress)
    path = read_path(folder)
    PlacedShards.read(path)  # first: no lock file is made in a folder without shards
    with disk.writer_lock(path):
        placed = PlacedShards.read(path)
        before = placed.shards
        remove_unused(path, before.shards)
        n_shards = read_sizes(shards, shard_rows, before.rows)
        sources = [opened(one, count) for one in placed.folders]
        placed.check(sources, cells=True)
        n_bytes = sum(one.bytes for one in before.shards)
        move = Move(path, sources, n_bytes, n_shards, limit)
        placement = move.place(before.placement)
        if placement == before.placement and n_shards == len(before.shards):
            return before
        of_rows = move.shards_of(placement)
        wanted = set(range(len(before.shards), n_shards))  # and what gains or loses rows
        for home, own in zip(move.homes, of_rows, strict=True):
            for moved in set(np.unique(own).tolist()) - {home}:
                wanted |= {home, moved}
        kept = {at: one for at, one in enumerate(before.shards) if at not in wanted}
        wanted &= set(range(n_shards))
        entries = kept | move.write(of_rows, before.generation + 1, sorted(wanted), tell)
        made = replace(
            before, generation=before.generation + 1, placement=placement, generator=GENERATOR,
            shards=tuple(entries[at] for at in range(n_shards)),
        )  # fmt: skip
        write_shards(path, made)
        remove_unused(path, made.shards)
    return made


# ---- What a build is asked for; a resumed build compares it ----

ASKED = "asked.json"


@dataclass(frozen=True, eq=False)
class BuildPlan:
    """The arguments of a build."""

    files: Sequence[SourceFile]
    schema: Schema
    analyzer: Analyzer | None
    bm25: BM25 | None
    n_shards: int
    memory: int
    threads: int

    @property
    def rows(self) -> int:
        """Rows of the source."""
        return sum(one.rows for one in self.files)

    def check(self) -> None:
        """Refuse analyzers with callables: who opens a shard has no callable for it."""
        if not isinstance(self.bm25, BM25 | None):
            raise error(DTypeError, "bm25", "an hr.BM25", repr(self.bm25))
        of_arms = (text.analyzer for text in self.schema.text_arms.values())
        for one in (self.analyzer, *of_arms):
            if one is not None and not isinstance(one, Analyzer):
                raise error(DTypeError, "analyzer", "an hr.Analyzer", repr(one))
            if one is not None and one.has_callable:
                raise error(OptionError, "analyzer", "an analyzer without a callable", repr(one))

    def _asked(self) -> dict[str, Any]:
        texts = {
            arm: [_plain(text.analyzer), _plain(text.bm25)]
            for arm, text in self.schema.text_arms.items()
        }
        data = {
            "files": [asdict(one) for one in self.files],
            "schema": self.schema.to_dict(), "texts": texts,
            "analyzer": _plain(self.analyzer), "bm25": _plain(self.bm25),
            "n_shards": self.n_shards,
        }  # fmt: skip
        return dict(json.loads(json.dumps(data)))  # the same types as read from a file

    @property
    def digest(self) -> str:
        """The hash of the arguments, without memory and threads."""
        return xxhash.xxh3_128_hexdigest(json.dumps(self._asked(), sort_keys=True).encode())

    def begin(self, work: Path) -> None:
        """Make the folder of unfinished work; refuse to resume a build with other arguments."""
        asked = self._asked()
        if (work / ASKED).exists():
            found = json.loads(disk.read_bytes(work / ASKED))
            if other := [name for name, value in asked.items() if found.get(name) != value]:
                raise _others("unfinished", f" ({', '.join(other)})", work.parent)
            return
        shutil.rmtree(work, ignore_errors=True)
        disk.make_folder(work)
        disk.put(work, ASKED, json.dumps(asked).encode())


def _others(state: str, which: str, folder: Path) -> OptionError:
    wish = f"the source, schema and options that the {state} build began with"
    remedy = f"remove {folder} and build again, or build into another folder"
    return error(OptionError, "resume", wish, f"others{which}", remedy)


def _plain(option: Analyzer | BM25 | None) -> Any:
    return None if option is None else option.to_dict()


# ---- Writes the rows of open indexes into the shards of a folder ----

_BASE_BYTES = 160 * 2**20
_PEAK_PER_SAVED_BYTE = 3.0  # the rows of a segment during a merge, and the memory of sorting
_COUNTED_ROWS = 1_000_000

Shard = npt.NDArray[np.uint16]
Rows = npt.NDArray[np.uint32]


class Move:
    """Places the rows of indexes on shards by their cells, and writes those shards."""

    def __init__(
        self,
        folder: Path,
        sources: Sequence[tuple[IndexFacts, State]],
        n_bytes: int,
        n_shards: int,
        limit: int,
    ) -> None:
        self._folder = folder
        self._n_bytes = n_bytes  # of the saved sources
        self._n = n_shards
        self._limit = limit
        self.facts = sources[0][0]
        self._segments = [one for _, state in sources for one in state.segments]
        self.homes = [at for at, (_, state) in enumerate(sources) for _ in state.segments]

    def place(self, before: Placement | None = None) -> Placement:
        """Choose the shard of each slot and part by counts of rows."""
        split = {} if before is None else {before.encode(one): one for one, _ in before.split}
        n_rows = sum(one.rows.num_rows for one in self._segments)
        counts = place_counts(self._counted, n_rows, self._n, split)
        for cell, values in split.items():
            if cell not in counts.parts:  # all of its documents were deleted
                counts.parts[cell] = np.zeros(N_PARTS, np.int64)
                counts.values[cell] = values
        kinds = [(name, str(kind)) for name, kind in self.facts.cell_types.items()]
        return pack(kinds, counts, self._n, before)

    def _counted(self, heavy: Collection[int], large: Collection[bytes]) -> RowCounts:
        counts = RowCounts()
        for segment in self._segments:
            for rows in self._places(segment):
                counts.add(rows, heavy, large)
        return counts

    def _places(self, segment: Segment) -> Iterator[Placed]:
        """Yield the places of a segment's rows, of some rows at a time."""
        table = segment.columns(columns_of_places(self.facts.schema))
        for begin in range(0, table.num_rows, _COUNTED_ROWS):
            yield rows_of(table.slice(begin, _COUNTED_ROWS), self.facts.schema)

    def shards_of(self, placement: Placement) -> list[Shard]:
        """Return the shard of each row of each segment."""
        found = []
        for segment in self._segments:
            own = [rows.shards(placement).astype(np.uint16) for rows in self._places(segment)]
            found.append(np.concatenate([*own, np.zeros(0, np.uint16)]))
        return found

    def write(
        self,
        of_rows: Sequence[Shard],
        generation: int,
        wanted: Collection[int],
        tell: ProgressFunction | None = None,
    ) -> dict[int, ShardEntry]:
        """Write shards that do not exist yet; return the entry of each."""
        # ``of_rows`` has the shard of each row of each segment.
        views = [_core.SegmentView(one.core) for one in self._segments]
        source, row = merge_order(self._segments, views, self.facts.schema)
        where = np.zeros(len(source), np.uint16)
        for number, own in enumerate(of_rows):
            here = source == number
            where[here] = own[row[here]]
        order = np.argsort(where, kind="stable")
        begins = np.searchsorted(where[order], np.arange(self._n + 1))
        entries: dict[int, ShardEntry] = {}
        done, total = 0, sum(int(begins[one + 1] - begins[one]) for one in wanted)
        for shard in wanted:
            folder = self._folder / folder_name(shard, generation)
            if not folder.exists():
                kept = order[begins[shard] : begins[shard + 1]]
                self._write(folder, source[kept], row[kept])
            entries[shard] = described(folder, shard)[0]
            done += entries[shard].rows
            if tell is not None:
                tell(done, total)
        return entries

    def _write(self, folder: Path, source: Rows, row: Rows) -> None:
        """Write rows, in the order of one segment, as a saved index."""
        used = np.unique(source) if len(source) else np.zeros(1, np.uint32)
        segments = [self._segments[one] for one in used.tolist()]
        source = np.searchsorted(used, source).astype(np.uint32)
        begun = unfinished_folder(folder)
        shutil.rmtree(begun, ignore_errors=True)
        next_seq = int(seqs_of(segments, source, row).max()) + 1 if len(source) else 0
        n_rows = sum(one.rows.num_rows for one in self._segments)
        a_row = max(1.0, self._n_bytes / max(1, n_rows))
        step = max(4096, int((self._limit - _BASE_BYTES) / (a_row * _PEAK_PER_SAVED_BYTE)))
        for begin in range(0, max(1, len(source)), step):
            some = slice(begin, begin + step)
            piece = take_rows(segments, source[some], row[some], self.facts.schema)
            self._append(begun, piece, next_seq)
        begun.rename(folder)
        disk.sync_folder(folder.parent)

    def _append(self, folder: Path, piece: Segment, next_seq: int) -> None:
        """Add a segment to a saved index, whose other segments are mapped."""
        lineage = Lineage()
        segments, views = [piece], [_core.SegmentView(piece.core)]
        if folder.exists():
            _, state, seal = open_index(folder, OpenOptions(verify="structure"))
            lineage.settle(folder, seal)
            segments, views = [*state.segments, piece], [*state.views, *views]
        state = State.of(segments, views, next_seq)
        save_index(folder, self.facts, state, lineage, overwrite=False)


# ---- The cell, slot and shard of each row of a table, and rows counted by them ----

Numbers = npt.NDArray[np.int64]


@dataclass
class RowCounts:
    """Numbers of rows by slot, cell and part."""

    slots: Numbers = field(default_factory=lambda: np.zeros(N_SLOTS, np.int64))
    cells: dict[bytes, int] = field(default_factory=dict)
    parts: dict[bytes, Numbers] = field(default_factory=dict)
    values: dict[bytes, tuple[object, ...]] = field(default_factory=dict)

    def add(self, rows: Placed, heavy: Collection[int] = (), large: Collection[bytes] = ()) -> None:
        """Count the rows of a table."""
        sizes = np.bincount(rows.codes, minlength=len(rows.cells))
        np.add.at(self.slots, rows.slots, sizes)
        for at, (cell, slot) in enumerate(zip(rows.cells, rows.slots.tolist(), strict=True)):
            if cell in large:
                own = np.bincount(rows.parts(at), minlength=N_PARTS)
                self.parts[cell] = self.parts.get(cell, 0) + own
                self.values[cell] = rows.values[at]
            elif slot in heavy:
                self.cells[cell] = self.cells.get(cell, 0) + int(sizes[at])
                self.values[cell] = rows.values[at]


@dataclass(frozen=True, eq=False)
class Placed:
    """The cells of a table's rows."""

    codes: Numbers
    cells: list[bytes]
    values: list[tuple[object, ...]]
    slots: Numbers
    _keys: pa.Array
    _threads: pa.Array | None

    def parts(self, at: int) -> Numbers:
        """Return the part of each row of a distinct cell, in the order of the rows."""
        rows = pa.array(np.flatnonzero(self.codes == at))
        cell, keys = self.cells[at], self._keys.take(rows)
        members = _members(keys)
        if self._threads is not None:
            threads = self._threads.take(rows)
            own = _members(threads.drop_null())
            in_thread = threads.is_valid().to_numpy(zero_copy_only=False)
            for row, member in zip(np.flatnonzero(in_thread).tolist(), own, strict=True):
                members[row] = member
        known: dict[bytes, int] = {}
        for member in members:
            if member not in known:
                known[member] = part_of(cell, member)
        return np.array([known[member] for member in members], np.int64)

    def shards(self, placement: Placement) -> Numbers:
        """Return the shard of each row."""
        of_cells = np.array(placement.slots, np.int64)[self.slots]
        out = of_cells[self.codes]
        for at, cell in enumerate(self.cells):
            parts = placement.parts.get(cell)
            if parts is not None:
                out[self.codes == at] = np.array(parts, np.int64)[self.parts(at)]
        return out


def _members(values: pa.Array) -> list[bytes]:
    """Encode keys or threads; numbers, dates and times are encoded as their stored integers."""
    kind = values.type
    if pa.types.is_large_string(kind):
        return [encode_part(one, "", kind) for one in values.to_pylist()]
    if pa.types.is_boolean(kind):
        return [encode_part(one, "", kind) for one in values.to_pylist()]
    width = kind.bit_width
    if pa.types.is_temporal(kind):
        values = values.view(pa.int32() if width == 32 else pa.int64())
    whole = pc.cast(values, pa.int64(), safe=False)  # a uint64 keeps its bits
    return [encode_part(one, "", pa.int64()) for one in whole.to_pylist()]


def columns_of_places(schema: Schema) -> tuple[str, ...]:
    """Return the columns on which the places of rows depend."""
    thread = () if schema.thread is None else (schema.thread,)
    return tuple(dict.fromkeys((*schema.cell_columns, schema.key, *thread)))


def rows_of(table: pa.Table, schema: Schema) -> Placed:
    """Return the places of a table's rows; only its cells, keys and threads are read."""
    columns = read_rows(table, schema, columns_of_places(schema))
    codes, values = _distinct([columns[name] for name in schema.cell_columns], table.num_rows)
    kinds = [(name, str(columns[name].type)) for name in schema.cell_columns]
    cells = [encode_cell(one, kinds) for one in values]
    slots = np.array([slot_of(one) for one in cells], np.int64)
    threads = None if schema.thread is None else one_array(columns[schema.thread])
    return Placed(codes, cells, values, slots, one_array(columns[schema.key]), threads)


def _distinct(
    columns: Sequence[pa.ChunkedArray], n_rows: int
) -> tuple[Numbers, list[tuple[object, ...]]]:
    """Return the number of each row's tuple, and the distinct tuples of the columns."""
    codes = np.zeros(n_rows, np.int64)
    values: list[tuple[object, ...]] = [()] if n_rows else []
    for column in columns:
        encoded = one_array(column).dictionary_encode(null_encoding="encode")
        own = encoded.indices.to_numpy().astype(np.int64)
        named = encoded.dictionary.to_pylist()
        pairs, codes = np.unique(codes * max(len(named), 1) + own, return_inverse=True)
        values = [
            (*values[pair // len(named)], named[pair % len(named)]) for pair in pairs.tolist()
        ]
    return codes, values


# ---- Chooses the shard of each slot, and of each part of a split cell, by numbers of rows ----

SLACK = 1.1
"""How much larger than the mean a shard may stay before a rebalancing takes rows from it."""


class _Item(NamedTuple):
    """A slot, or a part of a split cell: its rows lie in one shard."""

    rows: int
    number: int  # of the slot; parts of split cells have the numbers after the slots
    shard: int | None  # the shard that holds it now


def place_counts(
    counted: Callable[[Collection[int], Collection[bytes]], RowCounts],
    n_rows: int,
    n_shards: int,
    split: Iterable[bytes] = (),
) -> RowCounts:
    """Count rows by slot, and by part those of cells that are or become split."""
    # ``counted`` counts all rows, by cell in heavy slots, and by part in large cells.
    most = max(1, -(-n_rows // n_shards))  # rows of a cell that is not split
    counts, large = counted((), ()), set(split)
    heavy = set(np.flatnonzero(counts.slots > most).tolist())  # slots that may hold a larger one
    if n_shards > 1 and heavy:
        large |= {cell for cell, n in counted(heavy, ()).cells.items() if n > most}
    return counted((), large) if large else counts


def pack(
    kinds: Sequence[tuple[str, str]],
    counts: RowCounts,
    n_shards: int,
    before: Placement | None = None,
) -> Placement:
    """Distribute slots, and the parts of the cells in ``counts.parts``, evenly over shards."""
    # The largest goes first, into the shard with the fewest rows. Slots and parts stay in their
    # shard of ``before``, unless that shard is too large or does not exist any more.
    split = sorted(counts.parts)
    loads = [counts.slots.copy(), *(counts.parts[cell] for cell in split)]
    for cell in split:
        loads[0][slot_of(cell)] -= counts.parts[cell].sum()
    rows = np.concatenate(loads)
    at = _current(split, before)
    items = [_Item(int(n), number, at[number]) for number, n in enumerate(rows.tolist())]
    chosen = _assign(items, n_shards)
    slots, rest = chosen[:N_SLOTS], chosen[N_SLOTS:]
    parts = {
        counts.values[cell]: rest[place * N_PARTS : (place + 1) * N_PARTS]
        for place, cell in enumerate(split)
    }
    return Placement(dict(kinds), slots, parts)


def _current(split: Sequence[bytes], before: Placement | None) -> list[int | None]:
    """Return the shard of each item in a placement; a newly split cell still lies in one shard."""
    if before is None:
        return [None] * (N_SLOTS + N_PARTS * len(split))
    out: list[int | None] = list(before.slots)
    for cell in split:
        out += before.parts.get(cell, (before.slots[slot_of(cell)],) * N_PARTS)
    return out


def _assign(items: Sequence[_Item], n_shards: int) -> list[int]:
    """Return the shard of each item, in the order of the items."""
    most = SLACK * sum(one.rows for one in items) / n_shards
    loads = [0] * n_shards
    out = [one.number % n_shards for one in items]
    moving = []
    for one in sorted(items, key=lambda item: (-item.rows, item.number)):
        if one.shard is None or one.shard >= n_shards:
            moving.append(one)
        elif not one.rows or loads[one.shard] + one.rows <= most:
            loads[one.shard] += one.rows
            out[one.number] = one.shard
        else:
            moving.append(one)
    room = [(load, shard) for shard, load in enumerate(loads)]
    heapq.heapify(room)
    for one in moving:
        if one.rows:
            load, shard = heapq.heappop(room)
            out[one.number] = shard
            heapq.heappush(room, (load + one.rows, shard))
    return out
