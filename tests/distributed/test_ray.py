"""Shards in Ray actors: the same replies, and an actor that ends is named."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import hyrecall as hr
from distributed.generation_worlds import build_anew, make, reply_of, want
from distributed.saved import (
    asked,
    saved_shards,
    whole,
)
from hyrecall.distributed import ShardedIndex
from laws.effort import Effort
from laws.engine import ipc_bytes
from seams import RayShard

ray = pytest.importorskip("ray", reason="ray is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")  # of Ray, at its start


SECONDS = 120.0  # in which actors must be whole again
HOW: dict[str, Any] = {"device": "cpu", "threads": 1, "num_cpus": 0.1}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Path]]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        yield saved_shards(tmp_path_factory.mktemp("ray"))
    finally:
        ray.shutdown()


@pytest.fixture(scope="module")
def index(paths: list[Path]) -> Iterator[ShardedIndex]:
    with ShardedIndex.on_ray(paths, **HOW) as made:
        yield made


def wait_until_whole(index: ShardedIndex) -> None:
    deadline = time.monotonic() + SECONDS
    while index.recall(**asked()).degraded:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def in_actor(shard: object, call: Any) -> Any:
    """Return what a call says of the object in a shard's actor."""
    assert isinstance(shard, RayShard)
    return ray.get(shard.actor.__ray_call__.remote(call), timeout=SECONDS)


def pid_of(shard: object) -> int:
    """Return the process of a shard's actor."""
    pid: int = in_actor(shard, lambda _: os.getpid())
    return pid


def runs(pid: int) -> bool:
    """Return whether a process of this machine runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until_ended(pid: int) -> None:
    """Wait until a process has ended: ``ray.kill`` returns earlier."""
    deadline = time.monotonic() + SECONDS
    while runs(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


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
        pid = pid_of(shard)
        ray.kill(shard.actor, no_restart=False)
        got = index.recall(**asked())
        if got.degraded:
            assert any(shard.name in told for told in got.trace.degraded)
        else:
            assert got.to_arrow().equals(want)
        wait_until_ended(pid)
        wait_until_whole(index)
        assert index.recall(**asked()).to_arrow().equals(want)


def test_actors_killed_at_random_moments_of_a_recall(index: ShardedIndex, effort: Effort) -> None:
    want = whole().recall(**asked()).to_arrow()
    chance = random.Random(4)
    wait_until_whole(index)
    for _ in range(effort.cases(quick=2, full=50)):
        began = time.monotonic()
        assert index.recall(**asked()).to_arrow().equals(want)
        seconds = time.monotonic() - began  # moments are parts of it, on a slow machine, too
        victim = chance.choice(index.shards)
        assert isinstance(victim, RayShard)
        pid = pid_of(victim)
        timer = threading.Timer(
            chance.uniform(0.0, 2.0) * seconds, ray.kill, (victim.actor,), {"no_restart": False}
        )
        timer.start()
        deadline = time.monotonic() + SECONDS
        while timer.is_alive() or runs(pid):
            assert time.monotonic() < deadline
            got = index.recall(**asked())
            if got.degraded:
                assert {victim.name} == {told.partition(":")[0] for told in got.trace.degraded}
            else:
                assert got.to_arrow().equals(want)
        wait_until_whole(index)
    assert index.recall(**asked()).to_arrow().equals(want)


def test_a_question_that_an_ended_actor_did_not_answer_is_asked_again(
    index: ShardedIndex,
) -> None:
    want = whole().recall(**asked()).to_arrow()
    for shard in index.shards:
        os.kill(pid_of(shard), signal.SIGKILL)
    got = index.recall(**asked())
    assert not got.degraded, "Ray waits for the actors that start again"
    assert got.to_arrow().equals(want)


def test_without_retries_an_ended_actor_is_named(paths: list[Path]) -> None:
    want = whole().recall(**asked()).to_arrow()
    with ShardedIndex.on_ray(paths, **HOW, max_task_retries=0) as index:
        assert index.recall(**asked()).to_arrow().equals(want)
        victim = index.shards[1]
        with ThreadPoolExecutor(1) as threads:
            pid = pid_of(victim)
            os.kill(pid, signal.SIGSTOP)
            asking = threads.submit(index.recall, **asked())
            time.sleep(0.5)  # the question is with the actor
            os.kill(pid, signal.SIGKILL)
            (told,) = asking.result(SECONDS).trace.degraded
        assert told.startswith(f"{victim.name}: its documents are missing")
        wait_until_whole(index)
        assert index.recall(**asked()).to_arrow().equals(want)


def test_an_actor_that_does_not_answer_in_time_is_named(paths: list[Path]) -> None:
    want = whole().recall(**asked()).to_arrow()
    with ShardedIndex.on_ray(paths, timeout=SECONDS, **HOW) as index:
        assert index.recall(**asked()).to_arrow().equals(want)
        victim = index.shards[1]
        pid = pid_of(victim)
        os.kill(pid, signal.SIGSTOP)
        vars(victim)["_timeout"] = 0.2
        got = index.recall(**asked())
        os.kill(pid, signal.SIGCONT)
        (told,) = got.trace.degraded
        assert told.startswith(f"{victim.name}: its documents are missing")
        assert "none within 0.2 s" in told
        vars(victim)["_timeout"] = SECONDS
        assert index.recall(**asked()).to_arrow().equals(want)
        assert pid_of(victim) == pid


@pytest.mark.usefixtures("paths")  # they start Ray
def test_actors_of_a_new_generation_take_the_place_of_the_old(tmp_path: Path) -> None:
    folder = make(tmp_path, 1)
    how = {"device": "cpu", "threads": 1, "verify": "structure", "memory": "ram", "num_cpus": 0.1}
    with ShardedIndex.on_ray(folder, **how) as index:  # type: ignore[arg-type]
        assert reply_of(index).equals(want(1))
        pids = list(map(pid_of, index.shards))
        build_anew(tmp_path, 2)
        assert index.is_stale
        assert reply_of(index).equals(want(1))
        index.reload()
        assert reply_of(index).equals(want(2))
        assert not index.is_stale
        for pid in pids:
            wait_until_ended(pid)


@pytest.mark.usefixtures("paths")
def test_an_actor_that_starts_again_opens_no_other_version(tmp_path: Path) -> None:
    paths = saved_shards(tmp_path)
    with ShardedIndex.on_ray(paths, **HOW) as index:
        changed = hr.Index.open(paths[1], device="cpu")
        changed.delete(["k20"], scope="ann")
        changed.save(paths[1])
        os.kill(pid_of(index.shards[1]), signal.SIGKILL)
        deadline = time.monotonic() + SECONDS
        while "temporarily unavailable" in (told := index.recall(**asked()).trace.degraded[0]):
            assert time.monotonic() < deadline  # Ray starts it again, late on a slow machine
        assert told.startswith("shard-1: its documents are missing")
        assert "that was opened, got another one; index.reload()" in told
        one = whole()
        one.delete(["k20"], scope="ann")
        index.reload()
        assert index.recall(**asked()).to_arrow().equals(one.recall(**asked()).to_arrow())
