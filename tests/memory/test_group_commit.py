"""Changes that wait together are one transaction; each is refused or kept for itself."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import apsw
import pytest

from hyrecall import recipes
from hyrecall.errors import KeyConflictError, OptionError, StoreError
from memory.failing_vfs import Faults, failing_vfs
from memory.faults.interrupting import Lines, interrupted
from memory.rows_of_tests import NOW, new
from seams import (
    Change,
    Database,
    Follower,
    GroupCommit,
    MemoryDatabase,
    Remember,
    layout_of,
    turns,
)

MODEL = "hash-4"
COMMITS = ("recall/turns.py", "memory/keeping.py", "sql/database.py", "sql/erasing.py")
LAYOUT = layout_of(recipes.loom)


def group_of(database: Database) -> GroupCommit:
    """What commits changes of a database; nothing follows."""
    follower = Follower(database, None, LAYOUT, model=MODEL, dim=4, may_save=False)
    return GroupCommit(database, follower, lambda: None, lambda: NOW)


def remember(key: str) -> Remember:
    return Remember((new(key),))


def ids(database: Database) -> list[str]:
    with database.reading() as connection:
        return [key for (key,) in connection.execute("SELECT id FROM documents ORDER BY id")]


@dataclass(frozen=True)
class Held(Change[int]):
    """Holds the transaction open, so that others gather; ``inside`` is set when it is there."""

    inside: threading.Event
    until: Callable[[], bool]

    def run(self, connection: apsw.Connection, now: datetime) -> int:
        del now
        self.inside.set()
        assert _comes(self.until)
        return 0


def _comes(wanted: Callable[[], bool], seconds: float = 30.0) -> bool:
    pause = threading.Event()
    for _ in range(int(seconds / 0.002)):
        if wanted():
            return True
        pause.wait(0.002)
    return wanted()


class Writers:
    """Threads that write a change each; ``replies`` and ``faults`` by their number."""

    def __init__(self, group: GroupCommit, changes: list[Change[Any]], **options: Any) -> None:
        self.replies: dict[int, object] = {}
        self.faults: dict[int, BaseException] = {}
        self._threads = [
            threading.Thread(target=self._write, args=(group, at, one, options))
            for at, one in enumerate(changes)
        ]
        for thread in self._threads:
            thread.start()

    def _write(self, group: GroupCommit, at: int, one: Change[Any], options: Any) -> None:
        try:
            self.replies[at] = group.write(one, **options)
        except BaseException as fault:
            self.faults[at] = fault

    def join(self) -> None:
        for thread in self._threads:
            thread.join(30.0)
            assert not thread.is_alive(), "a write that nobody makes"


@contextmanager
def gathered(group: GroupCommit, changes: list[Change[Any]]) -> Iterator[Writers]:
    """Write changes in one group: all of them wait while another change is under way."""
    inside = threading.Event()
    first = Writers(group, [Held(inside, lambda: len(group._waiting) == 1 + len(changes))])
    assert inside.wait(30.0)
    writers = Writers(group, changes)
    yield writers
    first.join()
    writers.join()
    assert first.faults == {}


@pytest.fixture(params=["folder", "memory"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    made = Database.open(tmp_path / "s") if request.param == "folder" else MemoryDatabase.make()
    yield made
    made.close()


def n_syncs_of_log(faults: Faults) -> int:
    return sum(name.endswith("-wal") for verb, name in faults.done if verb == "sync")


def test_changes_that_wait_together_take_one_sync(tmp_path: Path) -> None:
    faults = Faults(verbs=("sync",))
    with failing_vfs(faults) as vfs:
        database = Database.open(tmp_path / "s", vfs=vfs)
        group = group_of(database)
        group.write(remember("first"))
        faults.done.clear()
        group.write(remember("alone"))
        alone = n_syncs_of_log(faults)
        assert alone == 1
        faults.done.clear()
        with gathered(group, [remember(f"m{at}") for at in range(12)]) as writers:
            pass
        assert writers.faults == {}
        assert n_syncs_of_log(faults) == alone, "the change that was held wrote nothing"
        assert len(ids(database)) == 14
        database.close()


@dataclass(frozen=True)
class Half(Change[int]):
    """Writes and is refused then."""

    def run(self, connection: apsw.Connection, now: datetime) -> int:
        remember("half").run(connection, now)
        raise StoreError("half: expected nothing, got half")


def test_a_refused_change_fails_alone_and_nothing_is_left_of_it(database: Database) -> None:
    group = group_of(database)
    group.write(remember("b"))
    changes = [remember("a"), remember("b"), Half(), remember("c")]
    with gathered(group, changes) as writers:
        pass
    assert {at: type(fault) for at, fault in writers.faults.items()} == {
        1: KeyConflictError, 2: StoreError,
    }  # fmt: skip
    assert writers.replies == {0: (1,), 3: (1,)}
    with pytest.raises(StoreError, match=r"^half"):
        group.write(Half())
    assert ids(database) == ["a", "b", "c"]


def test_without_the_savepoint_something_would_be_left(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control."""

    def careless(self: GroupCommit, connection: apsw.Connection, one: Any) -> None:
        try:
            one.reply = self._run(connection, one)
        except Exception as fault:
            one.fault = fault

    monkeypatch.setattr(GroupCommit, "_try", careless)
    with gathered(group_of(database), [remember("a"), Half()]):
        pass
    assert ids(database) == ["a", "half"]


