"""Shards in Ray actors: the same replies, and an actor that ends is named."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import hyrecall as hr
from distributed.test_processes import asked, saved_shards, whole
from hyrecall.distributed import ShardedIndex
from hyrecall.distributed.ray_shards import RayShard
from hyrecall.distributed.replicated import ReplicatedShard
from laws.effort import Effort
from laws.engine import ipc_bytes

ray = pytest.importorskip("ray", reason="ray is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")  # of Ray, at its start


SECONDS = 120.0  # in which actors must be whole again


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        yield saved_shards(tmp_path_factory.mktemp("ray"))
    finally:
        ray.shutdown()


@pytest.fixture(scope="module")
def index(paths: list[Path]) -> Iterator[ShardedIndex]:
    with ShardedIndex.on_ray(paths, device="cpu", threads=1, num_cpus=0.1) as made:
        yield made


def wait_until_whole(index: ShardedIndex) -> None:
    deadline = time.monotonic() + SECONDS
    while any(one.n_lost for one in index.health().values()) or index.recall(**asked()).degraded:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_actors_reply_as_one_index(index: ShardedIndex) -> None:
    one = whole()
    for more in ({}, {"shaping": (hr.MMR(0.5),)}, {"recipe": hr.recipes.default},
                 {"filter": hr.Filter(year=(2002, None)), "columns": ["text"]}):  # fmt: skip
        got = index.recall(**asked(**more))
        assert not got.degraded
        assert ipc_bytes(got.to_arrow()) == ipc_bytes(one.recall(**asked(**more)).to_arrow())
    with pytest.raises(hr.ScopeError) as fault:
        index.recall(**asked(scope=None))
    assert fault.value.argument == "scope"


def test_an_actor_that_is_killed_is_named_or_starts_again(index: ShardedIndex) -> None:
    want = whole().recall(**asked()).to_arrow()
    for shard in index.shards:
        assert isinstance(shard, RayShard)
        ray.kill(shard.actor, no_restart=False)
        got = index.recall(**asked())
        if got.degraded:
            assert any(shard.name in told for told in got.trace.degraded)
        else:
            assert got.to_arrow().equals(want)
        wait_until_whole(index)
        assert index.recall(**asked()).to_arrow().equals(want)


def test_actors_killed_at_random_moments_of_a_recall(index: ShardedIndex, effort: Effort) -> None:
    want = whole().recall(**asked()).to_arrow()
    chance = random.Random(4)
    n_right = 0
    for _ in range(effort.cases(quick=2, full=50)):
        wait_until_whole(index)
        victim = chance.choice(index.shards)
        assert isinstance(victim, RayShard)
        timer = threading.Timer(
            chance.uniform(0.0, 0.05), ray.kill, (victim.actor,), {"no_restart": False}
        )
        timer.start()
        while timer.is_alive():
            got = index.recall(**asked())
            if got.degraded:
                assert {victim.name} == {told.partition(":")[0] for told in got.trace.degraded}
            else:
                assert got.to_arrow().equals(want)
                n_right += 1
    assert n_right
    wait_until_whole(index)
    assert index.recall(**asked()).to_arrow().equals(want)


def test_one_killed_replica_is_no_lost_shard(paths: list[Path]) -> None:
    want = whole().recall(**asked()).to_arrow()
    how = {"device": "cpu", "threads": 1, "num_cpus": 0.1, "timeout": SECONDS, "hedge": 10.0}
    with ShardedIndex.on_ray(paths, replicas=2, **how) as index:  # type: ignore[arg-type]
        index.reload()
        for shard in index.shards:
            assert isinstance(shard, ReplicatedShard)
            victim = shard.replicas[0]
            assert isinstance(victim, RayShard)
            ray.kill(victim.actor, no_restart=False)
            got = index.recall(**asked())
            assert not got.degraded
            assert got.to_arrow().equals(want)
        wait_until_whole(index)
