"""Files of an export: whole or not there, and a bad line costs nobody else's."""

from __future__ import annotations

import io
import json
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hyrecall.errors import OptionError, WriterBusyError
from hyrecall.memory import Episode, Fact, MemorySync
from memory.stores import episode, open_store
from seams import export_lines, upkeep


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
            memory.link(["e0", "e1"], "near", user_id="alice", data=deep)
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
    [{"output": 5}, {"output": "\ud800"}, {"id": None}, {"metadata": None}, {"tags": 5},
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
        for number in range(20):
            memory.remember("x" * 50_000, id=f"e{number}", user_id="ann")
        memory.remember("oak", id="kept", user_id="ann")
        before = memory.list(user_id="ann", limit=1)
        for number in range(20):
            memory.forget(f"e{number}", user_id="ann", erase=True)
        with MemorySync.open(path, embedder=None, read_only=True) as reader:
            done = memory.compact()
            assert done.wal_truncated
            assert done.bytes_before > 1_000_000 > 8 * done.bytes_after  # empty: 100 KB
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
        assert memory.search("elm", user_id="ann")[0].episode.output == "elm"
        assert memory.doctor(full=True).ok