def test_a_change_that_no_index_could_take_fails_alone(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Follower.project

    def picky(self: Follower, connection: apsw.Connection, *, after: int) -> Any:
        made = project(self, connection, after=after)
        documents = None if made is None else made.documents
        if documents is not None and "bad" in documents.live.column("id").to_pylist():
            raise OptionError("id: expected a good one, got 'bad'")
        return made

    monkeypatch.setattr(Follower, "project", picky)
    group = group_of(database)
    with gathered(group, [remember(key) for key in ("a", "bad", "c")]) as writers:
        pass
    assert {at: type(fault) for at, fault in writers.faults.items()} == {1: OptionError}
    assert ids(database) == ["a", "c"]


def test_a_group_whose_commit_fails_fails_whole_and_the_next_works(tmp_path: Path) -> None:
    faults = Faults(verbs=("sync",))
    with failing_vfs(faults) as vfs:
        database = Database.open(tmp_path / "s", vfs=vfs)
        group = group_of(database)
        group.write(remember("first"))
        faults.done.clear()
        faults.fail_at = 1
        with gathered(group, [remember(key) for key in "abc"]) as writers:
            pass
        assert faults.failed == 1
        assert {type(fault) for fault in writers.faults.values()} == {StoreError}
        assert len({id(fault) for fault in writers.faults.values()}) == 3, "each its own error"
        assert ids(database) == ["first"]
        with gathered(group, [remember(key) for key in "abc"]) as writers:
            pass
        assert writers.faults == {}
        assert ids(database) == ["a", "b", "c", "first"]
        database.close()


def test_a_change_that_loses_the_transaction_fails_alone(database: Database) -> None:
    @dataclass(frozen=True)
    class Losing(Change[int]):
        def run(self, connection: apsw.Connection, now: datetime) -> int:
            del now
            connection.execute("ROLLBACK")
            raise apsw.FullError("planted")

    group = group_of(database)
    with gathered(group, [remember("a"), Losing(), remember("c")]) as writers:
        pass
    assert {at: type(fault) for at, fault in writers.faults.items()} == {1: StoreError}
    assert ids(database) == ["a", "c"]


# ---- interrupts ----


class CommitLines(Lines):
    """Lines of what leads and commits; those of a change itself are any code inside it."""

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "call" and not frame.f_code.co_filename.endswith(COMMITS):
            return None
        return super().__call__(frame, event, argument)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LOOK_SECONDS", 0.005)


def lead_and_be_interrupted(database: Database, at: int) -> tuple[Lines, bool, dict[int, object]]:
    """Lead a group of four in this thread and interrupt it at a line.

    Returns
    -------
    Lines
    bool
        Whether this thread was interrupted.
    dict of int to object
        What the three others were told, or how they were refused.
    """
    group, lines = group_of(database), CommitLines(at)
    others: list[Writers] = []
    commit = Database.commit

    def joined(self: Database, work: Any, outcome: Any) -> None:
        def gather(connection: apsw.Connection) -> None:
            if not others:
                others.append(Writers(group, [remember(f"{at}-{name}") for name in "abc"]))
                assert _comes(lambda: len(group._waiting) == 4)
            work(connection)

        commit(self, gather, outcome)

    was_interrupted = False
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(database), "commit", joined)
        try:
            with interrupted(lines):
                group.write(remember(f"{at}-lead"))
        except KeyboardInterrupt:
            was_interrupted = True
        for writers in others:
            writers.join()
    told: dict[int, object] = {}
    for writers in others:
        told = writers.replies | writers.faults
    return lines, was_interrupted, told


