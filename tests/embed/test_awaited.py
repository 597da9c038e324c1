"""An async function as an embedder: one loop, cancelled when the time is over."""

import asyncio
import threading
from collections.abc import Sequence

import numpy as np

from embed.fakes import wait_until
from hyrecall.embed import EmbedFault, Guard, NoVectors, from_async


async def ones(texts: Sequence[str]) -> object:
    await asyncio.sleep(0)
    return np.ones((len(texts), 3), np.float32)


def test_a_guard_takes_it_and_all_calls_share_a_loop() -> None:
    loops: set[int] = set()
    threads: set[int] = set()

    async def reply(texts: Sequence[str]) -> object:
        loops.add(id(asyncio.get_running_loop()))
        threads.add(threading.get_ident())
        return await ones(texts)

    guard = Guard(from_async(reply, model="ones"), closes=True)
    for _ in range(5):
        rows = guard.embed(["tea", "coffee"], budget=5.0)
        assert isinstance(rows, np.ndarray)
        assert rows.shape == (2, 3)
    assert (len(loops), len(threads), guard.dim) == (1, 1, 3)
    assert threads != {threading.get_ident()}
    guard.close()


def test_one_that_takes_too_long_is_cancelled_and_frees_its_worker() -> None:
    ended: list[str] = []

    async def reply(texts: Sequence[str]) -> object:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return None

    guard = Guard(from_async(reply, model="slow", dim=3), workers=1, closes=True)
    for _ in range(4):  # more than a hung worker and its replacement
        answer = guard.embed(["tea"], budget=0.05)
        assert isinstance(answer, NoVectors)
        assert answer.fault is EmbedFault.TIMEOUT
        wait_until(lambda: not guard.state()["hung"])
    wait_until(lambda: len(ended) == 4)
    assert ended == ["cancelled"] * 4
    guard.close()


def test_what_it_raises_is_a_fault() -> None:
    async def reply(texts: Sequence[str]) -> object:
        raise ConnectionError(f"about {texts}")

    guard = Guard(from_async(reply, model="bad"), closes=True)
    assert guard.embed(["tea"], budget=5.0) == NoVectors(EmbedFault.CRASHED, "ConnectionError")
    guard.close()


def test_it_can_be_closed_and_used_again() -> None:
    started = threading.Event()
    ended: list[str] = []

    async def waits(texts: Sequence[str]) -> object:
        started.set()
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("ended")
        return None

    embedder = from_async(waits, model="waits")
    thread = threading.Thread(target=lambda: Guard(embedder).embed(["tea"], budget=5.0))
    thread.start()
    assert started.wait(5)
    embedder.close()
    thread.join(10)
    assert (thread.is_alive(), ended) == (False, ["ended"])
    embedder.close()

    again = from_async(ones, model="ones")
    for _ in range(2):
        assert np.shape(again.embed(["tea"])) == (1, 3)
        again.close()
