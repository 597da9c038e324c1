"""Answers the parts of a dataset with Ray Data: long-lived actors that map batches of parts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from hyrecall.distributed.batch_recall import Answer, BatchRecall, QueryPart, answer_part
from hyrecall.distributed.channel import plain_error, rebuild
from hyrecall.distributed.ray_cluster import (
    connect,
    default_gpus,
    most_actors,
    nodes_of,
    read_reserved,
)
from hyrecall.errors import ShardLostError, error

LEAST_CPUS = 0.01  # of an actor, where the number of actors follows from the cluster's cores


class _Parts:
    """An actor that opens the index with its first part and answers one part after another."""

    # Only names of parts and counts go through Ray; the actor reads queries from files and writes
    # hits to files.

    def __init__(self, recall: BatchRecall, folder: str) -> None:
        self._recall = recall
        self._folder = Path(folder)

    def __call__(self, batch: pa.Table) -> pa.Table:
        answers = [
            answer_part(self._recall, QueryPart(**row), self._folder) for row in batch.to_pylist()
        ]
        return pa.table(
            {
                "number": [number for number, _, _ in answers],
                "counts": pa.array([json.dumps(counts) for _, counts, _ in answers], pa.string()),
                "fault": pa.array(
                    [None if one is None else plain_error(one) for _, _, one in answers],
                    pa.binary(),
                ),
            }
        )


def ray_answers(
    recall: BatchRecall,
    parts: Sequence[QueryPart],
    folder: Path,
    *,
    concurrency: int | None,
    num_cpus: float,
    num_gpus: float | None,
) -> Iterator[Answer]:
    """Yield the answer of each part, in any order."""
    reserved = read_reserved(num_cpus, num_gpus or 0)
    ray = connect("on_ray")
    from ray.data import ActorPoolStrategy, from_arrow

    if not parts:
        return
    nodes = nodes_of(ray)
    if concurrency is None:
        least = reserved._replace(num_cpus=max(reserved.num_cpus, LEAST_CPUS))
        concurrency = max(1, most_actors(nodes, least))
    n = min(concurrency, len(parts))
    if num_gpus is None and any(one.gpus for one in nodes):  # else Ray waits for one for ever
        gpus = default_gpus(nodes, n, recall._opening.device, reserved.num_cpus)
        reserved = reserved._replace(num_gpus=gpus)
    rows = [pa.Table.from_pylist([one._asdict()]) for one in parts]
    how: dict[str, Any] = reserved._asdict()
    # A block for each part, so that an actor that ends loses the work of one part only.
    answers: Any = from_arrow(rows).map_batches(
        _Parts,
        fn_constructor_args=(recall.for_cpus(num_cpus), str(folder)),
        batch_size=1,
        batch_format="pyarrow",
        compute=ActorPoolStrategy(size=n),
        **how,
    )
    try:
        for batch in answers.iter_batches(batch_size=None, batch_format="pyarrow"):
            for row in batch.to_pylist():
                fault = None if row["fault"] is None else rebuild(row["fault"])
                yield row["number"], json.loads(row["counts"]), fault
    except ray.exceptions.RayError as fault:
        got = str(fault).strip().rsplit("\n", 1)[-1] or type(fault).__name__
        raise error(ShardLostError, "on_ray", "an answer of every actor", got) from fault
