"""How late answers are after their budget, on some threads, and whether that is too often.

A machine that does other work is late too, whatever it runs. So where too many answers were late,
they are asked for again in turns with plain requests of the same shape (a request handed to a
thread, a wait with a deadline, the work that follows), and what those meet as well is not held
against the answers. Both are counts of few rare events, so the answers fail only where they are
late more often than three times the spread of such a count explains. Their work may not be long by
itself, which its processor time tells. Where plain requests are late too often nothing can be
judged, and the test skips.

Beside other work (other workers of pytest-xdist, or what HYRECALL_BUSY=1 says) single answers are
late by chance. There a few are asked for, and what is judged is what no other work changes: how
long each was ready to wait, answers that are all later than any plain request, and work that is
long. ``pytest -n 0`` on a quiet machine judges how late each was.
"""

from __future__ import annotations

import contextlib
import gc
import http.client
import itertools
import math
import os
import queue
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest

from embed.stub_server import StubServer
from laws.effort import Effort
from seams import Pool

BUSY = "HYRECALL_BUSY"
_WORKER = "PYTEST_XDIST_WORKER"
SLACK = 0.020
MAY_BE_LATE = 0.02
"""The promise is 1 in 100. Other work on the machine may take the core now and then."""
ROUNDS = 5
BUSY_CALLS = 4
"""Beside other work."""
_STAGGER = 0.05  # seconds: calls that end at once would be late by one another
_TOGETHER = 0.05  # seconds
PLAIN_BUDGET = 0.05  # seconds
_CHUNK = 65_536  # bytes that an embedder reads at once
_TURN = 4  # calls of each thread, then as many plain ones
BEARABLE = 0.07
"""Moments a plain request. What is excused then, with three times the spread of 250 calls, stays
below the quarter that four threads whose answers are all late make."""
_SPREADS = 3  # by chance one measurement of 700 is further away
_EXPOSED = 2  # an answer hands over from thread to thread twice as often as a plain request


@dataclass(frozen=True, order=True)
class Call:
    """When a call ended, how long after its budget, in which thread, and with how much work."""

    end: float
    late: float
    thread: int
    work: float = 0.0  # seconds of its thread's processor time
    patience: float = 0.0  # seconds by which its longest wait may outlast the budget


