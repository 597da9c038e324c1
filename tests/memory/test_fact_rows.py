"""One object is held for a subject and a predicate at a time; what was held stays readable."""

from datetime import UTC, datetime, timedelta

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyrecall.memory import Fact
from memory.rows_of_tests import ANA, MODEL, NOW, vector
from memory.test_edge_rows import a_store
from seams import (
    Cell,
    Written,
    assert_fact,
    fact_history,
    facts_of_rows,
    find_cell,
    valid_facts,
)


def day(n: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=n)


def a_fact(object_: str, begin: int, end: int | None = None, cell: Cell = ANA, **more: str) -> Fact:
    until = None if end is None else day(end)
    said = {"subject": "ana", "predicate": "lives in", "object": object_, **more}
    return Fact(**{**cell.identity(), **said}, valid_from=day(begin), valid_to=until)


def held(store: apsw.Connection, at: int, cell: Cell = ANA) -> list[str]:
    number = find_cell(store, cell)
    found = valid_facts(store, [] if number is None else [number], valid_at=day(at))
    return [one.object for one in found]


def tell(store: apsw.Connection, fact: Fact) -> Written:
    with store:
        return assert_fact(store, fact, None, None, NOW)


@pytest.fixture
def store() -> apsw.Connection:
    return a_store()


def test_another_object_ends_the_one_before(store: apsw.Connection) -> None:
    oslo = a_fact("Oslo", 10)
    with store:
        first = assert_fact(store, oslo, vector("oslo"), MODEL, NOW)
    rome = tell(store, a_fact("Rome", 20))
    assert [held(store, at) for at in (9, 10, 19, 20, 99)] == [
        [],
        ["Oslo"],
        ["Oslo"],
        ["Rome"],
        ["Rome"],
    ]
    history = fact_history(store, first.cell, oslo.id)
    assert [one.fact.valid_to for one in history] == [None, day(20)]
    assert [one.version for one in history] == [1, 2]
    closed = store.execute("SELECT row, embedding FROM versions WHERE version = 2").get
    assert closed[1] == vector("oslo").tobytes()
    facts = facts_of_rows(store, [first.row, closed[0], rome.row], [first.cell])
    assert facts.keys() == {closed[0], rome.row}
    assert facts[closed[0]] == oslo.model_copy(update={"valid_to": day(20)})


TOLD = st.tuples(st.sampled_from("ABC"), st.integers(0, 12), st.none() | st.integers(0, 6))


@given(st.lists(TOLD, max_size=10))
def test_at_every_time_that_is_held_which_a_list_of_days_says(
    told: list[tuple[str, int, int | None]],
) -> None:
    """Spec A43. The definition: a day belongs to whoever was told of it last, in valid time.

    A fact of no length holds on no day, so that telling it changes nothing.
    """
    store, last = a_store(), 24
    intervals: list[list[object]] = []  # [object, begin, end), slow and plain
    for object_, begin, length in told:
        if length == 0:
            tell(store, a_fact(object_, begin, begin))
            continue
        end = last if length is None else begin + length
        end = min([end, *(b for _, b, _ in intervals if b > begin)])  # type: ignore[type-var, operator]
        now = [one for one in intervals if one[1] <= begin < one[2]]  # type: ignore[operator]
        if not any(one[0] == object_ and one[2] >= end for one in now):  # type: ignore[operator]
            for one in now:
                one[2] = begin
            intervals.append([object_, begin, end])
        tell(store, a_fact(object_, begin, None if length is None else begin + length))
    for at in range(last):
        wish = [one[0] for one in intervals if one[1] <= at < one[2]]  # type: ignore[operator]
        assert held(store, at) == wish
        assert len(wish) <= 1


def test_a_damaged_vector_is_not_taken_into_the_version_that_ends_a_fact(
    store: apsw.Connection,
) -> None:
    with store:
        oslo = assert_fact(store, a_fact("Oslo", 10), vector("oslo"), MODEL, NOW)
        store.execute(
            "UPDATE versions SET embedding = zeroblob(16), "
            "embedding_checksum = embedding_checksum + 1"
        )
    tell(store, a_fact("Rome", 20))
    select = "SELECT version, embedding FROM versions WHERE id = ? ORDER BY version"
    assert list(store.execute(select, (oslo.id,))) == [(1, bytes(16)), (2, None)]
