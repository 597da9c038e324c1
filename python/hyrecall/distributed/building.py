"""Builds the shards of a large table from Parquet files, in worker processes, placed by cell."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from hyrecall.base import disk
from hyrecall.base.arguments import as_int, check_keywords, read_path
from hyrecall.base.forks import locked
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.base.runtime import choose_threads
from hyrecall.distributed.build_plan import ASKED, WORKERS, BuildPlan, Laid
from hyrecall.distributed.channel import (
    PipeClosed,
    read_frames,
    rebuild,
    system_error,
    write_frames,
)
from hyrecall.distributed.row_places import (
    RowCounts,
    cell_kinds,
    heavy_slots,
    large_cells,
    most_rows,
    pack,
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
from hyrecall.distributed.source_files import dims_of, nothing_of, source_files, units_of
from hyrecall.errors import (
    DTypeError,
    KeyConflictError,
    OptionError,
    ShardLostError,
    WriterBusyError,
    error,
)
from hyrecall.segments.parts import LEAST_MEMORY, unfinished_folder
from hyrecall.table.columns import read_rows
from hyrecall.table.schema import Schema
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

# ---- Worker processes of a build of shards, which run tasks in parallel ----

MOST_WAIT = 10.0  # seconds to wait for the workers of a killed build; they end at once


class Crew:
    """Processes that run the tasks of one build; use it in a with statement."""

    def __init__(self, work: Path, n_workers: int) -> None:
        command = [sys.executable, "-m", "hyrecall.distributed.build_worker", str(work)]
        with _alone(work) as lock:
            # Each worker inherits the lock, so it holds it from its start.
            self._all = [
                subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[lock]
                )
                for _ in range(n_workers)
            ]
        self._free: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        for one in self._all:
            self._free.put(one)
        self._threads = ThreadPoolExecutor(n_workers, "hyrecall-build")

    def run(self, tasks: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Any]]:
        """Run tasks; yield the number and the answer of each when it is done."""
        numbers = {self._threads.submit(self._do, task): at for at, task in enumerate(tasks)}
        try:
            for done in as_completed(numbers):
                yield numbers[done], done.result()
        finally:
            for one in numbers:
                one.cancel()

    def _do(self, task: Mapping[str, Any]) -> Any:
        worker = self._free.get()
        try:
            assert worker.stdin is not None
            assert worker.stdout is not None
            write_frames(worker.stdin, json.dumps(task).encode())
            kind, answer = read_frames(worker.stdout)
        except (OSError, PipeClosed, ValueError) as fault:
            got = f"a worker that ended (exit code {worker.poll()})"
            remedy = "go on with resume=True and less memory_limit= or fewer workers="
            raise error(ShardLostError, "workers", "an answer", got, remedy) from fault
        finally:
            self._free.put(worker)
        if kind != b"answer":
            raise system_error(answer) or rebuild(answer)
        return json.loads(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for one in self._all:
            one.kill()
        self._threads.shutdown(cancel_futures=True)
        for one in self._all:
            for pipe in (one.stdin, one.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            one.wait()


@contextlib.contextmanager
def _alone(work: Path) -> Iterator[int]:
    """Wait until no worker of an earlier, killed build is left; yield the lock for new workers."""
    with contextlib.ExitStack() as held:
        try:
            how = os.O_RDWR | os.O_CREAT
            handle = held.enter_context(
                locked(work / WORKERS, how, 0o644, wait=MOST_WAIT, unlocks=False)
            )
        except BlockingIOError:
            wish, got = "no worker of another build", "one"
            raise error(WriterBusyError, str(work), wish, got) from None
        yield handle


# ---- Checks that keys are unique in a cell whose rows are split over shards by thread ----


def check_split_keys(
    folder: Path, schema: Schema, placement: Placement, entries: Mapping[int, ShardEntry]
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


# ---- Builds the shards of a large table from Parquet files, in worker processes, placed by cell

MEMORY = 2 * 2**30
"""Bytes that each worker may use, unless ``memory_limit`` is given."""

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
    workers: int | None = None,
    threads: int | None = None,
    resume: bool = False,
    progress: ProgressFunction | None = None,
) -> Shards:
    """Index Parquet files as the shards of one index, which :meth:`ShardedIndex.open` opens.

    Replies equal those of ``Index.build`` of all rows, bit for bit; rows are numbered file by file,
    in the order of the file names. A cell lies in one shard, unless it has more rows than a shard;
    see :class:`Placement`. Worker processes count the rows, write them to disk by shard, and index
    each shard.

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
        Bytes that all workers together may use, without pages of mapped files, at least 256 MiB for
        each; default: 2 GiB each.
    analyzer, bm25
        As in :meth:`hyrecall.Index.build`. An analyzer with a callable is refused.
    workers : int, optional
        Number of processes; default: one for each core, as far as ``memory_limit`` allows.
    threads : int, optional
        Threads of all workers together; default: all that the machine allows.
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
    ShardLostError
        A worker ended, perhaps because memory ran out.

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
    >>> build_shards(folder, schema, folder / "shards", shards=2, workers=1).rows
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
    tell = read_progress(progress)
    folder = read_path(output)
    files, units = units_of(source_files(read_path(source)), schema)
    n_rows = sum(one.rows for one in files)
    n_shards = read_sizes(shards, shard_rows, n_rows)
    n_threads = choose_threads(threads)
    n_workers, memory = _shares(workers, memory_limit, n_threads)
    plan = BuildPlan(
        files, units, schema, analyzer, bm25, n_shards, memory, max(1, n_threads // n_workers)
    )
    plan.check()
    _check_free(folder, resume=resume)
    disk.make_folder(folder)
    with disk.writer_lock(folder):
        _check_free(folder, resume=resume)  # another build may have ended meanwhile
        if (folder / SHARDS).exists():
            made = Shards.read(folder)
            plan.check_done(folder, made.asked)
            remove_unused(folder, made.shards)
            return made
        work = _begun(folder, plan)
        with Crew(work, min(n_workers, max(n_shards, len(units)))) as crew:
            made = _Build(folder, work, plan, crew, tell).run()
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


def _shares(workers: object, memory_limit: object, n_threads: int) -> tuple[int, int]:
    """Return the number of workers, and the memory limit of each."""
    n_workers = None if workers is None else as_int(workers)
    if workers is not None and (n_workers is None or not 1 <= n_workers <= 1024):
        raise error(OptionError, "workers", "an int in [1, 1024], or None", repr(workers))
    if memory_limit is None:
        return n_workers or n_threads, MEMORY
    limit = as_int(memory_limit)
    least = LEAST_MEMORY * (n_workers or 1)
    if limit is None or limit < least:
        wish = f"an int of at least {least} bytes ({LEAST_MEMORY} for each worker)"
        raise error(OptionError, "memory_limit", wish, repr(memory_limit))
    n_workers = n_workers or min(n_threads, limit // LEAST_MEMORY)
    return n_workers, limit // n_workers


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


def _begun(folder: Path, plan: BuildPlan) -> Path:
    """Return the folder of unfinished work, with the plan in it."""
    work = folder / WORK
    if (work / ASKED).exists():
        plan.check_same(work)
    else:
        shutil.rmtree(work, ignore_errors=True)
        disk.make_folder(work)
    plan.write(work)
    return work


class _Build:
    """The steps of a build; each does only the work that earlier calls did not finish."""

    def __init__(
        self, folder: Path, work: Path, plan: BuildPlan, crew: Crew, tell: ProgressFunction | None
    ) -> None:
        self._folder = folder
        self._work = work
        self._plan = plan
        self._crew = crew
        self._tell = tell
        self._done = 0

    def run(self) -> Shards:
        """Count the rows, write them by shard and index them; return the content of shards.json."""
        laid = Laid.read(self._work)
        if laid is None:
            laid = self._lay()
            laid.write(self._work)
        spilling = [{"do": "spill", "unit": at} for at in range(len(self._plan.units))]
        for _, n_rows in self._crew.run(spilling):
            self._count(n_rows)
        for file in self._plan.files:  # they are not read after this
            file.check_same()
        index, shards = self._indexed(laid)
        return Shards(1, index, self._plan.digest, laid.placement, shards)

    def _count(self, n_rows: int) -> None:
        self._done += n_rows
        if self._tell is not None:
            self._tell(self._done, 2 * self._plan.rows)

    def _lay(self) -> Laid:
        """Choose the shard of each cell by counts of rows."""
        plan = self._plan
        kinds = _kinds(plan)
        most = most_rows(plan.rows, plan.n_shards)
        counts = self._counted(kinds)
        heavy = heavy_slots(counts, most) if plan.n_shards > 1 else set()
        if heavy:
            large = large_cells(self._counted(kinds, heavy), most)
            if large:
                counts = self._counted(kinds, (), large)
        placement = pack(kinds, counts, plan.n_shards)
        rows = rows_by_shard(placement, counts, plan.n_shards)
        return Laid(placement, tuple(rows), dims_of(plan.units, plan.schema))

    def _counted(
        self,
        kinds: tuple[tuple[str, str], ...],
        heavy: Iterable[int] = (),
        large: Iterable[bytes] = (),
    ) -> RowCounts:
        asked = {"heavy": sorted(heavy), "large": [one.hex() for one in large]}
        tasks = [{"do": "count", "unit": at, **asked} for at in range(len(self._plan.units))]
        counts = RowCounts()
        for _, found in self._crew.run(tasks):
            counts = counts.plus(RowCounts.from_dict(found, kinds))
        return counts

    def _indexed(self, laid: Laid) -> tuple[str, tuple[ShardEntry, ...]]:
        n_shards = self._plan.n_shards
        # The largest first, so that no worker starts a large shard at the end.
        order = sorted(range(n_shards), key=lambda shard: -laid.rows[shard])
        wanted = [shard for shard in order if laid.rows[shard]] or [0]
        entries: dict[int, ShardEntry] = {}
        hashes: dict[int, str] = {}
        for at, (fields, index) in self._crew.run(
            [{"do": "index", "shard": one} for one in wanted]
        ):
            shard = wanted[at]
            entries[shard], hashes[shard] = ShardEntry(**fields), index
            if entries[shard].rows != laid.rows[shard]:
                got = f"{entries[shard].rows} instead of {laid.rows[shard]} rows of shard {shard}"
                raise error(OptionError, "source", "files that do not change", got)
            self._count(laid.rows[shard])
        first = wanted[0]
        for shard in order:
            if hashes.get(shard, hashes[first]) != hashes[first]:
                wish = "columns that have the same type and dimension in all rows"
                got = f"others in shard {shard} than in shard {first}"
                raise error(OptionError, "source", wish, got)
        self._make_empty([one for one in order if one not in entries], first, entries)
        check_split_keys(self._folder, self._plan.schema, laid.placement, entries)
        return hashes[first], tuple(entries[one] for one in range(n_shards))

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
