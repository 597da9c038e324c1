"""Shards in processes of their own: the same replies, and a lost one is named."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import hyrecall as hr
from distributed.saved import N_SHARDS, SCHEMA, VECTORS, asked, documents, process
from hyrecall.distributed import Part, Request, ShardedIndex, Statistics
from laws.effort import Effort
from laws.engine import ipc_bytes
from seams import MOST_RECENT, IndexAnswerer, Question, ShardOpening, asking, turns


def test_worker_processes_reply_as_one_index(index: ShardedIndex, one: hr.Index) -> None:
    for more in ({}, {"shaping": (hr.MMR(0.5),)}, {"recipe": hr.recipes.default},
                 {"filter": hr.Filter(year=(2002, None)), "columns": ["text"]}):  # fmt: skip
        got = index.recall(**asked(**more))
        assert ipc_bytes(got.to_arrow()) == ipc_bytes(one.recall(**asked(**more)).to_arrow())
        assert not got.degraded
    nothing: dict[str, Any] = {"text": [], "vectors": VECTORS[:0], "scope": []}
    for more in ({}, {"recipe": hr.recipes.default}):
        got = index.recall(**nothing, **more)
        assert ipc_bytes(got.to_arrow()) == ipc_bytes(one.recall(**nothing, **more).to_arrow())
    pids = {process(index, at).pid for at in range(N_SHARDS)}
    assert len(pids) == N_SHARDS
    assert os.getpid() not in pids


def test_the_async_twins_and_one_query(index: ShardedIndex, one: hr.Index) -> None:
    async def both() -> tuple[hr.Hits, hr.QueryHits]:
        many = await index.arecall(**asked())
        return many, await index.arecall_one(text="oak", vector=VECTORS[0], scope="ann")

    many, single = asyncio.run(both())
    assert many.to_arrow().equals(one.recall(**asked()).to_arrow())
    want = one.recall_one(text="oak", vector=VECTORS[0], scope="ann")
    assert [(hit.key, hit.score) for hit in single] == [(hit.key, hit.score) for hit in want]


def test_errors_of_a_shard_keep_their_class_and_words(index: ShardedIndex, one: hr.Index) -> None:
    for wrong in ({"scope": None}, {"limit": 200, "fusion": hr.RRF()}, {"vectors": VECTORS[:2]},
                  {"filter": hr.Filter(nothing=1)}):  # fmt: skip
        with pytest.raises(hr.HyrecallError) as want:
            one.recall(**asked(**wrong))
        with pytest.raises(type(want.value)) as got:
            index.recall(**asked(**wrong))
        assert str(got.value) == str(want.value)
        assert got.value.argument == want.value.argument


@pytest.mark.slow
def test_processes_killed_at_random_moments_of_a_recall(
    index: ShardedIndex, one: hr.Index, effort: Effort
) -> None:
    want = one.recall(**asked()).to_arrow()
    chance = random.Random(2)
    for _ in range(effort.cases(quick=2, full=50)):
        assert index.recall(**asked()).to_arrow().equals(want)
        victim = process(index, chance.randrange(N_SHARDS))
        before = victim.pid
        assert before is not None
        timer = threading.Timer(chance.uniform(0.0, 0.05), os.kill, (before, signal.SIGKILL))
        timer.start()
        got = index.recall(**asked())
        timer.join()
        assert not got.degraded
        assert got.to_arrow().equals(want)
        assert index.recall(**asked()).to_arrow().equals(want)
        assert victim.pid != before, "another process took its place"


@pytest.mark.slow
def test_a_process_that_ends_at_every_question_is_named(
    paths: list[Path],
) -> None:
    with ShardedIndex.open(paths[:2], processes=True, device="cpu", threads=1) as index:
        broken = process(index, 1)
        vars(broken)["_command"] = [sys.executable, "-c", "pass"]
        got = index.recall(**asked())
        (told,) = got.trace.degraded
        assert told.startswith(f"{broken.name}: its documents are missing")
        assert "two processes that ended" in told
        assert len(got[0]) > 0


@pytest.mark.slow
def test_a_saved_change_is_taken_up_between_calls(tmp_path: Path) -> None:
    table = documents()
    one = hr.Index.build(table, SCHEMA, vectors={"v": VECTORS}, device="cpu")
    saved = hr.Index.build(table, SCHEMA, vectors={"v": VECTORS}, device="cpu")
    saved.save(tmp_path / "a")
    with ShardedIndex.open([tmp_path / "a"], processes=True, device="cpu") as index:
        assert index.recall(**asked()).to_arrow().equals(one.recall(**asked()).to_arrow())
        for changed in (one, saved):
            changed.delete(["k0", "k2"], scope="ann")
        saved.save(tmp_path / "a")
        assert index.recall(**asked()).to_arrow().equals(one.recall(**asked()).to_arrow())


def test_a_recall_packs_its_request_and_the_sums_once(
    index: ShardedIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = []
    for kind in (Request, Statistics):
        whole = kind._packed

        def count(self: Any, whole: Callable[[Any], bytes] = whole) -> bytes:
            packed.append(type(self))
            return whole(self)

        monkeypatch.setattr(kind, "_packed", count)
    index.recall(**asked())
    assert len(index) == N_SHARDS
    assert sorted(one.__name__ for one in packed) == ["Request", "Statistics"]


def test_recalls_that_come_in_turns_are_read_once(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the process of a shard, which is asked twice by each; it keeps a few of them."""
    read, whole = [0], Request.from_bytes.__func__

    def counted(cls: type[Request], data: bytes) -> Any:
        read[0] += 1
        return whole(cls, data)

    monkeypatch.setattr(Request, "from_bytes", classmethod(counted))
    answering = IndexAnswerer(str(paths[0]), ShardOpening("cpu", 1))
    requests = [Request(**asked(limit=limit)).to_bytes() for limit in range(1, MOST_RECENT + 1)]
    counts = [answering.ask(b"statistics", one) for one in requests]
    for request, (kind, count) in zip(requests, counts, strict=True):
        assert kind == b"answer"
        assert answering.ask(b"candidates", request, count)[0] == b"answer"
    assert read == [MOST_RECENT]
    for _ in range(2):  # the newest is kept, however large it is
        large = Request(**asked(query_keys=["a" * 2_000_000, "b", "c"])).to_bytes()
        for _ in range(2):
            assert answering.ask(b"statistics", large)[0] == b"answer"
        assert list(vars(answering)["_recent"]) == [large]
    assert read == [MOST_RECENT + 2]


