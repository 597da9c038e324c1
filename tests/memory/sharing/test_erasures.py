"""Erasures in a store that processes share: no byte is left, and a retry gets the first reply."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hyrecall.errors import OptionError
from hyrecall.memory import MemorySync
from hyrecall.recipes import hypergraph
from memory.sharing.handles import ids, is_owner, opened
from memory.sharing.peer import USER, peers
from seams import Owner, Selection, SessionName, StoreSessions, every_cell, meta
from seams import memory_server_module as server

CANARY = b"canary"


def holding(folder: Path, trace: bytes = CANARY) -> list[str]:
    """Which files hold a trace."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path.name for path in files if trace in path.read_bytes()]


def await_nothing_left(folder: Path) -> None:
    until = time.monotonic() + 60
    while (left := holding(folder)) and time.monotonic() < until:
        time.sleep(0.05)
    assert left == []


def sessions_of(memory: MemorySync) -> StoreSessions:
    return memory._store._own_sessions


def met(memory: MemorySync, session: str, user: str | None = USER) -> list[str]:
    """What the store has of a conversation."""
    with memory._store.database.reading() as connection:
        select = (
            "SELECT i.id FROM sessions s JOIN session_ids i USING (session) "
            "WHERE s.name = ? AND s.user IS ? ORDER BY 1"
        )
        return [key for (key,) in connection.execute(select, (session, user))]


# ---- the reply ----


def test_a_retry_whose_reply_was_lost_gets_the_number_that_was_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, second = opened(tmp_path / "s"), opened(tmp_path / "s")
    for key in ("a", "b", "c"):
        second.remember("note", id=key, session_id="talk", user_id=USER)
    sent = server.Frames.send
    lost = []

    def lose_first(self: Any, data: bytes, **options: Any) -> None:
        if not lost and threading.current_thread().name == "hyrecall-client":
            lost.append(len(data))
            self.end()  # erased, and the reply is lost
            raise server.ConnectionLost("planted")
        sent(self, data, **options)

    monkeypatch.setattr(server.Frames, "send", lose_first)
    assert second.forget(session_id="talk", user_id=USER, erase=True) == 3
    assert len(lost) == 1
    assert ids(owner) == []


def test_the_next_owner_knows_the_reply_and_erases_nothing_more(tmp_path: Path) -> None:
    owner, second = opened(tmp_path / "s"), opened(tmp_path / "s")
    owner.remember("note", id="a", user_id=USER)
    with owner._store.database.reading() as connection:
        cells = tuple(every_cell(connection))
    gone, write_id = Selection(cells, ("a",), owner=(None, None, USER)), b"x" * 16
    for _ in range(2):
        assert owner._store.keeper.run(Owner.erase, gone, write_id) == 1
    with owner._store.database.reading() as connection:
        assert meta(connection, "erasures") == 1
    owner.close()
    second.remember("another note of this id", id="a", user_id=USER)
    assert second._store.keeper.run(Owner.erase, gone, write_id) == 1
    assert is_owner(second)
    assert ids(second) == ["a"]  # what came after the first reply stays
    with pytest.raises(OptionError, match="write_id"):
        second._store.keeper.run(Owner.erase, gone, b"x")


@pytest.mark.slow
def test_an_erasure_whose_owner_dies_is_repeated_by_the_client(tmp_path: Path) -> None:
    with peers(tmp_path / "s", 1) as (owner,):
        owner.ask("remember", "canary")
        memory = opened(tmp_path / "s")
        owner.ask("die when it erases")
        assert memory.forget("canary", user_id=USER, erase=True) == 1
        assert owner.process.wait(timeout=60) == 9
        assert is_owner(memory)
        await_nothing_left(tmp_path / "s")


@pytest.mark.slow
def test_what_an_owner_erased_before_it_died_is_removed_by_the_next_one(tmp_path: Path) -> None:
    with peers(tmp_path / "s", 1) as (owner,):
        owner.ask("remember", "canary")
        memory = opened(tmp_path / "s")
        owner.ask("die when it erases")
        owner.start("erase", "canary")
        assert owner.process.wait(timeout=60) == 9
        assert holding(tmp_path / "s") != []
        memory.remember("note", id="a", user_id=USER)
        assert is_owner(memory)
        assert ids(memory) == ["a"]
        await_nothing_left(tmp_path / "s")


# ---- conversations that another process holds ----


