"""Searches of several threads are joined: each gets what it gets alone, and none waits for ever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from types import FrameType
from typing import Any

import pytest

import hyrecall as hr
from hyrecall.arms import EdgeLexical, Regex
from hyrecall.embed import HashEmbedder
from hyrecall.memory import Matches, MemorySync
from hyrecall.recipe import Lexical
from memory.faults.interrupting import Lines, interrupted
from seams import (
    FoundRows,
    IndexNotReadyError,
    IndexQuestion,
    IndexSearch,
    JoinedCalls,
    JoinedSearch,
    Trace,
    _WaitingSearch,
    turns,
)

NOW = datetime(2026, 5, 1, tzinfo=UTC)
WORDS = ("oak", "ash", "elm", "fir", "yew", "tea")


class Gate:
    """Wraps a function so that its first call waits until it is let go."""

    def __init__(self, run: Callable[[Sequence[Any]], Any]) -> None:
        self.run, self.batches = run, list[int]()
        self.began, self.go = threading.Event(), threading.Event()

    def __call__(self, calls: Sequence[Any]) -> Any:
        self.batches.append(len(calls))
        if len(self.batches) == 1:
            self.began.set()
            assert self.go.wait(20)
        return self.run(calls)


def together(
    joined: JoinedSearch[Any, Any], works: list[Callable[[], Any]]
) -> tuple[list[Any], Gate]:
    """Do works on threads: the first holds the index until all others wait for it."""
    gate = Gate(joined._run)
    joined._run = gate
    with ThreadPoolExecutor(len(works)) as pool:
        futures: list[Future[Any]] = [pool.submit(works[0])]
        assert gate.began.wait(20)
        futures += [pool.submit(work) for work in works[1:]]
        while len(joined._waiting) < len(works) - 1:  # the first leads, as nobody else did
            time.sleep(0.001)
        gate.go.set()
        done = [future.exception() or future.result() for future in futures]
    return done, gate


def times_ten(calls: Sequence[int]) -> list[int]:
    if 13 in calls:
        raise ValueError("13")
    return [one * 10 for one in calls]


def anything(_: Any, __: Any) -> bool:
    return True


def test_what_waits_is_one_batch_of_at_most_so_many() -> None:
    joined: JoinedSearch[int, int] = JoinedSearch(times_ten, JoinedCalls(3))
    works = [lambda n=n: joined(n, anything) for n in range(8)]
    done, gate = together(joined, works)
    assert done == [n * 10 for n in range(8)]
    assert gate.batches == [1, 3, 3, 1]
    assert (joined.joining.n_calls, joined.joining.n_batches) == (8, 4)
    assert joined(9, anything) == 90


def test_only_calls_that_may_be_together_are_joined() -> None:
    joined: JoinedSearch[int, int] = JoinedSearch(times_ten, JoinedCalls())
    works = [lambda n=n: joined(n, lambda a, b: a % 2 == b % 2) for n in range(7)]
    done, gate = together(joined, works)
    assert done == [n * 10 for n in range(7)]
    assert sorted(gate.batches) == [1, 3, 3]


def test_a_call_that_fails_fails_alone() -> None:
    joined: JoinedSearch[int, int] = JoinedSearch(times_ten, JoinedCalls())
    done, gate = together(joined, [lambda n=n: joined(n, anything) for n in (1, 12, 13, 14)])
    assert done[:2] + done[3:] == [10, 120, 140]
    assert isinstance(done[2], ValueError)
    assert sorted(gate.batches) == [1, 1, 1, 1, 3]
    assert joined(2, anything) == 20


def plain(matches: Matches) -> Any:
    """All that a search told, but for times."""
    trace = matches.trace
    assert trace is not None
    return (
        [match.model_dump() for match in matches],
        [match.explain().score for match in matches],
        matches.reasons, matches.tiers, matches.scopes, matches.origins, matches.now,
        (trace.n_queries, trace.arms, trace.depth, trace.exact, trace.stages),
        (trace.degraded, trace.notes, trace.about),
    )  # fmt: skip


@pytest.fixture
def memory() -> Any:
    with MemorySync.in_memory(recipe=hr.recipes.default, embedder=HashEmbedder(dim=16)) as made:
        for at in range(90):
            text = f"{WORDS[at % 6]} {WORDS[at * 7 % 5]} number{at}"
            user = ("ann", "bob", "cy")[at % 3]
            session = f"session {at % 4}" if user == "ann" else None  # hers are threads
            made.remember(text, user_id=user, kind=("a", "b")[at % 2], session_id=session)
        yield made


def test_joined_searches_of_a_store_are_those_of_single_calls(memory: MemorySync) -> None:
    asked: list[dict[str, Any]] = []
    for at in range(24):
        one: dict[str, Any] = {"text": f"{WORDS[at % 6]} {WORDS[at % 4]}", "now": NOW}
        one["user_id"] = ("ann", "bob", "cy", "nobody")[at % 4]
        one["limit"] = (3, 8)[at % 5 == 0]
        if at % 3 == 0:
            one["kind"] = "a"
        if at % 6 == 1:
            one["text"] = "..."  # has no token: a note says so, to who asked it alone
        if at % 8 == 7:
            one["text"] = '"number7"'
        asked.append(one)
    search = memory._store.keeper._search  # type: ignore[attr-defined]
    search.joined.joining.most = 1
    alone = [plain(memory.search(**one)) for one in asked]
    search.joined.joining.most = 64
    works = [lambda one=one: plain(memory.search(**one)) for one in asked]
    joined, gate = together(search.joined, works)
    assert max(gate.batches) > 5
    assert joined == alone
    assert any("no indexable token" in str(one) for one in alone)


FALLS_BACK = hr.Recipe(
    name="mine",
    arms=(Lexical(),),
    on_no_match=(Regex(("key", "description")),),
    fusion=hr.RRF(),
    analyzer=hr.recipes.hypergraph.analyzer,
)


HAS_PATTERNS = hr.Recipe(
    name="mine",
    arms=(Lexical(),),
    more=(Regex(("key", "description"), on_bad="literal"),),
    fusion=hr.RRF(),
    analyzer=hr.recipes.hypergraph.analyzer,
)


@pytest.mark.parametrize(
    "recipe", [hr.recipes.hebb, FALLS_BACK, HAS_PATTERNS], ids=["stages", "falls back", "patterns"]
)
def test_a_search_that_tells_of_a_batch_or_looks_for_patterns_is_not_joined(
    recipe: hr.Recipe,
) -> None:
    with MemorySync.in_memory(recipe=recipe, embedder=None) as memory:
        memory.remember("oak", user_id="ann")
        assert len(memory.search("oak", user_id="ann")) == 1
        search = memory._store.keeper._search  # type: ignore[attr-defined]
        assert search.joined.joining.n_calls == 0


def ask_by_patterns(patch: pytest.MonkeyPatch) -> tuple[list[Any], list[Any]]:
    """What five searches told alone, and joined by force; each is (user, notes, all it told)."""
    patch.setattr("hyrecall.memory.recall.index_search.is_joinable", lambda _: True)
    with MemorySync.in_memory(recipe=HAS_PATTERNS, embedder=None) as memory:
        for user in ("ann", "bob"):
            memory.remember("oak by the sea", user_id=user)
        search = memory._store.keeper._search  # type: ignore[attr-defined]

        def ask(user: str, query: str) -> Any:
            matches = memory.search(query, user_id=user, now=NOW)
            return user, "|".join(matches.trace.notes if matches.trace else ()), plain(matches)

        asked = [("ann", "oak"), ("bob", "oak ("), ("ann", "sea"), ("bob", "oak ("), ("ann", "b(")]
        search.joined.joining.most = 1
        alone = [ask(*one) for one in asked]
        search.joined.joining.most = 64
        joined, gate = together(search.joined, [lambda one=one: ask(*one) for one in asked])
        assert gate.batches == [1, 4]
        return alone, joined


def test_what_an_arm_notes_of_one_search_is_told_to_no_other_of_the_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone, joined = ask_by_patterns(monkeypatch)
    assert joined == alone
    assert [notes.startswith("text['regex']: 'oak ('") for _, notes, _ in joined] == [
        False, True, False, True, False,
    ]  # fmt: skip
    assert not any("oak" in notes for user, notes, _ in joined if user == "ann")


def test_notes_that_go_to_all_searches_of_a_batch_are_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control: a trace that takes every note for one of the whole batch."""
    of_query = Trace.of_query
    monkeypatch.setattr(Trace, "of_query", lambda self, at: of_query(replace(self, about={}), at))
    alone, joined = ask_by_patterns(monkeypatch)
    assert joined != alone
    assert any("oak (" in notes for user, notes, _ in joined if user == "ann")