def test_a_thread_that_waits_for_other_threads_has_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PATIENCE", 5.0)

    class Named(NamedTuple):
        name: str

    def in_a_turn() -> bool:
        with turns.turns.taken():
            return turns.turns._own.has

    def begin(one: Named) -> Question[bool]:
        # One question is sent at once, the others are asked in threads.
        return Question(in_a_turn, is_under_way=one.name == "sent")

    threads = asking.ShardThreads(2)
    shards = [Named("sent"), Named("first"), Named("second")]
    with turns.turns.kept():
        assert asking.results_of(shards, begin, threads) == [True, True, True]
    threads.close(waits=True)


def test_one_thread_at_a_time_unpacks_and_merges(
    index: ShardedIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "PATIENCE", 60.0)
    want = index.recall(**asked()).to_arrow()
    inside, most = [0], [0]

    def slow(call: Callable[..., Any]) -> Callable[..., Any]:
        def one(*given: Any, **more: Any) -> Any:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            time.sleep(0.005)
            made = call(*given, **more)
            inside[0] -= 1
            return made

        return one

    unpack = Part.from_bytes.__func__
    monkeypatch.setattr(Part, "from_bytes", classmethod(slow(unpack)))
    monkeypatch.setattr(asking, "merge", slow(asking.merge))
    with ThreadPoolExecutor(4) as threads:
        for one in [threads.submit(index.recall, **asked()) for _ in range(8)]:
            assert one.result().to_arrow().equals(want)
    assert most == [1]
