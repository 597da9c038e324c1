"""Part A of the acceptance rows: facts that hold for a time, through a store."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hyrecall import recipes
from hyrecall.memory import DegradedReason, Fact, Facts, MemorySync
from memory.stores import BrokenEmbedder, folder, open_store
from seams import Follower, IndexNotReadyError

LAST = 12  # of the days that are looked at
NEVER = 99


def day(n: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=n)


def a_fact(object_: str, begin: int, user: str = "alice", end: int | None = None) -> Fact:
    until = None if end is None else day(end)
    return Fact(user_id=user, subject="alice", predicate="lives in", object=object_,
                valid_from=day(begin), valid_to=until)  # fmt: skip


def found(memory: MemorySync, at: int, user: str = "alice") -> list[str]:
    facts = memory.recall_facts("where alice lives", valid_at=day(at), user_id=user)
    return [fact.object for fact in facts]


def test_A43_a_new_object_ends_the_old_one_and_the_history_stays() -> None:
    path = folder()
    with open_store(path, embedder=None, recipe=recipes.loom) as memory:
        oslo = memory.remember_fact(a_fact("Oslo", 3))
        memory.remember_fact(a_fact("Rome", 6))
        memory.remember_fact(a_fact("Bonn", 4, user="bob"))
        assert [found(memory, at) for at in (2, 3, 5, 6, 9)] == [
            [], ["Oslo"], ["Oslo"], ["Rome"], ["Rome"],
        ]  # fmt: skip
        versions = memory.history(oslo.id, user_id="alice")
        assert [version.version for version in versions] == [1, 2]
        assert {version.status for version in versions} == {"live"}
    with open_store(path, embedder=None, recipe=recipes.loom) as memory:
        assert found(memory, 5) == ["Oslo"]
        assert found(memory, 5, "bob") == ["Bonn"]
        assert memory.remember_fact(a_fact("Rome", 7)).id != oslo.id
        assert found(memory, 8) == ["Rome"]
        memory.forget(oslo.id, user_id="alice")
        assert found(memory, 5) == []


def _cannot(*args: Any, **options: Any) -> Any:
    raise IndexNotReadyError(DegradedReason.INDEX_NOT_READY, "being built")


def test_A43_without_an_index_facts_come_from_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(embedder=None, recipe=recipes.loom) as memory:
        for fact in (a_fact("Oslo", 3), a_fact("Rome", 6), a_fact("Bonn", 4, user="bob")):
            memory.remember_fact(fact)
        for at, name in enumerate(("tea", "milk", "tea with milk")):
            fact = Fact(user_id="alice", subject="alice", predicate=f"drinks {at}", object=name,
                        valid_from=day(at), valid_to=day(9))  # fmt: skip
            memory.remember_fact(fact)
        memory.remember("alice drinks tea, an episode", user_id="alice")
        assert not memory.recall_facts("tea", user_id="alice", valid_at=day(3)).degraded
        monkeypatch.setattr(Follower, "ready", _cannot)

        def held(query: str, at: int, **options: Any) -> list[str]:
            facts = memory.recall_facts(query, user_id="alice", valid_at=day(at), **options)
            assert isinstance(facts, Facts)
            assert [str(reason) for reason in facts.reasons] == ["index_not_ready (being built)"]
            assert facts.degraded
            return [fact.object for fact in facts]

        # Valid in [valid_from, valid_to), newest first, cut at the limit.
        assert [held("lives", at) for at in (2, 3, 5, 6, 9)] == [
            [], ["Oslo"], ["Oslo"], ["Rome"], ["Rome"],
        ]  # fmt: skip
        assert held("TEA", 3) == ["tea with milk", "tea"]
        assert held("tea milk", 8) == ["tea with milk"]
        assert held("tea", 9) == []
        assert held("drinks", 8, limit=2) == ["tea with milk", "milk"]
        assert "index_not_ready" in repr(memory.recall_facts("tea", user_id="alice"))


def test_A43_facts_say_when_no_vectors_were_to_be_had() -> None:
    with open_store(embedder=BrokenEmbedder(), recipe=recipes.loom) as memory:
        memory.remember_fact(a_fact("Oslo", 3))
        facts = memory.recall_facts("Oslo", user_id="alice", valid_at=day(5))
        assert [fact.object for fact in facts] == ["Oslo"]
        assert [reason.reason for reason in facts.reasons] == ["embed_unavailable"]
        assert memory.recall_facts("", user_id="alice", valid_at=day(5)).degraded is False
