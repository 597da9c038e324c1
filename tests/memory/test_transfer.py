"""Exports are imported as they were, once; files are whole or not there; bad lines are named."""

from __future__ import annotations

import io
import json
import os
import stat
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from hyrecall.errors import OptionError, StoreFormatError, StoreNotFoundError, WriterBusyError
from hyrecall.memory import EVERYONE, Episode, Fact, MemorySync
from memory.direct_writes import import_lines
from memory.rows_of_tests import (
    ANA,
    BOB,
    NOW,
    an_edge,
    any_episode,
    cell_rows,
    changed_since,
    new,
    vector,
)
from memory.stores import episode, open_store
from seams import (
    Database,
    Imported,
    Selection,
    assert_fact,
    edges_in,
    every_cell,
    export_lines,
    find_cell,
    forget,
    history,
    link,
    newest,
    read_l0,
    read_lines,
    read_policy,
    remember,
    set_policy,
    supersede,
    touch,
    unlink,
    update,
    upkeep,
)

LATER = NOW + timedelta(days=3)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Database]:
    database = Database.open(tmp_path / "other")
    yield database
    database.close()


def fill(database: Database) -> None:
    with database.transaction() as c:
        once = {(e.user_id, e.id): e for e in map(any_episode, range(100))}
        remember(c, cell_rows(list(once.values())), NOW)
        remember(c, [new(key, embedded=True, text=key) for key in "abcd"], NOW)
        remember(c, [new("a", BOB)], NOW)
        update(c, ANA, "a", {"text": "x", "pinned": True}, vector("x"), "m2", "because", LATER)
        supersede(c, ANA, "b", new("e"), "old", LATER)
        ana = find_cell(c, ANA)
        assert ana is not None
        forget(c, Selection([ana], ids=["c"]), "asked", LATER)
        touch(c, [(ANA, "d"), (ANA, "d")], LATER)
        oslo = {"subject": "ana", "predicate": "in", "object": "Oslo"}
        assert_fact(c, Fact(**oslo, user_id="ana", id="f", valid_from=NOW), None, None, NOW)
        rome = {**oslo, "object": "Rome"}
        assert_fact(c, Fact(**rome, user_id="ana", id="g", valid_from=LATER), None, None, NOW)
        link(c, an_edge("e", "a", "d", "c"), NOW)
        set_policy(c, None, None, "ana", "shared", None)


def exported(database: Database, **options: bool) -> list[str]:
    with database.reading() as c:
        return list(export_lines(c, every_cell(c), **options))


def imported(database: Database, lines: list[str]) -> Imported:
    return import_lines(database, read_lines(lines), now=NOW)


def test_a_memory_of_a_blank_text_is_imported_as_remember_keeps_it(
    store: Database, other: Database
) -> None:
    with store.transaction() as c:
        given = [new("a", text=""), new("b", text=" \n"), new("c", text="", input="tea")]
        remember(c, given, NOW)
    lines = exported(store)
    assert imported(other, lines) == Imported(3, 0, ())
    assert exported(other) == lines


def test_the_read_policy_of_an_agent_without_memories_goes_along(tmp_path: Path) -> None:
    place = {"org": "acme", "workspace": "west"}
    with open_store(embedder=None) as memory, open_store(embedder=None) as other:
        for agent in ("ann", "ben"):
            memory.set_policy(agent, policy="shared", **place)
        memory.export(tmp_path / "ann", user_id="ann", **place)
        assert other.import_(tmp_path / "ann").imported == 1
        assert other.get_policy("ann", **place).policy == "shared"
        assert other.get_policy("ben", **place).policy == "isolated"
        memory.export(tmp_path / "all", user_id=EVERYONE)
        assert other.import_(tmp_path / "all").imported == 1
        assert other.get_policy("ben", **place).policy == "shared"


