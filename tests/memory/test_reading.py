"""What is read: live heads in the cells that are named, and nothing else."""

import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from hyrecall.memory import Episode
from memory.rows_of_tests import ANA, BOB, NOBODY, NOW, an_episode, any_episode, cell_rows, new
from memory.stores import open_store
from seams import (
    Cell,
    Database,
    ReadPolicy,
    Selection,
    agents_of_group,
    archive,
    cell_of,
    cells_by_number,
    cells_of,
    changed_since,
    episodes_of_rows,
    every_cell,
    find_cell,
    forget,
    history,
    live_rows,
    make_cell,
    newest,
    newest_model,
    pin,
    read_policy,
    remember,
    set_policy,
    supersede,
    update,
)
from seams import memory_Counts as Counts
from seams import memory_counts as counts


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    database = Database.open(tmp_path / "store")
    yield database
    database.close()


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
    found = [read[one.row].model_copy(update={"stored_at": None}) for one in written]
    assert list(map(repr, found)) == list(map(repr, episodes.values()))


def test_only_live_heads_in_the_cells_are_read(store: Database) -> None:
    with store.transaction() as c:
        rows = {one.id: one for one in remember(c, [new(key) for key in "abcde"], NOW)}
        (other,) = remember(c, [new("bobs", BOB, output="secret")], NOW)
        updated = update(c, ANA, "b", {"output": "x"}, None, None, None, NOW)
        forget(c, Selection([other.cell], ids=["none"]), None, NOW)
        forget(c, Selection([updated.cell], ids=["c"]), None, NOW)
        supersede(c, ANA, "d", new("f"), None, NOW)
        archive(c, ANA, "e", None, NOW)
        every = list(range(30))
        mine = episodes_of_rows(c, every, [updated.cell])
        assert {one.id for one in mine.values()} == {"a", "b", "f"}
        assert rows["b"].row not in mine
        assert mine[updated.row].output == "x"
        assert episodes_of_rows(c, every, []) == {}
        assert episodes_of_rows(c, [], [updated.cell]) == {}
        assert list(live_rows(c, [updated.cell])) == [(updated.cell, key) for key in "abf"]


def test_the_highest_version_counts_alone(store: Database) -> None:
    """Spec E38, E39."""
    with store.transaction() as c:
        remember(c, [new("a", output="one")], NOW)
        update(c, ANA, "a", {"output": "two"}, None, None, None, NOW - timedelta(days=9))
        last = update(c, ANA, "a", {"output": "three"}, None, None, None, NOW - timedelta(days=5))
        (change,) = changed_since(c, 0, 10)
        assert (change.row, change.changed) == (last.row, last.changed)
        assert [one.output for one in newest(c, [last.cell])] == ["three"]
        versions = history(c, last.cell, "a")
        assert [one.episode.output for one in versions if one.episode] == ["one", "two", "three"]
        assert history(c, last.cell, "none") == []


def test_the_newest_come_first(store: Database) -> None:
    with store.transaction() as c:
        times = [0, 3, 3, 1, 2]
        remember(
            c,
            [
                new(f"{at}", occurred_at=NOW + timedelta(hours=hour), tags=("t", f"t{at}"),
                    kind="note" if at % 2 else "episodic", session_id=f"s{at // 2}")
                for at, hour in enumerate(times)
            ],
            NOW,
        )  # fmt: skip
        remember(c, [new("5", BOB)], NOW)
        pin(c, ANA, "3", True)
        ana, bob = find_cell(c, ANA), find_cell(c, BOB)
        assert ana is not None
        assert bob is not None

        def ids(**wanted: object) -> list[str]:
            return [one.id for one in newest(c, [ana], **wanted)]  # type: ignore[arg-type]

        assert ids() == ["2", "1", "4", "3", "0"]
        assert ids(limit=2, offset=1) == ["1", "4"]
        assert ids(limit=0) == []
        assert ids(kind="note") == ["1", "3"]
        assert ids(tags=["t1", "t3", "none"]) == ["1", "3"]
        assert ids(tags=[]) == []
        assert ids(tags=["%", "t_"]) == []
        assert ids(pinned=True) == ["3"]
        assert ids(pinned=False, session_id="s1") == ["2"]
        assert [one.id for one in newest(c, [bob, ana], limit=3)] == ["2", "1", "4"]
        assert newest(c, []) == []
        kinds = {"episodic": 3, "note": 2}
        assert counts(c, [ana]) == Counts(5, kinds, 5, 3, 1, 0)
        assert counts(c, []) == Counts(0, {}, 0, 0, 0, 0)


def test_the_model_of_the_vector_written_last_is_known(store: Database) -> None:
    with store.transaction() as c:
        remember(c, [new("a")], NOW)
        assert newest_model(c) is None
        remember(c, [new("b", embedded=True), new("c")], NOW)
        assert newest_model(c) == ("hash-4", 4)


DAMAGED_VECTORS = {
    "a model that is no text": "embedding_model = CAST(x'ff' AS TEXT), embedding_checksum = NULL",
    "too few bytes": "embedding = x'0102', embedding_checksum = NULL",
    "no bytes": "embedding = x'', embedding_checksum = NULL",
    "a wrong length": "embedding = zeroblob(6), embedding_checksum = NULL",
    "another checksum": "embedding = zeroblob(40), embedding_checksum = 1",
}


@pytest.mark.parametrize("name", DAMAGED_VECTORS)
def test_the_model_is_that_of_the_newest_vector_which_is_undamaged(
    store: Database, name: str
) -> None:
    with store.transaction() as c:
        remember(c, [new("a", embedded=True), new("b", BOB, embedded=True)], NOW)
        c.execute(f"UPDATE versions SET {DAMAGED_VECTORS[name]} WHERE id = 'b'")
        assert newest_model(c) == ("hash-4", 4)
        c.execute(f"UPDATE versions SET {DAMAGED_VECTORS[name]}")
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
                remember(c, [new(key, cell, output=str(draw.random()))], NOW)
            elif draw.random() < 0.5:
                update(c, cell, key, {"output": str(draw.random())}, None, None, None, NOW)
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


# ---- the roster ----


def test_the_roster_says_what_was_entered_last(store: Database) -> None:
    with store.transaction() as c:
        for org in (None, "", "acme"):
            set_policy(c, org, "w", "ana", "group", f"of {org}")
        set_policy(c, "acme", "w", "bob", "group", "of acme")
        set_policy(c, "acme", "v", "eve", "group", "of acme")
        set_policy(c, "acme", "w", "tom", "shared", "of acme")
        assert read_policy(c, None, "w", "ana") == ReadPolicy("group", "of None")
        assert read_policy(c, "", "w", "ana") == ReadPolicy("group", "of ")
        assert read_policy(c, "acme", None, "ana") is None
        assert agents_of_group(c, "acme", "w", "of acme") == ["ana", "bob"]
        set_policy(c, "acme", "w", "bob", "isolated", None)
        assert agents_of_group(c, "acme", "w", "of acme") == ["ana"]
        assert read_policy(c, "acme", "w", "bob") == ReadPolicy("isolated", None)


def test_an_episode_is_equal_to_itself_only() -> None:
    """The comparisons of this file see a difference."""
    assert an_episode("a") != an_episode("a", output="x")
    assert isinstance(an_episode("a"), Episode)
