"""Stores of every format that was released open; those of no format, or of a later one, do not."""

import json
import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest

from hyrecall.errors import StoreFormatError
from hyrecall.memory.sql import schema
from hyrecall.memory.sql.database import DATABASE, Database
from hyrecall.memory.sql.doctor import examine
from hyrecall.memory.sql.schema import FORMAT
from memory.faults.work import contents, do
from memory.golden_stores import GOLDEN, as_json, make


def is_contained(found: dict[str, list[Any]], wish: dict[str, list[Any]]) -> bool:
    """Whether the columns that were there then hold what they held."""
    return all(
        [row[: len(old)] for row, old in zip(found[name], rows, strict=True)] == rows
        for name, rows in wish.items()
    )


def a_copy(tmp_path: Path, released: str) -> tuple[Path, dict[str, list[Any]]]:
    folder = tmp_path / "store"
    folder.mkdir(mode=0o700)
    shutil.copy(GOLDEN / released / DATABASE, folder / DATABASE)
    (folder / DATABASE).chmod(0o600)
    return folder, json.loads((GOLDEN / released / "contents.json").read_text())


def test_every_format_has_its_golden_store() -> None:
    assert sorted(one.name for one in GOLDEN.iterdir()) == sorted(
        f"format_{number}" for number in range(1, FORMAT + 1)
    )


@pytest.mark.parametrize("released", sorted(one.name for one in GOLDEN.iterdir()))
def test_a_golden_store_opens_as_it_was_and_is_written(tmp_path: Path, released: str) -> None:
    folder, wish = a_copy(tmp_path, released)
    database = Database.open(folder)
    assert is_contained(as_json(contents(database)), wish)
    assert examine(database, full=True).ok
    do(database, seed=1, at=0)
    assert not is_contained(as_json(contents(database)), wish), "the comparison sees a change"
    database.close()
    Database.open(folder).close()


DAMAGES = {"a value that CHECK refuses": "status = 'lixe'", "another type": "kind = x'616263'"}


def damage(folder: Path, change: str) -> None:
    """Change row 1 as a flipped bit may: neither CHECK nor STRICT refuses it."""
    connection = apsw.Connection(str(folder / DATABASE))
    schema, version = connection.execute(
        "SELECT sql, schema_version FROM sqlite_schema, pragma_schema_version "
        "WHERE name = 'versions'"
    ).get
    connection.pragma("writable_schema", 1)
    for number, sql in enumerate((schema.removesuffix("STRICT"), schema), version + 1):
        connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'versions'", (sql,))
        connection.pragma("schema_version", number)
        connection.pragma("writable_schema", 1)
        if sql != schema:
            connection.pragma("ignore_check_constraints", 1)
            connection.execute(f"UPDATE versions SET {change} WHERE row = 1")
    connection.close()


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_row_of_format_1_does_not_keep_the_store_from_being_written(
    tmp_path: Path, name: str
) -> None:
    folder, _ = a_copy(tmp_path, "format_1")
    damage(folder, DAMAGES[name])
    Database.open(folder, read_only=True).close()
    database = Database.open(folder)
    with database.reading() as connection:
        still = f"SELECT {DAMAGES[name].replace(' = ', ' IS ')} FROM versions WHERE row = 1"
        assert connection.execute(still).get == 1
    do(database, seed=1, at=0)
    database.close()
    Database.open(folder).close()


def test_a_second_opening_changes_no_byte(tmp_path: Path) -> None:
    folder, _ = a_copy(tmp_path, "format_1")
    Database.open(folder).close()
    before = (folder / DATABASE).read_bytes()
    for read_only in (False, True):
        Database.open(folder, read_only=read_only).close()
        assert (folder / DATABASE).read_bytes() == before


def test_a_golden_store_can_be_made(tmp_path: Path) -> None:
    make(tmp_path / "made")
    wish = json.loads((tmp_path / "made" / "contents.json").read_text())
    assert wish == json.loads((GOLDEN / f"format_{FORMAT}" / "contents.json").read_text())


@pytest.mark.parametrize("read_only", [False, True])
def test_a_later_format_is_refused_by_both_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, read_only: bool
) -> None:
    folder, _ = a_copy(tmp_path, "format_1")
    later = schema.Migration(FORMAT + 1, "ALTER TABLE versions ADD COLUMN colour TEXT", 9, 9)
    with monkeypatch.context() as patched:
        patched.setattr(schema.migrate, "__defaults__", ((*schema.MIGRATIONS, later),))
        patched.setitem(schema.check_format.__kwdefaults__, "known", FORMAT + 1)
        Database.open(folder).close()
    with pytest.raises(StoreFormatError, match=f"knows {FORMAT}, got format {FORMAT + 1}"):
        Database.open(folder, read_only=read_only)