def everything(database: Database) -> list[Any]:
    """All of a store that a number of its own does not stand in."""
    with database.reading() as c:
        cells = every_cell(c)
        heads = [(cells[one.cell], one.id, one.row is None) for one in changed_since(c, 0, 9999)]
        states: list[Any] = [
            (cell, key, history(c, number, key))
            for number, cell in cells.items()
            for home, key, _ in heads
            if home == cell
        ]
        marks = "SELECT id, version, pinned, access_count, last_accessed FROM documents"
        vectors = "SELECT id, version, embedding, embedding_model FROM versions"
        facts = (
            "SELECT id, version, subject, predicate, object, valid_from, valid_to "
            "FROM facts JOIN versions USING (row)"
        )
        return [
            heads,
            sorted(states, key=repr),
            sorted(c.execute(marks), key=repr),
            sorted(c.execute(vectors), key=repr),
            sorted(c.execute(facts), key=repr),
            edges_in(c, cells),
            read_policy(c, None, None, "ana"),
        ]


def test_a_store_with_its_history_is_moved_whole(store: Database, other: Database) -> None:
    fill(store)
    lines = exported(store, history=True)
    moved = imported(other, lines)
    assert moved == Imported(len(lines) - 1, 0, ())
    assert everything(other) == everything(store)
    assert exported(other, history=True) == lines
    assert imported(other, lines) == Imported(0, len(lines) - 1, ())
    assert everything(other) == everything(store)
    assert other.problems(full=True) == []


def test_without_history_what_is_live_is_moved(store: Database, other: Database) -> None:
    fill(store)
    lines = exported(store)
    assert not imported(other, lines).errors
    with store.reading() as a, other.reading() as b:
        ana = [newest(c, list(every_cell(c)), limit=999) for c in (a, b)]
        # Since when they are stored is in the history, of which the last version came.
        ana = [[one.model_copy(update={"stored_at": None}) for one in part] for part in ana]
        assert sorted(map(repr, ana[0])) == sorted(map(repr, ana[1]))
        assert b.execute("SELECT max(version) FROM versions").get == 2
    assert len(lines) < len(exported(store, history=True))


def test_more_cells_are_exported_than_sqlite_takes_parameters(
    store: Database, other: Database
) -> None:
    fill(store)
    with store.reading() as c:
        assert len(every_cell(c)) > 4
        c.limit(apsw.SQLITE_LIMIT_VARIABLE_NUMBER, 4)
        lines = list(export_lines(c, every_cell(c), history=True))
    assert not imported(other, lines).errors
    assert everything(other) == everything(store)


def test_an_edge_that_was_taken_away_stays_away(store: Database) -> None:
    with store.transaction() as c:
        remember(c, [new(key) for key in "abcd"], NOW)
        for key, nodes in (("cut", "ab"), ("with b", "bc"), ("left", "cd")):
            link(c, an_edge(key, *nodes), NOW)
    lines = exported(store)
    with store.transaction() as c:
        ana = find_cell(c, ANA)
        assert ana is not None
        unlink(c, ANA, "cut", "wrong", LATER)
        forget(c, Selection([ana], ids=["b"]), "asked", LATER)
    before = everything(store)
    assert imported(store, lines) == Imported(0, len(lines) - 1, ())
    assert everything(store) == before
    with store.reading() as c:
        assert [one.id for one in edges_in(c, [ana])] == ["left"]
    with store.transaction() as c:
        link(c, an_edge("cut", "c", "d"), LATER)
        unlink(c, ANA, "cut", "wrong again", LATER)
    (fault,) = imported(store, lines).errors
    assert fault.id == "cut"
    assert "an id of the store with the same content" in fault.error
    with store.reading() as c:
        assert [one.id for one in edges_in(c, [ana])] == ["left"]


def changed(text: str) -> str:
    """Change what three of the lines say."""
    line = json.loads(text)
    match line:
        case {"version": {"id": "d", "content": content}}:
            content["text"] = "changed"
        case {"version": {"id": "g", "fact": fact}}:
            fact["object"] = "Wien"
        case {"edge": content}:
            content["relationship"] = "changed"
    return json.dumps(line)


