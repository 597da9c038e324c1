"""Calls that wait together are one batch: none waits for company, and none harms another."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from laws.effort import Effort
from seams import Joiner


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as made:
        yield made


class Engine:
    """Answers ``n`` with ``n * 10``, in batches that wait for a gate; 13 fails."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate, self.began = threading.Event(), threading.Semaphore(0)

    def run(self, calls: Sequence[int]) -> list[int]:
        self.batches.append(list(calls))
        self.began.release()
        assert self.gate.wait(10)
        if 13 in calls:
            raise ValueError("13")
        return [one * 10 for one in calls]

    async def has_begun(self) -> None:
        await asyncio.to_thread(self.began.acquire)


def joined(
    pool: ThreadPoolExecutor,
    work: Callable[[Engine, Joiner[int, int]], Awaitable[Any]],
    most: int = 64,
) -> Engine:
    async def run() -> Engine:
        engine = Engine()
        await work(engine, Joiner(engine.run, pool, max_joined=most))
        return engine

    return asyncio.run(run())


async def behind(
    engine: Engine, joiner: Joiner[int, int], calls: Sequence[tuple[Any, ...]], *key: str
) -> list[Any]:
    """What a first call, and those that wait while it runs, return or raise."""
    first = asyncio.create_task(joiner.call(0, *key))
    await engine.has_begun()
    others = [asyncio.create_task(joiner.call(*one)) for one in calls]
    await asyncio.sleep(0)
    engine.gate.set()
    return await asyncio.gather(first, *others, return_exceptions=True)


def test_an_idle_engine_runs_at_once_and_what_comes_meanwhile_is_the_next_batch(
    pool: ThreadPoolExecutor,
) -> None:
    async def work(engine: Engine, joiner: Joiner[int, int]) -> None:
        replies = await behind(engine, joiner, [(n,) for n in range(1, 6)])
        assert replies == [0, 10, 20, 30, 40, 50]
        assert (joiner.n_calls, joiner.n_batches) == (6, 3)

    assert joined(pool, work, most=3).batches == [[0], [1, 2, 3], [4, 5]]


def test_only_calls_of_one_key_are_joined_and_their_order_holds(pool: ThreadPoolExecutor) -> None:
    async def work(engine: Engine, joiner: Joiner[int, int]) -> None:
        await behind(engine, joiner, [(1, "b"), (2, "a"), (3, "b"), (4, "c")], "a")

    assert joined(pool, work).batches == [[0], [1, 3], [2], [4]]


def test_a_call_that_fails_fails_alone(pool: ThreadPoolExecutor) -> None:
    async def work(engine: Engine, joiner: Joiner[int, int]) -> None:
        replies = await behind(engine, joiner, [(12,), (13,), (14,)])
        assert replies[:2] + replies[3:] == [0, 120, 140]
        assert isinstance(replies[2], ValueError)
        assert await joiner.call(15) == 150

    joined(pool, work)


@pytest.mark.parametrize(("n", "most"), [(2, 3), (16, 9), (64, 13)])
def test_one_wrong_call_of_many_costs_few_batches_more(
    pool: ThreadPoolExecutor, n: int, most: int
) -> None:
    async def work(engine: Engine, joiner: Joiner[int, int]) -> None:
        calls = [100 + at for at in range(n)]
        calls[n // 3] = 13
        replies = await behind(engine, joiner, [(one,) for one in calls])
        assert isinstance(replies.pop(1 + n // 3), ValueError)
        assert replies == [0, *(10 * one for one in calls if one != 13)]
        assert len(engine.batches) - 1 <= most
        assert joiner.n_calls == n + 1

    joined(pool, work)


def test_an_error_of_the_whole_batch_is_met_once(pool: ThreadPoolExecutor) -> None:
    async def run() -> None:
        engine = Engine()
        joiner: Joiner[int, int] = Joiner(
            engine.run, pool, max_joined=64, fails_all=lambda fault: str(fault) == "13"
        )
        replies = await behind(engine, joiner, [(12,), (13,), (14,)])
        assert replies[0] == 0
        assert [type(one) for one in replies[1:]] == [ValueError] * 3
        assert engine.batches == [[0], [12, 13, 14]]

    asyncio.run(run())


def test_a_cancelled_call_leaves_the_queue_or_its_reply_is_dropped(
    pool: ThreadPoolExecutor,
) -> None:
    async def work(engine: Engine, joiner: Joiner[int, int]) -> None:
        running = [asyncio.create_task(joiner.call(0))]
        await engine.has_begun()
        waiting = [asyncio.create_task(joiner.call(n)) for n in (1, 2, 3)]
        await asyncio.sleep(0)
        running[0].cancel()
        waiting[1].cancel()
        engine.gate.set()
        replies = await asyncio.gather(*running, *waiting, return_exceptions=True)
        assert [replies[1], replies[3]] == [10, 30]
        assert isinstance(replies[0], asyncio.CancelledError)
        assert isinstance(replies[2], asyncio.CancelledError)

    assert joined(pool, work).batches == [[0], [1, 3]]


def test_with_a_third_of_the_calls_cancelled_no_reply_is_another_ones(
    pool: ThreadPoolExecutor, effort: Effort
) -> None:
    draw = random.Random(20260501)

    async def work(engine: Engine, joiner: Joiner[int, int]) -> None:
        engine.gate.set()

        async def one(n: int) -> bool:
            task = asyncio.create_task(joiner.call(n, n % 3))
            if draw.random() < 0.3:
                for _ in range(draw.randrange(4)):
                    await asyncio.sleep(0)
                task.cancel()
            try:
                assert await task == n * 10
            except asyncio.CancelledError:
                return False
            return True

        n_calls = effort.cases(quick=300, full=10_000)
        numbers = [n for n in range(n_calls + 20) if n != 13]
        answered = await asyncio.gather(*map(one, numbers))
        assert 0.6 < sum(answered) / len(answered) < 0.95

    joined(pool, work)
