"""The tables of a store: a step to the next format, files of others, numbers that never repeat."""

from collections.abc import Iterator
from datetime import UTC, datetime

import apsw
import pytest

from hyrecall.errors import StoreFormatError
from seams import MIGRATIONS, Migration, check_format, meta, migrate, schema, take_sequence
from seams import memory_FORMAT as FORMAT

NOW = datetime(2026, 6, 1, tzinfo=UTC)
NEXT = Migration(FORMAT + 1, "ALTER TABLE versions ADD COLUMN colour TEXT", FORMAT, FORMAT)


@pytest.fixture
def empty() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    connection.pragma("foreign_keys", 1)
    yield connection
    connection.close()


@pytest.fixture
def store(empty: apsw.Connection) -> apsw.Connection:
    migrate(empty, now=NOW, made_by="a test")
    return empty


def add_cell(store: apsw.Connection, *identity: str | None) -> int:
    insert = "INSERT INTO cells (org, workspace, user, visibility) VALUES (?, ?, ?, ?)"
    store.execute(insert, identity)
    return store.last_insert_rowid()


def add_document(store: apsw.Connection, cell: int, key: str, *, version: int = 1) -> int:
    """A document with one version; gives the version's row."""
    with store:
        insert = "INSERT INTO documents (cell, id, version, changed) VALUES (?, ?, ?, ?)"
        store.execute(insert, (cell, key, version, take_sequence(store)))
        store.execute(
            "INSERT INTO versions (cell, id, version, status, recorded_at, kind, occurred_at) "
            "VALUES (?, ?, ?, 'live', 0, 'episodic', 0)",
            (cell, key, version),
        )
        return store.last_insert_rowid()


def test_an_empty_database_becomes_a_store_once(empty: apsw.Connection) -> None:
    check_format(empty, "path", writing=True)
    assert migrate(empty, now=NOW, made_by="a test")
    before = list(empty.execute("SELECT * FROM meta"))
    assert not migrate(empty, now=NOW, made_by="another")
    assert list(empty.execute("SELECT * FROM meta")) == before
    assert empty.pragma("user_version") == FORMAT
    assert {name for name, _ in before} == {
        *("store_id", "made_at", "made_by", "sequence", "erasures", "min_reader", "min_writer"),
    }
    check_format(empty, "path", writing=True)
    check_format(empty, "path", writing=False)


def program(monkeypatch: pytest.MonkeyPatch, *steps: Migration) -> None:
    """Be a program that knows these steps too."""
    monkeypatch.setattr(schema, "MIGRATIONS", (*MIGRATIONS, *steps))


