"""Runs shards as Ray actors, each of which opens the index of a path (extra ``[ray]``)."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from hyrecall.distributed.channel import (
    START_SECONDS,
    rebuild,
)
from hyrecall.distributed.opening import Replication, names_of
from hyrecall.distributed.ray_cluster import (
    check_room,
    connect,
    default_gpus,
    first_line,
    nodes_of,
    read_reserved,
    wait_for_start,
)
from hyrecall.distributed.shards import AskedShard, SavedShard, Shard, ShardOpening, read_timeout
from hyrecall.distributed.worker import IndexAnswerer
from hyrecall.errors import (
    ShardLostError,
    error,
)
from hyrecall.segments.segments import IndexFacts


class RayShard(AskedShard):
    """A shard in a Ray actor. Ray restarts an actor that ended, if it can."""

    # An actor that does not answer in time is ended, so that Ray restarts it. The time of a
    # question begins when the question before it is answered.

    def __init__(self, name: str, actor: Any, facts: IndexFacts, timeout: float | None) -> None:
        self.name = name
        self.actor = actor
        self.facts = facts
        self._timeout = read_timeout(timeout)
        self._lock = threading.Lock()
        self._n_asked = 0  # questions under way
        self._since = 0.0  # when the actor began with the first of them
        self._has_answered = False  # since it was started; its first answer waits for an open
        self._n_killed = 0  # how often it was ended here

    def check(self) -> None:
        """Raise ShardLostError if the actor does not answer; one at work on a question does."""
        if not self._n_asked:
            self._ask(b"state")

    def close(self) -> None:
        """End the actor."""
        import ray

        if ray.is_initialized():
            ray.kill(self.actor)

    def _ask(self, *frames: bytes) -> bytes:
        import ray

        with self._lock:
            if not self._n_asked:
                self._since = time.monotonic()
            self._n_asked += 1
            n_killed = self._n_killed
        has_answered = False
        try:
            asked = self.actor.ask.remote(*frames)
            if self._timeout is not None:
                self._wait(asked, self._timeout, n_killed)
            kind, answer = ray.get(asked)
            has_answered = True
        except ray.exceptions.RayError as fault:
            raise error(ShardLostError, self.name, "an answer", first_line(fault)) from fault
        finally:
            with self._lock:
                self._n_asked -= 1
                self._since = time.monotonic()
                self._has_answered = has_answered
        if kind != b"answer":
            raise rebuild(answer)
        return bytes(answer)

    def _wait(self, asked: Any, timeout: float, n_killed: int) -> None:
        """Wait until a question has its answer, or its actor has ended."""
        import ray

        while True:
            limit = timeout if self._has_answered else timeout + START_SECONDS
            left = self._since + limit - time.monotonic()
            if ray.wait([asked], timeout=max(left, 0.0))[0]:
                return
            if left <= 0:
                break
        with self._lock:  # of several questions that are late, the first one ends the actor
            if n_killed == self._n_killed:
                self._n_killed += 1
                ray.kill(self.actor, no_restart=False)
        raise error(ShardLostError, self.name, "an answer", f"none within {limit} s")


def ray_shards(
    saved: Sequence[SavedShard],
    facts: IndexFacts,
    replication: Replication,
    *,
    opening: ShardOpening,
    timeout: float | None,
    num_cpus: float,
    num_gpus: float | None,
    start_timeout: float | None,
) -> list[Shard]:
    """Start an actor for each saved index, or one for each of its replicas."""
    seconds = read_timeout(start_timeout, "start_timeout")
    ray = connect("on_ray")
    nodes, n = nodes_of(ray), len(saved) * replication.n
    reserved = read_reserved(num_cpus, num_gpus or 0)
    if num_gpus is None:
        gpus = default_gpus(nodes, n, opening.device, reserved.num_cpus)
        reserved = reserved._replace(num_gpus=gpus)
    if seconds is None:
        check_room(nodes, n, reserved)
    # A question that an ended actor did not answer is not asked again: the shard counts as lost.
    # The actors of a shard are started one after another, so SPREAD gives them different nodes.
    actor = ray.remote(
        **reserved._asdict(), max_restarts=-1, max_task_retries=0, scheduling_strategy="SPREAD"
    )(IndexAnswerer)
    actors: list[Any] = []

    def make(one: SavedShard, name: str, tries: int) -> RayShard:
        del tries  # Ray restarts an actor, but does not ask its question again
        actors.append(actor.remote(str(one.path.absolute()), opening, one.seal))
        return RayShard(name, actors[-1], facts, timeout)

    try:
        shards = [
            replication.shard(one, name, partial(make, one, name))
            for one, name in zip(saved, names_of([one.path for one in saved]), strict=True)
        ]
        wait_for_start(ray, actors, seconds)
    except BaseException:
        for one in actors:
            ray.kill(one)
        raise
    return shards
