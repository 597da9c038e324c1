"""Another's id is told from no id by nothing: not by the reply, the error, or what is read."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from hyrecall.memory import MemorySync
from memory.isolation.world import told
from memory.stores import open_store
from seams import connecting, database

ABSENT = "m-absent-id"
FOREIGN = "m-foreign-i"  # of the same length
CALLS: dict[str, Callable[[MemorySync, str], Any]] = {
    "get": lambda m, key: m.get(key, user_id="bob"),
    "history": lambda m, key: m.history(key, user_id="bob"),
    "links": lambda m, key: m.links(key, user_id="bob"),
    "update": lambda m, key: m.update(key, user_id="bob", text="x"),
    "update tags": lambda m, key: m.update(key, user_id="bob", tags=("t",)),
    "supersede": lambda m, key: m.supersede(key, "x", user_id="bob"),
    "forget": lambda m, key: m.forget(key, user_id="bob"),
    "erase": lambda m, key: m.forget(key, user_id="bob", erase=True),
    "pin": lambda m, key: m.pin(key, user_id="bob"),
    "unlink": lambda m, key: m.unlink(key, user_id="bob"),
    "feedback": lambda m, key: m.feedback(used=[key], query="q", user_id="bob"),
    "feedback of two": lambda m, key: m.feedback(used=["own", key], query="q", user_id="bob"),
    "search": lambda m, key: list(map(str, m.search(key, user_id="bob", alpha=0.0))),
    "remember": lambda m, key: m.remember("x", id=key, user_id="bob").version,
    "agent get": lambda m, key: m.agent("bob", org="o", workspace="w").get(key),
    "agent feedback": lambda m, key: m.agent("bob", org="o", workspace="w").feedback(
        used=[key], query="q"
    ),
    "agent update": lambda m, key: m.agent("bob", org="o", workspace="w").update(
        key, reason="try", text="x"
    ),
}


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemorySync]:
    statements: list[str] = []
    connect = connecting.connect

    def traced(folder: Path, **options: Any) -> apsw.Connection:
        connection = connect(folder, **options)

        def note(cursor: Any, sql: str, bindings: Any) -> bool:
            statements.append(sql)
            return True

        connection.exec_trace = note
        return connection

    for module in (database, connecting):
        monkeypatch.setattr(module, "connect", traced)
    from memory.stores import Clock

    with open_store(clock=Clock()) as made:
        made._store.background.close()  # whose statements come when they come
        for place in ({}, {"org": "o", "workspace": "w"}):
            made.remember("secret words", id=FOREIGN, user_id="alice", **place)
            made.remember("of bob", id="own", user_id="bob", **place)
            made.link([FOREIGN, "x"], "beside", user_id="alice", id="edge", **place)
            made.link([FOREIGN, "x"], "beside", user_id="alice", id=FOREIGN, **place)
        vars(made)["statements"] = statements
        yield made


def outcome(memory: MemorySync, call: Callable[[MemorySync, str], Any], key: str) -> Any:
    statements: list[str] = vars(memory)["statements"]
    memory._store.follower.catch_up()
    statements.clear()
    try:
        reply: Any = call(memory, key)
    except Exception as fault:
        reply = fault
    said = [text.replace(key, "KEY") for text in told(reply)]
    return type(reply), said, list(statements)


@pytest.mark.parametrize("name", CALLS)
def test_I7_a_foreign_id_is_as_one_that_is_not_there(memory: MemorySync, name: str) -> None:
    foreign = outcome(memory, CALLS[name], FOREIGN)
    if name == "remember":
        memory.forget(FOREIGN, user_id="bob", erase=True)
    absent = outcome(memory, CALLS[name], ABSENT)
    assert foreign == absent
    assert len(foreign[2]) > 1  # it was traced


def test_what_is_there_is_told_apart(memory: MemorySync) -> None:
    """The control: the outcome of an id of one's own is another."""
    for name in ("get", "update", "pin", "forget"):
        own = outcome(memory, CALLS[name], "own")
        assert own != outcome(memory, CALLS[name], ABSENT), name


def test_what_was_tried_changed_nothing(memory: MemorySync) -> None:
    for name, call in CALLS.items():
        outcome(memory, call, FOREIGN)
        kept = memory.get(FOREIGN, user_id="alice")
        assert kept is not None, name
        assert kept.text == "secret words"
        assert len(memory.history(FOREIGN, user_id="alice")) == 1
        assert len(memory.links(FOREIGN, user_id="alice")) == 2
