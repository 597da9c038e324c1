"""Rows of memories: versions are appended, the highest counts, heads in named cells are read."""

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyrecall.errors import OptionError, ShapeError
from hyrecall.memory import Fact, Participant
from memory.rows_of_tests import (
    ANA,
    BOB,
    MODEL,
    NOBODY,
    NOW,
    a_store,
    an_episode,
    any_episode,
    cell_rows,
    changed_since,
    new,
    vector,
)
from memory.stores import open_store
from seams import (
    Cell,
    Database,
    Edge,
    Episode,
    NewVersion,
    Selection,
    Written,
    assert_fact,
    cell_of,
    cells_by_number,
    cells_of,
    edges_in,
    episode_by_id,
    episodes_of_rows,
    every_cell,
    facts_of_rows,
    find_cell,
    forget,
    history,
    link,
    make_cell,
    newest,
    newest_model,
    remember,
    touch,
    update,
    valid_facts,
)

LATER = NOW + timedelta(hours=1)


def keep(store: Database, *rows: NewVersion) -> list[Written]:
    with store.transaction() as c:
        return remember(c, rows, NOW)


def at_ana(store: Database, key: str) -> Episode | None:
    with store.reading() as c:
        cell = find_cell(c, ANA)
        return None if cell is None else episode_by_id(c, cell, key)


def states(store: Database, key: str) -> list[tuple[int, str, str | None, str | None]]:
    with store.reading() as c:
        cell = find_cell(c, ANA)
        assert cell is not None
        return [(v.version, v.status, v.reason, v.successor) for v in history(c, cell, key)]


def embedding(store: Database, key: str) -> tuple[bytes | None, str | None]:
    select = (
        "SELECT embedding, embedding_model FROM versions JOIN documents USING (cell, id, version) "
        "WHERE id = ?"
    )
    with store.reading() as c:
        found: tuple[bytes | None, str | None] = c.execute(select, (key,)).get
        return found


@pytest.mark.parametrize("field", ["id", "user_id", "org", "workspace"])
def test_what_says_whose_it_is_cannot_be_changed(store: Database, field: str) -> None:
    keep(store, new("a"))
    with (
        pytest.raises(OptionError, match=f"{field}: expected none of id, user_id"),
        store.transaction() as c,
    ):
        update(c, ANA, "a", {field: "bob"}, None, None, None, NOW)
    assert states(store, "a") == [(1, "live", None, None)]


def test_another_visibility_is_a_move(store: Database) -> None:
    keep(store, new("a", embedded=True), new("b"))
    with store.transaction() as c:
        link(c, Edge(**ANA.identity(), participants=ends("a", "b"), relationship="r"), NOW)
        moved = update(c, ANA, "a", {"visibility": "global"}, None, None, "published", NOW)
        assert moved.version == 1
        assert edges_in(c, [1, 2, 3, 4, 5, 6, 7, 8, 9]) == []
    assert embedding(store, "b") == (None, None)
    assert states(store, "a")[-1] == (2, "deleted", "published", None)
    with store.reading() as c:
        target = find_cell(c, ANA._replace(visibility="global"))
        assert target is not None
        episode = episode_by_id(c, target, "a")
        assert episode == an_episode("a", visibility="global")
        select = "SELECT embedding FROM versions WHERE row = ?"
        assert c.execute(select, (moved.row,)).get == vector("a").tobytes()


def ends(*ids: str) -> tuple[Participant, ...]:
    return tuple(Participant(id=one) for one in ids)


def test_a_vector_needs_its_model_and_finite_numbers(store: Database) -> None:
    with pytest.raises(OptionError, match="model: expected the name"):
        keep(store, NewVersion(ANA, an_episode("a"), vector("a")))
    with pytest.raises(OptionError, match="vector: expected finite numbers"):
        keep(store, new("b"), NewVersion(ANA, an_episode("a"), np.array([np.nan]), "m"))
    with pytest.raises(ShapeError, match="vector: expected one row of numbers"):
        keep(store, new("b"), NewVersion(ANA, an_episode("a"), np.ones((1, 2)), "m"))
    assert at_ana(store, "b") is None


DAMAGED_VECTORS = {
    "other bytes": "embedding = zeroblob(16), embedding_checksum = embedding_checksum + 1",
    "another model": "embedding_model = 'n', embedding_checksum = embedding_checksum + 1",
    "a model that is no text": "embedding_model = CAST(x'ff' AS TEXT), embedding_checksum = NULL",
    "no whole number": "embedding = x'0102', embedding_checksum = NULL",
}


