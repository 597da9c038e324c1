"""Builds the shards of a large table from Parquet files, placed by cell, in steps that resume."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from hyrecall.base import disk
from hyrecall.base.arguments import as_int, check_keywords, read_path
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.base.runtime import choose_threads
from hyrecall.distributed.row_places import (
    RowCounts,
    cell_kinds,
    pack,
    place_counts,
    rows_of,
)
from hyrecall.distributed.shards_file import (
    SHARDS,
    WORK,
    Placement,
    ShardEntry,
    Shards,
    described,
    folder_name,
    make_empty,
    opened,
    remove_unused,
    slot_of,
    write_shards,
)
from hyrecall.distributed.source_files import (
    SourceFile,
    Unit,
    batches_of_unit,
    columns_of,
    dims_of,
    nothing_of,
    source_files,
    units_of,
)
from hyrecall.errors import DTypeError, KeyConflictError, OptionError, error
from hyrecall.segments import writer
from hyrecall.segments.manifest import Lineage
from hyrecall.segments.parts import LEAST_MEMORY, PartsBuild, unfinished_folder
from hyrecall.segments.saving import save_index
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
    see :class:`Placement`. The rows are counted, written to disk by shard, and then
    indexed, one shard after another, each with all threads.

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
        index for each shard. During the build it also holds a copy of the rows.
    shards : int, optional
        Number of shards, up to 4,096.
    shard_rows : int, optional
        Instead of ``shards``: the approximate number of rows of a shard.
    memory_limit : int, optional
        Bytes that the call may use, without pages of mapped files, at least 256 MiB; default:
        2 GiB.
    analyzer, bm25
        As in :meth:`hyrecall.Index.build`. An analyzer with a callable is refused.
    threads : int, optional
        Default: all that the machine allows.
    resume : bool, default False
        Continue an earlier call with the same arguments that was interrupted or killed, if there
        was one. If it was complete, nothing is done. Other arguments or changed files are refused.
    progress : callable, optional
        ``progress(done, total)`` in rows. Each row counts twice: when it is written by shard and
        when it is indexed.

    Returns
    -------
    Shards
        The content of ``shards.json``.

    Raises
    ------
    OptionError
        Both or none of ``shards`` and ``shard_rows``; no file; files whose types differ; rows in
        files or folders that are not read; an output folder that is in use without ``resume``; an
        unfinished build with other arguments.
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
    files, units = units_of(source_files(read_path(source)), schema)
    n_shards = read_sizes(shards, shard_rows, sum(one.rows for one in files))
    plan = BuildPlan(
        files, units, schema, analyzer, bm25, n_shards, memory, choose_threads(threads)
    )
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
            work = folder / WORK
            plan.begin(work)
            made = _Build(folder, work, plan, tell).run()
            write_shards(folder, made)
        remove_unused(folder, made.shards)
    return made


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
    if not folder.exists():
        return
    ours = (folder / SHARDS).exists() or (folder / WORK).exists()
    if folder.is_dir() and (ours if resume else not any(folder.iterdir())):
        return
    if folder.is_dir() and not any(one for one in folder.iterdir() if one.name != disk.LOCK):
        return
    what = "shards" if (folder / SHARDS).exists() else "an unfinished build"
    got = f"{folder}, which holds {what if ours else 'other files'}"
    remedy = "pass resume=True" if what == "an unfinished build" and ours else ""
    raise error(OptionError, "output", "a new or an empty folder", got, remedy)


# ---- What a build is asked for; a resumed build compares it ----

ASKED = "asked.json"
LAID = "placement.json"


@dataclass(frozen=True, eq=False)
class BuildPlan:
    """The arguments of a build."""

    files: Sequence[SourceFile]
    units: Sequence[Unit]
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
            "units": [asdict(one) for one in self.units],
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
            found = _read(work, ASKED)
            if other := [name for name, value in asked.items() if found.get(name) != value]:
                raise _others("unfinished", f" ({', '.join(other)})", work.parent)
            return
        shutil.rmtree(work, ignore_errors=True)
        disk.make_folder(work)
        _write(work, ASKED, asked)


def _others(state: str, which: str, folder: Path) -> OptionError:
    wish = f"the source, schema and options that the {state} build began with"
    remedy = f"remove {folder} and build again, or build into another folder"
    return error(OptionError, "resume", wish, f"others{which}", remedy)


def _plain(option: Analyzer | BM25 | None) -> Any:
    return None if option is None else option.to_dict()


def _write(work: Path, name: str, data: Mapping[str, Any]) -> None:
    disk.prepare(work, name, json.dumps(data).encode())
    disk.commit(work, name)


def _read(work: Path, name: str) -> dict[str, Any]:
    return dict(json.loads(disk.read_bytes(work / name)))


# ---- The steps of a build ----


class _Build:
    """The steps of a build; each does only the work that earlier calls did not finish."""

    def __init__(
        self, folder: Path, work: Path, plan: BuildPlan, tell: ProgressFunction | None
    ) -> None:
        self._folder = folder
        self._work = work
        self._plan = plan
        self._tell = tell
        self._done = 0

    def run(self) -> Shards:
        """Count the rows, write them by shard and index them; return the content of shards.json."""
        plan, work = self._plan, self._work
        if not (work / LAID).exists():
            placement, rows = self._lay()
            dims = dims_of(plan.units, plan.schema)
            _write(work, LAID, {"placement": placement.to_dict(), "rows": rows, "dims": dims})
        laid = _read(work, LAID)
        placement = Placement.from_dict(laid["placement"])
        for number, unit in enumerate(plan.units):
            spill_unit(number, unit, plan.schema, placement, work)
            self._count(unit.rows)
        for file in plan.files:  # they are not read after this
            file.check_same()
        index, shards = self._indexed(laid["rows"], laid["dims"])
        check_split_keys(self._folder, plan.schema, placement, shards)
        return Shards(1, index, plan.digest, placement, shards)

    def _count(self, n_rows: int) -> None:
        self._done += n_rows
        if self._tell is not None:
            self._tell(self._done, 2 * self._plan.rows)

    def _lay(self) -> tuple[Placement, list[int]]:
        """Choose the shard of each cell by counts of rows; return also the rows of each shard."""
        plan = self._plan

        def counted(heavy: Collection[int], large: Collection[bytes]) -> RowCounts:
            counts = RowCounts()
            for unit in plan.units:
                count_unit(unit, plan.schema, counts, heavy, large)
            return counts

        counts = place_counts(counted, plan.rows, plan.n_shards)
        placement = pack(_kinds(plan), counts, plan.n_shards)
        return placement, rows_by_shard(placement, counts, plan.n_shards)

    def _indexed(
        self, rows: Sequence[int], dims: Mapping[str, int]
    ) -> tuple[str, tuple[ShardEntry, ...]]:
        """Index each shard; return the hash that all share, and their entries."""
        entries: dict[int, ShardEntry] = {}
        hashes: dict[int, str] = {}
        wanted = [shard for shard, n in enumerate(rows) if n] or [0]
        for shard in wanted:
            entries[shard], hashes[shard] = self._index(shard, dims)
            if entries[shard].rows != rows[shard]:
                got = f"{entries[shard].rows} instead of {rows[shard]} rows of shard {shard}"
                raise error(OptionError, "source", "files that do not change", got)
            self._count(rows[shard])
        first = wanted[0]
        for shard, found in hashes.items():
            if found != hashes[first]:
                wish = "columns that have the same type and dimension in all rows"
                got = f"others in shard {shard} than in shard {first}"
                raise error(OptionError, "source", wish, got)
        self._make_empty([one for one in range(len(rows)) if one not in entries], first, entries)
        return hashes[first], tuple(entries[one] for one in range(len(rows)))

    def _index(self, shard: int, dims: Mapping[str, int]) -> tuple[ShardEntry, str]:
        """Index the rows of a shard; return its entry, and the hash that all shards share."""
        plan, work = self._plan, self._work
        folder = self._folder / folder_name(shard, 1)
        if not plan.rows:  # the types come from the first source file
            nothing = nothing_of(Path(plan.files[0].path), columns_of(plan.schema))
            options = (plan.analyzer, plan.bm25, plan.threads, 0)
            facts, state = writer.build(nothing, plan.schema, None, *options)
            save_index(folder, facts, state, Lineage(), overwrite=True)
        elif not folder.exists():
            build = PartsBuild(
                folder, plan.schema, plan.memory, plan.analyzer, plan.bm25, plan.threads,
                seq_column=seq_column(columns_of(plan.schema)), dims=dims,
            )  # fmt: skip
            build.run(rows_of_shard(work, shard, len(plan.units)), resume=True)
        remove_rows_of_shard(work, shard, len(plan.units))
        return described(folder, shard)

    def _make_empty(self, shards: Iterable[int], like: int, entries: dict[int, ShardEntry]) -> None:
        facts, state = opened(self._folder / folder_name(like, 1))
        for shard in shards:
            folder = self._folder / folder_name(shard, 1)
            if not folder.exists():
                begun = unfinished_folder(folder)
                shutil.rmtree(begun, ignore_errors=True)
                make_empty(begun, facts, state.segments)
                begun.rename(folder)
                disk.sync_folder(self._folder)
            entries[shard], _ = described(folder, shard)


# ---- The rows of source files, written to a file on disk for each shard ----

COUNTED_ROWS = 65_536
"""Rows that are counted at a time; the distinct cells of a batch are found once."""


def seq_column(names: Sequence[str]) -> str:
    """Return a name for the column of insertion numbers that is not a column of the table."""
    name = "seq"
    while name in names:
        name += "_"
    return name


def unit_folder(work: Path, number: int) -> Path:
    """Return the folder with the rows of a unit."""
    return work / f"rows-{number:06d}"


def _shard_file(folder: Path, shard: int) -> Path:
    return folder / f"{shard:04d}.arrows"


def count_unit(
    unit: Unit,
    schema: Schema,
    counts: RowCounts,
    heavy: Collection[int],
    large: Collection[bytes],
) -> None:
    """Count the rows of a unit by slot, by cell in heavy slots, and by part of large cells."""
    thread = () if schema.thread is None else (schema.thread,)
    names = tuple(dict.fromkeys((*schema.cell_columns, schema.key, *thread)))
    held: list[pa.RecordBatch] = []
    for _, batch in batches_of_unit(unit, names):
        held.append(batch)
        if sum(one.num_rows for one in held) >= COUNTED_ROWS:
            counts.add(rows_of(pa.Table.from_batches(held), schema), heavy, large)
            held = []
    if held:
        counts.add(rows_of(pa.Table.from_batches(held), schema), heavy, large)


def spill_unit(number: int, unit: Unit, schema: Schema, placement: Placement, work: Path) -> None:
    """Write the rows of a unit to a file for each shard, in a folder that is renamed at the end."""
    folder = unit_folder(work, number)
    if folder.exists():
        return
    names = columns_of(schema)
    begun = folder.with_name(f"{folder.name}.tmp")
    shutil.rmtree(begun, ignore_errors=True)
    begun.mkdir()
    with ExitStack() as stack:
        files: dict[int, tuple[BinaryIO, pa.ipc.RecordBatchStreamWriter]] = {}
        for first_seq, batch in batches_of_unit(unit, names):
            for shard, part in _by_shard(first_seq, batch, schema, placement):
                if shard not in files:
                    opened = stack.enter_context(_shard_file(begun, shard).open("wb"))
                    files[shard] = opened, pa.ipc.new_stream(opened, part.schema)
                files[shard][1].write_batch(part)
        for file, stream in files.values():
            stream.close()
            file.flush()
            os.fsync(file.fileno())
    disk.sync_folder(begun)
    os.rename(begun, folder)
    disk.sync_folder(work)


def _by_shard(
    first_seq: int, batch: pa.RecordBatch, schema: Schema, placement: Placement
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of a batch for each shard, with their insertion numbers as last column."""
    shards = rows_of(pa.Table.from_batches([batch]), schema).shards(placement)
    seqs = np.arange(first_seq, first_seq + batch.num_rows, dtype=np.int64)
    batch = batch.append_column(seq_column(batch.schema.names), pa.array(seqs))
    order = np.argsort(shards, kind="stable")
    table = pa.Table.from_batches([batch]).take(pa.array(order)).combine_chunks()
    ends = np.cumsum(np.bincount(shards, minlength=1))
    begin = 0
    for shard, end in enumerate(ends.tolist()):
        for part in table.slice(begin, end - begin).to_batches() if end > begin else ():
            yield shard, part
        begin = end


