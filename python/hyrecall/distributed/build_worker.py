"""A worker of a build of shards: ``python -m hyrecall.distributed.build_worker FOLDER``.

It runs the tasks that it reads from standard input, and ends when its input ends: when the
building program ends or is killed.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from hyrecall.base import disk
from hyrecall.distributed.build_plan import BuildPlan, Laid
from hyrecall.distributed.channel import PipeClosed, plain_error, read_frames, write_frames
from hyrecall.distributed.row_places import RowCounts, rows_of
from hyrecall.distributed.shards_file import Placement, described, folder_name
from hyrecall.distributed.source_files import Unit, batches_of_unit, columns_of, nothing_of
from hyrecall.segments import writer
from hyrecall.segments.manifest import Lineage
from hyrecall.segments.parts import PartsBuild
from hyrecall.segments.saving import save_index
from hyrecall.table.schema import Schema

# ---- Writes the rows of source files to a file on disk for each shard ----

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
    unit: Unit, schema: Schema, heavy: Collection[int], large: Collection[bytes]
) -> RowCounts:
    """Count the rows of a unit by slot, by cell in heavy slots, and by part of large cells."""
    thread = () if schema.thread is None else (schema.thread,)
    names = tuple(dict.fromkeys((*schema.cell_columns, schema.key, *thread)))
    counts = RowCounts()
    held: list[pa.RecordBatch] = []
    for _, batch in batches_of_unit(unit, names):
        held.append(batch)
        if sum(one.num_rows for one in held) >= COUNTED_ROWS:
            counts.add(rows_of(pa.Table.from_batches(held), schema), heavy, large)
            held = []
    if held:
        counts.add(rows_of(pa.Table.from_batches(held), schema), heavy, large)
    return counts


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
        for file, writer in files.values():
            writer.close()
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


# ---- A worker of a build of shards: ``python -m hyrecall.distributed.build_worker FOLDER`` ----


def main() -> None:
    """Run tasks until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # printed text must not mix with the answers
    work = Path(sys.argv[1])
    tasks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read_tasks, args=(tasks,)).start()
    while True:
        task = tasks.get()
        try:
            reply = b"answer", json.dumps(do_task(work, json.loads(task))).encode()
        except Exception as fault:
            reply = b"error", plain_error(fault)
        write_frames(answers, *reply)


def _read_tasks(tasks: queue.SimpleQueue[bytes]) -> None:
    while True:
        try:
            (task,) = read_frames(sys.stdin.buffer)
        except PipeClosed:
            os._exit(0)  # at once, even during a task: nobody waits for its result
        tasks.put(task)


def do_task(work: Path, task: Mapping[str, Any]) -> Any:
    """Run a task: count a unit, write its rows by shard, or index a shard; return plain data."""
    plan = BuildPlan.read(work)
    if task["do"] == "index":
        return _index(plan, work, task["shard"])
    unit = plan.units[task["unit"]]
    if task["do"] == "count":
        large = {bytes.fromhex(one) for one in task["large"]}
        return count_unit(unit, plan.schema, set(task["heavy"]), large).to_dict()
    laid = Laid.read(work)
    assert laid is not None
    spill_unit(task["unit"], unit, plan.schema, laid.placement, work)
    return unit.rows


def _index(plan: BuildPlan, work: Path, shard: int) -> Any:
    """Index the rows of a shard; return its entry, and the hash that all shards share."""
    folder = work.parent / folder_name(shard, 1)
    if not plan.rows:
        _save_nothing(plan, folder)
    elif not folder.exists():
        laid = Laid.read(work)
        assert laid is not None
        build = PartsBuild(
            folder, plan.schema, plan.memory, plan.analyzer, plan.bm25, plan.threads,
            seq_column=seq_column(columns_of(plan.schema)), dims=laid.dims,
        )  # fmt: skip
        build.run(rows_of_shard(work, shard, len(plan.units)), resume=True)
    remove_rows_of_shard(work, shard, len(plan.units))
    entry, index = described(folder, shard)
    return [vars(entry), index]


def _save_nothing(plan: BuildPlan, folder: Path) -> None:
    """Save an index without rows; the types come from the first source file."""
    nothing = nothing_of(Path(plan.files[0].path), columns_of(plan.schema))
    options = (plan.analyzer, plan.bm25, plan.threads, 0)
    facts, state = writer.build(nothing, plan.schema, None, *options)
    save_index(folder, facts, state, Lineage(), overwrite=True)


if __name__ == "__main__":
    main()
