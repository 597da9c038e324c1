"""A worker of a build of shards: ``python -m hyrecall.distributed.build_worker FOLDER``.

It runs the tasks that it reads from standard input, and ends when its input ends: when the
building program ends or is killed.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hyrecall.distributed.build_plan import BuildPlan, Laid
from hyrecall.distributed.pipes import PipeClosed, plain_error, read_frames, write_frames
from hyrecall.distributed.shard_folders import described
from hyrecall.distributed.shards_file import folder_name
from hyrecall.distributed.source_files import columns_of, nothing_of
from hyrecall.distributed.spilling import (
    count_unit,
    remove_rows_of_shard,
    rows_of_shard,
    seq_column,
    spill_unit,
)
from hyrecall.segments import writer
from hyrecall.segments.parts import PartsBuild
from hyrecall.segments.saved_versions import Lineage
from hyrecall.segments.saving import save_index

__all__ = ["do_task", "main"]


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
