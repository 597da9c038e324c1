"""Versions are appended, the highest counts, and what is refused leaves nothing."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import apsw
import numpy as np
import pytest

from hyrecall.errors import KeyConflictError, NotFoundError, OptionError
from hyrecall.memory import Participant
from memory.rows_of_tests import ANA, BOB, MODEL, NOW, an_episode, new, vector
from seams import (
    Database,
    Edge,
    Episode,
    NewVersion,
    Selection,
    Written,
    archive,
    changed_since,
    edges_in,
    episode_by_id,
    find_cell,
    forget,
    history,
    link,
    newest,
    pin,
    remember,
    set_vectors,
    supersede,
    touch,
    update,
)

LATER = NOW + timedelta(hours=1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    database = Database.open(tmp_path / "store")
    yield database
    database.close()


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


def test_what_is_remembered_is_there_as_it_was(store: Database) -> None:
    written = keep(store, new("a", output="x", pinned=True), new("b", embedded=True))
    assert [(one.id, one.version) for one in written] == [("a", 1), ("b", 1)]
    assert at_ana(store, "a") == an_episode("a", output="x", pinned=True)
    assert embedding(store, "a") == (None, None)
    assert embedding(store, "b") == (vector("b").tobytes(), MODEL)
    with store.reading() as c:
        assert list(c.execute("SELECT * FROM models")) == [(MODEL, 4)]


def test_the_vector_lies_in_the_row_of_its_text_and_goes_with_it(store: Database) -> None:
    """Spec E52."""
    (written,) = keep(store, new("a", embedded=True, output="x"))
    with store.transaction() as c:
        both = c.execute("SELECT output, embedding FROM versions WHERE row = ?", (written.row,))
        assert both.get == ("x", vector("a").tobytes())
        c.execute("DELETE FROM documents")
        assert c.execute("SELECT count(*) FROM versions WHERE embedding IS NOT NULL").get == 0


def test_an_id_is_taken_once_in_its_cell(store: Database) -> None:
    keep(store, new("a"))
    keep(store, new("a", BOB))
    with pytest.raises(KeyConflictError, match=r"id: expected an id that is free.*'a'") as caught:
        keep(store, new("b"), new("a"))
    assert "update" in vars(caught.value)["remedy"]
    assert at_ana(store, "b") is None
    with pytest.raises(KeyConflictError):
        keep(store, new("c"), new("c"))


def test_an_update_appends_and_the_last_counts(store: Database) -> None:
    keep(store, new("a", output="one", tags=("t",)))
    with store.transaction() as c:
        update(c, ANA, "a", {"output": "two"}, None, None, "corrected", LATER)
        update(c, ANA, "a", {"created_at": LATER}, None, None, None, LATER)
    wish = an_episode("a", output="two", tags=("t",), occurred_at=LATER)
    assert at_ana(store, "a") == wish
    assert states(store, "a") == [
        (1, "live", None, None), (2, "live", "corrected", None), (3, "live", None, None),
    ]  # fmt: skip


@pytest.mark.parametrize("field", ["id", "user_id", "org", "workspace"])
def test_what_says_whose_it_is_cannot_be_changed(store: Database, field: str) -> None:
    keep(store, new("a"))
    with (
        pytest.raises(OptionError, match=f"{field}: expected none of id, user_id"),
        store.transaction() as c,
    ):
        update(c, ANA, "a", {field: "bob"}, None, None, None, NOW)
    assert states(store, "a") == [(1, "live", None, None)]


def test_a_vector_stays_while_its_text_does(store: Database) -> None:
    """Spec D23: that of another text would be found by what is there no more."""
    keep(store, new("a", embedded=True, output="x"))
    with store.transaction() as c:
        update(c, ANA, "a", {"kind": "note"}, None, None, None, NOW)
    assert embedding(store, "a") == (vector("a").tobytes(), MODEL)
    with store.transaction() as c:
        update(c, ANA, "a", {"output": "y"}, None, None, None, NOW)
    assert embedding(store, "a") == (None, None)
    with store.transaction() as c:
        update(c, ANA, "a", {"output": "z"}, vector("z", 3), "other", None, NOW)
    assert embedding(store, "a") == (vector("z", 3).tobytes(), "other")


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


def test_a_superseded_one_names_its_successor(store: Database) -> None:
    keep(store, new("a", output="old"), new("taken"))
    with store.transaction() as c:
        supersede(c, ANA, "a", new("b", output="new"), "moved on", NOW)
    assert at_ana(store, "a") is None
    assert at_ana(store, "b") == an_episode("b", output="new")
    assert states(store, "a") == [
        (1, "live", None, None), (2, "superseded", "moved on", "b"),
    ]  # fmt: skip
    with store.reading() as c:
        cell = find_cell(c, ANA)
        assert cell is not None
        last = history(c, cell, "a")[-1]
        assert last.episode is not None
        assert last.episode.output == "old"
    with pytest.raises(KeyConflictError), store.transaction() as c:
        supersede(c, ANA, "b", new("taken"), None, NOW)
    assert at_ana(store, "b") is not None
    with pytest.raises(KeyConflictError, match="superseded"):
        keep(store, new("a"))


def test_an_archived_one_is_kept_and_not_found(store: Database) -> None:
    keep(store, new("a"), new("b"))
    with store.transaction() as c:
        archive(c, ANA, "a", "old", NOW)
        supersede(c, ANA, "b", new("c"), None, NOW, status="archived")
    assert at_ana(store, "a") is None
    assert states(store, "a")[-1] == (2, "archived", "old", None)
    assert states(store, "b")[-1] == (2, "archived", None, "c")


def test_a_forgotten_one_leaves_a_tombstone_without_content(store: Database) -> None:
    """Spec E37, E40."""
    keep(store, new("a", output="secret", tags=("t",), embedded=True), new("b"), new("a", BOB))
    with store.transaction() as c:
        link(c, Edge(**ANA.identity(), participants=ends("a", "b"), relationship="r"), NOW)
        cell = find_cell(c, ANA)
        assert cell is not None
        assert forget(c, Selection([cell], ids=["a", "unknown"]), "asked", NOW) == 1
        assert forget(c, Selection([cell], ids=["a"]), "again", NOW) == 0
        assert edges_in(c, [cell]) == []
        select = (
            "SELECT input, output, tags, metadata, embedding, session_id FROM versions "
            "WHERE status = 'deleted'"
        )
        assert c.execute(select).get == ("", "", "[]", "{}", None, None)
        assert history(c, cell, "a")[-1].episode is None
    assert at_ana(store, "a") is None
    assert states(store, "a") == [(1, "live", None, None), (2, "deleted", "asked", None)]
    with store.reading() as c:
        bob = find_cell(c, BOB)
        assert bob is not None
        assert episode_by_id(c, bob, "a") is not None
    keep(store, new("a", output="again"))
    assert states(store, "a")[-1] == (3, "live", None, None)


def test_forgetting_takes_what_is_selected(store: Database) -> None:
    old = NOW - timedelta(days=1)
    keep(
        store, new("old", occurred_at=old), new("now"), new("s", session_id="s"),
        new("old s", session_id="s", occurred_at=old), new("old", BOB, occurred_at=old),
    )  # fmt: skip
    with store.transaction() as c:
        cell = find_cell(c, ANA)
        assert cell is not None
        assert forget(c, Selection([cell], session_id="s", before=NOW), None, NOW) == 1
        assert forget(c, Selection([]), None, NOW) == 0
        assert forget(c, Selection([cell], before=NOW), None, NOW) == 1
        assert {one.id for one in newest(c, [cell])} == {"now", "s"}
        edge = Edge(**ANA.identity(), participants=ends("x", "y"), relationship="r")
        link(c, edge, NOW)
        assert forget(c, Selection([cell]), None, NOW) == 2
        assert edges_in(c, [cell]) == []
        bob = find_cell(c, BOB)
        assert bob is not None
        assert len(newest(c, [cell, bob])) == 1


CHANGES: dict[str, Callable[[apsw.Connection, str], object]] = {
    "update": lambda c, key: update(c, ANA, key, {}, None, None, None, NOW),
    "supersede": lambda c, key: supersede(c, ANA, key, new("z"), None, NOW),
    "archive": lambda c, key: archive(c, ANA, key, None, NOW),
    "pin": lambda c, key: pin(c, ANA, key, True),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("key", ["nothing", "bobs", "gone"])
def test_what_is_not_there_in_the_cell_is_not_found(store: Database, change: str, key: str) -> None:
    keep(store, new("bobs", BOB), new("gone"))
    with store.transaction() as c:
        archive(c, ANA, "gone", None, NOW)
    wish = f"^id: expected a memory that is there, got '{key}'$"
    with pytest.raises(NotFoundError, match=wish), store.transaction() as c:
        CHANGES[change](c, key)


def test_a_pin_is_no_version(store: Database) -> None:
    keep(store, new("a"))
    with store.transaction() as c:
        changed = pin(c, ANA, "a", True)
        assert pin(c, ANA, "a", True) == changed
        assert changed_since(c, changed - 1, 10)[0].id == "a"
    episode = at_ana(store, "a")
    assert episode is not None
    assert episode.pinned
    assert len(states(store, "a")) == 1
    with store.transaction() as c:
        update(c, ANA, "a", {"output": "x"}, None, None, None, NOW)
    episode = at_ana(store, "a")
    assert episode is not None
    assert episode.pinned


def test_an_access_counts_for_those_that_are_there(store: Database) -> None:
    """Spec F20."""
    keep(store, new("a"), new("b"))
    with store.transaction() as c:
        assert touch(c, [(ANA, "a"), (ANA, "none"), (BOB, "a"), (ANA, "a")], LATER) == 2
        select = "SELECT access_count, last_accessed FROM documents ORDER BY id"
        micros = int(LATER.timestamp()) * 10**6
        assert list(c.execute(select)) == [(2, micros), (0, None)]
        update(c, ANA, "a", {"output": "x"}, None, None, None, NOW)
        assert list(c.execute(select)) == [(2, micros), (0, None)]


def test_a_vector_set_later_changes_nothing_else(store: Database) -> None:
    """Spec D22."""
    first, second = keep(store, new("a", output="x"), new("b"))
    select = "SELECT * FROM versions WHERE row = ?"
    with store.transaction() as c:
        names = [row[1] for row in c.execute("PRAGMA table_info(versions)")]
        before = dict(zip(names, c.execute(select, (first.row,)).get, strict=True))
        archive(c, ANA, "b", None, NOW)
        blob = vector("a").tobytes()
        assert set_vectors(c, [(first.row, blob, MODEL), (second.row, blob, MODEL)]) == 1
        after = dict(zip(names, c.execute(select, (first.row,)).get, strict=True))
        changed = {name for name, value in after.items() if value != before[name]}
        assert changed == {"embedding", "embedding_model", "embedding_checksum"}
        assert (after["embedding"], after["embedding_model"]) == (blob, MODEL)
        archived = dict(zip(names, c.execute(select, (second.row,)).get, strict=True))
        assert archived["embedding"] is None
        assert changed_since(c, first.changed + 1, 10)[-1].id == "a"


def test_every_change_has_a_number_of_its_own(store: Database) -> None:
    written = keep(store, *(new(str(at)) for at in range(20)))
    numbers = [one.changed for one in written]
    assert numbers == sorted(set(numbers))
    with store.transaction() as c:
        update(c, ANA, "3", {"output": "x"}, None, None, None, NOW)
        archive(c, ANA, "5", None, NOW)
    with store.reading() as c:
        changes = changed_since(c, numbers[-1], 100)
        assert [(one.id, one.row is None) for one in changes] == [("3", False), ("5", True)]
        everything = changed_since(c, 0, 100)
        assert [one.id for one in everything][-2:] == ["3", "5"]
        assert len(everything) == 20
        assert changed_since(c, 0, 3) == everything[:3]
    assert store.sequence() == changes[-1].changed


def test_a_vector_needs_its_model_and_finite_numbers(store: Database) -> None:
    with pytest.raises(OptionError, match="model: expected the name"):
        keep(store, NewVersion(ANA, an_episode("a"), vector("a")))
    with pytest.raises(OptionError, match="vector: expected finite numbers"):
        keep(store, new("b"), NewVersion(ANA, an_episode("a"), np.array([np.nan]), "m"))
    assert at_ana(store, "b") is None


DAMAGED_VECTORS = {
    "other bytes": "embedding = zeroblob(16), embedding_checksum = embedding_checksum + 1",
    "another model": "embedding_model = 'n', embedding_checksum = embedding_checksum + 1",
    "a model that is no text": "embedding_model = CAST(x'ff' AS TEXT), embedding_checksum = NULL",
    "no whole number": "embedding = x'0102', embedding_checksum = NULL",
}


@pytest.mark.parametrize("name", DAMAGED_VECTORS)
def test_a_damaged_vector_is_not_taken_into_the_next_version(store: Database, name: str) -> None:
    keep(store, new("a", embedded=True, output="one"))
    with store.transaction() as c:
        c.execute(f"UPDATE versions SET {DAMAGED_VECTORS[name]}")
        update(c, ANA, "a", {"tags": ("t",)}, None, None, None, LATER)
    assert embedding(store, "a") == (None, None)


def test_a_vector_without_a_checksum_is_taken_into_the_next_version(store: Database) -> None:
    keep(store, new("a", embedded=True, output="one"))
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
    keep(store, new("a", output="y"))
    with store.reading() as c:
        select = "SELECT version, access_count, last_accessed FROM documents WHERE id = 'a'"
        assert c.execute(select).get == (3, 0, None)