def test_what_is_there_otherwise_is_named_and_stays(store: Database, other: Database) -> None:
    fill(store)
    fill(other)
    with store.transaction() as c:
        set_policy(c, None, None, "ana", "isolated", None)
    before = everything(other)
    report = imported(other, [changed(one) for one in exported(store)])
    assert report.imported == 0
    assert {one.id for one in report.errors} == {"ana", "d", "e", "g"}
    assert everything(other) == before


GOOD = {"id": "a", "recorded_at": "2026-06-01T12:00:00Z", "content": {"text": "x"}}
BAD: list[tuple[Any, str]] = [
    ({"version": {**GOOD, "content": None}}, "content: expected content or a fact"),
    ({"version": {**GOOD, "status": "deleted"}}, "content: expected content or a fact"),
    ({"version": {**GOOD, "id": " "}}, "id: expected 1 to 512"),
    ({"version": {**GOOD, "id": 5}}, "id: expected a str"),
    ({"version": {**GOOD, "version": 0}}, "version.version"),
    ({"version": {**GOOD, "colour": 1}}, "version.colour"),
    ({"version": {**GOOD, "content": {"ouput": "SECRET"}}}, "ouput"),
    ({"version": {**GOOD, "content": {"user_id": "bob"}}}, "content: expected no identity"),
    ({"version": {**GOOD, "content": {"importance": 99}}}, "importance"),
    ({"version": {**GOOD, "embedding": "AAA=", "embedding_model": "m"}}, "blob: expected a mul"),
    ({"version": {**GOOD, "embedding": "?", "embedding_model": "m"}}, "embedding: expected base64"),
    ({"version": {**GOOD, "embedding": "AAAA"}}, "embedding: expected a vector and its model"),
    ({"edge": {"relationship": "r", "participants": [{"id": "a"}]}}, "edge.participants"),
    ({"agent": {"agent": "a", "policy": "SECRET"}}, "policy: expected"),
    ({}, "line: expected a version, an edge, an agent or feedback"),
    ([1], "Input should be a valid dictionary"),
    ({"version": {**GOOD, "version": 99999999999999999999}}, "version.version"),
    ({"version": {**GOOD, "version": 2**63 - 1}}, "version: expected at most"),
    ({"version": {**GOOD, "access_count": 2**63 - 1}}, "access_count: expected at most"),
    ({"edge": {"relationship": "r", "participants": [], "colour": "\udcff"}}, "expected UTF-8"),
]


@pytest.mark.parametrize(("bad", "message"), BAD)
def test_a_line_that_does_not_fit_is_named_and_the_others_are_taken(
    store: Database, bad: object, message: str
) -> None:
    good = {"version": {**GOOD, "id": "good"}}
    lines = [json.dumps(one, ensure_ascii=False) for one in ({"format": 2}, bad, good)]
    report = imported(store, [lines[0], "", " \n", *lines[1:]])
    assert (report.imported, report.skipped) == (1, 0)
    (fault,) = report.errors
    assert message in fault.error
    assert fault.line == 4
    assert "SECRET" not in fault.error or "policy" in fault.error
    with store.reading() as c:
        assert [one.id for one in newest(c, list(every_cell(c)))] == ["good"]


@pytest.mark.parametrize("text", ["", "x", "{}", '{"version": {}}', '{"id": "a"}'])
def test_a_file_of_other_lines_is_refused(store: Database, text: str) -> None:
    if not text:
        assert imported(store, [text]) == Imported(0, 0, ())
        return
    with pytest.raises(OptionError, match="file: expected lines of an export"):
        imported(store, [text])


@pytest.mark.parametrize("number", [1, 3])
def test_a_file_of_another_format_is_refused(store: Database, number: int) -> None:
    with pytest.raises(StoreFormatError, match=f"file: expected format 2, got {number}"):
        imported(store, [json.dumps({"format": number})])


