"""Conversations are kept in the store: for a day, for one reader, and no longer than its user."""

import threading
import time
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from hyrecall import recipes
from hyrecall.memory import InProcessSessions, MemorySync
from memory.stores import HOUR, NOON, Clock, folder, open_store
from seams import LOG, MOST_OF_A_USER, SessionName, StoreSessions
from seams import ask_Session as Session
from seams import memory_DATABASE as DATABASE

CHAT = SessionName(None, None, "ann", "chat")


def store(path: Path | None = None, **options: object) -> MemorySync:
    given = {"recipe": recipes.hypergraph, "clock": Clock(), "embedder": None}
    return open_store(path, **(given | options))


def filled(path: Path | None = None) -> MemorySync:
    memory = store(path)
    for key in ("one", "two"):
        memory.remember("the same words", id=key, user_id="ann", occurred_at=NOON)
    return memory


def ids(memory: MemorySync, **options: object) -> list[str]:
    asked = {"user_id": "ann", "session_id": "chat", "now": NOON}
    return [one.episode.id for one in memory.search("same words", **(asked | options))]


def kept(path: Path, table: str = "sessions") -> list[tuple[object, ...]]:
    connection = apsw.Connection(str(path / DATABASE), flags=apsw.SQLITE_OPEN_READONLY)
    found = list(connection.execute(f"SELECT * FROM {table}"))
    connection.close()
    return found


def test_a_conversation_goes_on_after_a_restart() -> None:
    path = folder()
    with filled(path) as memory:
        memory._store.sessions.record(CHAT, ["two"], now=NOON)
    with store(path) as memory:
        assert ids(memory) == ["two", "one"]
        assert ids(memory, session_id="another") == ["one", "two"]
        phases = {memory.search("words", user_id="ann", session_id="chat").phase for _ in range(3)}
        assert {one.name for one in phases if one is not None} == {"early", "mid"}
        # A day later it is over, and its row goes when another one is written.
        late = {"now": NOON + 25 * HOUR}
        assert ids(memory, session_id="new", **late) == ["one", "two"]
    assert {row[4] for row in kept(path)} == {"new"}
    assert kept(path, "session_ids") == [
        (kept(path)[0][0], key, at) for _, key, at in kept(path, "session_ids")
    ]


def test_in_process_by_choice_leaves_nothing_in_the_store() -> None:
    path = folder()
    filled(path).close()
    with store(path, sessions=InProcessSessions()) as memory:
        ids(memory)
    assert kept(path) == []


def test_a_store_that_is_only_read_goes_on_in_the_process() -> None:
    path = folder()
    with filled(path) as memory:
        memory._store.sessions.record(CHAT, ["two"], now=NOON)
    before = kept(path, "session_ids")
    with store(path, read_only=True) as memory:
        assert ids(memory) == ["two", "one"]
        assert memory._store.sessions.session(CHAT, now=NOON).n_recalls == 2
    assert kept(path, "session_ids") == before


@pytest.mark.parametrize("what", ["all of the user", "one memory", "its session", "a shared one"])
def test_what_is_erased_is_in_no_conversation(what: str) -> None:
    path = folder()
    with filled(path) as memory:
        memory.remember("shared words", id="zqshared", user_id="ann", visibility="global")
        sessions = memory._store.sessions
        bob = SessionName(None, None, "bob", "chat")
        for name in (CHAT, bob):
            sessions.record(name, ["one", "two", "zqshared"], now=NOON)
        if what == "all of the user":
            memory.forget(user_id="ann", everything=True, erase=True)
            expected = (set(), {"one", "two"})
        elif what == "one memory":
            memory.forget("one", user_id="ann", erase=True)
            expected = ({"two", "zqshared"}, {"one", "two", "zqshared"})
        elif what == "its session":
            memory.remember("more", id="more", user_id="ann", session_id="chat")
            memory.forget(user_id="ann", session_id="chat", erase=True)
            expected = (set(), {"one", "two", "zqshared"})
        else:
            memory.forget("zqshared", user_id="ann", erase=True)
            expected = ({"one", "two"}, {"one", "two"})
        for name, wish in zip((CHAT, bob), expected, strict=True):
            assert set(sessions.session(name, now=NOON).accessed) == wish
    if what == "a shared one":
        files = [path / name for name in (DATABASE, LOG) if (path / name).exists()]
        assert all(b"zqshared" not in file.read_bytes() for file in files)


def test_a_user_that_kept_nothing_is_erased_too() -> None:
    with store() as memory:
        sessions = memory._store.sessions
        sessions.record(CHAT, ["x"], now=NOON)
        memory.forget(user_id="ann", everything=True, erase=True)
        assert sessions.session(CHAT, now=NOON) == Session()


def test_nobody_displaces_the_conversations_of_another() -> None:
    path = folder()
    with store(path) as memory:
        sessions = memory._store.sessions
        sessions.record(CHAT._replace(user="bob"), ["b"], now=NOON)
        for at in range(MOST_OF_A_USER + 5):
            name = CHAT._replace(session_id=f"s{at}")
            sessions.record(name, ["a"], now=NOON + timedelta(seconds=at))
    rows = kept(path)
    of_ann = [row for row in rows if row[3] == "ann"]
    assert (len(rows) - len(of_ann), len(of_ann)) == (1, MOST_OF_A_USER)
    assert "s4" not in {row[4] for row in of_ann}
    assert "s5" in {row[4] for row in of_ann}


