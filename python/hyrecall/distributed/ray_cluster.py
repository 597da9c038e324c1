"""The cluster that Ray actors run in: what its nodes can reserve, and whether the actors started.

Ray queues an actor that no node has room for, without an error and without end. So what actors
reserve is compared with the nodes before they are started, and their start has a time limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any, NamedTuple

from hyrecall.base.arguments import number
from hyrecall.distributed.shards import read_timeout
from hyrecall.errors import MissingExtraError, OptionError, ShardLostError, error

START_SECONDS = 120.0
"""Within which all actors must start on nodes that have room for them."""

UNITS = 10_000
"""Ray counts resources in units of 1/10,000."""

MOST_ACTORS = 1 << 20
MOST_RESERVED = 1 << 20


class Reserved(NamedTuple):
    """What Ray reserves for one actor."""

    num_cpus: float
    num_gpus: float


class RayNode(NamedTuple):
    """The resources of a node, reserved ones included, in units of Ray."""

    cpus: int
    gpus: int


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


def nodes_of(ray: Any) -> list[RayNode]:
    """Return the nodes that are alive."""
    alive = [one["Resources"] for one in ray.nodes() if one["Alive"]]
    return [RayNode(_units(one.get("CPU", 0)), _units(one.get("GPU", 0))) for one in alive]


def read_reserved(num_cpus: object, num_gpus: object) -> Reserved:
    """Check what is to be reserved for each actor."""
    cpus = number("num_cpus", num_cpus, 0, MOST_RESERVED, "a number of cores, 0 or more")
    wish = "a number from 0 to 1, or a whole number of GPUs"
    gpus = number("num_gpus", num_gpus, 0, MOST_RESERVED, wish)
    if gpus > 1 and gpus % 1:
        raise error(OptionError, "num_gpus", wish, num_gpus)
    return Reserved(cpus, gpus)


def most_actors(nodes: Sequence[RayNode], reserved: Reserved) -> int:
    """Return how many actors the nodes have room for, if nothing else runs there."""
    return min(MOST_ACTORS, sum(_room(one, reserved) for one in nodes))


def default_gpus(nodes: Sequence[RayNode], n: int, device: str, num_cpus: float) -> float:
    """Return how many GPUs each of `n` actors reserves if the caller does not say."""
    # An actor sees only the GPUs that are reserved for it. A named CUDA device needs one;
    # ``"auto"`` gets one where every actor can have its own.
    if device == "auto":
        return float(most_actors(nodes, Reserved(num_cpus, 1)) >= n)
    return float(device.startswith("cuda"))


def check_room(nodes: Sequence[RayNode], n: int, reserved: Reserved) -> None:
    """Check that the nodes have room for `n` actors."""
    if most_actors(nodes, reserved) >= n:
        return
    cpus_fit = most_actors(nodes, reserved._replace(num_gpus=0)) >= n
    gpus_fit = most_actors(nodes, reserved._replace(num_cpus=0)) >= n
    actors = f"each of {n} actors" if n > 1 else "the actor"
    if cpus_fit and not gpus_fit:
        argument, given = "num_gpus", reserved._replace(num_cpus=0)
        total = sum(one.gpus for one in nodes)
    else:
        argument, given = "num_cpus", reserved if gpus_fit else reserved._replace(num_gpus=0)
        total = sum(one.cpus for one in nodes)
        actors += f" beside num_gpus={given.num_gpus:g}" if cpus_fit else ""
    most = _largest(nodes, n, given, argument)
    has = shown(total / UNITS) + (f" on {len(nodes)} nodes" if len(nodes) > 1 else "")
    wish = f"at most {shown(most)} for {actors} (the cluster has {has})"
    got = shown(getattr(reserved, argument))
    raise error(OptionError, argument, wish, got, "start_timeout= waits for a cluster that grows")


def wait_for_start(ray: Any, actors: Sequence[Any], seconds: float | None) -> None:
    """Wait until all actors have started; None: for :data:`START_SECONDS`."""
    limit = START_SECONDS if seconds is None else seconds
    asked = [one.__ray_ready__.remote() for one in actors]
    ready, late = ray.wait(asked, num_returns=len(asked), timeout=limit)
    wish = f"{len(actors)} actors that start within {limit:g} s"
    try:
        ray.get(ready)
    except ray.exceptions.RayError as fault:
        got = f"one that ended: {first_line(fault)}"
        raise error(ShardLostError, "on_ray", wish, got) from fault
    if late:
        free = ray.available_resources()
        rest = " and ".join(f"{shown(free.get(one, 0))} {one}s" for one in ("CPU", "GPU"))
        remedy = "num_cpus= and num_gpus= say what each reserves, start_timeout= how long to wait"
        got = f"{len(ready)} (free now: {rest})"
        raise error(ShardLostError, "start_timeout", wish, got, remedy)


def first_line(fault: BaseException) -> str:
    """Return what an error of Ray says, without its tracebacks."""
    return str(fault).strip().split("\n", 1)[0] or type(fault).__name__


def shown(value: float) -> str:
    """Return a number of resources as Ray counts them, without trailing zeros."""
    return f"{value:.4f}".rstrip("0").rstrip(".")


def _units(value: float) -> int:
    return round(value * UNITS)


def _room(node: RayNode, reserved: Reserved) -> int:
    """Return how many actors one node has room for."""
    cpus, gpus = _units(reserved.num_cpus), _units(reserved.num_gpus)
    of_cpus = node.cpus // cpus if cpus else MOST_ACTORS
    if not gpus:
        return of_cpus
    # Parts of a GPU that belong to one actor lie on one GPU.
    of_gpus = node.gpus // UNITS * (UNITS // gpus) if gpus <= UNITS else node.gpus // gpus
    return min(of_cpus, of_gpus)


def _largest(nodes: Sequence[RayNode], n: int, given: Reserved, argument: str) -> float:
    """Return the most that `n` actors may reserve in place of one number; less always fits."""
    low, high = 0, _units(getattr(given, argument))
    while high - low > 1:
        middle = (low + high) // 2
        fits = most_actors(nodes, given._replace(**{argument: middle / UNITS})) >= n
        low, high = (middle, high) if fits else (low, middle)
    if argument == "num_gpus" and low > UNITS:
        low -= low % UNITS
    return low / UNITS


# ---- Runs Ray actors that answer one question after another (extra ``[ray]``) ----

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
