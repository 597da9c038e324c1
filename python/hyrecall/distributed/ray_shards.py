"""Shards as Ray actors, each with the index of a path; the extra ``[ray]``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hyrecall.distributed.pipes import rebuild
from hyrecall.distributed.ray_workers import load_ray
from hyrecall.distributed.shards import read_timeout
from hyrecall.distributed.worker import Answering
from hyrecall.errors import ShardLostError, error
from hyrecall.parts.counts import Statistics
from hyrecall.parts.part import Part
from hyrecall.parts.request import Request
from hyrecall.segments.facts import IndexFacts

__all__ = ["RayShard", "ray_shards"]


class RayShard:
    """A shard in a Ray actor. Ray starts an actor that ended again, where it can."""

    def __init__(self, path: Path, actor: Any, facts: IndexFacts, timeout: float | None) -> None:
        """Take an actor of :class:`Answering`."""
        self.name = str(path)
        self.actor = actor
        self._facts = facts
        self._timeout = read_timeout(timeout)

    def statistics(self, request: Request) -> Statistics:
        """Count what BM25 needs of the shard."""
        return Statistics.from_bytes(self._ask(b"statistics", request.to_bytes()))

    def candidates(self, request: Request, statistics: Statistics) -> Part:
        """Return each arm's best documents of the shard."""
        given = request.to_bytes(), statistics.to_bytes()
        return Part.from_bytes(self._ask(b"candidates", *given), facts=self._facts)

    def close(self) -> None:
        """End the actor."""
        import ray

        if ray.is_initialized():
            ray.kill(self.actor)

    def _ask(self, *frames: bytes) -> bytes:
        import ray

        try:
            kind, answer = ray.get(self.actor.ask.remote(*frames), timeout=self._timeout)
        except ray.exceptions.RayError as fault:
            got = str(fault).split("\n", 1)[0] or type(fault).__name__
            raise error(ShardLostError, self.name, "an answer", got) from fault
        if kind != b"answer":
            raise rebuild(answer)
        return bytes(answer)


def ray_shards(
    paths: Sequence[Path],
    facts: IndexFacts,
    *,
    device: str,
    threads: int | None,
    timeout: float | None,
    num_cpus: float,
    num_gpus: float,
) -> list[RayShard]:
    """Start an actor for each path.

    Raises
    ------
    MissingExtraError
        Ray is not installed.
    """
    ray = load_ray("on_ray")
    # A question that an ended actor did not answer is not asked again: the shard counts as lost.
    how = {"num_cpus": num_cpus, "num_gpus": num_gpus, "max_restarts": -1, "max_task_retries": 0}
    actor = ray.remote(**how)(Answering)
    return [
        RayShard(path, actor.remote(str(path.absolute()), device, threads), facts, timeout)
        for path in paths
    ]
