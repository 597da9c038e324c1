"""An index follows its store, is saved and taken again; faults cost an order, never an answer."""

from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

import hyrecall as hr
from hyrecall.errors import DeviceUnavailableError, KeyConflictError, NotFoundError, StoreError
from laws.effort import Effort
from memory.children import in_child
from memory.small_store import (
    DIM,
    MODEL,
    NOW,
    USERS,
    cell,
    episode,
    follower_of,
    forget,
    keys,
    link,
    rebuilt,
    remember,
    replies,
    update,
    vector,
)
from memory.stores import open_store
from seams import (
    HEADER,
    INDEX,
    LEAST_WAIT,
    PARTS,
    RETRY_SECONDS,
    Background,
    Database,
    Follower,
    Header,
    IndexNotReadyError,
    NewVersion,
    Ready,
    StaleError,
    edge_rows,
    layout_of,
    meta,
    projection,
    read_header,
    snapshots,
    write_header,
    writing,
)
from seams import derived_index as derived
from seams import follower as following
from seams import index_header as headers

# ---- following ----


def test_vectors_of_another_model_or_length_are_left_out_and_counted(database: Database) -> None:
    remember(database, episode(1))
    remember(database, episode(2), model="other")
    remember(database, episode(3), dim=DIM + 1)
    remember(database, episode(4), model=None)
    with database.transaction() as connection:
        bad = "UPDATE versions SET embedding = ?, embedding_model = ? WHERE id = ?"
        remember_raw = [
            (b"\0\0\0", "e5"),
            (b"\0\0\xc0\x7f" * DIM, "e6"),
            (b"\0\0\0\x05" * DIM, "e7"),
        ]
        writing.remember(
            connection,
            [writing.NewVersion(cell(), episode(number)) for number in (5, 6, 7)],
            episode(0).occurred_at,
        )
        for blob, key in remember_raw:
            connection.execute(bad, (blob, MODEL, key))
    follower = follower_of(database)
    follower.open()
    everything = "oak ash elm fir yew bay fig nut hop rye ivy tea"
    index = follower.ready().index
    found = index.recall_one(text=everything, vector=vector(0), scope=tuple(cell()), limit=50)
    assert len(found) == 7
    dense = index.recall_one(vector=vector(0), scope=tuple(cell()), limit=50)
    assert dense.keys == ["e1"]
    assert follower.report()["without_vector"] == 6  # the damaged ones too


def test_batches_are_cut_and_lose_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projection, "BATCH_ROWS", 7)
    follower = follower_of(database)
    follower.open()
    remember(database, *(episode(number) for number in range(21)))
    for number in range(0, 20, 3):
        forget(database, f"e{number}")
    for number in range(9):
        link(database, f"edge{number}", ["e1", f"e{number + 2}"])
    assert follower.catch_up() == 21 + 9
    assert replies(follower.ready()) == replies(rebuilt(database))
    again = follower_of(database)
    again.open()
    assert replies(again.ready()) == replies(follower.ready())


