"""Runs Ray actors that answer one question after another (extra ``[ray]``)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

from hyrecall.distributed.ray_cluster import (
    check_room,
    connect,
    default_gpus,
    first_line,
    most_actors,
    nodes_of,
    read_reserved,
    shown,
    wait_for_start,
)
from hyrecall.distributed.shards import read_timeout
from hyrecall.errors import OptionError, ShardLostError, error

__all__ = ["RayWorkers"]

IN_WORK = 2
"""Questions sent to an actor at a time: the one that it answers, and the next one."""

NUM_CPUS = 1.0
"""CPUs that Ray reserves for each actor."""


class _Actor:
    """Calls ``make`` at the first question, and answers with the function that it returns."""

    def __init__(self, make: Callable[[], Callable[..., Any]]) -> None:
        self._make = make
        self._answer: Callable[..., Any] | None = None

    def ask(self, *given: Any) -> tuple[Any, Exception | None]:
        """Return the answer, or the error."""
        try:
            if self._answer is None:
                self._answer = self._make()
            return self._answer(*given), None
        except Exception as fault:
            return None, fault


class RayWorkers:
    """Actors that take turns; Ray repeats questions that an actor did not answer before it
    ended.
    """

    # So a question must be safe to ask twice.

    def __init__(
        self,
        make: Callable[[], Callable[..., Any]],
        workers: int | None,
        *,
        num_gpus: float | None = None,
        start_timeout: float | None = None,
    ) -> None:
        """Start the actors."""
        seconds = read_timeout(start_timeout, "start_timeout")
        self._ray = ray = connect("ray")
        nodes = nodes_of(ray)
        reserved = read_reserved(NUM_CPUS, num_gpus or 0)
        most = most_actors(nodes, reserved)
        n = max(1, most) if workers is None else workers
        if num_gpus is None:
            reserved = reserved._replace(num_gpus=default_gpus(nodes, n, "auto", NUM_CPUS))
        if seconds is None:
            if 0 < most < n:
                actors = "1 actor" if most == 1 else f"{most} actors"
                each = f"{NUM_CPUS:g} CPU and {shown(num_gpus or 0)} GPUs"
                wish = f"at most {actors} of {each} in this cluster"
                raise error(OptionError, "workers", wish, n)
            check_room(nodes, n, reserved)
        actor = ray.remote(**reserved._asdict(), max_restarts=-1, max_task_retries=3)(_Actor)
        self.actors = [actor.remote(make) for _ in range(n)]
        try:
            wait_for_start(ray, self.actors, seconds)
        except BaseException:
            self.close()
            raise
        self._turns = cycle(self.actors)
        self.n_ahead = n * IN_WORK - 1

    def ask(self, *given: Any) -> Callable[[], Any]:
        """Ask the next actor; return a function that waits for its answer or raises its error."""
        asked = next(self._turns).ask.remote(*given)

        def wait() -> Any:
            try:
                answer, fault = self._ray.get(asked)
            except self._ray.exceptions.RayError as lost:
                wish = "an answer of an actor"
                raise error(ShardLostError, "ray", wish, first_line(lost)) from lost
            if fault is not None:
                raise fault
            return answer

        return wait

    def close(self) -> None:
        """End the actors."""
        if self._ray.is_initialized():
            for one in self.actors:
                self._ray.kill(one)
