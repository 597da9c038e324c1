"""Runs shards as Ray actors, each of which opens the index of a path (extra ``[ray]``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from hyrecall.distributed.asked_shard import AskedShard
from hyrecall.distributed.opening import Replication, names_of
from hyrecall.distributed.pipes import rebuild
from hyrecall.distributed.ray_workers import load_ray
from hyrecall.distributed.shards import SavedShard, Shard, read_timeout
from hyrecall.distributed.worker import Answering
from hyrecall.errors import ShardLostError, error
from hyrecall.segments.facts import IndexFacts

__all__ = ["RayShard", "ray_shards"]


class RayShard(AskedShard):
    """A shard in a Ray actor. Ray restarts an actor that ended, if it can."""

    def __init__(self, name: str, actor: Any, facts: IndexFacts, timeout: float | None) -> None:
        """Take an actor of :class:`Answering`."""
        self.name = name
        self.actor = actor
        self.facts = facts
        self._timeout = read_timeout(timeout)

    def check(self) -> None:
        """Raise ShardLostError if the actor does not answer."""
        self._ask(b"state")

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
    saved: Sequence[SavedShard],
    facts: IndexFacts,
    replication: Replication,
    *,
    device: str,
    threads: int | None,
    timeout: float | None,
    num_cpus: float,
    num_gpus: float,
) -> list[Shard]:
    """Start an actor for each saved index, or one for each of its replicas.

    Raises
    ------
    MissingExtraError
        Ray is not installed.
    """
    ray = load_ray("on_ray")
    # A question that an ended actor did not answer is not asked again: the shard counts as lost.
    how = {"num_cpus": num_cpus, "num_gpus": num_gpus, "max_restarts": -1, "max_task_retries": 0}
    actor = ray.remote(**how)(Answering)

    def make(one: SavedShard, name: str, tries: int) -> RayShard:
        del tries  # Ray restarts an actor, but does not ask its question again
        started = actor.remote(str(one.path.absolute()), device, threads, one.seal)
        return RayShard(name, started, facts, timeout)

    return [
        replication.shard(one, name, partial(make, one, name))
        for one, name in zip(saved, names_of([one.path for one in saved]), strict=True)
    ]