# ---- l0 ----

L0_SCHEMAS = {
    "v0.1": "",
    "v0.5": "scope TEXT NOT NULL DEFAULT 'user', pinned INTEGER NOT NULL DEFAULT 0, "
    "archived INTEGER NOT NULL DEFAULT 0, origin TEXT NOT NULL DEFAULT '', "
    "verified_at INTEGER NOT NULL DEFAULT 0, ",
    "v0.6": "scope TEXT NOT NULL DEFAULT 'user', pinned INTEGER NOT NULL DEFAULT 0, "
    "archived INTEGER NOT NULL DEFAULT 0, origin TEXT NOT NULL DEFAULT '', "
    "verified_at INTEGER NOT NULL DEFAULT 0, embedding BLOB, "
    "embedding_model TEXT NOT NULL DEFAULT '', ",
}


def an_l0_file(path: Path, schema: str) -> Path:
    c = apsw.Connection(str(path))
    c.execute(
        "CREATE TABLE memories (id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, "
        f"value TEXT NOT NULL, tags TEXT NOT NULL DEFAULT '', {L0_SCHEMAS[schema]}"
        "created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL)"
    )
    insert = (
        "INSERT INTO memories (key, value, tags, created_at, updated_at) VALUES (?, ?, ?, ?, ?)"
    )
    rows = [(f"key {at}", f"value {at}", "go, db", 1000 * at, 2000 * at) for at in range(5)]
    c.executemany(insert, rows)
    if schema != "v0.1":
        c.execute("UPDATE memories SET pinned = 1, origin = 'cli' WHERE key = 'key 1'")
        c.execute("UPDATE memories SET archived = 1, tags = 'a b' WHERE key = 'key 2'")
        c.execute("UPDATE memories SET scope = 'project', verified_at = 7 WHERE key = 'key 3'")
        c.execute(
            "CREATE TABLE memory_links (id INTEGER PRIMARY KEY, from_scope TEXT, from_key TEXT, "
            "to_scope TEXT, to_key TEXT, rel TEXT, created_at INTEGER)"
        )
        c.execute(
            "INSERT INTO memory_links VALUES (1, 'user', 'key 0', 'user', 'key 1', 'needs', 0), "
            "(2, 'user', 'key 0', 'project', 'key 3', 'needs', 0)"
        )
    if schema == "v0.6":
        fill = "UPDATE memories SET embedding = ?, embedding_model = 'm' WHERE key = ?"
        c.executemany(fill, [(vector("x").tobytes(), "key 0"), (b"abc", "key 1")])
    c.close()
    return path


@pytest.mark.parametrize("schema", L0_SCHEMAS)
def test_memories_of_l0_come_in_once(store: Database, tmp_path: Path, schema: str) -> None:
    """Spec D24."""
    path = an_l0_file(tmp_path / "l0.db", schema)
    before = path.read_bytes()
    first = import_lines(store, read_l0(path), now=NOW)
    is_old = schema == "v0.1"
    assert first.imported == (5 if is_old else 6)
    assert [one.id for one in first.errors] == ([] if is_old else ["key 0"])
    sequence = store.sequence()
    again = import_lines(store, read_l0(path), now=LATER)
    assert (again.imported, again.skipped) == (0, first.imported)
    assert store.sequence() == sequence
    assert path.read_bytes() == before
    with store.reading() as c:
        found = {one.id: one for one in newest(c, list(every_cell(c)))}
        assert found.keys() == {f"key {at}" for at in range(5) if is_old or at != 2}
        assert found["key 0"].tags == ("go", "db")
        assert found["key 4"].text == "value 4"
        assert found["key 4"].occurred_at.timestamp() == 4
        assert found["key 3"].user_id == ("user" if is_old else "project")
        assert found["key 1"].pinned == (not is_old)
        assert found["key 1"].metadata == ({} if is_old else {"origin": "cli"})
        select = "SELECT id, embedding FROM versions WHERE embedding IS NOT NULL"
        wish = [("key 0", vector("x").tobytes())] if schema == "v0.6" else []
        assert list(c.execute(select)) == wish
        assert [one.relationship for one in edges_in(c, every_cell(c))] == ["needs"] * (not is_old)


