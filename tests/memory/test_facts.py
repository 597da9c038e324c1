"""Facts of a store: said again, ended, of many values, forgotten by time, and listed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

import hyrecall as hr
from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.errors import DTypeError, NotFoundError, OptionError, ScopeError
from hyrecall.memory import EVERYONE, Fact, Memory, MemorySync
from memory.stores import Clock, open_store
from seams import AgentMemory, fact_rows, view

YEARS = {at: datetime(at, 1, 1, tzinfo=UTC) for at in range(1990, 2031)}
ANN = {"user_id": "ann"}


def fact(object_: str, begin: int, end: int | None = None, **more: Any) -> Fact:
    said = {"subject": "ann", "predicate": "lives in", "object": object_} | more
    until = None if end is None else YEARS[end]
    return Fact(**said, **ANN, valid_from=YEARS[begin], valid_to=until)


def opened(clock: Any = None) -> MemorySync:
    return open_store(embedder=None, recipe=recipes.default, clock=clock or Clock(YEARS[2026]))


def listed(memory: MemorySync, **said: Any) -> list[tuple[str, int, int | None]]:
    found = memory.list_facts(**said, **ANN)
    return [(one.object, one.valid_from.year, one.valid_to and one.valid_to.year) for one in found]


@pytest.mark.parametrize("embedder", [None, HashEmbedder(8)])
@pytest.mark.parametrize("end", [None, 2025])
def test_a_fact_that_is_said_again_is_the_one_that_is_there(embedder: Any, end: Any) -> None:
    with open_store(embedder=embedder, recall_timeout=30.0, write_timeout=30.0) as memory:
        first = memory.remember_fact(fact("Oslo", 2020))
        again = memory.remember_fact(fact("Oslo", 2021, end))
        assert (again.id, again.embedded) == (first.id, first.embedded)
        assert again.version == (1 if end is None else 2)
        assert memory.get(again.id, **ANN) is not None
        assert listed(memory) == [("Oslo", 2020, end)]
        assert memory.forget(again.id, **ANN) == 1


def test_an_update_sets_when_a_fact_ends_and_nothing_else_of_it() -> None:
    with opened() as memory:
        oslo = memory.remember_fact(fact("Oslo", 2020)).id
        memory.update(oslo, valid_to=YEARS[2022], reason="moved", **ANN)
        assert listed(memory) == [("Oslo", 2020, 2022)]
        memory.update(oslo, valid_to=None, **ANN)
        assert listed(memory) == [("Oslo", 2020, None)]
        memory.remember_fact(fact("Rome", 2024))
        memory.update(oslo, valid_to=YEARS[2021], **ANN)
        memory.update(oslo, valid_to=None, **ANN)
        assert listed(memory) == [("Rome", 2024, None), ("Oslo", 2020, 2024)], "until the next one"
        assert memory.doctor(full=True).ok
        note = memory.remember("tea", **ANN).id
        for key, changes, told in (
            (oslo, {"valid_to": YEARS[2025]}, "valid_to: expected a time up to 2024"),
            (oslo, {"valid_to": YEARS[2019]}, "valid_to: expected a time from valid_from"),
            (oslo, {"valid_to": None, "tags": ["x"]}, "tags: expected no other field"),
            (oslo, {"text": "x"}, "id: expected an episode"),
            (note, {"valid_to": None}, "id: expected a fact"),
        ):
            with pytest.raises(OptionError) as fault:
                memory.update(key, **changes, **ANN)  # type: ignore[arg-type]
            assert str(fault.value).startswith(told)
        with pytest.raises(NotFoundError):
            memory.update("none", valid_to=None, **ANN)
        with pytest.raises(DTypeError, match="valid_to: expected a datetime, got str"):
            memory.update(oslo, valid_to="2020", **ANN)  # type: ignore[arg-type]


@pytest.mark.parametrize("taken_from", [2020, 2018])
def test_a_fact_that_holds_at_no_time_gets_none_where_another_one_holds(taken_from: int) -> None:
    with opened() as memory:
        oslo = memory.remember_fact(fact("Oslo", 2020, None if taken_from == 2020 else 2020)).id
        rome = memory.remember_fact(fact("Rome", taken_from, 2024)).id
        both = [("Rome", taken_from, 2024), ("Oslo", 2020, 2020)]
        assert sorted(listed(memory)) == sorted(both)
        for end in (YEARS[2021], YEARS[2025]):
            told = "at: expected a time up to 2020-01-01T00:00:00[+]00:00, when another fact"
            with pytest.raises(OptionError, match=told):
                memory.end_fact(oslo, at=end, **ANN)
        memory.update(oslo, valid_to=None, **ANN)
        assert sorted(listed(memory)) == sorted(both)
        assert memory.doctor(full=True).ok
        memory.forget(rome, **ANN)
        memory.update(oslo, valid_to=None, **ANN)
        assert listed(memory) == [("Oslo", 2020, None)]


def test_an_end_that_is_refused_names_the_argument_of_its_call() -> None:
    with opened() as memory:
        oslo, note = memory.remember_fact(fact("Oslo", 2020)).id, memory.remember("tea", **ANN).id
        memory.remember_fact(fact("Rome", 2024))
        for key, at, told in (
            (oslo, YEARS[2025], "at: expected a time up to 2024"),
            (oslo, YEARS[2019], "at: expected a time from valid_from"),
            (note, YEARS[2025], "id: expected a fact"),
            (note, None, "id: expected a fact"),
        ):
            with pytest.raises(OptionError) as fault:
                memory.end_fact(key, at=at, **ANN)
            assert str(fault.value).startswith(told)
            assert fault.value.argument == told[:2]
        for agent in ("", " ", "a\0b"):
            with pytest.raises(OptionError, match="agent: expected 1 to 512 bytes"):
                memory.set_policy(agent, policy="shared")
            with pytest.raises(OptionError, match="agent: expected 1 to 512 bytes"):
                memory.get_policy(agent)


def test_a_fact_ends_now_unless_a_time_is_given_or_it_has_ended() -> None:
    clock = Clock(YEARS[2025])
    with opened(clock) as memory:
        oslo = memory.remember_fact(fact("Oslo", 2020)).id
        assert memory.end_fact(oslo, **ANN).version == 2
        clock.now = YEARS[2026]
        assert memory.end_fact(oslo, **ANN).version == 2, "it has ended"
        assert listed(memory) == [("Oslo", 2020, 2025)]
        assert memory.end_fact(oslo, at=datetime(2023, 1, 1), reason="r", **ANN).version == 3
        assert listed(memory) == [("Oslo", 2020, 2023)]
        rome = memory.remember_fact(fact("Rome", 2027)).id
        memory.end_fact(rome, **ANN)
        assert listed(memory)[0] == ("Rome", 2027, 2027), "it has never held"
        with pytest.raises(NotFoundError):
            memory.end_fact(oslo, user_id="bob")
        with pytest.raises(DTypeError, match="at: expected a datetime, got int"):
            memory.end_fact(oslo, at=2020, **ANN)  # type: ignore[arg-type]


def test_A48_an_agent_recalls_scored_as_the_store_does_without_naming_a_user() -> None:
    told, whole = (inspect.signature(one.recall_scored).parameters for one in (AgentMemory, Memory))
    assert list(told.values()) == [one for one in whole.values() if one.name != "user_id"]
    with opened() as memory, pytest.raises(ScopeError):
        memory.agent("", org="acme", workspace="lab").end_fact("f", reason="x")


@pytest.mark.parametrize("written", ["lives in", "Lives In", "lives_in", "LIVES-IN", " lives  in "])
def test_predicates_that_differ_in_writing_alone_are_one(written: str) -> None:
    with opened() as memory:
        memory.remember_fact(fact("Oslo", 2020))
        memory.remember_fact(fact("Rome", 2024, predicate=written))
        assert listed(memory) == [("Rome", 2024, None), ("Oslo", 2020, 2024)]
        assert len(listed(memory, predicate="lives in")) == 2
        assert len(listed(memory, predicate=written, subject="ann")) == 2
        assert [one.predicate for one in memory.list_facts(object="Rome", **ANN)] == [written]
        assert [one.object for one in memory.recall_facts("ann", **ANN)] == ["Rome"]
        memory.remember_fact(fact("Bonn", 2025, predicate="works in"))
        assert len(memory.recall_facts("ann", **ANN)) == 2


def test_of_many_values_each_ends_by_itself(tmp_path: Path) -> None:
    with opened() as memory:
        for name in ("tea", "coffee", "juice"):
            memory.remember_fact(fact(name, 2020, predicate="likes", single=False, id=name))
        memory.remember_fact(fact("tea", 2021, predicate="Likes", single=False))
        memory.remember_fact(fact("water", 2022, predicate="likes"))
        memory.remember_fact(fact("milk", 2023, predicate="likes"))
        memory.remember_fact(fact("juice", 2020, 2024, predicate="likes", single=False))
        held = {one.object for one in memory.recall_facts("likes", **ANN)}
        assert held == {"tea", "coffee", "milk"}
        assert len(memory.list_facts(**ANN)) == 5
        assert memory.doctor(full=True).ok
        every = memory.list_facts(**ANN)
        memory.export(tmp_path / "all.jsonl", user_id=EVERYONE)
        with opened() as other:
            assert not other.import_(tmp_path / "all.jsonl").errors
            assert other.list_facts(**ANN) == every


def test_a_private_fact_and_a_global_one_end_each_other_not() -> None:
    with opened() as memory:
        memory.remember_fact(fact("Oslo", 2020, visibility="global"))
        memory.remember_fact(fact("Rome", 2024))
        assert listed(memory) == [("Rome", 2024, None), ("Oslo", 2020, None)]
        memory.remember_fact(fact("Bern", 2025, visibility="global"))
        assert listed(memory)[::2] == [("Bern", 2025, None), ("Oslo", 2020, 2025)]


@pytest.mark.parametrize("single", [True, False])
def test_a_fact_that_is_said_again_with_another_single_is_the_one_that_is_there(
    single: bool,
) -> None:
    def likes(object_: str, begin: int, end: int | None = None, **more: Any) -> Fact:
        return fact(object_, begin, end, predicate="likes", **more)

    with opened() as memory:
        memory.remember_fact(likes("coffee", 2019))
        memory.remember_fact(likes("juice", 2019, single=False))
        tea = memory.remember_fact(likes("tea", 2020, single=single)).id
        assert memory.remember_fact(likes("tea", 2021, single=not single)).id == tea
        ended = 2020 if single else 2021  # by the first of them that is of one value
        held = sorted(listed(memory))
        assert held == [("coffee", 2019, ended), ("juice", 2019, None), ("tea", 2020, None)]
        assert len(memory.search("tea", **ANN)) == 1
        assert memory.remember_fact(likes("tea", 2021, 2025, single=not single)).id == tea
        assert memory.search("tea", **ANN) == []
        early = memory.remember_fact(likes("tea", 2018, single=not single)).id
        assert early != tea
        until = 2020 if single else 2019  # a fact of one value also ends where coffee begins
        assert listed(memory, object="tea") == [("tea", 2020, 2025), ("tea", 2018, until)]
        assert memory.doctor(full=True).ok


def test_to_forget_what_is_old_takes_no_fact_that_was_stored_today() -> None:
    clock = Clock(YEARS[2026])
    for erase in (False, True):
        clock.now = YEARS[2026]
        with opened(clock) as memory:
            memory.remember("an old note", occurred_at=YEARS[1990], id="old", **ANN)
            memory.remember_fact(fact("Oslo", 1990, id="f"))
            memory.remember_fact(fact("tea", 1990, 1995, predicate="likes", id="g"))
            clock.now = YEARS[2028]
            memory.end_fact("f", at=YEARS[2000], **ANN)
            assert memory.forget(before=YEARS[2023], erase=erase, **ANN) == 1
            assert memory.get("old", **ANN) is None
            assert {one.id for one in memory.list_facts(**ANN)} == {"f", "g"}
            memory.forget("g", **ANN)
            assert memory.forget(before=YEARS[2023], erase=erase, **ANN) == 0
            assert memory.forget(before=YEARS[2027], erase=erase, **ANN) == (2 if erase else 1)
            assert memory.history("f", **ANN) == [] or not erase


@pytest.mark.parametrize("erase", [False, True])
def test_to_forget_what_is_old_takes_a_memory_whose_id_was_once_a_fact(erase: bool) -> None:
    with opened() as memory:
        for key in ("note", "gone"):
            memory.remember_fact(fact(key, 1990, id=key))
            memory.forget(key, **ANN)
            memory.remember("an old note", id=key, occurred_at=YEARS[2010], **ANN)
        memory.forget("gone", **ANN)
        memory.remember("an old note", id="fact", occurred_at=YEARS[2010], **ANN)
        memory.forget("fact", **ANN)
        memory.remember_fact(fact("Oslo", 1990, id="fact"))
        assert memory.forget(before=YEARS[2023], erase=erase, **ANN) == (2 if erase else 1)
        assert [one.id for one in memory.list(**ANN)] == ["fact"]


def test_stored_at_says_when_the_store_kept_a_memory() -> None:
    clock = Clock(YEARS[2020])
    with opened(clock) as memory:
        memory.remember("green tea", occurred_at=YEARS[1990], id="a", **ANN)
        clock.now = YEARS[2022]
        memory.remember("black tea", occurred_at=YEARS[1990], id="b", **ANN)
        memory.update("a", text="white tea", **ANN)
        late = hr.Filter(stored_at=(YEARS[2021], None))
        for found in (
            [one.episode for one in memory.search("tea", filter=late, **ANN)],
            memory.list(filter=late, **ANN),
        ):
            assert [(one.id, one.stored_at) for one in found] == [("b", YEARS[2022])]
        one = memory.get("a", **ANN)
        assert one is not None
        assert (one.stored_at, one.occurred_at) == (YEARS[2020], YEARS[1990])
        assert one == one.model_copy(update={"stored_at": None})
        memory.forget("a", **ANN)
        clock.now = YEARS[2024]
        memory.remember(one)
        again = memory.get("a", **ANN)
        assert again is not None
        assert again.stored_at == YEARS[2024], "it was forgotten in between"
        for call in (memory.remember, memory.update):
            with pytest.raises(OptionError, match="stored_at"):
                call("a", stored_at=YEARS[2020], **ANN)  # type: ignore[operator]


NAMES = ("ann", "bob", "eve")
PREDICATES = ("likes", "lives in")


def day(n: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=n)


@pytest.fixture(scope="module")
def memory() -> Iterator[MemorySync]:
    """A store with 120 facts of two users among memories that are none, and some forgotten."""
    drawn = Random(5)
    with MemorySync.in_memory(recipe=recipes.loom, embedder=None) as made:
        for at in range(120):
            begin = drawn.randrange(30)
            fact = Fact(
                id=f"f{at}", user_id=drawn.choice(["ann", "bob"]), subject=drawn.choice(NAMES),
                predicate=drawn.choice(PREDICATES), object=drawn.choice(["tea", "Oslo", "milk"]),
                valid_from=day(begin),
                valid_to=drawn.choice([None, day(begin + drawn.randrange(9))]),
            )  # fmt: skip
            made.remember_fact(fact)
            made.remember("tea in Oslo", id=f"e{at}", user_id=fact.user_id)
            if at % 9 == 0:
                made.forget(f"f{at}", user_id=fact.user_id)
        yield made


def exported(memory: MemorySync, user: Any) -> list[Fact]:
    lines = memory.export(user_id=user)
    assert isinstance(lines, list)
    versions = (line["version"] for line in lines if "fact" in line.get("version", {}))
    return [Fact(id=one["id"], user_id=one["user_id"], **one["fact"]) for one in versions]


def differences(memory: MemorySync) -> list[dict[str, Any]]:
    """The calls, of sixty that are drawn, whose reply is not what the export says."""
    drawn, wrong = Random(7), []
    facts = {user: exported(memory, user) for user in ("ann", "bob", EVERYONE)}
    for _ in range(60):
        asked = {
            "subject": drawn.choice([None, *NAMES, "nobody"]),
            "predicate": drawn.choice([None, *PREDICATES]),
            "object": drawn.choice([None, "tea", "Oslo"]),
        }
        user, at = drawn.choice(["ann", "bob", EVERYONE]), drawn.choice([None, day(12), day(20)])
        wanted = {
            one.id: one.valid_from
            for one in facts[user]
            if all(want is None or getattr(one, name) == want for name, want in asked.items())
            and (at is None or one.is_valid_at(at))
        }
        found = memory.list_facts(**asked, user_id=user, valid_at=at)
        times = [one.valid_from for one in found]
        if {one.id: one.valid_from for one in found} != wanted or times != sorted(times)[::-1]:
            wrong.append(asked)
    return wrong


def test_a_fact_that_another_one_replaced_from_its_beginning_on_is_listed_behind_it() -> None:
    said = {"subject": "ann", "predicate": "lives in", "valid_from": day(0)}
    with MemorySync.in_memory(recipe=recipes.loom, embedder=None) as made:
        for city in ("Oslo", "Rome", "Bern"):
            made.remember_fact(Fact(**said, object=city))
        assert made.list_facts(subject="ann")[0].object == "Bern"
        made.remember_fact(Fact(**said | {"valid_from": day(1)}, object="Oslo"))
        assert [one.object for one in made.list_facts(limit=2)] == ["Oslo", "Bern"]


def test_a_listing_is_what_an_export_says(memory: MemorySync) -> None:
    assert len(memory.list_facts(user_id=EVERYONE, limit=1000)) > 60
    assert differences(memory) == []


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize(
    "bug",
    [
        lambda right: lambda *given, **said: right(*given, **said | {"object_": None}),
        lambda right: lambda *given, **said: right(*given, **said | {"valid_at": None}),
        lambda right: lambda *given, **said: right(*given, **said)[1:],
    ],
    ids=["no object", "no time", "one is lost"],
)
def test_a_planted_bug_is_seen(
    memory: MemorySync, monkeypatch: pytest.MonkeyPatch, bug: Callable[..., Any]
) -> None:
    monkeypatch.setattr(view, "valid_facts", bug(view.valid_facts))
    assert differences(memory)


def test_pages_join_to_the_whole(memory: MemorySync) -> None:
    whole = memory.list_facts(user_id="ann")
    pages = [memory.list_facts(user_id="ann", limit=7, offset=at) for at in range(0, 120, 7)]
    assert [one.id for page in pages for one in page] == [one.id for one in whole]
    assert memory.list_facts(user_id="ann", limit=0) == []


def test_facts_of_a_subject_are_found_by_the_index_of_the_database(memory: MemorySync) -> None:
    where = "f.cell IN (SELECT value FROM json_each(?)) AND v.status = 'live' AND f.subject = ?"
    asked: list[str] = []
    right = fact_rows.all_rows

    def seen(connection: Any, select: str, given: Any) -> Any:
        if where in select:
            plan = connection.execute(f"EXPLAIN QUERY PLAN {select}", given)
            asked.extend(step[3] for step in plan)
        return right(connection, select, given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fact_rows, "all_rows", seen)
        assert memory.list_facts(subject="ann", user_id="ann")
    assert "SEARCH f USING INDEX facts_slot (cell=? AND subject=?)" in asked
