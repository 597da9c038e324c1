"""After an erase no byte of it is in any file of a store with its saved index (fault D10)."""

from pathlib import Path

import pytest

from hyrecall.memory import Fact, MemorySync
from memory.stores import NOON, folder, open_store
from seams import Follower

TRACES = (b"canary", b"c-a-n-a-r-y")


def put_canaries(memory: MemorySync) -> None:
    """Memories of one user in every column that reaches the index, among those of another."""
    for at in range(30):
        memory.remember(
            f"canary words {at}", id=f"canary id {at}", user_id="canary user", occurred_at=NOON,
            session_id="canary session", tags=("canary tag",), source="canary source",
            metadata={"canary": "c-a-n-a-r-y"},
        )  # fmt: skip
        memory.remember(f"plain words {at}", id=f"id {at}", user_id="bob", occurred_at=NOON)
    memory.link(["canary id 1", "canary id 2"], "canary relation", user_id="canary user")
    memory.remember_fact(
        Fact(user_id="canary user", subject="canary", predicate="is", object="c-a-n-a-r-y")
    )
    memory.update("canary id 3", text="canary again", user_id="canary user")
    memory.forget("canary id 4", user_id="canary user")


def traces(path: Path) -> set[str]:
    """The files in which there is a canary."""
    return {
        file.relative_to(path).as_posix()
        for file in path.rglob("*")
        if file.is_file() and any(trace in file.read_bytes() for trace in TRACES)
    }


def test_no_byte_is_left_in_the_database_and_in_the_saved_index() -> None:
    path = folder()
    with open_store(path) as memory:
        put_canaries(memory)
    with open_store(path) as memory:  # with an index that was saved, and one change after it
        memory.remember("canary last", id="canary last", user_id="canary user")
        assert memory.search("last", user_id="canary user")  # the index follows
        memory.snapshot()
        assert any(name.startswith("index/") for name in traces(path)), "they are in the index"
        assert {"memory.db", "memory.db-wal"} & traces(path)
        assert memory.forget(user_id="canary user", everything=True, erase=True) == 32
        assert traces(path) == set()
        assert memory.search("canary", user_id="canary user") == []
        assert len(memory.search("plain words", user_id="bob", limit=30)) == 30
    assert traces(path) == set()
    with open_store(path) as memory:
        assert memory.search("canary", user_id="canary user") == []
        assert all(check.ok for check in memory.doctor(full=True).checks)


def test_an_index_that_is_not_reconciled_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    path = folder()
    with open_store(path) as memory:
        put_canaries(memory)
        assert memory.snapshot()

        def leave(self: Follower) -> int:
            return 0

        monkeypatch.setattr(Follower, "reconcile", leave)
        memory.forget(user_id="canary user", everything=True, erase=True)
        assert {name.partition("/")[0] for name in traces(path)} == {"index"}
