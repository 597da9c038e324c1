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

from hyrecall.memory import MemorySync, upkeep
from hyrecall.memory.transfer import export_lines
from memory.stores import episode, open_store


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
    lines[1]["version"]["access_count"] = 2**53
    lines[2]["version"]["access_count"] = 2**53 + 1
    text = "\n".join(json.dumps(line) for line in lines)
    with open_store(embedder=None) as other:
        done = other.import_(io.StringIO(text))
        assert [one.line for one in done.errors] == [3]
        assert len(other.search("note", user_id="alice", touch=True)) == 2
