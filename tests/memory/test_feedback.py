"""A store is told what helped: for its asker alone, and no longer than the memory is there."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from hyrecall import recipes
from hyrecall.errors import NotFoundError, OptionError, ScopeError
from hyrecall.memory import EVERYONE, DamageWarning, MemorySync, QueryFeedback
from memory.stores import HOUR, NOON, Clock, folder, open_store
from seams import LOG
from seams import memory_DATABASE as DATABASE

ANN: dict[str, Any] = {"user_id": "ann"}
BOB: dict[str, Any] = {"user_id": "bob"}
LAB: dict[str, Any] = {"org": "acme", "workspace": "lab"}
SECRET = "where is the purple anteater"


@pytest.fixture
def memory() -> Iterator[MemorySync]:
    with open_store(clock=Clock(), embedder=None) as made:
        for user in ("ann", "bob"):
            for key in ("tea", "milk", "cake"):
                made.remember(f"{key} at four", id=key, user_id=user, session_id=f"of {key}")
        yield made


def said(memory: MemorySync, **where: Any) -> dict[str, tuple[str, ...]]:
    return {one.query: one.used for one in memory.list_feedback(**where)}


def rows(memory: MemorySync) -> list[tuple[Any, ...]]:
    with memory._store.database.reading() as connection:
        return list(connection.execute("SELECT * FROM feedback ORDER BY row"))


def test_the_same_again_changes_only_its_time(memory: MemorySync) -> None:
    clock = memory._store._clock
    assert isinstance(clock, Clock)
    assert memory.feedback(used=["tea", "tea"], query="a drink?", **ANN) == 1
    clock.now = NOON + HOUR
    assert memory.feedback(used=["tea"], query="a drink?", **ANN) == 0
    assert memory.feedback(used=["tea", "milk"], query="a drink?", **ANN) == 1
    assert memory.list_feedback(**ANN) == [QueryFeedback("a drink?", ("tea", "milk"), NOON + HOUR)]
    clock.now = NOON - HOUR  # a clock that was set back
    memory.feedback(used=["tea"], query="a drink?", **ANN)
    assert memory.list_feedback(**ANN)[0].at == NOON + HOUR


def test_the_empty_user_is_not_the_anonymous_one(memory: MemorySync) -> None:
    for user in ("", None):
        memory.remember("tea", id="t", user_id=user)
        memory.feedback(used=["t"], query=f"of {user!r}", user_id=user)
    assert said(memory, user_id="") == {"of ''": ("t",)}
    assert said(memory) == {"of None": ("t",)}


def test_a_store_that_is_only_read_takes_none() -> None:
    path = folder()
    with open_store(path, embedder=None) as memory:
        memory.remember("tea", id="tea", **ANN)
    with open_store(path, embedder=None, read_only=True) as memory:
        with pytest.raises(OptionError, match="read_only=True"):
            memory.feedback(used=["tea"], query="q", **ANN)
        assert memory.list_feedback(**ANN) == []


# ---- agents ----


@pytest.fixture
def agents(memory: MemorySync) -> MemorySync:
    for agent in ("planner", "ops"):
        memory.set_policy(agent, policy="shared", **LAB)
    ops = memory.agent("ops", **LAB)
    ops.remember("Friday is free", id="friday", visibility="global")
    ops.remember("Monday is private", id="monday")
    return memory


def test_an_agent_names_what_it_may_read(agents: MemorySync) -> None:
    planner = agents.agent("planner", **LAB)
    assert planner.feedback(used=["friday"], query="which day?") == 1
    assert [(one.query, one.used) for one in planner.list_feedback()] == [
        ("which day?", ("friday",))
    ]
    with pytest.raises(NotFoundError):
        planner.feedback(used=["monday"], query="which day?")
    assert agents.agent("ops", **LAB).list_feedback() == []
    with pytest.raises(ScopeError):
        agents.agent("", **LAB).feedback(used=["friday"], query="which day?")


def test_feedback_on_what_may_be_read_no_more_is_not_listed(agents: MemorySync) -> None:
    planner = agents.agent("planner", **LAB)
    planner.feedback(used=["friday"], query="which day?")
    agents.set_policy("planner", policy="isolated", **LAB)
    assert planner.list_feedback() == []
    agents.set_policy("planner", policy="shared", **LAB)
    assert len(planner.list_feedback()) == 1


def test_an_agents_own_memory_comes_before_anothers(agents: MemorySync) -> None:
    planner = agents.agent("planner", **LAB)
    planner.remember("mine", id="friday")
    planner.feedback(used=["friday"], query="which day?")
    agents.agent("ops", **LAB).forget("friday", reason="over")
    assert len(planner.list_feedback()) == 1
    planner.forget("friday", reason="over")
    assert rows(agents) == []


# ---- forgetting and erasing ----


@pytest.mark.parametrize(
    "which",
    [
        {"id": "tea"},
        {"session_id": "of tea"},
        {"before": NOON + HOUR},
        {"everything": True},
    ],
    ids=lambda which: next(iter(which)),
)
def test_an_erasure_takes_the_whole_query(memory: MemorySync, which: dict[str, Any]) -> None:
    memory.update("tea", occurred_at=NOON, **ANN)
    for key in ("milk", "cake"):
        memory.update(key, occurred_at=NOON + 2 * HOUR, **ANN)
    memory.feedback(used=["tea", "milk"], query=SECRET, **ANN)
    memory.feedback(used=["cake"], query="food?", **ANN)
    memory.feedback(used=["tea"], query=SECRET, **BOB)
    assert memory.forget(**which, **ANN, erase=True) > 0
    kept = {} if "everything" in which else {"food?": ("cake",)}
    assert said(memory, **ANN) == kept
    assert said(memory, **BOB) == {SECRET: ("tea",)}


def test_no_byte_of_an_erased_query_is_left() -> None:
    path = folder()
    with open_store(path, embedder=None) as memory:
        for key in ("tea", "milk"):
            memory.remember(key, id=key, **ANN)
        memory.feedback(used=["tea", "milk"], query=SECRET, **ANN)
        assert SECRET.encode() in (path / DATABASE).read_bytes() + (path / LOG).read_bytes()
        memory.forget("tea", erase=True, **ANN)
        for file in path.rglob("*"):
            assert not file.is_file() or SECRET.encode() not in file.read_bytes(), file


def test_an_agents_query_goes_with_the_shared_memory_that_it_names(agents: MemorySync) -> None:
    planner = agents.agent("planner", **LAB)
    planner.remember("mine", id="own")
    planner.feedback(used=["friday", "own"], query=SECRET)
    agents.forget("friday", user_id="ops", **LAB, erase=True)
    assert rows(agents) == []


def test_an_erased_user_leaves_no_feedback_on_others(agents: MemorySync) -> None:
    """Also one that kept nothing itself."""
    agents.agent("planner", **LAB).feedback(used=["friday"], query=SECRET)
    before = agents.doctor().counts["erasures"]
    assert agents.forget(user_id="planner", **LAB, everything=True, erase=True) == 0
    assert rows(agents) == []
    assert agents.doctor().counts["erasures"] == before + 1


# ---- export and import ----


def exported(memory: MemorySync, **options: Any) -> io.StringIO:
    file = io.StringIO()
    memory.export(file, **options)
    file.seek(0)
    return file


def test_an_export_restores_what_helped(agents: MemorySync) -> None:
    agents.feedback(used=["milk", "tea"], query="a drink?", **ANN)
    agents.agent("planner", **LAB).feedback(used=["friday"], query="which day?")
    file = exported(agents, user_id=EVERYONE)
    with open_store(clock=Clock(NOON + HOUR), embedder=None) as other:
        done = other.import_(file)
        assert done.errors == ()
        assert other.list_feedback(**ANN) == agents.list_feedback(**ANN)
        planner = other.agent("planner", **LAB)
        other.set_policy("planner", policy="shared", **LAB)
        assert planner.list_feedback() == agents.agent("planner", **LAB).list_feedback()
        file.seek(0)
        again = other.import_(file)
        assert (again.imported, again.errors) == (0, ())


def test_a_users_export_holds_what_the_user_said_of_its_own_memories(agents: MemorySync) -> None:
    agents.agent("planner", **LAB).remember("mine", id="own")
    agents.agent("planner", **LAB).feedback(used=["friday", "own"], query="which day?")
    agents.agent("ops", **LAB).feedback(used=["friday"], query="of ops")
    lines = agents.export(user_id="planner", **LAB)
    assert isinstance(lines, list)
    found = [line["feedback"] for line in lines if "feedback" in line]
    assert [(one["query"], one["id"]) for one in found] == [("which day?", "own")]
    everybody = agents.export(user_id=EVERYONE, **LAB)
    assert isinstance(everybody, list)
    assert len([line for line in everybody if "feedback" in line]) == 3


def test_an_import_names_feedback_on_what_is_not_there(memory: MemorySync) -> None:
    memory.feedback(used=["tea"], query="a drink?", **ANN)
    lines = exported(memory, **ANN).read().splitlines()
    feedback = next(line for line in lines if "a drink?" in line)
    bad = json.loads(feedback)
    bad["feedback"]["query"] = " "
    with open_store(embedder=None) as other:
        done = other.import_(io.StringIO("\n".join([lines[0], feedback])))
        assert [(one.line, one.id) for one in done.errors] == [(2, "tea")]
        assert "a memory that is there" in done.errors[0].error
    done = memory.import_(io.StringIO("\n".join([lines[0], json.dumps(bad)])))
    assert "query: expected" in done.errors[0].error


def test_feedback_follows_a_memory_to_its_table() -> None:
    path = folder()
    with open_store(path, embedder=None) as memory:
        memory.remember("tea", id="tea", source="memory", **ANN)
        memory.feedback(used=["tea"], query="a drink?", **ANN)
    with open_store(path, recipe=recipes.honeycomb, embedder=None) as memory:
        assert said(memory, **ANN) == {"a drink?": ("tea",)}
        assert memory.doctor(full=True).ok
        lines = exported(memory, **ANN)
        memory.forget("tea", erase=True, **ANN)
        assert rows(memory) == []
        assert memory.import_(lines).errors == ()
        assert said(memory, **ANN) == {"a drink?": ("tea",)}


# ---- damage and formats ----


def change(path: Path, statement: str) -> None:
    connection = apsw.Connection(str(path / DATABASE))
    connection.execute(statement)
    connection.close()


def test_a_damaged_row_is_left_out_and_named_and_mended() -> None:
    path = folder()
    with open_store(path, embedder=None) as memory:
        for key in ("tea", "milk"):
            memory.remember(key, id=key, **ANN)
        memory.feedback(used=["tea", "milk"], query="a drink?", **ANN)
    change(path, "UPDATE feedback SET at = at + 1 WHERE id = 'tea'")
    with open_store(path, embedder=None) as memory:
        with pytest.warns(DamageWarning, match="1 damaged rows"):
            assert said(memory, **ANN) == {"a drink?": ("milk",)}
        (check,) = (one for one in memory.doctor(full=True).checks if one.name == "rows")
        assert check.detail == "1 of feedback are damaged (their row: 1)"
        assert memory.feedback(used=["tea"], query="a drink?", **ANN) == 0
        assert memory.doctor(full=True).ok
        assert said(memory, **ANN) == {"a drink?": ("tea", "milk")}


def test_damaged_feedback_is_erased_too() -> None:
    path = folder()
    with open_store(path, embedder=None) as memory:
        memory.remember("tea", id="tea", **ANN)
        memory.feedback(used=["tea"], query=SECRET, **ANN)
    change(path, "UPDATE feedback SET query = CAST(x'ff41' AS TEXT)")
    with open_store(path, embedder=None) as memory:
        memory.forget("tea", erase=True, **ANN)
        assert rows(memory) == []