@pytest.mark.parametrize("name", DAMAGED_VECTORS)
def test_a_damaged_vector_is_not_taken_into_the_next_version(store: Database, name: str) -> None:
    keep(store, new("a", embedded=True, text="one"))
    with store.transaction() as c:
        c.execute(f"UPDATE versions SET {DAMAGED_VECTORS[name]}")
        update(c, ANA, "a", {"tags": ("t",)}, None, None, None, LATER)
    assert embedding(store, "a") == (None, None)


def test_a_vector_without_a_checksum_is_taken_into_the_next_version(store: Database) -> None:
    keep(store, new("a", embedded=True, text="one"))
    with store.transaction() as c:
        c.execute("UPDATE versions SET embedding_checksum = NULL")
        update(c, ANA, "a", {"tags": ("t",)}, None, None, None, LATER)
    assert embedding(store, "a") == (vector("a").tobytes(), MODEL)


def test_a_batch_costs_three_statements_a_memory_and_numbers_its_changes_in_order(
    store: Database,
) -> None:
    def statements(n: int, name: str) -> list[str]:
        met: list[str] = []

        def trace(_: object, sql: str, __: object) -> bool:
            met.append(sql)
            return True

        with store.transaction() as c:
            c.exec_trace = trace
            try:
                written = remember(c, [new(f"{name}{at}") for at in range(n)], NOW)
            finally:
                c.exec_trace = None
        assert [one.changed for one in written] == list(
            range(written[0].changed, written[0].changed + n)
        )
        return met

    few, many = statements(10, "a"), statements(110, "b")
    assert len(many) - len(few) <= 3 * 100


def test_an_id_that_comes_again_has_no_accesses(store: Database) -> None:
    keep(store, new("a"))
    with store.transaction() as c:
        assert touch(c, [(ANA, "a")], LATER) == 1
        number = find_cell(c, ANA)
        assert number is not None
        assert forget(c, Selection((number,), ["a"]), None, LATER) == 1
    keep(store, new("a", text="y"))
    with store.reading() as c:
        select = "SELECT version, access_count, last_accessed FROM documents WHERE id = 'a'"
        assert c.execute(select).get == (3, 0, None)


def test_episodes_come_back_after_reopening_as_they_were(tmp_path: Path) -> None:
    """Spec A05."""
    episodes = {(cell_of(e)._replace(source=None), e.id): e for e in map(any_episode, range(200))}
    database = Database.open(tmp_path / "store")
    with database.transaction() as c:
        written = remember(c, cell_rows(list(episodes.values())), NOW)
    database.close()
    again = Database.open(tmp_path / "store", read_only=True)
    with again.reading() as c:
        cells = every_cell(c)
        assert set(cells.values()) == {cell for cell, _ in episodes}
        read = episodes_of_rows(c, [one.row for one in written], cells)
    again.close()
    assert {one.stored_at for one in read.values()} == {NOW}
    assert {one.version for one in read.values()} == {1}
    unset = {"stored_at": None, "version": None}
    found = [read[one.row].model_copy(update=unset) for one in written]
    assert list(map(repr, found)) == list(map(repr, episodes.values()))


DAMAGED_MODELS = {
    "a model that is no text": "embedding_model = CAST(x'ff' AS TEXT), embedding_checksum = NULL",
    "too few bytes": "embedding = x'0102', embedding_checksum = NULL",
    "no bytes": "embedding = x'', embedding_checksum = NULL",
    "a wrong length": "embedding = zeroblob(6), embedding_checksum = NULL",
    "another checksum": "embedding = zeroblob(40), embedding_checksum = 1",
}


@pytest.mark.parametrize("name", DAMAGED_MODELS)
def test_the_model_is_that_of_the_newest_vector_which_is_undamaged(
    store: Database, name: str
) -> None:
    with store.transaction() as c:
        remember(c, [new("a", embedded=True), new("b", BOB, embedded=True)], NOW)
        c.execute(f"UPDATE versions SET {DAMAGED_MODELS[name]} WHERE id = 'b'")
        assert newest_model(c) == ("hash-4", 4)
        c.execute(f"UPDATE versions SET {DAMAGED_MODELS[name]}")
        assert newest_model(c) is None
    store.close()
    with open_store(store.folder, embedder=None) as memory:  # the length is looked up
        assert len(memory.list(user_id="ana")) == 1


