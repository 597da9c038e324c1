"""The commands on a store say and do what its Python methods do."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from hyrecall import recipes
from hyrecall.embed import Guard
from hyrecall.memory import Episode, MemorySync

Run = Callable[..., SimpleNamespace]


def opened(path: Path, **options: object) -> MemorySync:
    return MemorySync.open(path, embedder=None, **options)  # type: ignore[arg-type]


# ---- remember ----


def test_remember_keeps_every_field(run: Run, store: Path) -> None:
    reply = run(
        "remember", "Tea at four", "--user", "ann", "--org", "acme", "--workspace", "lab", "--id",
        "tea", "--kind", "note", "--session", "s1", "--tag", "drink", "--tag", "day",
        "--importance", 7, "--metadata", '{"a": [1]}', "--at", "2026-06-01T12:00:00", "--input",
        "When is tea?", "--source", "summary", "--visibility", "global", "--pinned", "--json",
    )  # fmt: skip
    assert reply.code == 0, reply.err
    assert reply.data | {"degraded": 0} == {
        "id": "tea", "version": 1, "embedded": False, "degraded": 0,
    }  # fmt: skip
    assert "embeddings_off" in reply.data["degraded"][0]
    assert "note: degraded: embeddings_off" in reply.err
    with opened(store) as memory:
        kept = memory.get("tea", user_id="ann", org="acme", workspace="lab")
    assert kept == Episode(
        id="tea", user_id="ann", org="acme", workspace="lab", kind="note", session_id="s1",
        tags=("drink", "day"), importance=7, metadata={"a": [1]}, input="When is tea?",
        output="Tea at four", occurred_at="2026-06-01T12:00:00Z", source="summary",
        visibility="global", pinned=True,
    )  # fmt: skip
    wrong = run("remember", "tea", "--visibility", "secret")
    assert (wrong.code, wrong.err) == (
        1, "error: --visibility: expected 'private' or 'global', got 'secret'\n"
    )  # fmt: skip
    assert run("remember", "tea", "--type", "topic", "--id", "typed").code == 0
    with opened(store) as memory:
        typed = memory.get("typed")
    assert typed is not None
    assert typed.kind == "topic"


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

    result = CliRunner().invoke(app, ["remember", "-", "--user", "ann"], input="two\nlines\n")
    assert result.exit_code == 0, result.stderr
    with opened(store) as memory:
        kept = memory.get(result.stdout.strip(), user_id="ann")
    assert kept is not None
    assert kept.output == "two\nlines"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--importance", "99"], "--importance: expected less than or equal to 10, got 99.0"),
        (["--metadata", "[]"], "--metadata: expected a JSON object"),
        (["--at", "noon"], "--at: expected an ISO 8601 time"),
        (["--at", "0001-01-01T00:00:00+14:00"], "--at: expected one that UTC has too"),
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


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], {}),
        (["--kind", "note"], {"kind": "note"}),
        (["--limit", "1", "--offset", "1"], {"limit": 1, "offset": 1}),
        (["--tag", "food"], {"tags": ["food"]}),
        (["--alpha", "0"], {"alpha": 0.0}),
        (["--normalize"], {"normalize": True}),
        (["--recipe", "default"], {"recipe": recipes.default}),
    ],
)
def test_recall_gives_the_matches_of_the_api(
    run: Run, filled: Path, arguments: list[str], options: dict[str, object]
) -> None:
    reply = run("recall", filled, "postgres replication", "--user", "ann", "--json", *arguments)
    assert reply.code == 0, reply.err
    with opened(filled) as memory:
        matches = memory.search("postgres replication", user_id="ann", **options)  # type: ignore[arg-type]
    assert reply.data["matches"] == [match.model_dump(mode="json") for match in matches]
    assert reply.data["query"] == "postgres replication"
    assert reply.data["scope"] == {"org": None, "workspace": None, "user": "ann", "policy": None}
    assert reply.data["degraded"] is ("--alpha" not in arguments)  # then no vector is missed
    assert "bob" not in reply.out


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
    assert by_place["matches"][0]["episode"]["id"] == "m1"
    assert run("recall", filled, "lunch", "--path", filled).code == 2


def test_times_and_sessions_narrow(run: Run, filled: Path) -> None:
    def ids(*arguments: object) -> set[str]:
        reply = run("recall", "replication", "--user", "ann", "--json", *arguments)
        return {match["episode"]["id"] for match in reply.data["matches"]}

    assert ids("--since", "2026-06-01T12:00:00") == {"m0", "m2"}
    assert ids("--since", "2026-06-03T12:00:00") == {"m2"}
    assert ids("--until", "2026-06-01T12:00:00") == {"m0"}
    assert ids("--session", "s2") == {"m2"}


def test_recall_shows_a_table_and_says_when_there_is_nothing(run: Run, filled: Path) -> None:
    shown = run("recall", "lunch", "--user", "ann")
    assert "lunch was great" in shown.out
    assert "bob" not in shown.out
    nothing = run("recall", "lunch", "--user", "nobody")
    assert (nothing.code, nothing.out) == (0, "")
    assert "note: no memories" in nothing.err


def test_touch_counts_an_access_and_needs_to_be_asked_for(run: Run, filled: Path) -> None:
    def counted() -> int:
        with opened(filled) as memory, memory._store.database.reading() as connection:
            return int(connection.execute("SELECT sum(access_count) FROM documents").get)

    assert run("recall", "replication", "--user", "ann").code == 0
    assert counted() == 0
    assert run("recall", "replication", "--user", "ann", "--limit", 2, "--touch").code == 0
    assert counted() == 2


def test_the_anonymous_are_told_that_there_are_others(run: Run, filled: Path) -> None:
    reply = run("recall", "postgres", "--json")
    assert reply.data["matches"] == []
    assert "note: user_id: this call sees the anonymous memories only" in reply.err


@pytest.mark.parametrize(
    "option",
    [["--scope", "ann"], ["--bm25", "okapi"], ["--depth", "7"],
     ["--fusion", "max"], ["--columns", "x"], ["--min-fused", "1"]],
)  # fmt: skip
def test_options_of_an_index_are_refused_by_a_store(
    run: Run, filled: Path, option: list[str]
) -> None:
    reply = run("recall", filled, "lunch", *option)
    assert (reply.code, reply.out) == (1, "")
    assert f"{option[0]}: expected no such option for a store" in reply.err


@pytest.mark.parametrize(
    "option", [["--user", "ann"], ["--kind", "x"], ["--alpha", "0"], ["--touch"], ["--tag", "x"]]
)
def test_options_of_a_store_are_refused_by_an_index(
    run: Run, folder: Path, option: list[str]
) -> None:
    reply = run("recall", folder, "amber", "--scope", "acme", *option)
    assert (reply.code, reply.out) == (1, "")
    assert f"{option[0]}: expected no such option for an index" in reply.err


@pytest.mark.parametrize(
    "option", [["--since", "0001-01-01T00:00:00+14:00"], ["--until", "9999-12-31T23:59:59-14:00"],
               ["--alpha", "7"], ["--limit", "-1"], ["--kind", "\udcff"], ["--recipe", "what"]]
)  # fmt: skip
def test_a_question_that_is_none_is_refused(run: Run, filled: Path, option: list[str]) -> None:
    reply = run("recall", "lunch", "--user", "ann", *option)
    assert (reply.code, reply.out) == (1, "")
    assert reply.err.startswith("error: ")
    assert "internal" not in reply.err


# ---- forget ----


def test_forget_takes_memories_of_one_user(run: Run, filled: Path) -> None:
    assert run("forget", "m0", "m3", "--user", "ann", "--reason", "wrong").out == "1\n"
    with opened(filled) as memory:
        assert memory.get("m0", user_id="ann") is None
        assert [one.reason for one in memory.history("m0", user_id="ann")] == [None, "wrong"]
        assert memory.get("m3", user_id="bob") is not None
    assert run("forget", "--user", "ann", "--session", "s1", "--yes", "--json").data == {
        "forgotten": 1, "erased": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [["--everything"], ["--session", "s1"], ["--before", "2100-01-01"], ["m0", "--erase"]],
)
def test_what_cannot_be_undone_or_names_no_id_asks_for_yes(
    run: Run, filled: Path, arguments: list[str]
) -> None:
    reply = run("forget", "--user", "ann", *arguments)
    assert reply.code == 1
    assert reply.err.startswith("error: --yes: expected --yes")
    with opened(filled) as memory:
        assert len(memory.list(user_id="ann")) == 3


def test_erase_leaves_no_byte(run: Run, filled: Path) -> None:
    def files_with(text: bytes) -> list[str]:
        return [path.name for path in filled.rglob("*") if path.is_file()
                and text in path.read_bytes()]  # fmt: skip

    assert files_with(b"lunch was great")
    assert run("forget", "m1", "--user", "ann", "--erase", "--yes", "--json").data == {
        "forgotten": 1, "erased": True,
    }  # fmt: skip
    assert files_with(b"lunch was great") == []


def test_all_of_a_user_goes_only_with_everything(run: Run, filled: Path) -> None:
    for more in ([], ["--erase"]):
        reply = run("forget", "--user", "ann", "--yes", *more)
        assert reply.code == 1
        assert "everything" in reply.err
    with opened(filled) as memory:
        assert len(memory.list(user_id="ann")) == 3
    assert run("forget", "--user", "ann", "--everything", "--yes").out == "3\n"
    with opened(filled) as memory:
        assert memory.list(user_id="ann") == []


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


def test_json_is_the_only_thing_on_stdout(run: Run, filled: Path) -> None:
    for arguments in (
        ["recall", "x", "--json"], ["doctor", "--json"], ["browse", "ls", "--json"],
        ["config", "list", "--json"],
    ):  # fmt: skip
        json.loads(run(*arguments).out)


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


@pytest.mark.parametrize(
    "command",
    [
        ("forget", "x"),
        ("reembed",),
        ("compact",),
        ("doctor",),
        ("doctor", "--repair"),
        ("export",),
        ("browse", "ls"),
        ("recall", "tea"),
        ("recall", "tea", "--touch"),
    ],
    ids=" ".join,
)
def test_a_path_without_a_store_is_refused_and_none_is_made(
    run: Run, store: Path, command: tuple[str, ...]
) -> None:
    reply = run(*command)
    told = "expected a folder with memory.db (hyrecall remember makes one), got none"
    assert (reply.code, reply.out, reply.err) == (1, "", f"error: {store}: {told}\n")
    assert not store.exists()


def test_forget_asks_first_which_memories_are_meant(run: Run, filled: Path) -> None:
    for given in ((), ("--yes",), ("--erase", "--yes")):
        reply = run("forget", "--user", "ann", *given)
        told = "ID: expected an ID, --session, --before or --everything, got none of them"
        assert (reply.code, reply.err) == (1, f"error: {told}\n")


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


def test_what_helped_is_said_and_listed(run: Run, filled: Path) -> None:
    for key in ("tea", "milk"):
        run("remember", key, "--id", key, "--user", "ann")
    asked = ("feedback", "a drink?", "milk", "tea", "--user", "ann")
    assert (run(*asked).out, run(*asked, "--json").data) == ("2\n", {"new": 0})
    (said,) = run("feedback", "--user", "ann", "--json").data["feedback"]
    assert (said["query"], said["used"]) == ("a drink?", ["milk", "tea"])
    assert "a drink?  milk tea  20" in run("feedback", "--user", "ann").out
    assert run("feedback", "--user", "bob", "--json").data == {"feedback": []}
    refused = run("feedback", "a drink?", "tea", "--user", "bob")
    told = "error: used[0]: expected a memory that is there, got 'tea'\n"
    assert (refused.code, refused.err) == (1, told)
    assert run("feedback", "a drink?", "--user", "ann").code == 1  # no id
