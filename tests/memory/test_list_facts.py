"""A listing of facts: what an export says of them, narrowed, newest first, without an export."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from hyrecall import recipes
from hyrecall.errors import DTypeError, OptionError
from hyrecall.memory import EVERYONE, Fact, MemorySync
from seams import fact_rows, view

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
    for _ in range(60):
        asked = {
            "subject": drawn.choice([None, *NAMES, "nobody"]),
            "predicate": drawn.choice([None, *PREDICATES]),
            "object": drawn.choice([None, "tea", "Oslo"]),
        }
        user, at = drawn.choice(["ann", "bob", EVERYONE]), drawn.choice([None, day(12), day(20)])
        wanted = {
            one.id: one.valid_from
            for one in exported(memory, user)
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
    right = fact_rows.rows

    def seen(connection: Any, select: str, given: Any) -> Any:
        if where in select:
            plan = connection.execute(f"EXPLAIN QUERY PLAN {select}", given)
            asked.extend(step[3] for step in plan)
        return right(connection, select, given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fact_rows, "rows", seen)
        assert memory.list_facts(subject="ann", user_id="ann")
    assert "SEARCH f USING INDEX facts_slot (cell=? AND subject=?)" in asked


def test_wrong_arguments_are_named(memory: MemorySync) -> None:
    wrong: list[tuple[type[Exception], dict[str, Any]]] = [
        (DTypeError, {"subject": 3}),
        (OptionError, {"predicate": " "}),
        (DTypeError, {"object": b"tea"}),
        (DTypeError, {"valid_at": "2026-01-01"}),
        (OptionError, {"limit": -1}),
        (OptionError, {"offset": 2**31}),
    ]
    for kind, options in wrong:
        with pytest.raises(kind, match=f"^{next(iter(options))}: "):
            memory.list_facts(user_id="ann", **options)
