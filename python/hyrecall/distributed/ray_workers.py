"""Ray actors that answer one thing after another, each with what it opened; the extra ``[ray]``."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

from hyrecall.errors import MissingExtraError, ShardLostError, error

__all__ = ["RayWorkers", "load_ray"]

IN_WORK = 2
"""Questions of an actor: one that it answers, and one that is there when it has."""


def load_ray(argument: str) -> Any:
    """Return the module ray.

    Raises
    ------
    MissingExtraError
        It is not installed; ``argument`` is what asks for it.
    """
    try:
        import ray
    except ModuleNotFoundError as fault:
        wish = "the package ray (pip install 'hyrecall[ray]')"
        raise error(MissingExtraError, argument, wish, "none") from fault
    return ray


class _Actor:
    """Makes what answers with the first question."""

    def __init__(self, make: Callable[[], Callable[..., Any]]) -> None:
        self._make = make
        self._answer: Callable[..., Any] | None = None

    def ask(self, *given: Any) -> tuple[Any, Exception | None]:
        """Return the answer, or why there is none."""
        try:
            if self._answer is None:
                self._answer = self._make()
            return self._answer(*given), None
        except Exception as fault:
            return None, fault


class RayWorkers:
    """Actors that take turns; Ray asks again what an actor that ended did not answer.

    Asking twice must change nothing.

    Parameters
    ----------
    make : callable
        Returns what answers; called once in each actor, where it is imported by its name.
    n : int, optional
        Actors; default: the CPUs of the cluster, divided by ``num_cpus``.
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
        """Ask the next actor; return what waits for its answer or raises its error."""
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
