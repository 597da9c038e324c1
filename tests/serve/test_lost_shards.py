"""What queries that were joined hear of a shard that is lost, and how long they wait for one."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.building_worlds import built, write_files
from hyrecall.distributed import ShardedIndex, Shards
from hyrecall.errors import ShardLostError, error
from seams import health
from serve.test_index_routes import served

USERS = [f"u{at}" for at in range(12)]


class Losing:
    """A shard that waits for a gate, and then does not answer."""

    def __init__(self, shard: Any) -> None:
        self.name, self.shard = shard.name, shard
        self.gate = threading.Event()
        self.n_asked = 0

    def statistics(self, request: object) -> Any:
        self.n_asked += 1
        assert self.gate.wait(30)
        raise error(ShardLostError, self.name, "an answer", "none")

    def candidates(self, request: object, statistics: object) -> Any:
        raise AssertionError("it has counted nothing")

    def close(self) -> None:
        self.shard.close()


@pytest.fixture
def placed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[ShardedIndex, list[bool], Losing]]:
    """An index of two shards, which users need the second one, and that shard."""
    rows = {"id": list(range(24)), "user": USERS * 2, "text": ["tea"] * 24}
    source = write_files(tmp_path / "in", pa.table(rows), random.Random(1))
    schema = hr.Schema(key="id", cell="user", text="text")
    built(monkeypatch, source, schema, tmp_path / "out", shards=2)
    placement = Shards.read(tmp_path / "out").placement
    needs = [placement.shards_of(user) == (1,) for user in USERS]
    assert any(needs)
    assert not all(needs)
    with ShardedIndex.open(tmp_path / "out", device="cpu") as index:
        losing = Losing(index.shards[1])
        index._generations.current.shards = (index.shards[0], losing)
        yield index, needs, losing


def test_a_joined_query_does_not_hear_of_a_shard_that_another_one_lost(
    placed: tuple[ShardedIndex, list[bool], Losing],
) -> None:
    index, needs, losing = placed

    async def work(client: Any) -> tuple[list[Any], int]:
        bodies = [{"text": "tea", "scope": user, "columns": ["user"]} for user in USERS]
        first = next(at for at, need in enumerate(needs) if not need)
        joiner = client._transport.app.state.served_index._joiner
        sent = [asyncio.create_task(client.post("/v1/recall", json=one)) for one in
                [bodies[first], *bodies]]  # fmt: skip
        while joiner.n_calls + len(joiner._waiting) < len(sent):
            await asyncio.sleep(0)
        losing.gate.set()
        replies = await asyncio.gather(*sent)
        return [one.json() for one in replies[1:]], joiner.n_batches

    replies, n_batches = served(index, work)
    assert n_batches < len(USERS), "they were not joined"
    assert [one["degraded"] for one in replies] == needs
    assert [len(one["hits"]) for one in replies] == [0 if need else 2 for need in needs]


def test_joined_queries_wait_for_a_hanging_shard_once(
    placed: tuple[ShardedIndex, list[bool], Losing],
) -> None:
    """Where nothing else is needed, so that none of them has an answer."""
    index, needs, losing = placed

    async def work(client: Any) -> list[int]:
        users = [user for user, need in zip(USERS, needs, strict=True) if need]
        bodies = [{"text": "tea", "scope": user} for user in users * 4]
        joiner = client._transport.app.state.served_index._joiner
        sent = [asyncio.create_task(client.post("/v1/recall", json=one)) for one in bodies]
        while joiner.n_calls + len(joiner._waiting) < len(sent):
            await asyncio.sleep(0)
        losing.gate.set()
        replies = await asyncio.gather(*sent)
        assert losing.n_asked == joiner.n_batches < len(users)
        return [one.status_code for one in replies]

    assert set(served(index, work)) == {503}


class Hanging(Losing):
    """A shard that says whether it answers, once a gate is open."""

    def __init__(self, shard: Any) -> None:
        super().__init__(shard)
        self.facts, self.says = shard.facts, threading.Event()
        self.says.set()

    count = alone = alone_as_it_is = lookup = lookup_as_it_is = Losing.statistics

    def reload(self) -> str:
        return "as it is"

    def check(self) -> None:
        assert self.says.wait(30)


def test_probes_are_answered_while_all_request_threads_hang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = pa.table({"id": [1], "user": ["ann"], "text": ["tea"]})
    made = ShardedIndex.build([rows], hr.Schema(key="id", cell="user", text="text"), device="cpu")
    hanging = Hanging(made.shards[0])
    index = ShardedIndex([hanging])
    asked = {"text": ["tea"], "scope": ["ann"]}

    async def work(client: Any) -> None:
        pool = client._transport.app.state.served_index._pool
        loop = asyncio.get_running_loop()
        n = 2 * pool._max_workers
        hung = [loop.run_in_executor(pool, lambda: index.recall(**asked)) for _ in range(n)]
        while hanging.n_asked < 2 or pool._work_queue.empty():  # of both threads of the index
            await asyncio.sleep(0)
        monkeypatch.setattr(health, "THREAD_SECONDS", 0.05)
        for path, status in (("/readyz", 503), ("/metrics", 200)) * 2:
            reply = await asyncio.wait_for(client.get(path), 20)
            assert reply.status_code == status, path
        monkeypatch.setattr(health, "LONGEST", 0.05)
        hanging.says.clear()
        for path in ("/readyz", "/metrics", "/readyz"):
            reply = await asyncio.wait_for(client.get(path), 20)
            assert (reply.status_code, reply.headers["retry-after"]) == (503, "1"), path
        monkeypatch.setattr(health, "LONGEST", 20)
        monkeypatch.setattr(health, "THREAD_SECONDS", 20)
        hanging.says.set()
        hanging.gate.set()
        replies = await asyncio.gather(*hung, return_exceptions=True)
        assert {type(one) for one in replies} == {ShardLostError}
        assert (await client.get("/readyz")).json() == {"status": "ready"}

    try:
        served(index, work)
    finally:
        hanging.says.set()
        hanging.gate.set()
