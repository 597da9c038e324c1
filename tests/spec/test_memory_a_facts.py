"""Part A of the acceptance rows: facts that hold for a time, through a store."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from hyrecall import recipes
from hyrecall.memory import DegradedReason, Fact, Facts, MemorySync
from laws.effort import Effort
from memory.stores import BrokenEmbedder, open_store
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


class FactsAgainstAListOfDays(RuleBasedStateMachine):
    """Each day belongs to the fact that was told last of those that begin nearest before it."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = open_store(embedder=None, recipe=recipes.loom)
        self.intervals: list[tuple[str, int, int]] = []

    @rule(
        object_=st.sampled_from(["Oslo", "Rome", "Bonn"]),
        begin=st.integers(0, LAST - 1),
        length=st.none() | st.integers(1, 5),
    )
    def tell(self, object_: str, begin: int, length: int | None) -> None:
        end = NEVER if length is None else begin + length
        self.memory.remember_fact(
            a_fact(object_, begin, end=None if length is None else begin + length)
        )
        end = min([end, *(other for _, other, _ in self.intervals if other > begin)])
        now = [one for one in self.intervals if one[1] <= begin < one[2]]
        if any(one[0] == object_ and one[2] >= end for one in now):
            if length is not None and begin + length < now[0][2]:  # it is said to end earlier
                self.intervals[self.intervals.index(now[0])] = (*now[0][:2], begin + length)
            return
        self.intervals = [one for one in self.intervals if one not in now]
        self.intervals += [(one[0], one[1], begin) for one in now]
        self.intervals.append((object_, begin, end))

    @invariant()
    @precondition(lambda self: self.intervals)
    def each_day_has_what_the_list_says(self) -> None:
        for at in range(LAST):
            wish = [name for name, begin, end in self.intervals if begin <= at < end]
            assert found(self.memory, at) == wish

    def teardown(self) -> None:
        self.memory.close()


def test_A43_at_every_time_the_fact_that_holds_is_recalled(effort: Effort) -> None:
    FactsAgainstAListOfDays.TestCase.settings = settings(
        max_examples=effort.cases(quick=3, full=100), stateful_step_count=8
    )
    FactsAgainstAListOfDays.TestCase().runTest()


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