def test_a_recall_waits_for_no_write() -> None:
    with filled() as memory:
        began, go = threading.Event(), threading.Event()

        def long() -> None:
            with memory._store.database.transaction():
                began.set()
                go.wait(30)

        writer = threading.Thread(target=long)
        writer.start()
        began.wait(30)
        try:
            matches = memory.search("same words", user_id="ann", session_id="chat", now=NOON)
            again = memory.search("same words", user_id="ann", session_id="chat", now=NOON)
        finally:
            go.set()
            writer.join()
        assert matches.reasons == again.reasons == ()
        assert memory._store.sessions.session(CHAT, now=NOON).n_recalls == 2


def test_a_write_that_fails_is_tried_again_and_harms_no_recall(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = folder()
    with filled(path) as memory:
        sessions = memory._store.sessions
        assert isinstance(sessions, StoreSessions)
        with monkeypatch.context() as patched:
            patched.setattr("hyrecall.memory.sql.store_sessions._save", _full)
            assert ids(memory) == ["one", "two"]
            until = time.monotonic() + 30
            while not _FAILED.is_set() and time.monotonic() < until:
                time.sleep(0.01)
        assert _FAILED.is_set()
        assert ids(memory) == ["one", "two"]
        assert sessions.session(CHAT, now=NOON).n_recalls == 2
    (row,) = kept(path)
    assert row[6] == 2


_FAILED = threading.Event()


def _full(*_: object) -> None:
    _FAILED.set()
    raise apsw.FullError("database or disk is full")


class Fails:
    """Raises a fault when it is called, and says so."""

    def __init__(self, fault: BaseException) -> None:
        self.fault = fault
        self.raised = threading.Event()

    def __call__(self, *_: object) -> None:
        self.raised.set()
        raise self.fault


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_any_kind_does_not_end_the_thread_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = folder()
    with filled(path) as memory:
        sessions = memory._store.sessions
        assert isinstance(sessions, StoreSessions)
        for fault in (ValueError("odd"), MemoryError(), SystemExit()):
            fails = Fails(fault)
            with monkeypatch.context() as patched:
                patched.setattr("hyrecall.memory.sql.store_sessions._save", fails)
                ids(memory)
                assert fails.raised.wait(30), fault
        ids(memory)
        assert await_rows(path, 4)


def test_without_a_thread_the_recall_writes_its_conversation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = folder()
    with filled(path) as memory:

        def refuse(*_: object, **__: object) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patched:
            patched.setattr("hyrecall.base.threads.start", refuse)
            ids(memory)
            assert [row[6] for row in kept(path)] == [1]
            with monkeypatch.context() as full:
                full.setattr("hyrecall.memory.sql.store_sessions._save", _full)
                assert memory.search("words", user_id="ann", session_id="chat").reasons == ()
            assert [row[6] for row in kept(path)] == [1]
    assert [row[6] for row in kept(path)] == [2]  # written when the store was closed


def await_rows(path: Path, n_recalls: int) -> bool:
    """Wait until the conversation in the store has recalled so often."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if [row[6] for row in kept(path)] == [n_recalls]:
            return True
        time.sleep(0.01)
    return False


DAMAGE = {
    "a time of an id": ("UPDATE session_ids SET at = 9223372036854775807", True),
    "an id": ("UPDATE session_ids SET id = CAST(x'ff' AS TEXT)", True),
    "the last time": ("UPDATE sessions SET last = 9223372036854775807", True),
    "a number below 0": ("UPDATE sessions SET n_recalls = -5", True),
    "a number too large": ("UPDATE sessions SET n_recalls = 9223372036854775807", True),
    "a last time in two days": ("UPDATE sessions SET last = last + 2 * 86400000000", False),
    "an id's time in two days": ("UPDATE session_ids SET at = at + 2 * 86400000000", False),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_conversation_counts_as_none_and_is_replaced(what: str) -> None:
    path = folder()
    with filled(path) as memory:
        memory._store.sessions.record(CHAT, ["two"], now=NOON)
    statement, is_undecodable = DAMAGE[what]
    connection = apsw.Connection(str(path / DATABASE))
    connection.execute(statement)
    connection.close()
    with store(path) as memory:
        assert failed_checks(memory) == (["conversations"] if is_undecodable else [])
        for _ in range(2):
            matches = memory.search("same words", user_id="ann", session_id="chat", now=NOON)
            assert {one.episode.id for one in matches} == {"one", "two"}
            assert matches.reasons == ()
        assert memory._store.sessions.session(CHAT, now=NOON).n_recalls == 2
        memory._store.sessions.flush()  # type: ignore[attr-defined]
        assert failed_checks(memory) == []
    with store(path) as memory:
        assert set(memory._store.sessions.session(CHAT, now=NOON).accessed) == {"one", "two"}
        assert failed_checks(memory) == []


def test_a_time_that_is_none_is_deleted_when_any_conversation_is_saved() -> None:
    path = folder()
    with filled(path) as memory:
        memory._store.sessions.record(CHAT, ["two"], now=NOON)
    connection = apsw.Connection(str(path / DATABASE))
    connection.execute("UPDATE sessions SET last = 9223372036854775807")
    connection.close()
    with store(path) as memory:
        ids(memory, session_id="another")
    assert [row[4] for row in kept(path)] == ["another"]


def failed_checks(memory: MemorySync) -> list[str]:
    return [one.name for one in memory.doctor(full=True).checks if not one.ok]


def test_what_a_conversation_met_is_no_memory() -> None:
    with filled() as memory:
        before = memory.export(user_id="ann", history=True)
        ids(memory)
        memory._store.sessions.flush()  # type: ignore[attr-defined]
        assert memory.export(user_id="ann", history=True) == before
        assert memory.doctor(full=True).ok
