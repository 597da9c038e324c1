"""Versions are appended, the highest counts, and what is refused leaves nothing."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from hyrecall.errors import OptionError
from hyrecall.memory import Participant
from memory.rows_of_tests import ANA, MODEL, NOW, an_episode, new, vector
from seams import (
    Database,
    Edge,
    Episode,
    NewVersion,
    Selection,
    Written,
    edges_in,
    episode_by_id,
    find_cell,
    forget,
    history,
    link,
    remember,
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
