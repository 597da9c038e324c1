"""arecall and arecall_one: recall's answers, off the event loop."""

import asyncio
import threading
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr

T = TypeVar("T")
N = 3000


@pytest.fixture(scope="module")
def index() -> hr.Index:
    rng = np.random.default_rng(8)
    words = np.array([f"w{i}" for i in range(40)])
    table = pa.table(
        {
            "id": np.arange(N),
            "user": rng.integers(0, 5, N),
            "text": [" ".join(row) for row in words[rng.integers(0, 40, (N, 5))]],
        }
    )
    schema = hr.Schema(key="id", cell="user", text="text", vector="v")
    return hr.Index.build(table, schema, vectors={"v": rng.normal(size=(N, 4)).astype("f")})


def asked(number: int) -> dict[str, Any]:
    angle = number / 7
    return {
        "text": [f"w{number % 40} w{number % 11}"],
        "vectors": [[np.cos(angle), np.sin(angle), 0.5, number % 3]],
        "scope": number % 5,
    }


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, 60))


def test_many_at_once_equal_recall(index: hr.Index) -> None:
    async def ask() -> list[hr.Hits]:
        return await asyncio.gather(*(index.arecall(**asked(i)) for i in range(200)))

    for number, hits in enumerate(run(ask())):
        assert hits.to_arrow().equals(index.recall(**asked(number)).to_arrow())


def test_arecall_one_equals_recall_one(index: hr.Index) -> None:
    async def ask() -> list[hr.QueryHits]:
        calls = (index.arecall_one(text=f"w{i}", vector=[1, 0, 0, i], scope=1) for i in range(20))
        return await asyncio.gather(*calls)

    for number, hits in enumerate(run(ask())):
        wanted = index.recall_one(text=f"w{number}", vector=[1, 0, 0, number], scope=1)
        assert [repr(hit) for hit in hits] == [repr(hit) for hit in wanted]


def test_a_cancelled_call_harms_no_other(index: hr.Index) -> None:
    async def ask() -> list[tuple[int, Any]]:
        tasks = [asyncio.create_task(index.arecall(**asked(i))) for i in range(120)]
        await asyncio.sleep(0)
        for number in range(0, 120, 3):
            tasks[number].cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        return [(number, reply) for number, reply in enumerate(done)]

    answered = 0
    for number, reply in run(ask()):
        if isinstance(reply, asyncio.CancelledError):
            assert number % 3 == 0
            continue
        assert reply.to_arrow().equals(index.recall(**asked(number)).to_arrow())
        answered += 1
    assert answered >= 80
    again = run(index.arecall(**asked(3)))
    assert again.to_arrow().equals(index.recall(**asked(3)).to_arrow())


def test_a_timeout_leaves_the_index_in_order(index: hr.Index) -> None:
    release = threading.Event()

    def slow(text: str) -> list[str]:
        if text == "slow":
            release.wait(30)
        return text.split()

    table = pa.table({"id": [1], "text": ["slow tea"]})
    analyzer = hr.Analyzer.from_callable(slow, name="slow", version="1")
    held = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"), analyzer=analyzer)

    async def ask() -> None:
        try:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(held.arecall_one(text="slow"), 0.1)
        finally:
            release.set()
        assert (await held.arecall_one(text="tea")).keys == [1]

    run(ask())


def test_the_loop_goes_on_during_a_call(index: hr.Index) -> None:
    async def ask() -> tuple[int, int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.001)

        ticking = asyncio.create_task(tick())
        started = time.perf_counter()
        while ticks < 20 and time.perf_counter() - started < 20:
            await index.arecall(text=["w1 w2 w3"] * 300, scope=1)
        in_calls = ticks
        ticking.cancel()
        return in_calls, len(asyncio.all_tasks())

    ticks, _ = run(ask())
    assert ticks >= 20
