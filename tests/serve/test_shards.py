"""Shards of an index over HTTP: the replies of one index, lost shards named, tokens as ever."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hyrecall
import hyrecall as hr
from distributed.building_worlds import built, write_files
from distributed.placement import ApartShard
from hyrecall.distributed import ShardedIndex, Shards
from hyrecall.errors import ShardLostError, error
from seams import IndexQuery, IndexReply, ServedIndex, find_folders, health
from serve.test_arrow_routes import ask, batch, table_in
from serve.test_index_routes import SCHEMA, plain, queries, served, table

N_SHARDS = 3
STEP = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("shards")
    for at in range(N_SHARDS):
        own = table().slice(at * STEP, STEP)
        hr.Index.build(own, SCHEMA, first_seq=at * STEP).save(made / f"shard-{at}")
    return made


@pytest.fixture
def shards(folder: Path) -> Iterator[ShardedIndex]:
    with ShardedIndex.open(folder) as made:
        yield made


@pytest.fixture(scope="module")
def one() -> Iterator[hr.Index]:
    with hr.Index.build(table(), SCHEMA) as made:
        yield made


class Lost:
    """A shard that does not answer until it is told to."""

    def __init__(self, shard: Any) -> None:
        self.shard, self.name, self.is_lost = shard, shard.name, True
        self.facts = shard.facts

    def _check(self) -> None:
        if self.is_lost:
            raise error(ShardLostError, self.name, "an answer", "none")

    def statistics(self, request: Any) -> Any:
        self._check()
        return self.shard.statistics(request)

    def candidates(self, request: Any, statistics: Any) -> Any:
        self._check()
        return self.shard.candidates(request, statistics)

    def close(self) -> None:
        self.shard.close()


async def all_of(client: Any, bodies: Sequence[dict[str, Any]]) -> list[Any]:
    replies = await asyncio.gather(*(client.post("/v1/recall", json=body) for body in bodies))
    return [one.json() for one in replies]


def without_device(reply: Any) -> Any:
    made = plain(reply)
    made["trace"] = {**made["trace"], "device": ""}
    return made


def test_replies_are_those_of_one_index_alone_and_joined(
    shards: ShardedIndex, one: hr.Index
) -> None:
    asked = [one | {"explain": at % 6 == 0} for at, one in enumerate(queries(48))]

    async def both(client: Any) -> list[Any]:
        together = await all_of(client, asked)
        replies = (await client.post("/v1/recall/batch", json={"queries": asked})).json()
        return [*together, *replies["replies"]]

    want, got = served(one, both), served(shards, both)
    assert [without_device(reply) for reply in got] == [without_device(reply) for reply in want]
    assert sum(len(reply["hits"]) for reply in got) > 100
    assert any(hit["columns"]["text"] for reply in got for hit in reply["hits"])
    assert all(hit["explanation"] for hit in got[0]["hits"])
    for reply in got:
        IndexReply.model_validate(reply)


def test_the_oracle_sees_the_scope_of_another_caller(
    shards: ShardedIndex, one: hr.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = ServedIndex._answer

    def in_the_first_scope(self: ServedIndex, asked: Sequence[IndexQuery]) -> list[bytes]:
        """A planted bug: a batch is searched in the scope of its first caller."""
        scope = asked[0].scope
        return answer(self, [IndexQuery(**{**vars(each), "scope": scope}) for each in asked])

    async def work(client: Any) -> list[Any]:
        return await all_of(client, queries(48))

    want = served(one, work)
    monkeypatch.setattr(ServedIndex, "_answer", in_the_first_scope)
    got = served(shards, work)
    assert [without_device(each) for each in got] != [without_device(each) for each in want]


def test_arrow_streams_have_the_hits_of_one_index(shards: ShardedIndex, one: hr.Index) -> None:
    asked = batch()
    for params in ({}, {"limit": 3, "columns": ["text"]}, {"recipe": "default"}):
        want, got = (table_in(ask(index, asked, **params)) for index in (one, shards))
        assert got.equals(want)
        assert got.num_rows


def test_what_shards_asked_apart_refuse_is_an_error_of_the_caller(shards: ShardedIndex) -> None:
    apart = ShardedIndex([ApartShard(one.name, one.index) for one in shards.shards])  # type: ignore[attr-defined]

    async def work(client: Any) -> list[Any]:
        asked = {"text": "oak", "scope": "ann"}
        wrong = ({"surrounding": 1}, {"explain": True}, {"scope": None})
        return [await client.post("/v1/recall", json=asked | more) for more in wrong]

    replies = served(apart, work)
    assert [reply.status_code for reply in replies] == [422, 422, 422]
    told = [reply.json()["error"]["message"].partition(":")[0] for reply in replies]
    assert told == ["surrounding", "explain", "scope"]


def test_lost_shards_are_named_in_replies(folder: Path) -> None:
    opened = [Lost(ShardedIndex.open([path]).shards[0]) for path in find_folders([folder]).folders]
    opened[0].is_lost = opened[2].is_lost = False
    index = ShardedIndex(opened)

    async def work(client: Any) -> list[Any]:
        asked = {"text": "oak ash elm fir", "scope": "ann", "limit": 100}
        reply = (await client.post("/v1/recall", json=asked)).json()
        metrics = (await client.get("/metrics")).text
        opened[0].is_lost = opened[2].is_lost = True
        none = await client.post("/v1/recall", json=asked)
        for one in opened:
            one.is_lost = False
        whole = (await client.post("/v1/recall", json=asked)).json()
        return [reply, metrics, none, whole]

    reply, metrics, none, whole = served(index, work)
    assert reply["degraded"]
    (told,) = reply["reasons"]
    assert told["detail"].startswith("shard-1: its documents are missing")
    assert str(folder) not in json.dumps(reply)
    assert {int(hit["key"][1:]) // STEP for hit in reply["hits"]} == {0, 2}
    lines = dict(one.rsplit(" ", 1) for one in metrics.splitlines() if one[:1] not in ("#", ""))
    assert float(lines["hyrecall_index_n_shards"]) == N_SHARDS
    assert (none.status_code, none.headers["retry-after"]) == (503, "1")
    assert not whole["degraded"]
    index.close()


def test_a_folder_of_shards_or_their_own_folders_are_served(folder: Path) -> None:
    own = [folder / f"shard-{at}" for at in range(N_SHARDS)]
    assert find_folders([folder]) == (own, None, False)
    assert find_folders(own) == (own, None, False)
    assert find_folders(own[:1]) == (own[:1], None, True)
    with pytest.raises(hr.IndexNotFoundError, match="one with such folders"):
        find_folders([folder / "none"])


def test_a_folder_whose_build_has_not_ended_is_not_served(folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    shutil.copytree(folder, saved)
    (saved / "building").mkdir()  # as `hyrecall shards build` leaves it when it is killed
    with pytest.raises(hr.IndexNotFoundError, match="got an unfinished build in"):
        ShardedIndex.open(saved)
    (saved / "building").rmdir()
    (saved / "shard-1").rename(saved / "shard-1.unfinished")  # as `hyrecall index --memory` does
    with pytest.raises(hr.IndexNotFoundError, match=r"got an unfinished build of .*shard-1"):
        find_folders([saved])
    shutil.copytree(saved / "shard-1.unfinished", saved / "shard-1")  # ended, but not tidied up
    assert find_folders([saved]).folders == [saved / f"shard-{at}" for at in range(N_SHARDS)]


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [1, 2])
def test_the_command_serves_a_folder_of_shards(folder: Path, one: hr.Index, n_workers: int) -> None:
    package = str(Path(hyrecall.__file__).parents[1])
    command = [sys.executable, "-m", "hyrecall", "serve", str(folder), "--port", "0"]
    server = subprocess.Popen(
        [*command, "--workers", str(n_workers), "--threads", "1", "--log-level", "warning"],
        stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": package},
    )  # fmt: skip
    assert server.stderr is not None
    try:
        first = server.stderr.readline()
        assert first.startswith(f"serving the shards of {folder} at http://"), first
        port = int(first.rsplit(":", 1)[1].split()[0])

        def call(method: str, path: str, body: Any = None) -> Any:
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            headers = {"content-type": "application/json"}
            client.request(method, path, None if body is None else json.dumps(body), headers)
            with closing(client):
                reply = client.getresponse()
                return reply.status, json.loads(reply.read())

        asked = {"text": "oak sea", "scope": "ann", "limit": 5}
        want = [(hit.key, hit.score) for hit in one.recall_one(**asked)]

        def check() -> None:
            status, reply = call("POST", "/v1/recall", asked)
            assert status == 200
            assert not reply["degraded"], reply["reasons"]
            assert [(hit["key"], hit["score"]) for hit in reply["hits"]] == want

        assert call("GET", "/readyz") == (200, {"status": "ready"})
        check()
        for _ in range(4):
            check()
        assert call("GET", "/v1/info")[1]["kind"] == "index"
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) in (0, -signal.SIGTERM)
    finally:
        server.kill()
        server.wait()
        server.stderr.close()


def test_shards_without_a_schema_of_this_package_are_refused() -> None:
    class Foreign:
        name = "foreign"

        def close(self) -> None:
            """Nothing is open."""

    with pytest.raises(hr.OptionError, match="shards: expected one that this package opened"):
        _ = ShardedIndex([Foreign()]).schema  # type: ignore[list-item]


# ---- shards that are lost while queries are joined ----


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
def placed(tmp_path: Path) -> Iterator[tuple[ShardedIndex, list[bool], Losing]]:
    """An index of two shards, which users need the second one, and that shard."""
    rows = {"id": list(range(24)), "user": USERS * 2, "text": ["tea"] * 24}
    source = write_files(tmp_path / "in", pa.table(rows), random.Random(1))
    schema = hr.Schema(key="id", cell="user", text="text")
    built(source, schema, tmp_path / "out", shards=2)
    placement = Shards.read(tmp_path / "out").placement
    needs = [placement.shards_of(user) == (1,) for user in USERS]
    assert any(needs)
    assert not all(needs)
    with ShardedIndex.open(tmp_path / "out", device="cpu") as index:
        losing = Losing(index.shards[1])
        index._now = replace(index._now, shards=(index.shards[0], losing))
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


def test_probes_are_answered_while_all_request_threads_hang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = pa.table({"id": [1], "user": ["ann"], "text": ["tea"]})
    made = ShardedIndex.build([rows], hr.Schema(key="id", cell="user", text="text"), device="cpu")
    hanging = Losing(made.shards[0])
    vars(hanging)["facts"] = made._facts
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
        monkeypatch.setattr(health, "THREAD_SECONDS", 20)
        hanging.gate.set()
        replies = await asyncio.gather(*hung, return_exceptions=True)
        assert {type(one) for one in replies} == {ShardLostError}
        assert (await client.get("/readyz")).json() == {"status": "ready"}

    try:
        served(index, work)
    finally:
        hanging.gate.set()
