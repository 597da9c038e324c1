"""The guard's threads, breaker and loop: held by calls that hang, replaced, given back."""

import asyncio
import sys
import threading
import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embed.fakes import SLACK, Fake, FakeClock, asked, hang, hanging, wait_until
from embed.lateness import within
from hyrecall.embed import EmbedFault
from seams import Breaker, Guard, NoVectors, from_async, pool

# ---- the threads ----


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


# ---- the breaker against its definition, in a clock that the test sets ----


def test_five_failures_in_a_row_begin_a_rest_and_a_probe_ends_it() -> None:
    clock = FakeClock()
    breaker = Breaker(5, 30.0, clock=clock)
    for _ in range(4):
        assert breaker.admits()
        breaker.failed()
    assert (breaker.admits(), breaker.state) == (True, "closed")
    breaker.failed()
    assert (breaker.admits(), breaker.state, breaker.rests_for) == (False, "open", 30.0)
    clock.now += 29.9
    assert not breaker.admits()
    clock.now += 0.1
    assert (breaker.state, breaker.rests_for) == ("probing", 0.0)
    assert breaker.admits()
    assert not breaker.admits()  # one probe at a time
    breaker.succeeded()
    assert (breaker.admits(), breaker.state) == (True, "closed")


def test_a_call_that_says_nothing_leaves_the_probe_to_the_next() -> None:
    clock = FakeClock()
    breaker = Breaker(2, 30.0, clock=clock)
    breaker.failed()
    breaker.undecided()
    assert breaker.state == "closed"
    breaker.failed()  # it counts as the second in a row
    assert breaker.state == "open"
    clock.now += 30
    assert breaker.admits()
    breaker.undecided()
    assert (breaker.admits(), breaker.admits()) == (True, False)
    breaker.failed()
    assert breaker.rests_for == 30.0


def test_calls_of_before_the_rest_make_it_no_longer() -> None:
    clock = FakeClock()
    breaker = Breaker(1, 30.0, clock=clock)
    breaker.failed()
    clock.now += 20
    breaker.failed()  # was under way when the rest began
    assert breaker.rests_for == 10


class Definition:
    """The breaker as one reads it, on a list of what happened."""

    def __init__(self, most: int, rest: float) -> None:
        self.most, self.rest = most, rest
        self.in_a_row = 0
        self.opened: float | None = None
        self.probe = False

    def admits(self, now: float) -> bool:
        if self.opened is None:
            return True
        if now < self.opened + self.rest or self.probe:
            return False
        self.probe = True
        return True

    def report(self, now: float, well: bool) -> None:
        if well:
            self.in_a_row, self.opened, self.probe = 0, None, False
            return
        self.in_a_row += 1
        if self.probe or (self.opened is None and self.in_a_row >= self.most):
            self.opened = now
        self.probe = False


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from(["wait", "well", "badly"]), st.integers(0, 20))),
)
def test_any_history_admits_as_the_definition_does(
    most: int, history: list[tuple[str, int]]
) -> None:
    clock = FakeClock()
    breaker, definition = Breaker(most, 10.0, clock=clock), Definition(most, 10.0)
    for what, seconds in history:
        if what == "wait":
            clock.now += seconds
            continue
        admitted = breaker.admits()
        assert admitted == definition.admits(clock.now)
        if admitted:
            (breaker.succeeded if what == "well" else breaker.failed)()
            definition.report(clock.now, what == "well")


def test_of_many_threads_one_is_the_probe() -> None:
    clock = FakeClock()
    breaker = Breaker(1, 1.0, clock=clock)
    breaker.failed()
    clock.now += 2
    admitted: list[bool] = []
    start = threading.Barrier(8)

    def ask() -> None:
        start.wait()
        admitted.append(breaker.admits())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(admitted) == [False] * 7 + [True]


# ---- an async function as an embedder: one loop, cancelled when the time is over ----


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


# ---- while the model is loaded: who is answered at once, and who waits ----


def test_while_it_warms_calls_are_answered_at_once() -> None:
    fake = hanging()
    fake._reply = lambda texts: np.ones((len(texts), 4))
    fake.warm = lambda: fake.release.wait(30)  # type: ignore[attr-defined]
    guard = Guard(fake)
    begun = time.monotonic()
    guard.start_warming()
    assert guard.embed(["tea"], budget=5.0) == NoVectors(EmbedFault.NOT_READY)
    assert time.monotonic() - begun < within(1)
    assert (guard.is_ready, fake.calls) == (False, [])
    fake.release.set()
    wait_until(lambda: guard.is_ready)
    assert isinstance(guard.embed(["tea"], budget=5.0), np.ndarray)
    guard.close()


def test_a_call_that_waits_has_its_vectors_once_the_model_is_loaded() -> None:
    fake = hanging()
    fake._reply = lambda texts: np.ones((len(texts), 4))
    fake.warm = lambda: fake.release.wait(30)  # type: ignore[attr-defined]
    guard = Guard(fake)
    guard.start_warming()
    later = threading.Timer(0.2, fake.release.set)
    later.start()
    assert isinstance(guard.embed(["tea"], budget=30.0, waits=True), np.ndarray)
    later.join()
    guard.close()


def test_a_model_that_never_loads_holds_up_the_first_callers_only() -> None:
    fake = hanging()
    fake.warm = lambda: fake.release.wait(30)  # type: ignore[attr-defined]
    guard = Guard(fake)
    guard.start_warming()
    answers = [guard.embed(["tea"], budget=0.3, waits=True) for _ in range(2)]
    begun = time.monotonic()
    answers += [guard.embed(["tea"], budget=0.3, waits=True) for _ in range(8)]
    assert answers == [NoVectors(EmbedFault.NOT_READY)] * 10
    assert time.monotonic() - begun < within(0.3)
    fake.release.set()
    guard.close()


def test_closing_answers_those_who_wait_for_the_model() -> None:
    fake = hanging()
    fake.warm = lambda: fake.release.wait(30)  # type: ignore[attr-defined]
    guard = Guard(fake)
    guard.start_warming()
    later = threading.Timer(0.2, guard.close)
    later.start()
    answer = guard.embed(["tea"], budget=30.0, waits=True)
    assert answer == NoVectors(EmbedFault.OFF, "closed")
    later.join()
    fake.release.set()


def test_a_warm_up_that_fails_lets_calls_say_what_is_wrong() -> None:
    def refuse(texts: object) -> object:
        raise OSError

    fake = Fake(refuse)
    fake.warm = sys.exit  # type: ignore[attr-defined]
    guard = Guard(fake)
    guard.start_warming()
    wait_until(lambda: guard.is_ready)
    assert guard.embed(["tea"], budget=30.0) == NoVectors(EmbedFault.CRASHED, "OSError")
    guard.close()
