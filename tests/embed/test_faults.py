"""S1 at the guard: every fault times two budgets; the answer is there within budget + 20 ms.

Each line printed has the fault, the budget and how late the answers were.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest

from embed import lateness
from embed.bad_embedders import BAD, Bad, patch_names
from embed.lateness import (
    BEARABLE,
    BUSY,
    PLAIN_BUDGET,
    SLACK,
    Call,
    Late,
    ask_often,
    calls_of,
    is_busy,
    judge,
    measured_late,
    no_longer_busy,
    plain_request,
)
from embed.stub_server import StubServer, serving
from hyrecall.embed import EmbedFault
from laws.effort import Effort
from seams import Breaker, Guard, NoVectors, Pool

BUDGETS = (
    0.05,
    pytest.param(0.2, marks=pytest.mark.slow),
)  # a second too, through a store: memory/faults/test_embed_faults.py
NEVER = 10**6


@pytest.fixture(scope="module")
def server() -> Iterator[StubServer]:
    with serving() as one:
        yield one


@pytest.fixture(autouse=True)
def no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_names(monkeypatch)


OVERRUN = EmbedFault.TIMEOUT
"""What any fault is told as that shows itself after a small budget."""


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_the_answer_is_there_in_time(
    bad: Bad, budget: float, server: StubServer, effort: Effort
) -> None:
    def ask() -> None:
        # A guard for each call: the fault is to be met, not its breaker or its hung workers.
        guard = Guard(bad.make(server), breaker=Breaker(NEVER), closes=True)
        answer = guard.embed(["SECRET"], budget=budget)
        assert isinstance(answer, NoVectors)
        assert answer.fault is bad.fault or answer.fault is OVERRUN
        assert "SECRET" not in repr(answer)
        guard.close()

    late = judge(
        ask,
        budget,
        partial(plain_request, server, bad.plain),
        calls=calls_of(effort),
        threads=4,
    )
    print(f"guard, {bad.name}, {budget * 1000:.0f} ms: {late}")
    assert not late.is_too_often, str(late)


@pytest.mark.parametrize("bad", [bad for bad in BAD if not bad.waits], ids=lambda bad: bad.name)
def test_after_five_it_rests(bad: Bad, server: StubServer) -> None:
    guard = Guard(bad.make(server), closes=True)
    for _ in range(5):
        answer = guard.embed(["tea"], budget=30.0)
        assert isinstance(answer, NoVectors)
        assert answer.fault is bad.fault
    n_connections = server.n_connections
    answer = guard.embed(["tea"], budget=30.0)
    assert isinstance(answer, NoVectors)
    assert answer.fault is EmbedFault.RESTING
    assert server.n_connections == n_connections
    guard.close()


def test_a_guard_that_is_late_would_be_seen(
    server: StubServer, effort: Effort, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the measure: late once in ten calls, or in three beside much other work."""
    sleeps = next(bad for bad in BAD if bad.name == "sleeps in process")

    def ask() -> None:
        guard = Guard(sleeps.make(server), closes=True)
        guard.embed(["tea"], budget=0.05)
        guard.close()

    plain, calls = partial(plain_request, server), max(calls_of(effort), 40)
    late = measured_late(monkeypatch, lambda: judge(ask, 0.05, plain, calls=calls, threads=4))
    assert late.is_too_often, str(late)


def test_late_calls_are_counted_by_the_moment_and_no_thread_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    no_longer_busy(monkeypatch)

    def late(*calls: tuple[float, int]) -> Late:
        in_time = [Call(float(at), 0.0, at % 4) for at in range(100 - len(calls))]
        return Late(sorted([*in_time, *(Call(end, 0.1, thread) for end, thread in calls)]))

    one_stall = late((5.0, 0), (5.01, 1), (5.02, 2), (5.03, 3))
    assert (one_stall.n_late, one_stall.n_moments, one_stall.is_too_often) == (4, 1, False)
    assert late((5.0, 0), (5.01, 0), (5.02, 0)).is_too_often
    assert late((5.0, 0), (5.06, 1), (5.12, 2)).is_too_often
    together = late(*((5.0 + at / 100, at % 4) for at in range(10)))  # one call in ten
    assert (together.n_moments, together.is_too_often) == (3, True)
    assert late(*((5.0 + at / 1000, at % 4) for at in range(100))).n_moments == 25


def test_what_plain_requests_meet_as_well_is_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    no_longer_busy(monkeypatch)

    def calls(n_late: int) -> list[Call]:
        return [Call(float(at), 0.1 if at < n_late else 0.0, at % 4) for at in range(100)]

    assert not Late(calls(2), []).is_too_often
    assert Late(calls(3), []).is_too_often
    assert not Late(calls(6), calls(0)).is_too_often  # two, and three times the spread of two
    assert Late(calls(7), calls(0)).is_too_often
    assert not Late(calls(19), calls(4)).is_too_often
    assert Late(calls(20), calls(4)).is_too_often
    assert Late([replace(one, work=2 * SLACK) for one in calls(0)], calls(100)).is_too_often
    assert not Late(calls(1)[:52], []).is_too_often
    assert Late(calls(1)[:36], []).is_too_often  # of so few calls a single stall is too many


def test_beside_other_work_only_what_it_does_not_change_is_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(BUSY, "1")
    late = [Call(float(at), 0.1, at % 4) for at in range(8)]
    in_time = replace(late[0], late=0.0)
    assert not Late([*late[1:], in_time]).is_too_often
    assert Late(late).is_too_often
    assert Late(late, [in_time] * 8).is_too_often
    assert not Late(late, [in_time, late[0]]).is_too_often
    assert Late([replace(in_time, work=2 * SLACK)] * 8).is_too_often
    assert Late([*[in_time] * 7, replace(in_time, patience=2 * SLACK)]).is_too_often


@pytest.mark.slow
def test_what_cannot_be_judged_skips_but_for_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    no_longer_busy(monkeypatch)
    monkeypatch.setattr(lateness, "ROUNDS", 2)

    def works() -> None:
        until = time.thread_time() + 2 * SLACK
        while time.thread_time() < until:
            pass

    late = partial(time.sleep, PLAIN_BUDGET + 2 * SLACK)
    with pytest.raises(pytest.skip.Exception, match="too busy to judge"):
        judge(late, 0.001, late, calls=16, threads=4)
    assert judge(works, 0.001, late, calls=16, threads=4).is_too_often


def test_plain_requests_wait_as_long_as_the_budget(server: StubServer) -> None:
    """The control of the yardstick: one that is late by itself would excuse every answer."""

    def late_request() -> None:
        plain_request(server)
        time.sleep(2 * SLACK)

    calls = ask_often(partial(plain_request, server), PLAIN_BUDGET, 16, 4)
    assert 0 <= min(call.late for call in calls) <= SLACK
    assert is_busy() or Late(calls).at(50) <= SLACK
    late = Late([], ask_often(late_request, PLAIN_BUDGET, 16, 4))
    assert late.plain_share > BEARABLE


def test_a_guard_without_a_deadline_would_be_seen(
    server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: it waits for as long as the embedder likes."""
    whole = Pool.run
    monkeypatch.setattr(Pool, "run", lambda self, given, seconds: whole(self, given, 30.0))
    sleeps = next(bad for bad in BAD if bad.name == "sleeps in process")
    guard = Guard(sleeps.make(server))
    begun = time.monotonic()
    guard.embed(["tea"], budget=0.05)
    assert time.monotonic() - begun > 0.05 + 5 * SLACK
    guard.close()