@dataclass(frozen=True)
class Late:
    """Calls in the order in which they ended; plain requests that took turns with them."""

    calls: list[Call]
    plain: list[Call] = field(default_factory=list)

    @property
    def n_late(self) -> int:
        return sum(one.late > SLACK for one in self.calls)

    @property
    def n_moments(self) -> int:
        return _moments(self.calls)

    @property
    def is_too_often(self) -> bool:
        if is_busy():
            beside = max((one.late for one in self.plain), default=0.0)
            is_never_in_time = min(one.late for one in self.calls) > SLACK + max(beside, 0.0)
            return self.work > SLACK or self.patience > SLACK or is_never_in_time
        return self.work > SLACK or self.n_moments > self.n_excused

    @property
    def n_excused(self) -> float:
        """How many moments may be late by chance, or by what plain requests met too."""
        allowed = (MAY_BE_LATE + _EXPOSED * self.plain_share) * len(self.calls)
        if self.plain:
            allowed += _SPREADS * math.sqrt(allowed)  # a count of rare events spreads by its root
        return allowed

    @property
    def work(self) -> float:
        return sum(one.work for one in self.calls) / len(self.calls)

    @property
    def patience(self) -> float:
        return max(one.patience for one in self.calls)

    @property
    def plain_share(self) -> float:
        return _moments(self.plain) / max(len(self.plain), 1)

    def at(self, percent: int) -> float:
        seconds = sorted(one.late for one in self.calls)
        return seconds[-(-percent * len(seconds) // 100) - 1]

    def __str__(self) -> str:
        p50, p99 = (self.at(percent) * 1000 for percent in (50, 99))
        share = f"{self.n_late} more than {SLACK * 1000:.0f} ms late, at {self.n_moments} moments"
        beside = f"; plain requests: {_moments(self.plain)} in {len(self.plain)}"
        asked = f"p50 {p50:+.1f} ms, p99 {p99:+.1f} ms in {len(self.calls)} calls, {share}"
        asked += f"; {self.work * 1000:.1f} ms of work a call"
        if self.patience > 0:
            asked += f"; ready to wait {self.patience * 1000:.0f} ms too long"
        return asked + (beside if self.plain else "")


def is_busy() -> bool:
    """Whether the machine is known to do other work."""
    return any(os.environ.get(name) for name in (BUSY, _WORKER))


def no_longer_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have lateness judged as on a quiet machine, to try the judge itself."""
    for name in (BUSY, _WORKER):
        monkeypatch.delenv(name, raising=False)


def calls_of(effort: Effort, *, full: int = 1000, quick: int = 100) -> int:
    """How many calls to judge: a share of them, or what all of them have."""
    return BUSY_CALLS if is_busy() else effort.cases(quick=quick, full=full)


def within(seconds: float) -> float:
    """Return the bound of one call: the promise, or what tells that it does not wait for ever."""
    return 5.0 if is_busy() else seconds


def _moments(calls: list[Call]) -> int:
    """How often calls were late. A core that is taken away holds up each thread once, so late
    calls of different threads that end together are one.
    """
    n, first, threads = 0, -math.inf, set[int]()
    for one in calls:
        if one.late <= SLACK:
            continue
        if one.end - first > _TOGETHER or one.thread in threads:
            n, first, threads = n + 1, one.end, set()
        threads.add(one.thread)
    return n


def judge(
    ask: Callable[[], None], budget: float, plain: Callable[[], None], *, calls: int, threads: int
) -> Late:
    """Ask so often; where too many were late again, in turns with plain requests, all of which
    count, until they are not or ROUNDS have been made. Beside other work the answers are only asked
    for again; where none is ever in time, the earliest is compared with the latest plain request.
    """
    gc.collect()
    gc.freeze()  # to look through all that a test runner holds would stop each thread for long
    late = Late(ask_often(ask, budget, calls, threads))
    if is_busy():
        for _ in range(1, ROUNDS):
            if not late.is_too_often or late.patience > SLACK:
                break
            late = Late(late.calls + ask_often(ask, budget, calls, threads))
        if late.is_too_often and max(late.work, late.patience) <= SLACK:
            late = replace(late, plain=ask_often(plain, PLAIN_BUDGET, ROUNDS * calls, threads))
    elif late.is_too_often:
        late = Late([])
        for _ in range(1, ROUNDS):
            late = _in_turns(late, ask, budget, plain, calls, threads)
            if not late.is_too_often and late.plain_share <= BEARABLE:
                break
        if late.plain_share > BEARABLE and late.work <= SLACK:
            pytest.skip(f"other work keeps this machine too busy to judge: {late}")
    return late


def _in_turns(
    late: Late,
    ask: Callable[[], None],
    budget: float,
    plain: Callable[[], None],
    calls: int,
    threads: int,
) -> Late:
    turn = _TURN * threads
    for _ in range(-(-calls // turn)):
        made = ask_often(ask, budget, turn, threads)
        beside = ask_often(plain, PLAIN_BUDGET, turn, threads)
        late = Late(late.calls + made, late.plain + beside)
    return late


def plain_request(server: StubServer, mode: str = "hang") -> None:
    """Hand a request to a thread that gets no whole answer, and wait for as long as the budget."""
    done: queue.SimpleQueue[None] = queue.SimpleQueue()
    until = time.monotonic() + PLAIN_BUDGET

    def work() -> None:
        address = urllib.parse.urlsplit(server.url(mode))
        assert address.hostname
        connection = http.client.HTTPConnection(
            address.hostname, address.port, timeout=2 * PLAIN_BUDGET
        )
        with contextlib.suppress(OSError):
            connection.request("POST", address.path, b"{}")
            response = connection.getresponse()
            while time.monotonic() < until and response.read(_CHUNK):
                pass
        connection.close()
        done.put(None)

    threading.Thread(target=work, daemon=True).start()
    with contextlib.suppress(queue.Empty):
        done.get(timeout=PLAIN_BUDGET)


def ask_often(ask: Callable[[], None], budget: float, calls: int, threads: int) -> list[Call]:
    made: list[Call] = []
    faults: list[BaseException] = []

    def work(number: int) -> None:
        time.sleep(number * min(budget, _STAGGER) / threads)
        try:
            for _ in range(-(-calls // threads)):
                _waits.longest = 0.0
                begun, worked = time.monotonic(), time.thread_time()
                ask()
                end, worked = time.monotonic(), time.thread_time() - worked
                patience = _waits.longest - budget
                made.append(Call(end, end - begun - budget, number, worked, patience))
        except BaseException as fault:
            faults.append(fault)

    started = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    with _waits_told():
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
    if faults:
        raise faults[0]
    return sorted(made)


class _Waits(threading.local):
    """The longest time, in seconds, that a call was ready to wait: no other work changes it."""

    longest = 0.0


_waits = _Waits()


@contextlib.contextmanager
def _waits_told() -> Iterator[None]:
    plain = threading.Condition.wait

    def wait(self: threading.Condition, timeout: float | None = None) -> bool:
        _waits.longest = max(_waits.longest, timeout or 0.0)  # without one: until a thread starts
        return plain(self, timeout)

    threading.Condition.wait = wait  # type: ignore[method-assign]
    try:
        yield
    finally:
        threading.Condition.wait = plain  # type: ignore[method-assign]


def measured_late(monkeypatch: pytest.MonkeyPatch, measure: Callable[[], Late]) -> Late:
    """Plant late answers, and return a measurement, the control of the judge.

    One call in ten is late, and is measured up to three times. If other work is such that as many
    are excused, one call in three is.
    """
    late = Late([])
    for _ in range(3):
        with _late_now_and_then(monkeypatch, 10):
            late = measure()
        if late.is_too_often:
            return late
    if late.n_excused >= len(late.calls) / 10:
        with _late_now_and_then(monkeypatch, 3):
            late = measure()
    return late


@contextlib.contextmanager
def _late_now_and_then(monkeypatch: pytest.MonkeyPatch, every: int) -> Iterator[None]:
    """Plant a deadline that one call in so many overruns by three times the slack."""
    whole, number = Pool.run, itertools.count()

    def run(self: Pool, given: object, seconds: float) -> object:
        return whole(self, given, seconds + (0 if next(number) % every else 3 * SLACK))

    with monkeypatch.context() as patched:
        patched.setattr(Pool, "run", run)
        yield