L0_BAD = {
    "created_at = NULL": "created_at: expected milliseconds from the year 1 to 9999, got NoneType",
    "created_at = 'noon'": "created_at: expected milliseconds",
    "updated_at = 9223372036854775807": "updated_at: expected milliseconds",
    "verified_at = 253402300800000": "verified_at: expected milliseconds",
    "tags = x'ff'": "tags: expected a text, got bytes",
    "value = NULL": "text",
}


@pytest.mark.parametrize("change", L0_BAD)
def test_a_row_of_l0_that_does_not_fit_is_named_and_the_others_are_taken(
    store: Database, tmp_path: Path, change: str
) -> None:
    path = an_l0_file(tmp_path / "l0.db", "v0.5")
    loosen_l0(path, f"UPDATE memories SET {change} WHERE key = 'key 1'")
    report = import_lines(store, read_l0(path), now=NOW)
    (fault, _) = report.errors  # the other is a link between two scopes
    assert (fault.line, fault.id) == (2, "key 1")
    assert fault.error.startswith(L0_BAD[change])
    assert report.imported == 5


def test_a_row_of_l0_without_tags_has_none(store: Database, tmp_path: Path) -> None:
    path = an_l0_file(tmp_path / "l0.db", "v0.5")
    loosen_l0(path, "UPDATE memories SET tags = NULL")
    assert import_lines(store, read_l0(path), now=NOW).imported == 6
    with store.reading() as c:
        assert {one.tags for one in newest(c, list(every_cell(c)))} == {()}


def test_texts_of_l0_that_are_none_are_refused(store: Database, tmp_path: Path) -> None:
    path = an_l0_file(tmp_path / "l0.db", "v0.5")
    loosen_l0(path, "UPDATE memories SET value = CAST(x'ff' AS TEXT) WHERE key = 'key 1'")
    with pytest.raises(StoreFormatError, match="expected texts in UTF-8"):
        import_lines(store, read_l0(path), now=NOW)


def loosen_l0(path: Path, change: str) -> None:
    """Change a database of l0 as if its columns could hold anything."""
    c = apsw.Connection(str(path))
    columns = [row[1] for row in c.execute("PRAGMA table_info(memories)")]
    c.execute("ALTER TABLE memories RENAME TO old")
    c.execute(f"CREATE TABLE memories ({', '.join(columns)})")
    c.execute("INSERT INTO memories SELECT * FROM old")
    c.execute(change)
    c.close()


def test_another_database_is_no_l0_file(tmp_path: Path) -> None:
    with pytest.raises(StoreNotFoundError):
        list(read_l0(tmp_path / "none.db"))
    path = tmp_path / "other.db"
    c = apsw.Connection(str(path))
    c.execute("CREATE TABLE notes (id)")
    with pytest.raises(StoreFormatError, match=r"expected a database of l0, got another"):
        list(read_l0(path))
    c.execute("CREATE TABLE memories (key, value)")
    c.close()
    with pytest.raises(StoreFormatError, match=r"got no column created_at"):
        list(read_l0(path))


@pytest.fixture
def memory() -> Iterator[MemorySync]:
    with open_store(embedder=None) as opened:
        opened.remember_batch([episode(at) for at in range(3)])
        yield opened


