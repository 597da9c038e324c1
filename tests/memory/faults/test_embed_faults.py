"""S1: every fault of an embedder times three budgets: recall answers by words, and in time.

Each line printed has the fault, the budget and how late the answers were.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from embed.bad_embedders import BAD, DIM, Bad, patch_names
from embed.lateness import SLACK, calls_of, is_busy, judge, measured_late, plain_request
from embed.stub_server import StubServer, serving
from hyrecall.embed import HashEmbedder
from hyrecall.memory import DegradedReason, MemorySync
from laws.effort import Effort
from memory.stores import folder
from seams import Breaker, Guard

BUDGETS = (0.05, *(pytest.param(one, marks=pytest.mark.slow) for one in (0.2, 1.0)))
THREADS = 4
NEVER = 10**6
QUERY = "green tea"


@pytest.fixture(scope="module")
def server() -> Iterator[StubServer]:
    with serving() as one:
        yield one


@pytest.fixture(scope="module")
def filled() -> Path:
    path = folder()
    with MemorySync.open(path, embedder=HashEmbedder(DIM)) as memory:
        texts = [f"tea number {n} is {'green' if n % 3 else 'black'}" for n in range(200)]
        for n, text in enumerate(texts):
            memory.remember(text, id=f"e{n}", user_id="ana")
    return path


@pytest.fixture(scope="module")
def store(filled: Path) -> Iterator[MemorySync]:
    with MemorySync.open(filled, embedder=HashEmbedder(DIM), read_only=True) as memory:
        memory.search(QUERY, user_id="ana")
        yield memory


@pytest.fixture(scope="module")
def by_words(filled: Path) -> list[tuple[str, float]]:
    with MemorySync.open(filled, embedder=None, read_only=True) as memory:
        return found(memory.search(QUERY, user_id="ana"))


@pytest.fixture
def plain(filled: Path, server: StubServer) -> Iterator[Callable[..., None]]:
    """A request that gets no whole answer, then a search by words."""
    with MemorySync.open(filled, embedder=None, read_only=True) as memory:

        def ask(mode: str = "hang") -> None:
            plain_request(server, mode)
            memory.search(QUERY, user_id="ana")

        yield ask


@pytest.fixture(autouse=True)
def no_names(monkeypatch: pytest.MonkeyPatch) -> None:
    patch_names(monkeypatch)


def found(matches: Any) -> list[tuple[str, float]]:
    return [(match.episode.id, match.score) for match in matches]


class GuardOfItsOwn:
    """A guard for each call: the fault is to be met, not its breaker or its hung workers."""

    def __init__(self) -> None:
        self._local = threading.local()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._local.guard, name)

    @contextmanager
    def put(self, guard: Guard) -> Iterator[None]:
        """Stand for this guard in this thread."""
        self._local.guard = guard
        yield
        guard.close()


@pytest.fixture
def guards(store: MemorySync, monkeypatch: pytest.MonkeyPatch) -> GuardOfItsOwn:
    made = GuardOfItsOwn()
    monkeypatch.setattr(store._store, "guard", made)
    return made


@pytest.mark.plain_cases(3)
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_S1_recall_is_there_in_time(
    bad: Bad,
    budget: float,
    server: StubServer,
    store: MemorySync,
    guards: GuardOfItsOwn,
    plain: Callable[..., None],
    by_words: list[Any],
    effort: Effort,
) -> None:
    wanted = DegradedReason.EMBED_TIMEOUT if bad.waits else DegradedReason.EMBED_UNAVAILABLE

    def ask() -> None:
        with guards.put(Guard(bad.make(server), breaker=Breaker(NEVER), closes=True)):
            matches = store.search(QUERY, user_id="ana", embed_timeout=budget)
        (reason,) = matches.reasons
        may_overrun = budget < 1 or is_busy()
        is_overrun = reason.reason is DegradedReason.EMBED_TIMEOUT and may_overrun
        assert reason.reason is wanted or is_overrun
        assert is_overrun or bad.waits or str(reason).startswith(f"embed_unavailable ({bad.fault}")
        assert QUERY not in str(reason)
        assert found(matches) == by_words

    is_long = bad.waits and budget >= 1
    # Of fewer than 50 calls a single stall of the machine is more than 2 in 100.
    calls = calls_of(effort, quick=52, full=100) if is_long else calls_of(effort)
    late = judge(ask, budget, partial(plain, bad.plain), calls=calls, threads=THREADS)
    print(f"S1, {bad.name}, {budget * 1000:.0f} ms: {late}")
    assert not late.is_too_often, str(late)


def test_S1_a_recall_that_is_late_would_be_seen(
    server: StubServer,
    store: MemorySync,
    guards: GuardOfItsOwn,
    plain: Callable[..., None],
    effort: Effort,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control: one embedder in ten, or in three, holds the caller for longer."""
    sleeps = next(bad for bad in BAD if bad.name == "sleeps in process")

    def ask() -> None:
        with guards.put(Guard(sleeps.make(server), closes=True)):
            store.search(QUERY, user_id="ana", embed_timeout=0.05)

    calls = max(calls_of(effort), 40)
    measure = partial(judge, ask, 0.05, plain, calls=calls, threads=THREADS)
    late = measured_late(monkeypatch, measure)
    assert late.is_too_often, str(late)
    assert is_busy() or late.at(50) < SLACK  # and no more than that
