"""Each fault of a store is found by the check of its name, and by that alone."""

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from hyrecall.memory import Fact
from memory.direct_writes import import_lines
from memory.rows_of_tests import ANA, NOW, an_edge, new
from seams import (
    Database,
    DoctorCheck,
    Report,
    Selection,
    assert_fact,
    erase,
    examine,
    file_system_of,
    find_cell,
    forget,
    link,
    read_lines,
    remember,
    update,
)
from seams import memory_DATABASE as DATABASE


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Database]:
    database = Database.open(tmp_path / "store")
    with database.transaction() as c:
        remember(c, [new(key, embedded=True, text=key) for key in "abc"], NOW)
        update(c, ANA, "a", {"text": "SECRET"}, None, None, None, NOW)
        cell = find_cell(c, ANA)
        assert cell is not None
        forget(c, Selection([cell], ids=["b"]), None, NOW)
        for place in ("Oslo", "Rome"):
            said = {"subject": "ana", "predicate": "in", "object": place}
            assert_fact(c, Fact(**ANA.identity(), **said, valid_from=NOW), None, None, NOW)
        link(c, an_edge("e", "a", "c"), NOW)
    yield database
    database.close()


def bad(report: Report) -> list[str]:
    return [one.name for one in report.checks if not one.ok]


@pytest.mark.parametrize("full", [False, True])
def test_a_sound_store_is_sound(store: Database, *, full: bool) -> None:
    report = examine(store, full=full, more=[DoctorCheck("index", True)])
    assert report.ok, bad(report)
    assert [one.name for one in report.checks][-1] == "index"
    assert report.counts == {
        "memories": 4, "versions": 8, "facts": 2, "edges": 1, "cells": 1, "without_vector": 3,
        "models": 1, "feedback": 0, "erasures": 0,
    }  # fmt: skip
    reader = Database.open(store.folder, read_only=True)
    assert examine(reader, full=full).ok
    reader.close()
    assert not examine(store, more=[DoctorCheck("index", False)]).ok


