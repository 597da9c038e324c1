"""Runs Ray actors that answer one question after another (extra ``[ray]``)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

from hyrecall.errors import MissingExtraError, ShardLostError, error

__all__ = ["RayWorkers", "load_ray"]

IN_WORK = 2
"""Questions sent to an actor at a time: the one that it answers, and the next one."""


def load_ray(argument: str) -> Any:
    """Return the module ray.

    Raises
    ------
    MissingExtraError
        Ray is not installed; ``argument`` names the option that needs it.
    """
    try:
        import ray
    except ModuleNotFoundError as fault:
        wish = "the package ray (pip install 'hyrecall[ray]')"
        raise error(MissingExtraError, argument, wish, "none") from fault
    return ray


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
    """Actors that take turns; Ray repeats questions that an actor did not answer before it ended.

    So a question must be safe to ask twice.

    Parameters
    ----------
    make : callable
        Returns the function that answers; called once in each actor, which imports it by name.
    n : int, optional
        Number of actors; default: the CPUs of the cluster, divided by ``num_cpus``.
    num_cpus, num_gpus : float
        What Ray reserves for each.
    """

    def __init__(
        self,
        make: Callable[[], Callable[..., Any]],
        n: int | None,
        *,
        num_cpus: float = 1,
        num_gpus: float = 0,
    ) -> None:
        """Start the actors."""
        self._ray = ray = load_ray("ray")
        if not ray.is_initialized():
            ray.init(log_to_driver=False)
        if n is None:
            n = max(1, int(ray.cluster_resources().get("CPU", 1) / max(num_cpus, 0.01)))
        how = {"num_cpus": num_cpus, "num_gpus": num_gpus, "max_restarts": -1}
        actor = ray.remote(**how, max_task_retries=3)(_Actor)
        self.actors = [actor.remote(make) for _ in range(n)]
        self._turns = cycle(self.actors)
        self.n_ahead = n * IN_WORK - 1

    def ask(self, *given: Any) -> Callable[[], Any]:
        """Ask the next actor; return a function that waits for its answer or raises its error."""
        asked = next(self._turns).ask.remote(*given)

        def wait() -> Any:
            try:
                answer, fault = self._ray.get(asked)
            except self._ray.exceptions.RayError as lost:
                got = str(lost).split("\n", 1)[0] or type(lost).__name__
                raise error(ShardLostError, "ray", "an answer of an actor", got) from lost
            if fault is not None:
                raise fault
            return answer

        return wait

    def close(self) -> None:
        """End the actors."""
        if self._ray.is_initialized():
            for one in self.actors:
                self._ray.kill(one)
