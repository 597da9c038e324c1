"""The guard's threads: held by calls that hang, replaced, given back."""

import threading
import time
from collections.abc import Sequence

import numpy as np
import pytest

from embed.fakes import SLACK, Fake, FakeClock, asked, hang, hanging, wait_until
from embed.lateness import within
from hyrecall.embed import EmbedFault, Guard, NoVectors
from seams import Breaker, pool


def test_when_every_worker_hangs_the_answer_comes_at_once() -> None:
    clock = FakeClock()
    fake = hanging()
    guard = Guard(fake, workers=2, breaker=Breaker(1000), usual=0.02, clock=clock)
    for n in range(1, 4):  # two workers, and one that replaces them
        assert hang(guard, n) == NoVectors(EmbedFault.TIMEOUT, "no reply within 20 ms")
    answer, seconds = asked(guard, 30.0)
    assert answer == NoVectors(EmbedFault.HUNG, "3 calls have not come back")
    assert seconds < within(1)
    for n in range(4, 9):  # one more each ten seconds
        clock.now += 10
        assert hang(guard, n) == NoVectors(EmbedFault.TIMEOUT, "no reply within 20 ms")
        assert guard.state()["workers"] == guard.state()["hung"] == n
    clock.now += 1000
    assert asked(guard, 30.0)[0] == NoVectors(EmbedFault.HUNG, "8 calls have not come back")

    fake.release.set()  # they come back: calls go through, and the surplus leaves
    until = time.monotonic() + 30
    while guard.state()["hung"] and time.monotonic() < until:
        time.sleep(0.005)
    assert isinstance(asked(guard, 30.0)[0], np.ndarray)
    while guard.state()["workers"] > 2 and time.monotonic() < until:
        time.sleep(0.005)
    assert guard.state()["workers"] == 2
    guard.close()


def test_a_slow_one_keeps_a_caller_with_more_time_waiting_for_a_worker() -> None:
    def reply(texts: Sequence[str]) -> object:
        time.sleep(0.05)
        return np.ones((1, 4))

    guard = Guard(Fake(reply), workers=2)
    answers: list[object] = []
    threads = [
        threading.Thread(target=lambda: answers.append(asked(guard, 30.0)[0])) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [type(answer) for answer in answers] == [np.ndarray] * 6
    assert guard.state()["workers"] == 2
    guard.close()


def test_a_text_whose_caller_has_left_the_queue_is_never_sent() -> None:
    fake = hanging()
    guard = Guard(fake, workers=1, breaker=Breaker(100))
    first = threading.Thread(target=asked, args=(guard, 1.0, "first"))
    first.start()
    while not fake.calls:
        time.sleep(0.001)
    assert isinstance(asked(guard, 0.02, "second")[0], NoVectors)
    fake.release.set()
    first.join()
    assert isinstance(asked(guard, 30.0, "third")[0], np.ndarray)
    assert fake.calls == [["first"], ["third"]]
    guard.close()


def test_threads_that_nobody_needs_leave_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_IDLE_SECONDS", 0.02)
    guard = Guard(Fake())
    for _ in range(3):
        assert isinstance(guard.embed(["tea"], budget=30.0), np.ndarray)
        wait_until(lambda: guard.state()["workers"] == 0)
        assert guard.state()["workers"] == 0
    guard.close()


def test_a_system_without_threads_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    fake = Fake()
    fake.warm = fake.close = lambda: None  # type: ignore[attr-defined]
    guard = Guard(fake, closes=True)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        guard.start_warming()
        answer, seconds = asked(guard, 30.0)
    assert isinstance(answer, NoVectors)
    assert (answer.fault, seconds < within(1)) == (EmbedFault.HUNG, True)
    assert isinstance(guard.embed(["tea"], budget=30.0), np.ndarray)
    guard.close()


def test_many_callers_of_a_slow_one_are_all_answered_within_their_budget() -> None:
    """More callers than workers, some of them with too little time: none waits for another's."""

    def reply(texts: Sequence[str]) -> object:
        time.sleep(0.03)
        return np.ones((len(texts), 4))

    guard = Guard(Fake(reply), breaker=Breaker(10**6))
    late: list[float] = []

    def ask(budget: float) -> None:
        for _ in range(6):
            answer, seconds = asked(guard, budget)
            late.append(seconds - budget)
            assert isinstance(answer, np.ndarray | NoVectors)

    threads = [threading.Thread(target=ask, args=(0.02 * n,)) for n in range(1, 13)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(late) == 72
    assert sorted(late)[60] < SLACK  # the machine may make some late
    guard.close()
