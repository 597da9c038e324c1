"""Shards on the nodes of a Ray cluster: room for actors, their GPUs, and where they lie.

The cluster has two nodes on this machine. Ray counts resources and does not look at the machine, so
cores and GPUs are numbers here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import hyrecall as hr
from distributed.saved import asked, saved_shards, whole
from hyrecall.distributed import ShardedIndex
from hyrecall.errors import ShardLostError
from seams import RayShard, ray_cluster, read_reserved

ray = pytest.importorskip("ray", reason="ray is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")  # of Ray, at its start

SECONDS = 120.0  # in which actors must be placed
NODE = {"num_cpus": 2, "num_gpus": 1, "object_store_memory": 100 << 20}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    try:
        made.add_node(**NODE)
        ray.init(address=made.address, log_to_driver=False)
        made.wait_for_nodes()
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


@pytest.fixture(scope="module")
def paths(cluster: Any, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return saved_shards(tmp_path_factory.mktemp("cluster"))


@pytest.fixture
def free(cluster: Any) -> None:
    """Wait until nothing is reserved: Ray lets go of what an ended actor had a moment later."""
    wait_until_free(4)


def wait_until_free(cpus: float) -> None:
    deadline = time.monotonic() + SECONDS
    while ray.available_resources().get("CPU", 0) < cpus:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def actors(shards: Sequence[object]) -> list[Any]:
    out = []
    for one in shards:
        assert isinstance(one, RayShard)
        out.append(one.actor)
    return out


def told_by(actor: Any, what: str) -> Any:
    """Ask an actor for a value of its Ray context."""
    call = actor.__ray_call__.remote
    return ray.get(call(lambda _: getattr(ray.get_runtime_context(), what)()), timeout=SECONDS)


@pytest.mark.parametrize("how", [{"start_timeout": 0}, {"timeout": -1}, {"num_gpus": 1.5}], ids=str)
def test_what_cannot_be_reserved_or_waited_for_is_refused(
    paths: list[Path], how: dict[str, Any]
) -> None:
    with pytest.raises(hr.OptionError) as fault:
        ShardedIndex.on_ray(paths, **how)
    assert fault.value.argument == next(iter(how))


def test_numbers_to_reserve() -> None:
    assert read_reserved(0, 0) == (0, 0)
    assert read_reserved(2.5, 3) == (2.5, 3)
    wrong: list[tuple[object, object, str]] = [
        *((one, 0, "num_cpus") for one in (-1, float("nan"), "1", None)),
        *((1, one, "num_gpus") for one in (-0.5, 1.5, float("inf"), True)),
    ]
    for num_cpus, num_gpus, argument in wrong:
        with pytest.raises((hr.OptionError, hr.DTypeError)) as fault:
            read_reserved(num_cpus, num_gpus)
        assert fault.value.argument == argument


@pytest.mark.usefixtures("free")
@pytest.mark.parametrize(
    ("n", "how", "gpus"),
    [
        (2, {}, 1.0),
        (3, {}, 0.0),
        (2, {"device": "cpu"}, 0.0),
        (3, {"num_gpus": 0.5}, 0.5),
        (2, {"num_gpus": 0}, 0.0),
    ],
)
def test_each_actor_has_a_gpu_where_there_are_enough(
    paths: list[Path], n: int, how: dict[str, Any], gpus: float
) -> None:
    with ShardedIndex.on_ray(paths[:n], num_cpus=0.5, threads=1, **how) as index:
        for one in actors(index.shards):
            had = told_by(one, "get_assigned_resources")
            assert had.get("GPU", 0.0) == gpus
            assert had["CPU"] == 0.5
        if n == 3:
            want = whole().recall(**asked()).to_arrow()
            assert index.recall(**asked()).to_arrow().equals(want)


@pytest.mark.usefixtures("free")
def test_actors_are_spread_over_the_nodes(paths: list[Path]) -> None:
    with ShardedIndex.on_ray(paths, num_cpus=0.1, device="cpu", threads=1) as index:
        assert len({told_by(one, "get_node_id") for one in actors(index.shards)}) == 2


@pytest.mark.usefixtures("free")
def test_actors_that_others_leave_no_room_for_are_given_up(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Holder:
        def hold(self) -> None:
            """Say that it has started."""

    holders = [ray.remote(num_cpus=2)(Holder).remote() for _ in range(2)]
    ray.get([one.hold.remote() for one in holders], timeout=SECONDS)
    monkeypatch.setattr(ray_cluster, "START_SECONDS", 1.0)
    with pytest.raises(ShardLostError) as fault:
        ShardedIndex.on_ray(paths, device="cpu")
    assert str(fault.value).startswith(
        "start_timeout: expected 3 actors that start within 1 s, got 0 (free now: 0 CPUs and 2 GPUs"
    )
    for one in holders:
        ray.kill(one)
    wait_until_free(4)
    time.sleep(1.0)
    assert ray.available_resources()["CPU"] == 4, "an actor that was given up has started"


@pytest.mark.usefixtures("free")
def test_a_cluster_that_grows_is_waited_for(cluster: Any, paths: list[Path]) -> None:
    opened: list[ShardedIndex] = []

    def open_index() -> None:
        how: dict[str, Any] = {"device": "cpu", "threads": 1, "start_timeout": SECONDS}
        opened.append(ShardedIndex.on_ray(paths, num_cpus=2, **how))

    waiting = threading.Thread(target=open_index)
    waiting.start()
    waiting.join(2.0)
    assert not opened, "6 cores of 4"
    node = cluster.add_node(**NODE)
    try:
        waiting.join(SECONDS)
        (index,) = opened
        with index:
            want = whole().recall(**asked()).to_arrow()
            assert index.recall(**asked()).to_arrow().equals(want)
    finally:
        cluster.remove_node(node)