def rows_of_shard(work: Path, shard: int, n_units: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a shard in the order of their insertion numbers."""
    for number in range(n_units):
        path = _shard_file(unit_folder(work, number), shard)
        if path.exists():
            with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
                yield from reader


def remove_rows_of_shard(work: Path, shard: int, n_units: int) -> None:
    """Remove the rows of an indexed shard; the units' folders stay as a sign that they are done."""
    disk.remove([_shard_file(unit_folder(work, number), shard) for number in range(n_units)])


def rows_by_shard(placement: Placement, counts: RowCounts, n_shards: int) -> list[int]:
    """Return how many of the counted rows a placement assigns to each shard."""
    out = np.zeros(n_shards, np.int64)
    slots = counts.slots.copy()
    for cell, own in counts.parts.items():
        slots[slot_of(cell)] -= own.sum()
        np.add.at(out, np.array(placement.parts[cell]), own)
    np.add.at(out, np.array(placement.slots), slots)
    return [int(one) for one in out]


def _kinds(plan: BuildPlan) -> tuple[tuple[str, str], ...]:
    """Return the types of the cell columns."""
    if not plan.schema.cell_columns:
        return ()
    names = plan.schema.cell_columns
    nothing = nothing_of(Path(plan.files[0].path), names)
    return cell_kinds(read_rows(nothing, plan.schema, names), plan.schema)


# ---- Checks that keys are unique in a cell whose rows are split over shards by thread ----


def check_split_keys(
    folder: Path, schema: Schema, placement: Placement, entries: Sequence[ShardEntry]
) -> None:
    """Refuse a key that two threads of a split cell have in two shards."""
    # In other cells all rows with a key lie in one shard, whose build refuses duplicate keys. This
    # check needs 8 bytes a row of the largest split cell.
    if schema.thread is None:
        return
    for cell, parts in placement.split:
        hashes = [
            np.array([_hash(one) for one in keys.to_pylist()], np.uint64)
            for shard in sorted(set(parts))
            for keys in _keys(folder / entries[shard].folder, cell)
        ]
        found, counts = np.unique(
            np.concatenate([*hashes, np.zeros(0, np.uint64)]), return_counts=True
        )
        twice = set(found[counts > 1].tolist())
        if not twice:
            continue
        seen: set[object] = set()  # keys with repeated hashes, which may still differ
        for shard in sorted(set(parts)):
            for keys in _keys(folder / entries[shard].folder, cell):
                for key in keys.to_pylist():
                    if _hash(key) not in twice:
                        continue
                    if key in seen:
                        wish = "keys unique within a cell"
                        raise error(KeyConflictError, schema.key, wish, f"{key!r} in two threads")
                    seen.add(key)


def _hash(key: str | int) -> int:
    return xxhash.xxh3_64_intdigest(key.encode() if isinstance(key, str) else str(key).encode())


def _keys(folder: Path, cell: tuple[object, ...]) -> Iterator[pa.Array]:
    """Yield the keys of a cell in a saved shard."""
    facts, state = opened(folder)
    schema = facts.schema
    for segment in state.segments:
        kept: npt.NDArray[np.bool_] = np.ones(segment.rows.num_rows, np.bool_)
        for name, value in zip(schema.cell_columns, cell, strict=True):
            column = segment.column(name)
            same = (
                column.is_null()
                if value is None
                else pc.equal(column, pa.scalar(value, column.type))
            )
            kept &= pc.fill_null(same, False).to_numpy(zero_copy_only=False)
        yield segment.column(schema.key).filter(pa.array(kept))
