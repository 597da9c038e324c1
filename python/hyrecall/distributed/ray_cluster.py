"""Ray actors: those that hold shards, and those that answer parts of a batch (extra ``[ray]``).

Restarts, retries and placement are Ray's. It queues an actor that no node has room for, without an
error and without end; so the start of actors has a limit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any

from hyrecall.base.arguments import number
from hyrecall.distributed.shards import SavedShard, ShardOpening
from hyrecall.errors import (
    DTypeError,
    IndexNotFoundError,
    MissingExtraError,
    OptionError,
    ShardLostError,
    error,
)
from hyrecall.index import Index
from hyrecall.parts.messages import Part, Request, Statistics
from hyrecall.segments.segments import IndexFacts

START_SECONDS = 120.0
"""Within which all actors must start, unless ``start_timeout`` is given."""

MOST = 1e6  # seconds, cores or GPUs


# ---- What the cluster has, and what actors reserve ----


def connect(argument: str) -> Any:
    """Return the module ray, connected to a cluster; a local one is started if there is none."""
    try:
        import ray
    except ModuleNotFoundError as fault:
        wish = "the package ray (pip install 'hyrecall[ray]')"
        raise error(MissingExtraError, argument, wish, "none") from fault
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    return ray


def read_seconds(argument: str, value: object) -> float | None:
    """Return seconds; None: no limit."""
    if value is None:
        return None
    wish = f"seconds above 0 and up to {MOST:.0f}, or None"
    seconds = number(argument, value, 0.0, MOST, wish)
    if not seconds:
        raise error(OptionError, argument, wish, repr(value))
    return seconds


def read_reserved(num_cpus: object, num_gpus: object) -> tuple[float, float]:
    """Check what is to be reserved for each actor."""
    cpus = number("num_cpus", num_cpus, 0, MOST, "a number of cores, 0 or more")
    wish = "a number from 0 to 1, or a whole number of GPUs"
    gpus = number("num_gpus", num_gpus, 0, MOST, wish)
    if gpus > 1 and gpus % 1:
        raise error(OptionError, "num_gpus", wish, num_gpus)
    return cpus, gpus


def default_gpus(ray: Any, n: int, device: str) -> float:
    """Return how many GPUs each of `n` actors reserves if the caller does not say."""
    # An actor sees only the GPUs that are reserved for it. A named CUDA device needs one;
    # ``"auto"`` gets one where every actor can have its own.
    if device == "auto":
        return float(ray.cluster_resources().get("GPU", 0) >= n)
    return float(device.startswith("cuda"))


def _first_line(fault: BaseException) -> str:
    """Return what an error of Ray says, without its tracebacks."""
    return str(fault).strip().split("\n", 1)[0] or type(fault).__name__


# ---- Actors that answer one question after another ----


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


def start_actors(
    makes: Sequence[Callable[[], Callable[..., Any]]],
    *,
    num_cpus: float,
    num_gpus: float | None,
    device: str,
    start_timeout: float | None,
    **how: Any,
) -> list[Any]:
    """Start an actor for each function; it is called in the actor, at its first question."""
    seconds, n = read_seconds("start_timeout", start_timeout), len(makes)
    cpus, gpus = read_reserved(num_cpus, num_gpus or 0)
    ray = connect("on_ray")
    if num_gpus is None:
        gpus = default_gpus(ray, n, device)
    actor = ray.remote(num_cpus=cpus, num_gpus=gpus, **how)(_Actor)
    actors = [actor.remote(make) for make in makes]
    try:
        _wait_for_start(ray, actors, START_SECONDS if seconds is None else seconds)
    except BaseException:
        for one in actors:
            ray.kill(one)
        raise
    return actors


def _wait_for_start(ray: Any, actors: Sequence[Any], seconds: float) -> None:
    asked = [one.__ray_ready__.remote() for one in actors]
    ready, late = ray.wait(asked, num_returns=len(asked), timeout=seconds)
    wish = f"{len(actors)} actors that start within {seconds:g} s"
    try:
        ray.get(ready)
    except ray.exceptions.RayError as fault:
        got = f"one that ended: {_first_line(fault)}"
        raise error(ShardLostError, "on_ray", wish, got) from fault
    if late:
        free = ray.available_resources()
        rest = " and ".join(f"{free.get(one, 0):g} {one}s" for one in ("CPU", "GPU"))
        remedy = "num_cpus= and num_gpus= say what each reserves, start_timeout= how long to wait"
        got = f"{len(ready)} (free now: {rest})"
        raise error(ShardLostError, "start_timeout", wish, got, remedy)


def _begin(
    actor: Any, given: tuple[Any, ...], name: str, timeout: float | None = None
) -> Callable[[], Any]:
    """Ask an actor; return a function that waits for its answer or raises its error."""
    import ray

    try:
        asked = actor.ask.remote(*given)
    except TypeError as fault:  # of pickle
        raise error(DTypeError, name, "arguments that Ray can send", _first_line(fault)) from fault

    until = None if timeout is None else time.monotonic() + timeout  # of all that are asked now

    def wait() -> Any:
        left = None if until is None else max(0.0, until - time.monotonic())
        try:
            answer, fault = ray.get(asked, timeout=left)
        except ray.exceptions.GetTimeoutError as late:
            raise error(ShardLostError, name, "an answer", f"none within {timeout} s") from late
        except ray.exceptions.RayError as lost:
            raise error(ShardLostError, name, "an answer", _first_line(lost)) from lost
        if fault is not None:
            raise fault
        return answer

    return wait


class RayWorkers:
    """Actors that take turns; Ray repeats questions that an actor did not answer."""

    def __init__(
        self,
        make: Callable[[], Callable[..., Any]],
        workers: int | None = None,
        *,
        most: int | None = None,
        num_cpus: float = 1,
        num_gpus: float | None = None,
        device: str = "auto",
        start_timeout: float | None = None,
    ) -> None:
        """Start actors: as many as are named, or the cluster has room for, up to ``most``."""
        cpus, gpus = read_reserved(num_cpus, num_gpus or 0)
        self._ray = connect("ray")
        has = self._ray.cluster_resources()
        room = has.get("CPU", 0) / max(cpus, 0.01)
        n = workers or max(1, int(min(room, has.get("GPU", 0) / gpus if gpus else room)))
        n = n if most is None else max(1, min(n, most))
        self.actors = start_actors(
            [make] * n, num_cpus=cpus, num_gpus=num_gpus, device=device,
            start_timeout=start_timeout, max_restarts=-1, max_task_retries=3,
        )  # fmt: skip
        self._turns = cycle(self.actors)
        self.n_ahead = 2 * n - 1  # each has the next question while it answers one

    def ask(self, *given: Any) -> Callable[[], Any]:
        """Ask the next actor; return a function that waits for its answer or raises its error."""
        return _begin(next(self._turns), given, "ray")

    def close(self) -> None:
        """End the actors."""
        if self._ray.is_initialized():
            for one in self.actors:
                self._ray.kill(one)


# ---- Actors that hold shards ----


def _open_shard(saved: SavedShard, opening: ShardOpening) -> Callable[..., Any]:
    """Open a saved index in an actor; return what answers questions about it."""
    try:
        index = opening.open(saved.folder)
    except IndexNotFoundError as fault:
        raise error(ShardLostError, saved.name, "a saved index", "none any more") from fault
    if index._lineage.seals != (saved.seal,):  # replies never mix two versions
        index.close()
        wish, got = f"the version {saved.seal} that was opened", "another one"
        raise error(ShardLostError, saved.name, wish, got, "index.reload()")
    return partial(_answer_shard, index)


def _answer_shard(index: Index, method: str, request: Request, *given: Statistics) -> Any:
    if method == "statistics":
        return index.statistics(request)
    part = index.candidates(request, given[0] if given else index.statistics(request))
    return replace(part, facts=None)  # type: ignore[arg-type]  # who asks knows them


class RayShard:
    """A shard in a Ray actor."""

    def __init__(self, name: str, actor: Any, facts: IndexFacts, timeout: float | None) -> None:
        self.name = name
        self.actor = actor
        self.facts = facts
        self._timeout = timeout

    def begin(self, method: str, *given: Any) -> Callable[[], Any]:
        """Send a question; return a function that waits for its answer or raises its error."""
        wait = _begin(self.actor, (method, *given), self.name, self._timeout)

        def answer() -> Any:
            found = wait()
            return replace(found, facts=self.facts) if isinstance(found, Part) else found

        return answer

    def statistics(self, request: Request) -> Statistics:
        """Return the shard's counts for BM25."""
        counted: Statistics = self.begin("statistics", request)()
        return counted

    def candidates(self, request: Request, statistics: Statistics) -> Part:
        """Return each arm's best documents of the shard."""
        part: Part = self.begin("candidates", request, statistics)()
        return part

    def close(self) -> None:
        """End the actor."""
        import ray

        if ray.is_initialized():
            ray.kill(self.actor)


def ray_shards(
    saved: Sequence[SavedShard],
    facts: IndexFacts,
    *,
    opening: ShardOpening,
    timeout: float | None,
    **how: Any,
) -> list[RayShard]:
    """Start an actor for each saved index."""
    seconds = read_seconds("timeout", timeout)
    makes = [partial(_open_shard, one, opening) for one in saved]
    actors = start_actors(makes, device=opening.device, **how)
    return [
        RayShard(one.name, actor, facts, seconds) for one, actor in zip(saved, actors, strict=True)
    ]
