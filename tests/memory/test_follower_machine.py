"""Whatever is done to a store, its followers equal an index that is built of it, bit for bit."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hyrecall.errors import KeyConflictError, NotFoundError
from laws.effort import Effort
from machines import run
from memory.small_store import (
    NOW,
    USERS,
    cell,
    episode,
    follower_of,
    forget,
    link,
    rebuilt,
    remember,
    replies,
    update,
)
from seams import Database, Follower, NewVersion, edge_rows, meta, writing
from seams import derived_index as derived

users = st.sampled_from(USERS)
numbers = st.integers(0, 11)
names = st.integers(0, 3)


class Life(RuleBasedStateMachine):
    """One process writes and follows; another only follows, now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.database = Database.open(self.folder / "store")
        self.reader = Database.open(self.folder / "store", read_only=True)
        self.writing = self.opened(self.database)
        self.reading = self.opened(self.reader)
        self.n_changes = 0

    def opened(self, database: Database) -> Follower:
        follower = follower_of(database)
        follower.open()
        return follower

    @rule(number=numbers, user=users, n=st.integers(1, 4))
    def remember(self, number: int, user: str | None, n: int) -> None:
        with contextlib.suppress(KeyConflictError):
            remember(self.database, *(episode(number + at, user=user) for at in range(n)))

    @rule(number=numbers, user=users, other=st.integers(100, 120))
    def update(self, number: int, user: str | None, other: int) -> None:
        with contextlib.suppress(NotFoundError):
            update(self.database, f"e{number}", user, output=episode(other).output)

    @rule(number=numbers, user=users)
    def forget(self, number: int, user: str | None) -> None:
        forget(self.database, f"e{number}", user)

    @rule(number=numbers, user=users, on=st.booleans())
    def pin_and_touch(self, number: int, user: str | None, on: bool) -> None:
        with self.database.transaction() as connection:
            writing.touch(connection, [(cell(user), f"e{number}")], NOW)
        with contextlib.suppress(NotFoundError), self.database.transaction() as connection:
            writing.pin(connection, cell(user), f"e{number}", on)

    @rule(number=numbers, user=users, other=st.integers(200, 220))
    def supersede(self, number: int, user: str | None, other: int) -> None:
        new = NewVersion(cell(user), episode(other, user=user))
        refused = contextlib.suppress(NotFoundError, KeyConflictError)
        with refused, self.database.transaction() as connection:
            writing.supersede(connection, cell(user), f"e{number}", new, "test", NOW)

    @rule(name=names, user=users, ends=st.lists(numbers, min_size=2, max_size=3))
    def link(self, name: int, user: str | None, ends: list[int]) -> None:
        with contextlib.suppress(KeyConflictError):
            link(self.database, f"edge{name}", [f"e{end}" for end in ends], user)

    @rule(name=names, user=users)
    def unlink(self, name: int, user: str | None) -> None:
        with self.database.transaction() as connection:
            edge_rows.unlink(connection, cell(user), f"edge{name}", "test", NOW)

    @rule(number=numbers)
    def erase(self, number: int) -> None:
        with self.database.transaction() as connection:
            connection.execute("DELETE FROM documents WHERE id = ?", (f"e{number}",))
            connection.execute("DELETE FROM edges WHERE id = ?", (f"edge{number}",))
            bump = "UPDATE meta SET value = value + 1 WHERE name IN ('sequence', 'erasures')"
            connection.execute(bump)

    @rule()
    def catch_up(self) -> None:
        self.reading.catch_up()

    @rule()
    def tidy(self) -> None:
        self.writing.reconcile()

    @rule()
    def snapshot(self) -> None:
        self.writing.snapshot()

    @rule()
    def reopen(self) -> None:
        self.writing.close()
        self.writing = self.opened(self.database)

    @rule()
    def reopen_the_reader(self) -> None:
        self.reading.close()
        self.reading = self.opened(self.reader)

    @invariant()
    def both_equal_what_is_built_anew(self) -> None:
        wanted = replies(rebuilt(self.database))
        assert replies(self.writing.ready()) == wanted
        # The other one is asked at the end of a run only: until then it may be behind.

    def teardown(self) -> None:
        try:
            assert replies(self.reading.ready()) == replies(rebuilt(self.database))
        finally:
            self.close()

    def close(self) -> None:
        self.writing.close()
        self.reading.close()
        self.reader.close()
        self.database.close()
        shutil.rmtree(self.folder)


class LifeOfAStore(Life):
    """The writer's follower is offered rows of most transactions, as a store does it."""

    def __init__(self) -> None:
        super().__init__()
        self.offers = True
        self.n_steps = 0
        self.database.transaction = self.transaction  # type: ignore[method-assign]

    @contextlib.contextmanager
    def transaction(self) -> Iterator[apsw.Connection]:
        with Database.transaction(self.database) as connection:
            before = int(meta(connection, "sequence"))
            yield connection
            made = self.writing.project(connection, after=before)
        if self.offers:
            self.writing.offer(made)

    @rule(on=st.booleans())
    def offer(self, on: bool) -> None:
        self.offers = on

    @invariant()
    def both_equal_what_is_built_anew(self) -> None:
        self.n_steps += 1
        if self.n_steps % 3 == 0:  # so that rows of several transactions are offered
            assert replies(self.writing.ready()) == replies(rebuilt(self.database))


def test_followed_equals_rebuilt_after_every_step(effort: Effort) -> None:
    programs, steps = effort.cases(quick=5, full=200), effort.cases(quick=20, full=40)
    run(Life, programs=programs, steps=steps)


@pytest.mark.slow
def test_a_follower_that_is_offered_rows_equals_one_that_reads_them(effort: Effort) -> None:
    programs, steps = effort.cases(quick=5, full=200), effort.cases(quick=30, full=60)
    run(LifeOfAStore, programs=programs, steps=steps)


def forgetful(monkeypatch: pytest.MonkeyPatch, planted: str) -> None:
    """Plant a fault: followers leave one kind of change out."""
    if planted == "deletes":
        monkeypatch.setattr(derived.Index, "delete", lambda *_, **__: 0)
    if planted == "edges":
        monkeypatch.setattr(derived.Graph, "upsert", lambda *_: None)
    if planted == "erasures":
        monkeypatch.setattr(derived, "_drop_others", lambda *_: 0)


def lead_a_short_life(life: Life) -> None:
    """Change a store in each way once, comparing after every step."""
    user = USERS[0]
    steps: list[Callable[[], None]] = [
        lambda: life.remember(number=0, user=user, n=4),
        lambda: life.link(name=0, user=user, ends=[0, 1, 2]),
        lambda: life.update(number=1, user=user, other=100),
        lambda: life.forget(number=2, user=user),
        lambda: life.erase(number=0),
    ]
    for step in steps:
        step()
        life.both_equal_what_is_built_anew()


@pytest.mark.parametrize("planted", ["nothing", "edges", "deletes", "erasures"])
def test_a_short_life_finds_a_follower_that_forgets_something(
    planted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgetful(monkeypatch, planted)
    life = Life()
    try:
        with contextlib.nullcontext() if planted == "nothing" else pytest.raises(AssertionError):
            lead_a_short_life(life)
    finally:
        life.close()
