"""Part D: old files on new programs, and old programs on new files."""

import re
from pathlib import Path

import apsw
import pytest

from hyrecall import recipes
from hyrecall.memory import MemorySync
from hyrecall.memory.faces.l0_import import read_l0
from hyrecall.memory.sql import schema
from hyrecall.memory.sql.cells import every_cell
from hyrecall.memory.sql.database import DATABASE, Database
from hyrecall.memory.sql.reading import changed_since, newest
from hyrecall.memory.sql.schema import FORMAT, Migration
from hyrecall.memory.sql.writing import remember, update
from memory.direct_writes import import_lines
from memory.rows_of_tests import ANA, NOW, new
from memory.test_transfer import L0_SCHEMAS, an_l0_file

NEWER = Migration(
    FORMAT + 1,
    "ALTER TABLE versions ADD COLUMN colour TEXT NOT NULL DEFAULT 'none'; "
    "ALTER TABLE documents ADD COLUMN shade INTEGER; CREATE TABLE palette (colour TEXT) STRICT",
)
SQL = dict(
    re.findall(
        r"-- name: (.+)\n([^-]+)",
        (Path(__file__).parents[1] / "memory" / "format_1.sql").read_text(),
    )
)


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of the next format."""
    monkeypatch.setattr(schema.migrate, "__defaults__", ((*schema.MIGRATIONS, NEWER),))
    monkeypatch.setitem(schema.check_format.__kwdefaults__, "known", FORMAT + 1)


@pytest.mark.parametrize("l0", L0_SCHEMAS)
def test_D24_a_database_of_l0_comes_in_once_and_is_found(tmp_path: Path, l0: str) -> None:
    path = an_l0_file(tmp_path / "l0.db", l0)
    store = Database.open(tmp_path / "store")
    for n_new in (5 if l0 == "v0.1" else 6, 0):
        assert import_lines(store, read_l0(path), now=NOW).imported == n_new
    with store.reading() as c:
        assert len(newest(c, every_cell(c))) == (5 if l0 == "v0.1" else 4)
    store.close()


def test_D24_a_store_of_this_format_gets_the_next_one_once(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    store = Database.open(tmp_path / "store")
    with store.transaction() as c:
        remember(c, [new("a", output="x", embedded=True)], NOW)
    store.close()
    request.getfixturevalue("newer")
    store = Database.open(tmp_path / "store")
    with store.reading() as c:
        assert c.pragma("user_version") == FORMAT + 1
        assert c.execute("SELECT output, colour FROM versions").get == ("x", "none")
    store.close()
    before = (tmp_path / "store" / DATABASE).read_bytes()
    Database.open(tmp_path / "store").close()
    assert (tmp_path / "store" / DATABASE).read_bytes() == before


def write_as_format_1(
    old: apsw.Connection, cell: int, *versions: tuple[str, int, str, str]
) -> None:
    """Write versions (id, version, status, output) as a program of format 1 does."""
    for key, version, status, output in versions:
        with old:
            number = old.execute(SQL["sequence"]).get
            old.execute(SQL["document"], (cell, key, version, number))
            old.execute(SQL["version"], (cell, key, version, status, output))


@pytest.mark.usefixtures("newer")
def test_D25_a_program_of_format_1_reads_and_writes_a_newer_file(tmp_path: Path) -> None:
    store = Database.open(tmp_path / "store")
    with store.transaction() as c:
        remember(c, [new("a", output="new", embedded=True), new("b", output="new")], NOW)
    applied = store.sequence()
    old = apsw.Connection(str(tmp_path / "store" / DATABASE))
    old.pragma("foreign_keys", 1)
    cell = old.execute(SQL["find cell"], ("ana",)).get
    assert list(old.execute(SQL["newest"], (cell,))) == [("a", 1, 0, "new"), ("b", 1, 0, "new")]
    write_as_format_1(
        old, cell, ("b", 2, "live", "old"), ("c", 1, "live", "old"), ("a", 2, "deleted", "")
    )
    with store.reading() as c:
        changes = changed_since(c, applied, 100)
        assert [(one.id, one.row is None) for one in changes] == [
            ("b", False), ("c", False), ("a", True),
        ]  # fmt: skip
        assert {one.id: one.output for one in newest(c, [cell])} == {"b": "old", "c": "old"}
    with store.transaction() as c:
        update(c, ANA, "c", {"output": "newer"}, None, None, None, NOW)
    assert old.execute(SQL["newest"], (cell,)).fetchall()[-1] == ("c", 2, 0, "newer")
    assert [row[0] for row in old.execute(SQL["history"], (cell, "c"))] == [1, 2]
    assert list(old.execute(SQL["edges"], (cell,))) == []
    old.close()
    store.close()


def test_D25_an_open_store_finds_what_a_program_of_format_1_wrote(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with MemorySync.open(path, recipe=recipes.l0, embedder=None) as memory:
        for key, text in (("a", "green tea"), ("b", "black tea"), ("d", "plain water")):
            memory.remember(text, user_id="ana", id=key)

        def found(query: str) -> list[str]:
            hits = memory.search(query, user_id="ana")
            assert not hits.degraded
            return sorted(one.episode.output for one in hits)

        assert (found("tea"), found("water")) == (["black tea", "green tea"], ["plain water"])
        old = apsw.Connection(str(path / DATABASE))
        old.pragma("foreign_keys", 1)
        cell = old.execute(SQL["find cell"], ("ana",)).get
        write_as_format_1(
            old,
            cell,
            ("b", 2, "live", "black coffee"),  # an update
            ("c", 1, "live", "herbal tea"),  # a new row
            ("a", 2, "deleted", ""),
        )
        old.close()
        assert found("tea") == ["herbal tea"]
        assert found("coffee") == ["black coffee"]
        assert (found("green"), found("water")) == ([], ["plain water"])
        assert {one.output for one in memory.list(user_id="ana")} == {
            "black coffee", "herbal tea", "plain water",
        }  # fmt: skip
        assert memory.get("a", user_id="ana") is None
    with MemorySync.open(path, recipe=recipes.l0, embedder=None) as memory:
        assert found("tea") == ["herbal tea"]
