"""What callers of a store change: by the session it is of now, all or none, once and for good."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from hyrecall import recipes
from hyrecall.errors import DTypeError, KeyConflictError, NotFoundError, OptionError
from hyrecall.memory import Fact, Memory, MemorySync
from memory.stores import HOUR, NOON, episode, folder, open_store
from seams import DegradedReason, Follower, IndexNotReadyError, Notes


def ids(memory: MemorySync) -> list[str]:
    return sorted(one.id for one in memory.list(user_id="alice"))


@pytest.mark.parametrize("erase", [False, True])
def test_a_session_names_what_is_of_it_now(*, erase: bool) -> None:
    with open_store(embedder=None) as memory:
        memory.remember_batch(
            [episode(at, session_id=session) for at, session in enumerate(["s1", "s1", "s2", None])]
        )
        memory.update("e0", user_id="alice", session_id="s2")
        memory.update("e2", user_id="alice", session_id="s1")
        memory.update("e1", user_id="alice", text="of the same session")
        assert memory.forget(session_id="s1", user_id="alice", erase=erase) == 2
        assert ids(memory) == ["e0", "e3"]
        assert memory.forget(session_id="s1", user_id="alice", erase=erase) == 0
        assert memory.forget(session_id="s2", user_id="alice", erase=erase) == 1
        assert ids(memory) == ["e3"]


def test_what_was_deleted_is_erased_with_the_session_it_was_last_of() -> None:
    with open_store(embedder=None) as memory:
        memory.remember_batch([episode(at, session_id="s1") for at in range(4)])
        memory.update("e0", user_id="alice", session_id="s2")
        for key in ("e0", "e1"):
            memory.forget(key, user_id="alice")
        memory.supersede("e2", episode(9), user_id="alice")
        assert memory.forget(session_id="s1", user_id="alice", erase=True) == 3
        left = {key: len(memory.history(key, user_id="alice")) for key in ("e0", "e1", "e2", "e3")}
        assert left == {"e0": 3, "e1": 0, "e2": 0, "e3": 0}
        assert memory.forget(session_id="s2", user_id="alice", erase=True) == 1
        assert memory.history("e0", user_id="alice") == []


UNSAID: list[tuple[dict[str, Any], str]] = [
    (
        {"user_id": "alice"},
        "id: expected an id, a session_id, a time, a filter, or everything=True",
    ),
    ({"user_id": None}, "id: expected an id"),
    ({"everything": True}, "user_id: expected a named user beside everything"),
    ({"user_id": "alice", "id": "e0", "everything": True}, "everything: expected False"),
    ({"user_id": "alice", "session_id": "s1", "everything": True}, "everything: expected"),
    ({"user_id": "alice", "before": NOON, "everything": True}, "everything: expected False"),
    ({"user_id": "alice", "everything": 1}, "everything: expected True, or the name of the user"),
]


@pytest.mark.parametrize("erase", [False, True])
def test_all_of_a_user_goes_only_where_the_call_says_everything(*, erase: bool) -> None:
    async def run() -> None:
        async with Memory.open(folder(), embedder=None) as memory:
            await memory.remember_batch([episode(at, session_id="s1") for at in range(3)])
            await memory.remember("of nobody", id="e0")
            for given, told in UNSAID:
                with pytest.raises((OptionError, DTypeError), match=told):
                    await memory.forget(**given, erase=erase)
            assert len(await memory.list(user_id="alice")) == 3
            assert await memory.forget(user_id="alice", everything=True, erase=erase) == 3
            assert await memory.list(user_id="alice") == []
            assert await memory.get("e0") is not None

    asyncio.run(run())


def test_other_faces_remove_nothing_without_an_id() -> None:
    nobody: Any = None
    with open_store(recipe=recipes.l0, embedder=None) as memory:
        memory.remember_batch([episode(at) for at in range(2)])
        memory.link(["e0", "e1"], "near", id="edge", user_id="alice")
        notes = Notes(memory)
        notes.save("deploy", "On Friday")
        with pytest.raises(DTypeError, match="key: expected a str"):
            notes.delete(nobody)
        with pytest.raises(DTypeError, match="id: expected a str"):
            memory.agent("alice", org="o", workspace="w").forget(nobody, reason="to see")
        with pytest.raises(DTypeError, match="id: expected a str"):
            memory.unlink(nobody, user_id="alice")
        assert ids(memory) == ["e0", "e1"]
        assert notes.get("deploy") is not None
        assert len(memory.links("e0", user_id="alice")) == 1


def test_the_way_out_of_a_conflict_leads_out_of_it() -> None:
    with open_store(embedder=None) as memory:
        memory.remember_batch([episode(0), episode(1)])
        with pytest.raises(KeyConflictError, match="which is live") as caught:
            memory.remember(episode(0, "again"))
        assert vars(caught.value)["remedy"] == "update(id, ...)"
        memory.update("e0", user_id="alice", text="again")
        memory.supersede("e0", episode(2), user_id="alice")
        with pytest.raises(KeyConflictError, match="which is superseded") as caught:
            memory.remember(episode(0, "once more"))
        assert vars(caught.value)["remedy"] == "forget(id), then it is free"
        with pytest.raises(NotFoundError):
            memory.update("e0", user_id="alice", text="once more")
        with pytest.raises(KeyConflictError):
            memory.supersede("e1", episode(0), user_id="alice")
        assert memory.forget("e0", user_id="alice") == 1
        memory.remember(episode(0, "once more"))
        statuses = [one.status for one in memory.history("e0", user_id="alice")]
        assert statuses == ["live", "live", "superseded", "deleted", "live"]
        assert memory.search("once", user_id="alice")[0].episode.text == "once more"


def test_the_key_of_a_superseded_note_is_free_once_it_is_deleted() -> None:
    with open_store(recipe=recipes.l0, embedder=None) as memory:
        notes = Notes(memory)
        notes.save("k1", "first")
        notes.supersede("k1", "k2", "second")
        with pytest.raises(KeyConflictError):
            notes.save("k1", "third")
        memory.remember(episode(0, id="other", user_id="user"))
        memory.supersede("other", episode(1, id="another", user_id="user"), user_id="user")
        assert not notes.delete("other"), "that was no note"
        assert not notes.delete("none")
        assert notes.delete("k1")
        assert not notes.delete("k1")
        notes.save("k1", "third")
        assert {note.key: note.value for note in notes.list()} == {"k1": "third", "k2": "second"}


def test_a_fact_that_is_followed_keeps_its_pin() -> None:
    said: dict[str, Any] = {"user_id": "alice", "subject": "alice", "predicate": "lives in"}
    with open_store(embedder=None) as memory:
        oslo = memory.remember_fact(Fact(**said, object="Oslo", valid_from=NOON))
        memory.pin(oslo.id, user_id="alice")
        rome = memory.remember_fact(Fact(**said, object="Rome", valid_from=NOON + HOUR))
        bonn = Fact(**said, object="Bonn", valid_from=NOON + timedelta(hours=2))
        memory.remember_fact(bonn)
        assert [one.id for one in memory.list(user_id="alice", pinned=True)] == [oslo.id]
        others = [one.id for one in memory.list(user_id="alice", pinned=False)]
        assert sorted(others) == sorted([rome.id, bonn.id])


def test_a_snapshot_has_what_was_committed_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(embedder=None) as memory:
        memory._store.background.close()  # so that nothing follows unasked
        memory.remember(episode(0))
        assert memory.snapshot()
        assert not memory.snapshot()
        report = memory._store.follower.report()
        assert report["snapshot_sequence"] == memory._store.database.sequence()

        def not_ready(self: Follower) -> int:
            raise IndexNotReadyError(DegradedReason.INDEX_NOT_READY, "as asked")

        monkeypatch.setattr(Follower, "catch_up", not_ready)
        memory.remember(episode(1))
        assert not memory.snapshot(), "there is nothing new to save, and nothing is raised"