def test_a_joined_search_would_tell_that_another_one_fell_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hyrecall.memory.recall.index_search.is_joinable", lambda _: True)
    with MemorySync.in_memory(recipe=FALLS_BACK, embedder=None) as memory:
        for user in ("ann", "bob"):
            memory.remember("oak by the sea", user_id=user)
        search = memory._store.keeper._search  # type: ignore[attr-defined]

        def ask(query: str, user: str) -> Any:
            return plain(memory.search(query, user_id=user, now=NOW))

        asked = [("oak", "ann"), ("oak", "ann"), ("k b", "bob")]
        search.joined.joining.most = 1
        alone = [ask(*one) for one in asked]
        search.joined.joining.most = 64
        joined, _ = together(search.joined, [lambda one=one: ask(*one) for one in asked])
        assert joined[1] != alone[1]


def test_a_search_waits_for_changes_no_longer_than_its_own_budget(
    memory: MemorySync, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the budget of those that wait too, which it could be joined with."""
    questions: list[IndexQuestion] = []
    call = IndexSearch.__call__

    def seen(self: IndexSearch, question: IndexQuestion) -> FoundRows:
        questions.append(question)
        return call(self, question)

    with monkeypatch.context() as patch:
        patch.setattr(IndexSearch, "__call__", seen)
        memory.search("number7", user_id="bob", now=NOW)
    search = memory._store.keeper._search  # type: ignore[attr-defined]
    follower, waiting = search._follower, list[float]()
    ready = follower.ready

    def waits(**how: float) -> Any:  # what fills in vectors has no budget
        waiting.append(how.get("budget", 0.0))
        return ready(**how)

    monkeypatch.setattr(follower, "ready", waits)
    before = call(search, questions[0])
    with ThreadPoolExecutor(2) as pool:
        with follower._lock:  # changes are being applied
            memory.remember("number7 again", user_id="bob")
            patient = pool.submit(search, replace(questions[0], budget=60.0))
            while 60.0 not in waiting:
                time.sleep(0.001)
            hasty = pool.submit(search, replace(questions[0], budget=0.01))
            assert isinstance(hasty.exception(timeout=10), IndexNotReadyError)
            assert not patient.done()
        (again,) = set(patient.result(timeout=20).rows) - set(before.rows)
        assert again > max(before.rows)


def test_a_recipe_whose_only_arm_reads_a_graph_is_searched() -> None:
    recipe = hr.Recipe(name="edges", arms=(), more=(EdgeLexical("graph"),), fusion=hr.RRF())
    with MemorySync.in_memory(embedder=None) as memory:
        for key in ("tea", "milk", "oak"):
            memory.remember(key, id=key, user_id="ann")
        memory.link(["tea", "milk"], "goes with", user_id="ann")
        matches = memory.search("goes with", user_id="ann", recipe=recipe)
        assert [one.episode.id for one in matches] == ["tea", "milk"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LOOK_SECONDS", 0.005)


JOINS = ("recall/turns.py", "recall/index_search.py")


class JoiningLines(Lines):
    """Lines of what joins searches."""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "call" and not frame.f_code.co_filename.endswith(JOINS):
            return None
        return super().__call__(frame, event, argument)


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
                assert comes(lambda: len(self._joined._waiting) >= 3, 20)
            else:
                assert comes(self._is_waited_for, 20)
        return [one * 10 for one in calls]

    def _is_waited_for(self) -> bool:
        """Let the others come behind the search of this thread; say whether all are there."""
        if len(self._joined._waiting) == 1 and len(self._others.threads) == 1:
            self._others.begin(2, 3, 4)
        return len(self._joined._waiting) == 4 or self._gave_up

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


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("first", [True, False], ids=["idle", "busy"])
def test_an_interrupt_at_any_line_of_a_search_leaves_nobody_waiting(first: bool) -> None:
    n, wrong = wrongs(first=first, seconds=20)
    assert n > (10 if first else 50)
    assert wrong == []


@pytest.mark.usefixtures("quick")
def test_a_search_that_waits_without_looking_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a leader that was interrupted before it woke the others leaves them waiting."""
    monkeypatch.setattr(_WaitingSearch, "wait", lambda self: self._woken.acquire())
    monkeypatch.setattr(JoinedSearch, "_wake_next", lambda self, but=None: None)
    _, wrong = wrongs(first=True, seconds=0.2, most=1)
    assert "some waited on" in wrong[0]


@pytest.mark.usefixtures("quick")
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
