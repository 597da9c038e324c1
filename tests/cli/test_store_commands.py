"""Commands that keep a store: export, import, compact, doctor."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from hyrecall.memory import EVERYONE, MemorySync

Run = Callable[..., SimpleNamespace]


def opened(path: Path) -> MemorySync:
    return MemorySync.open(path, embedder=None)


def test_an_export_comes_back_by_import(run: Run, filled: Path, tmp_path: Path) -> None:
    lines, other = tmp_path / "all.jsonl", tmp_path / "other.mem"
    told = run("export", "--everyone", "-o", lines, "--json")
    assert (told.code, told.data) == (0, {"lines": 5})  # the format, and four memories
    assert run("export", "--everyone", "--json").code == 1  # the lines are on stdout already
    assert lines.stat().st_mode & 0o077 == 0
    first = run("import", lines, "--path", other, "--json").data
    assert (first["imported"], first["skipped"], first["errors"]) == (4, 0, [])
    assert run("import", lines, "--path", other).out == "0 imported, 4 skipped, 0 errors\n"
    with opened(filled) as one, opened(other) as two:
        assert one.list(user_id=EVERYONE) == two.list(user_id=EVERYONE)


def test_doctor_looks_over_and_repairs(run: Run, filled: Path) -> None:
    reply = run("doctor", "--full", "--json")
    assert reply.code == 0, reply.out
    assert reply.data["ok"] is True
    assert reply.data["counts"]["memories"] == 4
    assert {"name": "database", "ok": True, "detail": ""} in reply.data["checks"]
    assert not any(word in reply.out for word in ("postgres", "ann", "m0"))
    (filled / "memory.db").chmod(0o644)
    bad = run("doctor")
    assert bad.code == 1
    assert "NO" in bad.out
    (filled / "memory.db").chmod(0o600)
    for path in (filled / "index").rglob("*"):
        if path.is_file():
            path.write_bytes(b"")
    assert run("doctor", "--repair").code == 0
    with opened(filled) as memory:
        assert memory._store.opened.how == "snapshot"


def test_doctor_names_processes_by_numbers_that_kill_takes(run: Run, filled: Path) -> None:
    with opened(filled):
        assert f"owner          yes  pid {os.getpid()}, since" in run("doctor").out


def test_a_lost_database_is_rescued_from_the_index_and_accepted(
    run: Run, filled: Path, tmp_path: Path
) -> None:
    (filled / "memory.db").unlink()
    for command in (["doctor"], ["recall", "x"], ["remember", "x", "--user", "ann"]):
        refused = run(*command)
        assert refused.code == 3
        assert "hyrecall doctor --rescue FILE" in refused.err
        assert "--accept-loss" in refused.err
    assert run("doctor", "--rescue", tmp_path / "lines", "--repair").code == 1
    assert run("doctor", "--rescue", tmp_path / "lines").out == "4 rescued\n"
    assert run("doctor", "--accept-loss", "--json").data["counts"]["memories"] == 0
    assert run("import", tmp_path / "lines", "--json").data["imported"] == 4
    assert run("doctor", "--json").data["counts"]["memories"] == 4


@pytest.mark.parametrize("named", ["--path", "HYRECALL_PATH"])
def test_a_store_in_memory_is_refused(
    run: Run, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ["--path", ":memory:"] if named == "--path" else []
    if not path:
        monkeypatch.setenv("HYRECALL_PATH", ":memory:")
    done = run("remember", "oak", "--user", "ann", *path)
    assert done.code == 1
    assert "--path: expected a folder, got ':memory:'" in done.err
