"""An interrupt at any line of a search that leads others leaves none of them waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import pytest

from memory.faults.interrupting import Lines, interrupted
from seams import JoinedCalls, JoinedSearch, _WaitingSearch, joined_search

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined_search, "LOOK_SECONDS", 0.005)


class JoiningLines(Lines):
    """Lines of what joins searches."""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "call" and not frame.f_code.co_filename.endswith("index_search.py"):
            return None
        return super().__call__(frame, event, argument)


def anything(_: object, __: object) -> bool:
    return True


def comes(wanted: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not wanted() and time.monotonic() < until:
        time.sleep(0.0005)
    return wanted()


class Calls:
    """Calls of threads of their own, each with its number; ``replies`` by that number."""

    def __init__(self, joined: JoinedSearch[int, int]) -> None:
        self.joined = joined
        self.replies: dict[int, object] = {}
        self.threads: list[threading.Thread] = []

    def begin(self, *numbers: int) -> None:
        for number in numbers:
            self.threads.append(threading.Thread(target=self._call, args=(number,), daemon=True))
            self.threads[-1].start()

    def _call(self, number: int) -> None:
        try:
            self.replies[number] = self.joined(number, anything)
        except BaseException as fault:
            self.replies[number] = fault

    def all_end(self, seconds: float) -> bool:
        """Whether all threads end; those that would not are woken until they do."""
        ended = comes(lambda: not any(one.is_alive() for one in self.threads), seconds)
        while any(one.is_alive() for one in self.threads):
            for one in list(self.joined._waiting):
                one.wake()
            time.sleep(0.001)
        return ended


class Scene:
    """A search of this thread that is interrupted at a line, beside those of other threads.

    ``first``: whether it finds the index idle, and the others come while it runs; else it waits
    behind another one, and then leads a batch of all that wait.
    """

    def __init__(self, at: int, *, first: bool, seconds: float) -> None:
        self.lines, self.wrong = JoiningLines(at), ""
        self._first, self._n_runs, self._gave_up = first, 0, False
        self._joined: JoinedSearch[int, int] = JoinedSearch(self._run, JoinedCalls())
        self._others = Calls(self._joined)
        if not first:
            self._others.begin(1)
            assert comes(lambda: self._n_runs == 1, 20)
        self.was_interrupted = self._is_interrupted()
        if not self._others.threads:  # it ended before anything ran
            self._others.begin(2, 3, 4)
        if not self._others.all_end(seconds):
            self.wrong = "some waited on"
        late = Calls(self._joined)
        late.begin(9)
        if not late.all_end(seconds):
            self.wrong = "a later one waited on"
        replies = self._others.replies | late.replies
        if replies != {number: number * 10 for number in replies}:
            self.wrong = f"{replies}"
        if self._joined._leads.locked() or self._joined._next() is not None:
            self.wrong = "it is still led, or one still waits"

    def _run(self, calls: Sequence[int]) -> list[int]:
        self._n_runs += 1
        if self._n_runs == 1:
            if self._first:
                self._others.begin(2, 3, 4)
                assert comes(lambda: len(self._joined._waiting) >= 4, 20)
            else:
                assert comes(self._is_waited_for, 20)
        return [one * 10 for one in calls]

    def _is_waited_for(self) -> bool:
        """Let the others come behind the search of this thread; say whether all are there."""
        if len(self._joined._waiting) == 2 and len(self._others.threads) == 1:
            self._others.begin(2, 3, 4)
        return len(self._joined._waiting) == 5 or self._gave_up

    def _is_interrupted(self) -> bool:
        try:
            with interrupted(self.lines):
                reply = self._joined(7, anything)
        except KeyboardInterrupt:
            self._gave_up = True
            return True
        assert reply == 70
        return False


def wrongs(*, first: bool, seconds: float, most: int = 1000) -> tuple[int, list[str]]:
    """Interrupt at every line; return how many, and what went wrong where.

    On a busy machine another thread may lead the batch of this search, which then has fewer lines:
    a line is the last one only if several scenes do not come to the next.
    """
    wrong: list[str] = []
    at, n_short = 1, 0
    while n_short < 8 and len(wrong) < most:
        scene = Scene(at, first=first, seconds=seconds)
        if scene.wrong:
            wrong.append(f"{scene.lines.where}: {scene.wrong}")
        if scene.was_interrupted:
            at, n_short = at + 1, 0
        else:
            n_short += 1
    return at - 1, wrong


@pytest.mark.parametrize("first", [True, False], ids=["idle", "busy"])
def test_an_interrupt_at_any_line_of_a_search_leaves_nobody_waiting(first: bool) -> None:
    n, wrong = wrongs(first=first, seconds=20)
    assert n > 50
    assert wrong == []


def test_a_search_that_waits_without_looking_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a leader that was interrupted before it woke the others leaves them waiting."""
    monkeypatch.setattr(_WaitingSearch, "wait", lambda self: self._woken.acquire())
    monkeypatch.setattr(JoinedSearch, "_wake_next", lambda self, but=None: None)
    _, wrong = wrongs(first=True, seconds=0.2, most=1)
    assert "some waited on" in wrong[0]


def test_a_thread_that_ended_without_a_word_holds_up_nobody() -> None:
    joined: JoinedSearch[int, int] = JoinedSearch(
        lambda calls: [n * 10 for n in calls], JoinedCalls()
    )
    joined._waiting[_WaitingSearch(5)] = None
    calls = Calls(joined)
    calls.begin(1, 2, 3)
    assert calls.all_end(20)
    assert calls.replies == {1: 10, 2: 20, 3: 30}
    assert joined._next() is None