def test_a_step_adds_what_is_new_once(
    store: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_id = meta(store, "store_id")
    add_document(store, add_cell(store, None, None, "ana", "private"), "a")
    program(monkeypatch, NEXT)
    with pytest.raises(StoreFormatError, match=f"got format {FORMAT}; read_only=False"):
        check_format(store, "path", writing=False)
    check_format(store, "path", writing=True)
    assert migrate(store, now=NOW, made_by="the next version")
    assert store.execute("SELECT id, colour FROM versions").get == ("a", None)
    assert meta(store, "store_id") == store_id
    assert meta(store, "sequence") == 1
    assert not migrate(store, now=NOW, made_by="the next version")
    check_format(store, "path", writing=False)


def test_a_step_that_fails_leaves_the_store_as_it_was(
    store: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = list(store.execute("SELECT * FROM sqlite_schema, meta"))
    bad = f"{NEXT.statements}; ALTER TABLE nothing ADD COLUMN x TEXT"
    program(monkeypatch, Migration(FORMAT + 1, bad, FORMAT, FORMAT))
    with pytest.raises(apsw.SQLError):
        migrate(store, now=NOW, made_by="the next version")
    assert store.pragma("user_version") == FORMAT
    assert list(store.execute("SELECT * FROM sqlite_schema, meta")) == before


@pytest.mark.parametrize(
    "change", ["status = 'lixe'", "kind = x'616263'"], ids=["a CHECK", "another type"]
)
def test_a_damaged_row_does_not_stop_a_step(
    store: apsw.Connection, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """A flipped bit is refused by neither CHECK nor STRICT."""
    add_document(store, add_cell(store, None, None, "ana", "private"), "a")
    (made,) = store.execute("SELECT sql FROM sqlite_schema WHERE name = 'versions'").fetchone()
    store.pragma("writable_schema", 1)
    number = store.pragma("schema_version")
    for at, sql in enumerate((made.removesuffix("STRICT"), made), number + 1):
        store.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'versions'", (sql,))
        store.pragma("schema_version", at)
        if sql != made:
            store.pragma("ignore_check_constraints", 1)
            store.execute(f"UPDATE versions SET {change}")
            store.pragma("ignore_check_constraints", 0)
    store.pragma("writable_schema", 0)
    assert store.pragma("quick_check") != "ok"
    step = "ALTER TABLE versions ADD COLUMN colour TEXT NOT NULL DEFAULT 'none'"
    program(monkeypatch, Migration(FORMAT + 1, step, FORMAT, FORMAT))
    assert migrate(store, now=NOW, made_by="the next version")
    assert store.execute(f"SELECT {change.replace(' = ', ' IS ')}, colour FROM versions").get == (
        1, "none",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("min_reader", "min_writer", "reads", "writes"),
    [
        (FORMAT, FORMAT, True, True),
        (FORMAT, FORMAT + 1, True, False),
        (FORMAT + 1, FORMAT + 1, False, False),
    ],
)
def test_a_newer_store_says_who_may_use_it(
    store: apsw.Connection,
    monkeypatch: pytest.MonkeyPatch,
    min_reader: int,
    min_writer: int,
    *,
    reads: bool,
    writes: bool,
) -> None:
    program(monkeypatch, Migration(FORMAT + 1, NEXT.statements, min_reader, min_writer))
    migrate(store, now=NOW, made_by="the next version")
    program(monkeypatch)
    for writing, may in ((False, reads), (True, writes)):
        if may:
            check_format(store, "path", writing=writing)
            continue
        told = rf"knows {FORMAT}, got format {FORMAT + 1}, which needs {FORMAT + 1} \(pip install"
        with pytest.raises(StoreFormatError, match=told) as caught:
            check_format(store, "path", writing=writing)
        assert caught.value.argument == "path"


@pytest.mark.parametrize("writing", [True, False])
def test_a_format_that_no_release_wrote_is_refused(
    store: apsw.Connection, *, writing: bool
) -> None:
    store.pragma("user_version", FORMAT - 1)
    told = f"path: expected a store of format {FORMAT}, got format {FORMAT - 1}"
    with pytest.raises(StoreFormatError, match=told):
        check_format(store, "path", writing=writing)


@pytest.mark.parametrize("writing", [True, False])
def test_another_programs_database_is_refused(empty: apsw.Connection, *, writing: bool) -> None:
    empty.execute("CREATE TABLE memories (id TEXT)")
    with pytest.raises(StoreFormatError, match="expected a store of hyrecall"):
        check_format(empty, "path", writing=writing)
    assert list(empty.execute("SELECT name FROM sqlite_schema")) == [("memories",)]


def test_an_empty_database_is_no_store_to_a_reader(empty: apsw.Connection) -> None:
    with pytest.raises(StoreFormatError, match="expected a store"):
        check_format(empty, "path", writing=False)


def test_versions_need_their_document_and_go_with_it(store: apsw.Connection) -> None:
    cell = add_cell(store, None, None, "ana", "private")
    row = add_document(store, cell, "a")
    store.execute(
        "INSERT INTO facts VALUES (?, ?, 'ana', 'lives in', 'Oslo', 5, NULL, NULL, 1)", (row, cell)
    )
    with pytest.raises(apsw.ConstraintError):
        store.execute("UPDATE facts SET valid_to = 4")
    with pytest.raises(apsw.ConstraintError), store:
        store.execute("UPDATE versions SET id = 'nobody'")
    store.execute("DELETE FROM documents")
    assert store.execute("SELECT count(*) FROM versions").get == 0
    assert store.execute("SELECT count(*) FROM facts").get == 0
    # A row number is never used again: an index may still name it.
    assert add_document(store, cell, "a") > row


def test_a_vector_never_stands_without_its_model(store: apsw.Connection) -> None:
    add_document(store, add_cell(store, None, None, "ana", "private"), "a")
    store.execute("UPDATE versions SET embedding = x'0000803f', embedding_model = 'm'")
    for change in ("embedding = NULL", "embedding_model = NULL"):
        with pytest.raises(apsw.ConstraintError):
            store.execute(f"UPDATE versions SET {change}")


@pytest.mark.parametrize(
    "change", ["embedding = x'00000040'", "embedding_model = 'n'", "embedding = embedding"]
)
def test_a_vector_changed_by_sql_from_outside_has_no_checksum(
    store: apsw.Connection, change: str
) -> None:
    add_document(store, add_cell(store, None, None, "ana", "private"), "a")
    store.execute(
        "UPDATE versions SET embedding = x'0000803f', embedding_model = 'm', embedding_checksum = 5"
    )
    store.execute(f"UPDATE versions SET {change}")
    kept = 5 if change == "embedding = embedding" else None
    assert store.execute("SELECT embedding_checksum FROM versions").get == kept