# ---- the snapshot ----


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"layout": layout_of(hr.recipes.l0)}, "of another layout or model"),
        ({"model": "other"}, "of another layout or model"),
        ({"dim": DIM + 1}, "of another layout or model"),
    ],
)
def test_a_snapshot_of_something_else_is_built_anew(
    database: Database, change: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    remember(database, episode(1))
    first = follower_of(database)
    first.open()
    first.close()
    second = follower_of(database, **change)
    with caplog.at_level(logging.WARNING, logger="hyrecall"):
        report = second.open()
    assert (report.how, report.reason) == ("rebuilt", reason)
    assert reason in caplog.text
    assert not (database.folder / INDEX / HEADER).exists()  # it is of no use any more


def test_a_snapshot_that_is_ahead_of_its_store_is_never_taken(database: Database) -> None:
    """A store put back from a copy goes on from there: equal numbers then mean other changes."""
    remember(database, episode(1))
    follower = follower_of(database)
    follower.open()
    remember(database, episode(2))
    follower.close()
    with database.transaction() as connection:  # what a copy from before would be
        connection.execute("DELETE FROM documents WHERE id = 'e2'")
        connection.execute("UPDATE meta SET value = value - 1 WHERE name = 'sequence'")
    second = follower_of(database)
    assert "of a later state" in second.open().reason
    remember(database, episode(3))
    third = follower_of(database)
    assert third.open().how == "rebuilt"
    assert len(third.ready().index) == 2


def test_a_reading_process_saves_and_removes_nothing(database: Database) -> None:
    remember(database, episode(1))
    follower = follower_of(database)
    follower.open()
    follower.close()
    files = {path: path.read_bytes() for path in (database.folder / INDEX).rglob("*.arrow")}
    reader = Database.open(database.folder, read_only=True)
    other = follower_of(reader, layout_of(hr.recipes.l0))
    assert other.open().how == "rebuilt"
    assert not other.snapshot()
    other.close()
    reader.close()
    assert {path: path.read_bytes() for path in files} == files
    assert follower_of(database).open().how == "snapshot"


# ---- another layout ----


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def out_of_memory(*_: object, **__: object) -> None:
    raise MemoryError


def test_an_index_that_cannot_be_built_is_told_and_tried_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(database, episode(1, text="oak"))
    clock = Clock()
    follower = follower_of(database, clock=clock)
    with monkeypatch.context() as patch:
        patch.setattr(derived.Index, "build", out_of_memory)
        assert follower.open().how == "failed"
        with pytest.raises(IndexNotReadyError, match=r"index_unavailable \(MemoryError\)"):
            follower.ready()
    with pytest.raises(IndexNotReadyError, match="index_unavailable"):
        follower.ready()  # not at every recall
    clock.now += RETRY_SECONDS
    assert keys(follower.ready()) == ["e1"]
    assert follower.report()["failures"] == 1


def test_changes_that_failed_half_way_are_applied_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(database, *(episode(number) for number in range(9)))
    clock = Clock()
    follower = follower_of(database, clock=clock)
    follower.open()
    forget(database, "e2")
    update(database, "e1", text="oak")
    link(database, "edge", ["e3", "e4"])
    with monkeypatch.context() as patch:
        patch.setattr(hr.Graph, "upsert", out_of_memory)
        with pytest.raises(IndexNotReadyError):
            follower.ready()
    update(database, "e3", text="oak")
    clock.now += RETRY_SECONDS
    assert replies(follower.ready()) == replies(rebuilt(database))


def test_a_store_that_cannot_be_read_is_no_missing_index(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = follower_of(database)
    follower.open()
    remember(database, episode(1))

    def fail(*_: object, **__: object) -> None:
        raise StoreError("planted")

    monkeypatch.setattr(projection, "documents", fail)
    with pytest.raises(StoreError, match="planted"):
        follower.ready()


def test_a_device_that_is_not_there_is_refused_at_open(database: Database) -> None:
    with pytest.raises(DeviceUnavailableError):
        follower_of(database, device="cuda:99").open()
    follower = follower_of(database)
    follower.open()
    remember(database, episode(1))
    follower.close()
    with pytest.raises(DeviceUnavailableError):
        follower_of(database, device="cuda:99").open()
    assert follower_of(database).open().how == "snapshot"  # it was not to blame


def test_a_snapshot_that_does_not_fit_in_memory_costs_its_order_only(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(database, episode(1))
    follower = follower_of(database)
    follower.open()
    follower.close()
    monkeypatch.setattr(snapshots.Index, "open", out_of_memory)
    report = follower_of(database).open()
    assert (report.how, report.reason) == ("rebuilt", "damaged, or too large (MemoryError())")


def test_who_is_behind_waits_no_longer_than_the_budget(database: Database) -> None:
    remember(database, episode(1, text="oak"))
    reader = Database.open(database.folder, read_only=True)
    followers = [follower_of(database), follower_of(reader)]
    for follower in followers:
        follower.open()
    remember(database, episode(2, text="oak"))
    for follower in followers:
        follower._lock.acquire()
    began = time.monotonic()
    with pytest.raises(IndexNotReadyError, match="index_not_ready"):
        followers[0].ready(budget=0.05)  # its own change would be missing
    ready = followers[1].ready(budget=0.05)
    assert (keys(ready), ready.behind) == (["e1"], True)  # a state from before, whole
    assert time.monotonic() - began < 5
    timer = threading.Timer(0.05, followers[1]._lock.release)
    timer.start()
    ready = followers[1].ready()
    assert (keys(ready), ready.behind) == (["e1", "e2"], False)
    timer.join()
    reader.close()


def test_a_reader_that_is_behind_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(embedder=None, snapshot_every=10**6) as memory:
        memory.remember("the old disk", id="old", user_id="alice")
        folder = memory._store.database.folder
        with open_store(folder, embedder=None, read_only=True, recall_timeout=0.0) as reader:
            assert not reader.search("disk", user_id="alice").degraded
            follower = reader._store.follower
            lock, ready = follower._lock, follower.ready
            waits: list[float] = []

            def noted(budget: float) -> Ready:
                waits.append(budget)
                return ready(budget=budget)

            monkeypatch.setattr(follower, "ready", noted)
            with lock:  # before the changes, or the reader may follow one of them by itself
                memory.remember("the new disk", id="new", user_id="alice")
                memory.forget("old", user_id="alice")
                matches = reader.search("disk", user_id="alice")
            assert waits == [LEAST_WAIT]  # it waits once, and for one
            told = "index_not_ready (changes are being applied)"
            assert [str(reason) for reason in matches.reasons] == [told]
            assert list(matches) == []  # content is as it is now: what was forgotten is gone
            assert matches.lexical_mode == "bm25"
            found = reader.search("disk", user_id="alice")
            assert ([match.episode.id for match in found], found.degraded) == (["new"], False)


def test_a_damaged_manifest_makes_way_for_the_next_snapshot(database: Database) -> None:
    remember(database, episode(1))
    follower = follower_of(database)
    follower.open()
    assert follower.snapshot()
    (database.folder / INDEX / "nodes" / "MANIFEST").write_bytes(b"nonsense")
    remember(database, episode(2))
    follower.catch_up()
    assert follower.snapshot()
    assert follower_of(database).open().how == "snapshot"


def test_doctor_tells_of_an_index_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived.Index, "build", out_of_memory)
    with open_store(embedder=None) as memory:
        memory.remember("oak", user_id="alice")
        checks = {check.name: check for check in memory.doctor().checks}
        assert not checks["index"].ok
        assert checks["index"].detail == "index_unavailable (MemoryError)"
        assert memory.search("oak", user_id="alice").lexical_mode == "substring"


MADE = Header("store", 7, 1, "layout", "model", 4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in PARTS:
        (tmp_path / part).mkdir()
        (tmp_path / part / "MANIFEST").write_bytes(part.encode())
    write_header(tmp_path, MADE)
    return tmp_path


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"store_id": "other"}, "of another store"),
        ({"layout": "other"}, "of another layout or model"),
        ({"model": None}, "of another layout or model"),
        ({"dim": 5}, "of another layout or model"),
        ({"sequence": 6}, "of a later state (7) than the store's (6)"),
        ({"erasures": 2}, "from before an erasure"),
        ({"erasures": 0}, "from before an erasure"),
        ({}, None),
        ({"sequence": 8}, None),
    ],
)
def test_it_is_compared_with_the_store(change: dict[str, object], reason: str | None) -> None:
    assert MADE.reason_against(replace(MADE, **change)) == reason  # type: ignore[arg-type]