def test_a_file_is_replaced_by_a_whole_one(memory: MemorySync, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "out.jsonl").write_text("old")
    (tmp_path / "out.jsonl").symlink_to(real / "out.jsonl")
    assert memory.export(tmp_path / "out.jsonl", user_id="alice") == 4
    assert (tmp_path / "out.jsonl").is_symlink()
    lines = (real / "out.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == memory.export(user_id="alice")
    assert stat.S_IMODE((real / "out.jsonl").stat().st_mode) == 0o600
    assert [path.name for path in real.iterdir()] == ["out.jsonl"]


def test_an_export_that_fails_leaves_the_old_file(
    memory: MemorySync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.jsonl"
    memory.export(path, user_id="alice")
    before = path.read_bytes()

    def broken(*given: Any, **options: Any) -> Iterator[str]:
        lines = export_lines(*given, **options)
        yield next(lines)
        raise OSError("as asked")

    monkeypatch.setattr(upkeep, "export_lines", broken)
    with pytest.raises(OSError, match="as asked"):
        memory.export(path, user_id="alice")
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["out.jsonl"]


def test_what_is_no_file_is_written_to(memory: MemorySync, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.extend(pipe.read_text().splitlines()))
    reader.start()
    assert memory.export(pipe, user_id="alice") == 4
    reader.join(20)
    assert len(read) == 4
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    out = io.StringIO()
    assert memory.export(out, user_id="alice") == 4
    assert out.getvalue().splitlines() == read


def test_bytes_that_are_no_text_cost_their_line(memory: MemorySync, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    memory.export(path, user_id="alice")
    head, first, *others = path.read_bytes().splitlines()
    bad = first.replace(b"note 0", b"note \xff")
    assert bad != first
    path.write_bytes(b"\n".join([head, b"", bad, *others]))
    with open_store(embedder=None) as other:
        done = other.import_(path)
        assert (done.imported, done.skipped) == (2, 0)
        assert [(one.line, one.error) for one in done.errors] == [
            (3, "line: expected UTF-8, got other bytes"),
        ]  # fmt: skip


def test_a_count_that_came_in_can_be_counted_on(memory: MemorySync) -> None:
    lines = memory.export(user_id="alice")
    assert isinstance(lines, list)
    lines[1]["version"]["access_count"] = 2**52
    lines[2]["version"]["access_count"] = 2**53
    lines[3]["version"]["version"] = 2**53
    text = "\n".join(json.dumps(line) for line in lines)
    with open_store(embedder=None) as other:
        done = other.import_(io.StringIO(text))
        assert [(one.line, one.error.split(":")[0]) for one in done.errors] == [
            (3, "access_count"), (4, "version"),
        ]  # fmt: skip
        assert len(other.search("note", user_id="alice", touch=True)) == 1
        (_, line) = other.export(user_id="alice")
        assert line["version"]["access_count"] == 2**52 + 1
        # What a version before this limit took in does not stop an export.
        with other._store.database.transaction() as connection:
            connection.execute("UPDATE documents SET access_count = 1 << 53")
            connection.execute("UPDATE documents SET access_count = access_count + 1")
        assert len(other.export(user_id="alice")) == 2


def test_an_export_never_replaces_a_file_of_the_store(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    with MemorySync.open(folder, embedder=None) as memory:
        memory.remember("note", user_id="alice", id="e")
        memory.snapshot()
        (tmp_path / "hard.db").hardlink_to(folder / "memory.db")
        (tmp_path / "soft").symlink_to(folder)
        targets = [one for one in folder.rglob("*") if one.is_file()]
        targets += [folder / "new.jsonl", tmp_path / "hard.db", tmp_path / "soft" / "LOCK"]
        before = {path.name: path.stat().st_ino for path in folder.iterdir()}
        for target in targets:
            with pytest.raises(OptionError, match="file: expected a file outside"):
                memory.export(target, user_id="alice")
        assert {path.name: path.stat().st_ino for path in folder.iterdir()} == before
        with pytest.raises(WriterBusyError):
            MemorySync.open(folder, embedder=None, shared=False)
        (tmp_path / "out.tmp").write_text("a neighbour's")
        assert memory.export(tmp_path / "out", user_id="alice") == 2
        assert (tmp_path / "out.tmp").read_text() == "a neighbour's"


def nested(n_levels: int) -> dict[str, Any]:
    """Metadata of so many levels."""
    inner: Any = 1
    for _ in range(n_levels - 1):
        inner = [inner]
    return {"a": inner}


def test_metadata_of_more_than_64_levels_is_refused_where_it_is_kept(memory: MemorySync) -> None:
    told = "metadata: expected at most 64 levels, got 65"
    for kept, deep in ((nested(64), nested(65)), ({"a": nested(63)}, {"a": nested(64)})):
        Episode(metadata=kept)
        with pytest.raises(ValueError, match=told):
            Episode(metadata=deep)
        with pytest.raises(ValueError, match=told):
            memory.update("e0", user_id="alice", metadata=deep)
        with pytest.raises(ValueError, match=told):
            memory.link(["e0", "e1"], "near", user_id="alice", metadata=deep)
        with pytest.raises(ValueError, match=told):
            Fact(subject="a", predicate="b", object="c", metadata=deep)
    memory.update("e0", user_id="alice", metadata=nested(64))
    found = memory.get("e0", user_id="alice")
    assert found is not None
    assert found.metadata == nested(64)


@pytest.mark.parametrize("n_levels", [65, 250])
def test_an_import_names_the_line_whose_metadata_has_more_levels(
    memory: MemorySync, tmp_path: Path, n_levels: int
) -> None:
    lines = memory.export(user_id="alice")
    lines[1]["version"]["content"]["metadata"] = nested(n_levels)
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, lines)))
    with open_store(embedder=None) as other:
        done = other.import_(tmp_path / "in.jsonl")
        assert done.imported == len(lines) - 2
        (fault,) = done.errors
        assert (fault.line, "at most 64 levels" in fault.error) == (2, True)


@pytest.mark.parametrize(
    "fields",
    [{"text": 5}, {"text": "\ud800"}, {"id": None}, {"metadata": None}, {"tags": 5},
     {"occurred_at": "noon"}, {"user_id": 7}, {"metadata": nested(65)}, {"kind": ""}],
)  # fmt: skip
def test_an_episode_that_nothing_checked_is_checked(
    memory: MemorySync, fields: dict[str, Any]
) -> None:
    whole = episode(7)
    for given in (whole.model_copy(update=fields), Episode.model_construct(**fields)):
        with pytest.raises((TypeError, ValueError)):
            memory.remember(given)
        with pytest.raises((TypeError, ValueError)):
            memory.remember_batch([whole, given])
    assert len(memory.list(user_id="alice")) == 3
    fact = Fact.model_construct(subject="a", user_id="alice")
    with pytest.raises((TypeError, ValueError)):
        memory.remember_fact(fact)


def test_compacting_gives_back_what_was_erased_beside_readers(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with MemorySync.open(path, embedder=None) as memory:
        for number in range(25):
            memory.remember("x" * 50_000, id=f"e{number}", user_id="ann")
        memory.remember("oak", id="kept", user_id="ann")
        before = memory.list(user_id="ann", limit=1)
        for number in range(25):
            memory.forget(f"e{number}", user_id="ann", erase=True)
        with MemorySync.open(path, embedder=None, read_only=True) as reader:
            done = memory.compact()
            assert done.wal_truncated
            assert done.bytes_before > 1_200_000 > 8 * done.bytes_after  # empty: 130 KB
            assert (path / "memory.db").stat().st_size == done.bytes_after
            assert reader.list(user_id="ann") == before
            with pytest.raises(OptionError, match="opened for writing"):
                reader.compact()
            # One that reads meanwhile goes on with what it saw; the file shrinks when it has left.
            with reader._store.database.reading() as seen:
                ids = "SELECT count(*) FROM documents"
                assert seen.execute(ids).get == 1
                memory.remember("elm", user_id="ann")
                assert memory._store.database.vacuum() is None
                assert seen.execute(ids).get == 1
        assert memory.search("elm", user_id="ann")[0].episode.text == "elm"
        assert memory.doctor(full=True).ok
