"""Replicas in processes: killed, forked, and saved anew under load; no reply is wrong."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hyrecall as hr
from distributed.saved import (
    N_SHARDS,
    SCHEMA,
    VECTORS,
    N,
    asked,
    documents,
)
from distributed.scripted import SECONDS, one_of, states
from hyrecall.distributed import ShardedIndex
from laws.effort import Effort
from laws.engine import ipc_bytes
from seams import ProcessShard, ReplicatedShard


def whole() -> hr.Index:
    """The documents of both shards in one index."""
    n = 2 * N // N_SHARDS
    rows, vectors = documents().slice(0, n), {"v": VECTORS[:n]}
    return hr.Index.build(rows, SCHEMA, vectors=vectors, device="cpu")


@pytest.fixture(scope="module")
def index(paths: list[Path]) -> Iterator[ShardedIndex]:
    with ShardedIndex.open(
        paths[:2], processes=True, replicas=2, device="cpu", threads=1, timeout=SECONDS
    ) as made:
        yield made


def processes(index: ShardedIndex) -> list[ProcessShard]:
    found = []
    for shard in index.shards:
        assert isinstance(shard, ReplicatedShard)
        for one in shard.replicas:
            assert isinstance(one, ProcessShard)
            found.append(one)
    return found


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # an earlier one has ended meanwhile
        os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_replicas_reply_as_one_index(index: ShardedIndex) -> None:
    one = whole()
    index.reload()
    for more in ({}, {"shaping": (hr.MMR(0.5),)}, {"recipe": hr.recipes.default},
                 {"filter": hr.Filter(year=(2002, None)), "columns": ["text"]}):  # fmt: skip
        for _ in range(2):
            got = index.recall(**asked(**more))
            assert ipc_bytes(got.to_arrow()) == ipc_bytes(one.recall(**asked(**more)).to_arrow())
            assert not got.degraded
    pids = {one.pid for one in processes(index)}
    assert len(pids) == 2 * len(index)
    assert None not in pids
    assert all(health == (2, 0) for health in index.health().values())


def test_processes_killed_at_random_moments_of_a_recall(
    index: ShardedIndex, effort: Effort
) -> None:
    want = whole().recall(**asked()).to_arrow()
    chance = random.Random(3)
    n_right = 0
    for _ in range(effort.cases(quick=1, full=50)):
        while not (pids := [one.pid for one in processes(index) if one.pid is not None]):
            index.recall(**asked())
        pid = chance.choice(pids)
        timer = threading.Timer(chance.uniform(0.0, 0.05), kill, (pid,))
        timer.start()
        while timer.is_alive():
            got = index.recall(**asked())
            if got.degraded:  # the other replica was about to be started again
                assert all("its documents are missing" in told for told in got.trace.degraded)
            else:
                assert got.to_arrow().equals(want)
                n_right += 1
    assert n_right
    until = time.monotonic() + SECONDS
    while any(health.n_lost for health in index.health().values()):
        index.recall(**asked())
        assert time.monotonic() < until
        time.sleep(0.05)
    assert index.recall(**asked()).to_arrow().equals(want)


@pytest.mark.slow
def test_one_killed_replica_is_no_lost_shard(index: ShardedIndex, effort: Effort) -> None:
    want = whole().recall(**asked()).to_arrow()
    index.reload()
    for victim in processes(index)[: effort.cases(quick=2, full=4)]:
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGKILL)
        got = index.recall(**asked())
        assert not got.degraded
        assert got.to_arrow().equals(want)
        index.reload()  # it is started again
        assert not any(health.n_lost for health in index.health().values())
        assert None not in {one.pid for one in processes(index)}


@pytest.mark.slow
def test_a_forked_child_asks_replicas_of_its_own(index: ShardedIndex) -> None:
    want = index.recall(**asked()).to_arrow()
    pids = {one.pid for one in processes(index)}
    child = os.fork()
    if not child:  # its exit status is the verdict
        signal.alarm(60)
        verdict = 1
        try:
            same = index.recall(**asked()).to_arrow().equals(want)
            own = {one.pid for one in processes(index)} - {None}
            index.close()
            verdict = 0 if same and not own & pids else 2
        finally:
            os._exit(verdict)
    assert os.waitpid(child, 0)[1] == 0
    assert index.recall(**asked()).to_arrow().equals(want)


@pytest.mark.slow
def test_saves_under_load_fail_no_recall_and_mix_no_states(tmp_path: Path, effort: Effort) -> None:
    n = effort.cases(quick=2, full=20)
    _, wants, change = states(tmp_path / "shard", n)
    faults: list[BaseException] = []
    seen: list[list[int]] = [[], [], []]
    over = threading.Event()

    def ask(own: list[int], index: ShardedIndex) -> None:
        try:
            while not over.is_set():
                own.append(one_of(index, wants))
        except BaseException as fault:
            faults.append(fault)

    how: dict[str, Any] = {"device": "cpu", "threads": 1, "timeout": SECONDS}
    with ShardedIndex.open([tmp_path / "shard"], processes=True, replicas=2, **how) as index:
        index.reload()
        asking = [threading.Thread(target=ask, args=(own, index)) for own in seen]
        for one in asking:
            one.start()
        for number in range(1, n + 1):
            change(number)
            if number % 2:
                index.reload()
            else:
                time.sleep(0.1)
        index.reload()
        until = time.monotonic() + SECONDS
        while any(own[-1:] != [n] for own in seen) and not faults and time.monotonic() < until:
            time.sleep(0.02)
        over.set()
        for one in asking:
            one.join(SECONDS)
    assert not faults, faults
    for own in seen:
        assert own == sorted(own), "a caller saw an older state after a newer one"
        assert own[-1] == n