def test_none_at_all_and_one_that_is_newer_are_told_apart(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(headers, "FORMAT", 2)
        write_header(folder, MADE)
    with pytest.raises(StaleError, match="HEADER is of format 2"):
        read_header(folder)
    (folder / HEADER).unlink()
    with pytest.raises(StaleError, match="none there"):
        read_header(folder)
    (folder / HEADER).mkdir()
    with pytest.raises(StaleError, match="cannot be read"):
        read_header(folder)


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
            update(self.database, f"e{number}", user, text=episode(other).text)

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


def run(examples: int, steps: int, *, machine: type[Life] = Life) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=True,
            database=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_followed_equals_rebuilt_after_every_step(effort: Effort) -> None:
    run(effort.cases(quick=3, full=200), effort.cases(quick=20, full=40))


@pytest.mark.slow
def test_a_follower_that_is_offered_rows_equals_one_that_reads_them(effort: Effort) -> None:
    n_runs, n_steps = effort.cases(quick=5, full=200), effort.cases(quick=30, full=60)
    run(n_runs, n_steps, machine=LifeOfAStore)


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


@pytest.mark.plain_cases(1)
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


@pytest.fixture
def follower(database: Database) -> Follower:
    made = follower_of(database)
    made.open()
    return made


def soon(holds: Callable[[], bool]) -> bool:
    """Wait until something holds."""
    until = time.monotonic() + 20
    while not holds() and time.monotonic() < until:
        time.sleep(0.005)
    return holds()


def test_commits_are_applied_before_anybody_asks(database: Database, follower: Follower) -> None:
    background = Background(follower)
    background.start()
    remember(database, episode(1, text="oak"))
    background.poke()
    assert soon(lambda: follower.report()["behind"] == 0)
    assert follower.report()["snapshots"] == 0
    background.close()
    background.close()


@pytest.mark.parametrize(("options", "n"), [({"snapshot_every": 5}, 9), ({"quiet": 0.05}, 1)])
def test_a_snapshot_is_saved_after_so_many_changes_and_after_a_quiet_while(
    database: Database, follower: Follower, options: dict[str, Any], n: int
) -> None:
    background = Background(follower, **options)
    background.start()
    remember(database, *(episode(number) for number in range(n)))
    background.poke()
    assert soon(lambda: follower.report()["snapshots"] == 1)
    background.close()
    assert follower.n_unsaved == 0


def test_a_fault_does_not_end_it(
    database: Database, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(following, "RETRY_SECONDS", 0.0)
    background = Background(follower)
    background.start()
    with monkeypatch.context() as patch:
        patch.setattr(derived.Index, "upsert", fail)
        remember(database, episode(1))
        background.poke()
        assert soon(lambda: follower.report()["failures"] > 0)
    background.poke()
    assert soon(lambda: follower.report()["behind"] == 0)
    background.close()


def test_it_leaves_no_thread_and_its_child_none_to_wait_for(follower: Follower) -> None:
    before = set(threading.enumerate())
    background = Background(follower)
    background.start()

    def child() -> int:
        background.close()
        follower.close()
        return 0

    assert in_child(child) == 0
    background.close()
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("fault", [StoreError, MemoryError, OSError])
def test_what_is_due_is_tried_until_it_is_done(
    fault: type[Exception], follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyrecall.memory.derived.follower.BACKGROUND_RETRY_SECONDS", 0.01)
    background = Background(follower)
    background.start()
    tried: list[str] = []

    def fails_then_waits() -> bool:
        tried.append("first")
        if len(tried) == 1:
            raise fault("as asked")
        return len(tried) == 4

    background.until_done("one", fails_then_waits)
    assert soon(lambda: len(tried) == 4)

    def is_done_at_once() -> bool:
        tried.append("second")
        return True

    background.until_done("one", is_done_at_once)
    assert soon(lambda: tried[4:] == ["second"])
    time.sleep(0.05)
    assert tried == ["first"] * 4 + ["second"]
    background.until_done("one", lambda: False)
    background.close()
    assert not background._thread.is_alive()


def test_all_that_is_due_is_tried_whatever_comes_later(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyrecall.memory.derived.follower.BACKGROUND_RETRY_SECONDS", 0.01)
    background = Background(follower)
    background.start()
    tried: set[str] = set()
    may_end = threading.Event()

    def due(name: str) -> Callable[[], bool]:
        def run() -> bool:
            tried.add(name)
            if name == "fails" and not may_end.is_set():
                raise StoreError("as asked")
            return may_end.is_set()

        return run

    for name in ("fails", "replaced", "waits"):
        background.until_done(name, due(name))
    assert soon(lambda: tried == {"fails", "replaced", "waits"})
    background.until_done("replaced", due("replaces"))
    assert soon(lambda: "replaces" in tried)
    tried.clear()
    assert soon(lambda: tried == {"fails", "replaces", "waits"})
    may_end.set()
    assert soon(lambda: not background._dues)
    background.close()
