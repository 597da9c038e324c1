"""Part D: files of another program, and of another format of this one."""

from pathlib import Path

import pytest

from hyrecall import recipes
from hyrecall.memory import MemorySync
from memory.direct_writes import import_lines
from memory.rows_of_tests import NOW, new
from memory.test_transfer import L0_SCHEMAS, an_l0_file
from seams import MIGRATIONS, Database, Migration, every_cell, newest, read_l0, remember, schema
from seams import memory_DATABASE as DATABASE
from seams import memory_FORMAT as FORMAT

NEWER = Migration(
    FORMAT + 1,
    "ALTER TABLE versions ADD COLUMN colour TEXT NOT NULL DEFAULT 'none'; "
    "ALTER TABLE documents ADD COLUMN shade INTEGER; CREATE TABLE palette (colour TEXT) STRICT",
    min_reader=FORMAT,
    min_writer=FORMAT,
)


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of the next format."""
    monkeypatch.setattr(schema, "MIGRATIONS", (*MIGRATIONS, NEWER))


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


def test_D25_an_older_program_reads_and_writes_a_newer_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(*steps: Migration) -> MemorySync:
        monkeypatch.setattr(schema, "MIGRATIONS", (*MIGRATIONS, *steps))
        return MemorySync.open(tmp_path / "store", recipe=recipes.l0, embedder=None)

    def found(memory: MemorySync, query: str) -> list[str]:
        hits = memory.search(query, user_id="ana")
        assert not hits.degraded
        return sorted(one.episode.output for one in hits)

    with program(NEWER) as memory:
        for key, text in (("a", "green tea"), ("b", "black tea"), ("d", "plain water")):
            memory.remember(text, user_id="ana", id=key)
    with program() as memory:
        assert (found(memory, "tea"), found(memory, "water")) == (
            ["black tea", "green tea"], ["plain water"],
        )  # fmt: skip
        memory.update("b", user_id="ana", output="black coffee")
        memory.remember("herbal tea", user_id="ana", id="c")
        memory.forget("a", user_id="ana")
        assert found(memory, "tea") == ["herbal tea"]
    with program(NEWER) as memory:
        assert memory.doctor(full=True).ok
        assert (found(memory, "tea"), found(memory, "coffee")) == (["herbal tea"], ["black coffee"])
        assert [one.version for one in memory.history("b", user_id="ana")] == [1, 2]
        assert memory.get("a", user_id="ana") is None
    with Database.open(tmp_path / "store", read_only=True).reading() as c:
        assert c.pragma("user_version") == FORMAT + 1
        assert {row[0] for row in c.execute("SELECT colour FROM versions")} == {"none"}