def test_a_reader_of_changes_ends_where_a_reader_of_all_does(store: Database) -> None:
    """Following in pieces gives the same documents in the same order as reading all at once."""
    draw = random.Random(20261122)
    followed: dict[tuple[int, str], int] = {}
    applied = 0
    for _ in range(300):
        key, cell = draw.choice("abcdefgh"), draw.choice([ANA, BOB, NOBODY])
        with store.transaction() as c:
            number = make_cell(c, cell)
            live = any(one.id == key for one in newest(c, [number]))
            if not live:
                forget(c, Selection([number], ids=[key]), None, NOW)
                remember(c, [new(key, cell, text=str(draw.random()))], NOW)
            elif draw.random() < 0.5:
                update(c, cell, key, {"text": str(draw.random())}, None, None, None, NOW)
            else:
                forget(c, Selection([number], ids=[key]), None, NOW)
        if draw.random() < 0.3:
            with store.reading() as c:
                while changes := changed_since(c, applied, draw.randrange(1, 4)):
                    for one in changes:
                        followed.pop((one.cell, one.id), None)
                        if one.row is not None:
                            followed[one.cell, one.id] = one.row
                    applied = changes[-1].changed
                everything = changed_since(c, 0, 1000)
            wish = {(one.cell, one.id): one.row for one in everything if one.row is not None}
            assert list(followed.items()) == list(wish.items())
    assert len(followed) > 3


# ---- cells ----


def test_a_cell_keeps_its_number_and_nobody_gets_it_again(store: Database) -> None:
    with store.transaction() as c:
        cells = [
            Cell(org, workspace, user, visibility)
            for org in (None, "", "acme")
            for workspace in (None, "w")
            for user in (None, "", "ana")
            for visibility in ("private", "global")
        ]
        numbers = [make_cell(c, cell) for cell in cells]
        assert len(set(numbers)) == len(cells)
        assert [make_cell(c, cell) for cell in cells] == numbers
        assert [find_cell(c, cell) for cell in cells] == numbers
        assert every_cell(c) == dict(zip(numbers, cells, strict=True))
        assert cells_by_number(c, [numbers[3], 10**9]) == {numbers[3]: cells[3]}
        assert set(cells_of(c, "", "w").values()) == {one for one in cells if one[:2] == ("", "w")}
        shared = cells_of(c, None, None, visibility="global").values()
        assert sorted(map(repr, shared)) == sorted(
            repr(Cell(None, None, user, "global")) for user in (None, "", "ana")
        )
        c.execute("DELETE FROM cells")
        assert make_cell(c, ANA) > max(numbers)
        assert find_cell(c, BOB) is None


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


TOLD = st.tuples(st.sampled_from("ABC"), st.integers(0, 12), st.none() | st.integers(0, 6))


@given(st.lists(TOLD, max_size=10))
def test_at_every_time_that_is_held_which_a_list_of_days_says(
    told: list[tuple[str, int, int | None]],
) -> None:
    """Spec A43. The definition: a day belongs to whoever was told of it last, in valid time.

    A fact of no length holds on no day, so that telling it changes nothing. What is held already
    is not told again; with an end it ends there.
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
        if any(one[0] == object_ and one[2] >= end for one in now):  # type: ignore[operator]
            if length is not None:  # the same, said again with an end
                now[0][2] = min(now[0][2], begin + length)  # type: ignore[type-var]
        else:
            for one in now:
                one[2] = begin
            intervals.append([object_, begin, end])
        tell(store, a_fact(object_, begin, None if length is None else begin + length))
    for at in range(last):
        wish = [one[0] for one in intervals if one[1] <= at < one[2]]  # type: ignore[operator]
        assert held(store, at) == wish
        assert len(wish) <= 1


@pytest.mark.parametrize("is_damaged", [False, True])
def test_the_version_that_ends_a_fact_takes_its_vector_unless_that_is_damaged(
    *, is_damaged: bool
) -> None:
    store, oslo = a_store(), a_fact("Oslo", 10)
    with store:
        first = assert_fact(store, oslo, vector("oslo"), MODEL, NOW)
        if is_damaged:
            store.execute("UPDATE versions SET embedding_checksum = embedding_checksum + 1")
    rome = tell(store, a_fact("Rome", 20))
    ended, blob = store.execute("SELECT row, embedding FROM versions WHERE version = 2").get
    assert blob == (None if is_damaged else vector("oslo").tobytes())
    facts = facts_of_rows(store, [first.row, ended, rome.row], [first.cell])
    assert facts.keys() == {ended, rome.row}
    assert facts[ended] == oslo.model_copy(update={"valid_to": day(20)})