class Held:
    """Keeps a process's conversations from being written until it is let go."""

    def __init__(self, memory: MemorySync) -> None:
        self.sessions = sessions_of(memory)
        self.writes: Callable[[Any], object] = self.sessions._save
        self.going = threading.Event()
        self.sessions._save = self._wait

    def _wait(self, given: Any) -> object:
        assert self.going.wait(60)
        return self.writes(given)

    def let_go(self) -> None:
        self.going.set()
        self.sessions.flush()


def two(folder: Path) -> tuple[MemorySync, MemorySync]:
    owner, second = (opened(folder, recipe=hypergraph) for _ in range(2))
    owner.remember("canary note", id="canary-1", user_id=USER)
    owner.remember("note", id="kept", user_id=USER)
    return owner, second


def recall(memory: MemorySync, session: str, user: str | None = USER) -> list[str]:
    found = memory.search("note", user_id=user, session_id=session)
    return sorted(one.episode.id for one in found)


@pytest.mark.parametrize("was_kept", [False, True])
def test_an_erased_memory_does_not_come_back_with_a_conversation(
    tmp_path: Path, *, was_kept: bool
) -> None:
    owner, second = two(tmp_path / "s")
    if was_kept:
        recall(second, "talk")
        sessions_of(second).flush()
        assert met(owner, "talk") == ["canary-1", "kept"]
    held = Held(second)
    assert recall(second, "talk") == ["canary-1", "kept"]
    assert owner.forget("canary-1", user_id=USER, erase=True) == 1
    held.let_go()
    assert met(owner, "talk") == ["kept"]
    second.close()
    owner.close()
    assert holding(tmp_path / "s") == []


@pytest.mark.parametrize("which", ["session", "everything"])
@pytest.mark.parametrize("was_kept", [False, True])
def test_an_erased_conversation_does_not_come_back(
    tmp_path: Path, which: str, *, was_kept: bool
) -> None:
    owner, second = (opened(tmp_path / "s", recipe=hypergraph) for _ in range(2))
    owner.remember("canary note", id="canary-1", session_id="canary talk", user_id="canary")
    owner.remember("note", id="kept", user_id=USER)
    if was_kept:
        recall(second, "canary talk", "canary")
        sessions_of(second).flush()
        assert met(owner, "canary talk", "canary") == ["canary-1"]
    held = Held(second)
    assert recall(second, "canary talk", "canary") == ["canary-1"]
    narrow: dict[str, Any] = {"session_id": "canary talk"}
    selected = narrow if which == "session" else {"everything": True}
    assert owner.forget(user_id="canary", erase=True, **selected) == 1
    held.let_go()
    second.close()
    assert ids(owner) == ["kept"]
    owner.close()
    assert holding(tmp_path / "s") == []


def test_a_recall_that_began_before_an_erasure_and_ended_after_it_keeps_nothing(
    tmp_path: Path,
) -> None:
    owner, second = two(tmp_path / "s")
    name, now = SessionName(None, None, USER, "talk"), datetime.now(UTC)
    sessions_of(second).session(name, now=now)
    owner.forget("canary-1", user_id=USER, erase=True)
    sessions_of(second).record(name, ["canary-1", "kept"], now=now)
    sessions_of(second).flush()
    assert met(owner, "talk") == ["kept"]
    second.close()
    owner.close()
    assert holding(tmp_path / "s") == []


def test_an_erasure_takes_nothing_from_conversations_of_others(tmp_path: Path) -> None:
    owner, second = two(tmp_path / "s")
    owner.remember("note", id="b1", user_id="bob")
    owner.remember("note", id="kept", user_id="bob")
    held = Held(second)
    found = recall(second, "chat", "bob")
    assert found == ["b1", "kept"]
    owner.forget("canary-1", user_id=USER, erase=True)
    owner.forget("kept", user_id=USER, erase=True)
    held.let_go()
    assert met(owner, "chat", "bob") == found


def test_an_agent_that_met_what_others_share_keeps_what_was_not_erased(tmp_path: Path) -> None:
    owner, second = (opened(tmp_path / "s", recipe=hypergraph) for _ in range(2))
    place = {"org": "o", "workspace": "w"}
    for key in ("canary-1", "kept"):
        owner.remember("note", id=key, user_id="bob", visibility="global", **place)
    owner.set_policy("carl", policy="shared", **place)
    held = Held(second)
    found = second.agent("carl", **place).search("note", session_id="talk")
    assert sorted(one.episode.id for one in found) == ["canary-1", "kept"]
    owner.forget("canary-1", user_id="bob", erase=True, **place)
    held.let_go()
    assert met(owner, "talk", "carl") == ["kept"]
    second.close()
    owner.close()
    assert holding(tmp_path / "s") == []
