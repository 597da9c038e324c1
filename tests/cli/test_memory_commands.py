"""The commands on a store say and do what its Python methods do."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from hyrecall.memory import EVERYONE, MemorySync
from seams import Guard

Run = Callable[..., SimpleNamespace]


def opened(path: Path, **options: object) -> MemorySync:
    return MemorySync.open(path, embedder=None, **options)  # type: ignore[arg-type]


# ---- remember ----


def test_a_blank_text_is_refused_before_a_store_is_made(run: Run, store: Path) -> None:
    for command in (
        ("remember", "  "),
        ("remember", "", "--input", "When is tea?"),
        ("ltm", "save", "key", "  "),
        ("ltm", "supersede", "key", "new", "\t"),
    ):
        blank = {"remember": 1, "save": 3, "supersede": 4}
        at = next(at for name, at in blank.items() if name in command)
        reply = run(*command)
        told = f"text: expected a non-empty string, got {command[at]!r}\n"
        assert (reply.code, reply.err) == (1, f"error: {told}"), command
        assert not store.exists()


def test_remember_takes_a_text_from_stdin_and_prints_its_id(store: Path, run: Run) -> None:
    from typer.testing import CliRunner

    from seams import app_app as app

    asked = ["remember", "-", "--user", "ann", "--kind", "topic"]
    result = CliRunner().invoke(app, asked, input="two\nlines\n")
    assert result.exit_code == 0, result.stderr
    with opened(store) as memory:
        kept = memory.get(result.stdout.strip(), user_id="ann")
    assert kept is not None
    assert (kept.text, kept.kind) == ("two\nlines", "topic")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metadata", "[]"], "--metadata: expected a JSON object"),
        (
            ["--occurred-at", "0001-01-01T00:00:00+14:00"],
            "--occurred-at: expected one that UTC has too",
        ),
        (["--tag", "\udcff"], "--tag: expected valid Unicode"),
        (["--user", "__hyrecall_anonymous__"], "--user: expected an id that is not reserved"),
        (["--id", " "], "--id: expected 1 to 512 bytes"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(
    run: Run, store: Path, arguments: list[str], message: str
) -> None:
    reply = run("remember", "x", *arguments)
    assert reply.code == 1
    assert message in reply.err
    assert not reply.out


# ---- recall ----


def test_recall_gives_the_matches_of_the_api(run: Run, filled: Path) -> None:
    reply = run("recall", filled, "postgres replication", "--user", "ann", "--json")
    assert reply.code == 0, reply.err
    with opened(filled) as memory:
        matches = memory.search("postgres replication", user_id="ann")
    assert reply.data["items"] == [match.model_dump(mode="json") for match in matches]
    assert reply.data["text"] == "postgres replication"
    assert reply.data["scope"] == {"org": None, "workspace": None, "user": "ann", "policy": None}
    assert reply.data["degraded"] is True
    by_words = run("recall", filled, "postgres", "--user", "ann", "--json", "--alpha", "0")
    assert by_words.data["degraded"] is False  # then no vector is missed


def test_recall_finds_its_store_by_path_environment_and_setting(
    run: Run, filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("lunch", "--user", "ann", "--limit", 1, "--json")
    by_place = run("recall", filled, *asked).data
    by_environment = run("recall", *asked).data
    by_option = run("recall", *asked, "--path", filled).data
    monkeypatch.delenv("HYRECALL_PATH")
    assert run("config", "set", "path", filled).code == 0
    by_setting = run("recall", *asked).data
    assert by_place == by_environment == by_option == by_setting
    assert by_place["items"][0]["episode"]["id"] == "m1"
    assert run("recall", filled, "lunch", "--path", filled).code == 2


def test_a_filter_on_the_session_narrows(run: Run, filled: Path) -> None:
    asked = ("recall", "replication", "--user", "ann", "--json", "--filter")
    for session, found in (("s2", ["m2"]), ("s1", [])):
        reply = run(*asked, json.dumps({"session_id": session}))
        assert [match["episode"]["id"] for match in reply.data["items"]] == found


def test_options_of_an_index_are_refused_by_a_store_and_the_other_way_round(
    run: Run, filled: Path, folder: Path
) -> None:
    of_an_index = (
        ("--scope", "ann"), ("--bm25", "okapi"), ("--depth", "7"), ("--fusion", "max"),
        ("--columns", "x"), ("--min-fused", "1"), ("--by-thread",),
    )  # fmt: skip
    of_a_store = (
        ("--user", "ann"), ("--kind", "x"), ("--alpha", "0"), ("--touch",), ("--tag", "x"),
        ("--weights", "recency=1"), ("--token-budget", "5"), ("--session-id", "c"),
        ("--agent", "a"),
    )  # fmt: skip
    for asked, options, told in (
        ((filled, "lunch"), of_an_index, "a store"),
        ((folder, "amber", "--scope", "acme"), of_a_store, "an index"),
    ):
        for option in options:
            reply = run("recall", *asked, *option)
            assert (reply.code, reply.out) == (1, ""), option
            assert f"{option[0]}: expected no such option for {told}" in reply.err


@pytest.mark.parametrize(
    "option", [["--since", "0001-01-01T00:00:00+14:00"], ["--until", "9999-12-31T23:59:59-14:00"],
               ["--alpha", "7"], ["--limit", "-1"], ["--kind", "\udcff"], ["--recipe", "what"],
               ["--weights", "importance"], ["--agent", "ada"]]
)  # fmt: skip
def test_a_question_that_is_none_is_refused(run: Run, filled: Path, option: list[str]) -> None:
    reply = run("recall", "lunch", "--user", "ann", *option)
    assert (reply.code, reply.out) == (1, "")
    assert reply.err.startswith("error: ")
    assert "internal" not in reply.err


# ---- forget ----


def test_what_cannot_be_undone_or_names_no_id_asks_for_yes(run: Run, filled: Path) -> None:
    for given in (("--everything",), ("--before", "2100-01-01"), ("m0", "--erase")):
        reply = run("forget", "--user", "ann", *given)
        assert reply.code == 1
        assert reply.err.startswith("error: --yes: expected --yes")
    with opened(filled) as memory:
        assert len(memory.list(user_id="ann")) == 3


# ---- exit codes ----


def test_exit_codes_of_a_store(
    run: Run, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyrecall.cli.memory_options.SECONDS_FOR_A_WRITER", 0.0)
    assert run("recall", "x").code == 1  # no store there
    with opened(store, shared=False):
        busy = run("remember", "x", "--user", "ann")
        assert busy.code == 1
        assert f"pid {os.getpid()}" in busy.err
    bad = tmp_path / "bad.mem"
    bad.mkdir()
    (bad / "memory.db").write_bytes(b"no database" * 1000)
    assert run("recall", "x", "--path", bad).code == 3
    assert run("doctor", "--path", bad).code == 3
    assert run("remember").code == 2


def test_without_the_extra_the_commands_name_it(
    process: Callable[..., SimpleNamespace], store: Path
) -> None:
    code = (
        "import sys; sys.modules['apsw'] = None; sys.argv = ['hyrecall', 'remember', 'x'];"
        "from hyrecall.cli.app import app; app()"
    )
    done = process(code=code)
    assert done.returncode == 2
    assert "hyrecall[memory]" in done.stderr


def test_only_commands_that_need_vectors_load_the_model(
    run: Run, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warmed: list[str] = []
    monkeypatch.setattr(Guard, "start_warming", lambda self: warmed.append("once"))
    for command in (("doctor", "--full"), ("export",), ("forget", "m0", "--yes")):
        assert run(*command).code == 0
    assert warmed == []
    assert run("remember", "tea").code == 0
    assert warmed == ["once"]


# ---- a path without a store ----


def test_a_path_without_a_store_is_refused_and_none_is_made(run: Run, store: Path) -> None:
    for command in (
        ("forget", "x"), ("reembed",), ("compact",), ("doctor",), ("doctor", "--repair"),
        ("export",), ("browse", "ls"), ("recall", "tea"), ("recall", "tea", "--touch"),
    ):  # fmt: skip
        reply = run(*command)
        told = "expected a folder with memory.db (hyrecall remember makes one), got none"
        assert (reply.code, reply.out, reply.err) == (1, "", f"error: {store}: {told}\n"), command
        assert not store.exists()


def test_an_export_that_cannot_be_written_names_the_file_that_was_asked_for(
    run: Run, filled: Path, tmp_path: Path
) -> None:
    target = tmp_path / "nowhere" / "backup.jsonl"
    reply = run("export", "--user", "ann", "-o", target)
    assert (reply.code, reply.err) == (1, f"error: {target}: No such file or directory\n")


def test_an_import_of_no_file_makes_no_store(run: Run, store: Path, tmp_path: Path) -> None:
    reply = run("import", tmp_path / "none.jsonl")
    told = f"error: {tmp_path / 'none.jsonl'}: No such file or directory\n"
    assert (reply.code, reply.err) == (1, told)
    assert not store.exists()


# ---- keeping a store ----


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