PLANTED: dict[str, tuple[str, bool]] = {
    "rows of versions": ("UPDATE versions SET output = 'other' WHERE id = 'c'", True),
    "rows without a checksum": ("UPDATE versions SET checksum = NULL WHERE id = 'c'", True),
    "rows of facts": ("UPDATE facts SET object = 'Wien' WHERE object = 'Rome'", True),
    "rows of edges": ("UPDATE edges SET description = 'other'", True),
    "rows of participants": ("UPDATE participants SET role = 'other' WHERE ordinal = 1", True),
    "rows of cells": ("UPDATE cells SET workspace = 'other'", False),
    "versions": ("UPDATE documents SET version = 1 WHERE id = 'a'", False),
    "sequence": ("UPDATE documents SET changed = 9999 WHERE id = 'a'", False),
    "fields": (
        "UPDATE versions SET tags = '[' WHERE id = 'a' AND version = 1",
        False,
    ),
    "vectors": ("UPDATE versions SET embedding = x'000000' WHERE id = 'c'", False),
    "vectors of numbers that are none": (
        "UPDATE versions SET embedding = x'0000c07f' WHERE id = 'c'",
        True,
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(store: Database, name: str) -> None:
    sql, only_full = PLANTED[name]
    with store.transaction() as c:
        c.execute(sql)
    found = bad(examine(store, full=True))
    if name == "fields":  # the row is named too
        found.remove("rows")
    assert found == [name.split(maxsplit=1)[0]]
    assert bad(examine(store)) == ([] if only_full else [name.split(maxsplit=1)[0]])
    assert "SECRET" not in str(examine(store, full=True))


@pytest.mark.parametrize(
    ("predicate", "begin", "end", "n_pairs"),
    [
        ("in", 0, None, 1),
        ("In", 0, None, 1),
        ("IN_", -2, None, 1),
        ("in", -2, 0, 0),
        ("in", 0, 0, 0),
        ("near", 0, None, 0),
    ],
)
def test_two_facts_of_one_time_are_found(
    store: Database, predicate: str, begin: int, end: int | None, n_pairs: int
) -> None:
    """An import can bring them: it believes its file."""
    said = {"subject": "ana", "predicate": predicate, "object": "Wien"}
    times = {"valid_from": begin} | ({} if end is None else {"valid_to": end})
    said |= {name: (NOW + timedelta(days=at)).isoformat() for name, at in times.items()}
    line = {"id": "w", "user_id": "ana", "recorded_at": NOW.isoformat(), "fact": said}
    lines = [json.dumps({"format": 2}), json.dumps({"version": line})]
    assert import_lines(store, read_lines(lines), now=NOW).imported == 1
    (told,) = (one for one in examine(store).checks if one.name == "facts")
    assert (told.ok, told.detail[:1]) == (not n_pairs, str(n_pairs or ""))


def test_a_row_without_its_index_entry_is_found_by_a_full_look(store: Database) -> None:
    store.close()
    content = (store.folder / DATABASE).read_bytes()
    c = apsw.Connection(str(store.folder / DATABASE))
    (root,) = (
        c.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_versions_1'"
        ).get,
    )
    size = c.pragma("page_size")
    c.close()
    page = bytearray(content[(root - 1) * size : root * size])
    at = page.rindex(b"a")
    page[at] = ord("z")
    changed = content[: (root - 1) * size] + bytes(page) + content[root * size :]
    (store.folder / DATABASE).write_bytes(changed)
    again = Database.open(store.folder)
    assert bad(examine(again, full=True)) == ["database"]
    again.close()


def test_files_that_others_may_read_are_found(store: Database) -> None:
    store.folder.chmod(0o755)
    report = examine(store)
    assert bad(report) == ["modes"]
    store.folder.chmod(0o700)
    (store.folder / DATABASE).chmod(0o640)
    assert bad(examine(store)) == ["modes"]


def test_what_was_erased_and_is_still_in_the_log_is_told(store: Database) -> None:
    reader = Database.open(store.folder, read_only=True)
    cell = 1
    with store.reading() as c:
        found = find_cell(c, ANA)
        assert found is not None
        cell = found
    with reader.reading() as c:
        assert c.execute("SELECT count(*) FROM versions").get
        assert not erase(store, Selection([cell], ids=["a"]), wait=0.0).wal_truncated
        assert bad(examine(store)) == ["log"]
        assert examine(reader).checks[1].detail
    assert examine(store).ok
    reader.close()


def test_a_reader_that_leaves_in_a_moment_is_no_fault(store: Database) -> None:
    with store.reading() as c:
        found = find_cell(c, ANA)
    assert found is not None
    is_reading, leave = threading.Event(), threading.Event()

    def read() -> None:
        with store.reading() as c:
            assert c.execute("SELECT count(*) FROM versions").get
            is_reading.set()
            assert leave.wait(30)

    thread = threading.Thread(target=read)
    thread.start()
    assert is_reading.wait(30)
    assert not erase(store, Selection([found], ids=["a"]), wait=0.0).wal_truncated
    later = threading.Timer(0.1, leave.set)
    later.start()
    assert examine(store).ok
    thread.join()


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:20 / /data rw - nfs4 server:/data rw
24 23 0:21 / /data/my\\040disk rw - xfs /dev/sdb rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [("/a", "ext4"), ("/data/a", "nfs4"), ("/datab", "ext4"), ("/data/my disk/a", "xfs")],
)
def test_the_file_system_of_a_folder_is_that_of_the_nearest_mount(folder: str, kind: str) -> None:
    assert file_system_of(Path(folder), lambda: MOUNTS) == kind


def test_a_file_system_between_machines_is_told(
    store: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shared(folder: Path) -> str:
        return "nfs4"

    monkeypatch.setattr("hyrecall.memory.sql.doctor.file_system_of", shared)
    assert bad(examine(store)) == ["file system"]

    def unknown() -> str:
        raise FileNotFoundError

    assert file_system_of(Path("/a"), unknown) == ""