def lose_nobody(path: Path) -> tuple[int, list[str]]:
    """Interrupt a leader at every line of a group; return how many, and what went wrong where."""
    at, wrong = 0, []
    database = Database.open(path)
    while True:
        at += 1
        lines, was_interrupted, told = lead_and_be_interrupted(database, at)
        found = {key.partition("-")[2] for key in ids(database) if key.startswith(f"{at}-")}
        n_versions = _n_versions(database, at)
        if told and (set(told.values()) != {(1,)} or not found >= {"a", "b", "c"}):
            wrong.append(f"{lines.where}: {told}, {found}")
        if n_versions != len(found) or (not was_interrupted and "lead" not in found):
            wrong.append(f"{lines.where}: {n_versions} versions of {found}")
        if not was_interrupted:
            break
    database.close()
    return at - 1, wrong


def _n_versions(database: Database, at: int) -> int:
    with database.reading() as connection:
        select = "SELECT count(*) FROM versions WHERE id GLOB ?"
        return int(connection.execute(select, (f"{at}-*",)).get)


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_an_interrupt_at_any_line_of_a_leader_loses_nobodys_change(tmp_path: Path) -> None:
    n, wrong = lose_nobody(tmp_path / "s")
    assert n > 50
    assert wrong == []


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_a_leader_that_does_not_look_whether_it_committed_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: an interrupt after the commit counts as a rollback, so changes come twice."""
    monkeypatch.setattr(Database, "commit", _forgetful)
    _, wrong = lose_nobody(tmp_path / "s")
    assert wrong


def _forgetful(self: Database, work: Any, outcome: Any) -> None:
    with self.transaction() as connection:
        work(connection)
    outcome.is_committed = True


__all__ = ["database"]


def test_a_write_id_is_applied_once(database: Database) -> None:
    group, key = group_of(database), bytes(range(16))
    assert group.write(remember("a"), write_id=key) == (1,)
    assert group.write(remember("a"), write_id=key) == (1,), "the reply that was kept"
    with pytest.raises(KeyConflictError):
        group.write(remember("a"))
    with pytest.raises(KeyConflictError):
        group.write(remember("a"), write_id=bytes(16))
    assert group.write(remember("b"), write_id=bytes(16)) == (1,), "a refused one is not kept"
    assert ids(database) == ["a", "b"]


def test_a_write_id_that_waits_twice_is_applied_once(database: Database) -> None:
    group, key = group_of(database), bytes(range(16))
    inside = threading.Event()
    held = Writers(group, [Held(inside, lambda: len(group._waiting) == 4)])
    assert inside.wait(30.0)
    writers = Writers(group, [remember("a")] * 3, write_id=key)
    held.join()
    writers.join()
    assert writers.faults == {}
    assert set(writers.replies.values()) == {(1,)}
    assert ids(database) == ["a"]


def test_a_write_id_is_forgotten_after_an_hour(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = group_of(database)
    group.write(remember("a"), write_id=bytes(range(16)))
    with database.transaction() as connection:
        connection.execute("UPDATE applied SET at = at - 3601 * 1000000")
    group.write(remember("b"), write_id=bytes(16))
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM applied").get == 1


def test_a_kept_reply_holds_no_text_and_no_id(database: Database) -> None:
    group = group_of(database)
    group.write(remember("a secret name"), write_id=bytes(16))
    with database.reading() as connection:
        assert connection.execute("SELECT reply FROM applied").get == "[1]"


def test_a_thread_that_reads_a_store_in_memory_cannot_write_to_it() -> None:
    database = MemoryDatabase.make()
    group = group_of(database)
    with database.reading(), pytest.raises(StoreError, match=r"a change after the reading"):
        group.write(remember("a"))
    group.write(remember("a"))
    database.close()


def test_a_change_has_the_time_that_its_caller_says(database: Database) -> None:
    at = datetime(2020, 1, 1, tzinfo=UTC)
    group = group_of(database)
    group.write(remember("a"), now=at)
    with database.reading() as connection:
        assert connection.execute("SELECT recorded_at FROM versions").get == at.timestamp() * 1e6
