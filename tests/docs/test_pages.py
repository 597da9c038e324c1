"""Commands of the pages run as printed, and their tables are those of their runs."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from docs.commands import run_commands
from hyrecall import recipes
from hyrecall.embed import StaticEmbedder
from hyrecall.memory import MemorySync
from seams import quick

# ---- the command line ----

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
ON_AN_INDEX, ON_A_FOLDER, ON_A_STORE = re.findall(
    r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
)


def test_the_commands_on_an_index_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = run_commands(ON_AN_INDEX, tmp_path, monkeypatch)
    assert [words[1] for words, _ in ran] == [
        "index", "info", "info", "shards", "recall", "recall", "batch",
    ]  # fmt: skip
    assert pq.read_table(tmp_path / "hits.parquet").column_names == [
        "query", "query_key", "rank", "key", "tenant", "score",
        "body_score", "body_rank", "embedding_score", "embedding_rank", "degraded",
    ]  # fmt: skip


def test_the_commands_on_a_folder_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not StaticEmbedder.available():
        pytest.skip("the extra [local] is not installed")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "disks.md").write_text("# Disks\n\nStop the replica.\n")
    replies = [reply.stdout for _, reply in run_commands(ON_A_FOLDER, tmp_path, monkeypatch)]
    assert "disks.md#0" in replies[1]
    assert replies[2] == "0 new, 0 changed, 0 removed, 1 unchanged files; 1 chunks, 0 embedded\n"


def test_the_commands_on_a_store_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replies = [reply.stdout for _, reply in run_commands(ON_A_STORE, tmp_path, monkeypatch)]
    assert "Deploys run on Friday" in replies[2]
    assert replies[3] == "1\n"
    assert replies[4] == "/memories/episodic/\n"
    assert len((tmp_path / "backup.jsonl").read_text().splitlines()) == 3


def test_the_table_of_exit_codes_is_that_of_the_code() -> None:
    pytest.importorskip("typer", reason="the extra [cli] is not installed")
    pytest.importorskip("rich", reason="the extra [cli] is not installed")
    from seams import app_module as app

    codes = {app.REFUSED, app.USAGE, app.CORRUPT, app.INTERNAL, app.INTERRUPTED, app.TERMINATED}
    told = re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)
    assert {int(code) for code in told} == codes | {0}


# ---- ranking conversations ----

ROOT = Path(__file__).parents[2]
CONVERSATIONS_PAGE = (ROOT / "docs" / "ranking-conversations.md").read_text(encoding="utf-8")
EVALUATION = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")


def test_the_plot_is_that_of_the_table() -> None:
    conversations = pytest.importorskip("bench.conversations")
    assert conversations.OUT.read_text(encoding="utf-8") == conversations.draw(CONVERSATIONS_PAGE)


def test_the_table_is_that_of_the_page_of_evaluation() -> None:
    conversations = pytest.importorskip("bench.conversations")
    own = [list(row.values()) for row in conversations.table(CONVERSATIONS_PAGE).values()]
    lines = EVALUATION.partition("## Conversations")[2].splitlines()
    rows = [line for line in lines if re.match(r"\| (`recipes|without)", line)]
    theirs = [[float(cell.split()[0]) for cell in row.split("|")[2:-1]] for row in rows]
    assert sorted(own) == sorted(theirs)


def test_the_commands_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("typer", "rich"):
        pytest.importorskip(package, reason="the extra [cli] is not installed")
    from typer.testing import CliRunner

    from seams import app_app as app

    monkeypatch.chdir(tmp_path)
    turns = re.findall(r'\("(\w\d)", "(\w+)", (\d), "(.*)"\)', CONVERSATIONS_PAGE)
    assert len(turns) == 5
    lines = [
        json.dumps({"id": key, "session": session, "turn": int(turn), "text": text})
        for key, session, turn, text in turns
    ]
    Path("chat.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (block,) = re.findall(r"^```console\n(.*?)^```$", CONVERSATIONS_PAGE, re.MULTILINE | re.DOTALL)
    shown = []
    for line in block.splitlines():
        result = CliRunner().invoke(app, shlex.split(line)[1:])
        assert result.exit_code == 0, (line, result.stderr)
        shown.append(result.stdout)
    assert "7:40" not in shown[1]
    assert "7:40" in shown[2]


# ---- evaluation, on one tenant of the golden set ----

EVALUATION_PAGE = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
GOLDEN = ROOT / "tests" / "evaluate" / "golden"


def write_small_set(folder: Path) -> None:
    """Write the part of the golden set that one tenant has."""
    folder.mkdir()
    kept: set[str] = set()
    for name in ("corpus.jsonl", "queries.jsonl"):
        lines = (GOLDEN / name).read_text(encoding="utf-8").splitlines(keepends=True)
        lines = [line for line in lines if json.loads(line)["tenant"] == "spokes"]
        (folder / name).write_text("".join(lines), encoding="utf-8")
        kept |= {json.loads(line)["id"] for line in lines}
    head, *lines = (GOLDEN / "qrels.tsv").read_text(encoding="utf-8").splitlines(keepends=True)
    lines = [line for line in lines if kept >= set(line.split("\t")[:2])]
    (folder / "qrels.tsv").write_text(head + "".join(lines), encoding="utf-8")


@pytest.mark.slow
def test_evaluation_the_commands_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package, extra in (("typer", "cli"), ("rich", "cli"), ("ir_measures", "evaluate")):
        pytest.importorskip(package, reason=f"the extra [{extra}] is not installed")
    if not StaticEmbedder.available():
        pytest.skip("the extra [local] is not installed")
    from typer.testing import CliRunner

    from seams import app_app as app

    write_small_set(tmp_path / "DATA")
    monkeypatch.chdir(tmp_path)
    first, *_ = re.findall(r"^```console\n(.*?)^```$", EVALUATION_PAGE, re.MULTILINE | re.DOTALL)
    commands = [shlex.split(line, comments=True) for line in first.splitlines()]
    assert len(commands) >= 6
    for command in commands:
        assert command[0] == "hyrecall"
        result = CliRunner().invoke(app, command[1:])
        assert result.exit_code == 0, (command, result.stderr)
        assert result.stdout


# ---- replicas ----

REPLICAS_PAGE = (Path(__file__).parents[2] / "docs" / "replicas.md").read_text(encoding="utf-8")
(COMMANDS,) = re.findall(r"^```console\n(.*?)^```$", REPLICAS_PAGE, re.MULTILINE | re.DOTALL)


def test_the_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYRECALL_EMBED_DISABLE", "1")
    ran = run_commands(COMMANDS, tmp_path, monkeypatch)
    replies = {" ".join(words[1:3]): reply.stdout for words, reply in ran}
    assert "Deploys run on Friday" in replies["recall deploys"]
    assert "generation 1" in replies["pull remote"]
    assert "replica" in replies["doctor --path"]
    assert "1 generation kept" in replies["push remote"]
    assert "generation 1 of file://" in " ".join(replies["info copy.index"].split())


def test_the_objects_are_those_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_commands(COMMANDS, tmp_path, monkeypatch)
    table = REPLICAS_PAGE.split("## The objects of a place\n")[1]
    remote = tmp_path / "remote"
    (generation,) = (remote / "generations").iterdir()
    told = json.loads(generation.read_text())
    head = json.loads((remote / "HEAD").read_text().splitlines()[0])
    fields = {*told, *told["files"][0], *head} - {"format"}
    assert {name for name in fields if f"`{name}`" not in table} == set()
    number, _, digest = generation.name.partition("-")
    assert (int(number), digest) == (head["number"], head["manifest"])


# ---- examples/million_queries.py ----

EXAMPLE = Path(__file__).parents[2] / "examples" / "million_queries.py"


@pytest.mark.slow
def test_the_command_of_the_example_writes_the_same_hits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("typer", "rich"):
        pytest.importorskip(package, reason="the extra [cli] is not installed")
    from typer.testing import CliRunner

    from seams import app_app as app

    monkeypatch.chdir(tmp_path)
    arguments = ("--queries", "300", "--folder", "work")
    printed = subprocess.check_output([sys.executable, EXAMPLE, *arguments], encoding="utf-8")
    assert "301 queries" in printed
    (command,) = re.findall(r"hyrecall (batch .+?)\n\"\"\"", EXAMPLE.read_text(), re.DOTALL)
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0, result.stderr
    hits = pq.read_table("work/hits.parquet")
    assert hits.num_rows > 300
    written = pq.read_table("work/batch.parquet")
    assert written["degraded"].null_count == len(written)
    assert written.drop_columns(["query", "degraded"]).equals(hits)
    rejects = pq.read_table("work/rejects.parquet").to_pylist()
    assert [one["key"] for one in rejects] == ["nobody"]


# ---- the tables of speed in README.md and docs/performance.md ----

README, SPEED_PAGE = ROOT / "README.md", ROOT / "docs" / "performance.md"
PROGRAM = """
import json, sys
from bench import readme, results
found = json.loads(sys.stdin.read() or results.committed().read_text())
print(json.dumps([readme.readme_table(found), readme.table(found)]))
"""


def made_tables(run: str = "") -> tuple[str, str]:
    """Have them made in another process: importing bench sets the environment of BLAS."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        input=run,
        capture_output=True,
        text=True,
        check=True,
    )
    short, long = json.loads(done.stdout)
    return short, long


def test_both_pages_show_the_committed_run():
    short, long = made_tables()
    assert short.count("x faiss |\n") == 2
    assert long.count("x |\n") > 20
    assert short in README.read_text(), "python -m bench.report --readme"
    assert long in SPEED_PAGE.read_text(), "python -m bench.report --readme"


def test_a_run_that_the_pages_do_not_show_is_noticed():
    runs = ROOT / "bench" / "results"
    path = next(
        runs / f"{size}.json" for size in ("full", "small") if (runs / f"{size}.json").is_file()
    )
    run = json.loads(path.read_text())
    for one in run["benchmarks"]:
        if one["extra_info"]["who"] == "faiss*" and "ratio" in one["extra_info"]:
            one["extra_info"]["ratio"]["median"] *= 2
    short, long = made_tables(json.dumps(run))
    assert short not in README.read_text()
    assert long not in SPEED_PAGE.read_text()


# ---- the five systems: a section for each recipe, whose examples name it and run ----

SYSTEMS_PAGE = (Path(__file__).parents[2] / "docs" / "systems.md").read_text(encoding="utf-8")
OURS = {"conversation", "default", "hypergraph_regex"}  # no system's own
SECTIONS = dict(
    re.findall(r"^## [^\n]*`recipes\.(\w+)`\n(.*?)(?=^## |\Z)", SYSTEMS_PAGE, re.M | re.S)
)
WITH_COMMANDS = [name for name, text in SECTIONS.items() if "```console" in text]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_every_system_has_a_section() -> None:
    assert set(SECTIONS) == set(recipes.__all__) - OURS
    assert set(WITH_COMMANDS) >= {"hypergraph", "l0", "honeycomb", "hebb"}
    for text in SECTIONS.values():
        assert "**The same**" in text
        assert "**Different**" in text


@pytest.mark.parametrize("name", SECTIONS)
def test_the_examples_of_a_section_name_its_recipe(name: str) -> None:
    (first, *_) = blocks(SECTIONS[name], "python")
    assert f"recipe=recipes.{name}" in first
    for block in blocks(SECTIONS[name], "console"):
        assert block.startswith(f"hyrecall config set recipe {name}\n")


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize("name", WITH_COMMANDS)
def test_the_commands_of_a_section_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package, extra in (("typer", "cli"), ("rich", "cli"), ("apsw", "memory")):
        pytest.importorskip(package, reason=f"the extra [{extra}] is not installed")
    from typer.testing import CliRunner

    from seams import app_app as app

    monkeypatch.setenv("HYRECALL_PATH", str(tmp_path / "agent.mem"))
    monkeypatch.setenv("HYRECALL_CONFIG", str(tmp_path / "config.json"))
    (commands,) = blocks(SECTIONS[name], "console")
    replies: list[tuple[list[str], Any]] = []
    for line in commands.splitlines():
        words = shlex.split(line)
        assert words[0] == "hyrecall"
        reply = CliRunner().invoke(app, words[1:])
        assert reply.exit_code == 0, (line, reply.stderr)
        replies.append((words, reply))
    recalls = [reply for words, reply in replies if words[1] == "recall"]
    assert recalls
    for reply in recalls:  # each finds something
        assert reply.stdout.strip()
        assert '"matches": []' not in reply.stdout
    browsed = [reply.stdout for words, reply in replies if words[1] == "browse"]
    assert all(text.strip() for text in browsed)


# ---- hooks of coding agents ----

HOOKS = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")


@pytest.fixture
def hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Install the page's scripts and a ``hyrecall`` in an empty home; give the first script."""
    pytest.importorskip("apsw", reason="the extra [memory] is not installed")
    home = tmp_path / ".config" / "hyrecall"
    home.mkdir(parents=True)
    scripts = re.findall(r"```sh\n(.*?)```", HOOKS, re.S)
    for name, script in zip(("hook", "gemini"), scripts, strict=True):
        (home / f"{name}.sh").write_text(script)
    for name, words in (("hyrecall", "-m hyrecall"), ("python3", "")):  # what the hooks call
        (tmp_path / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        (tmp_path / name).chmod(0o700)
    for variable, value in (
        ("PATH", f"{tmp_path}:{os.environ['PATH']}"),
        ("HOME", str(tmp_path)),
        ("XDG_CONFIG_HOME", str(tmp_path / ".config")),
        ("HYRECALL_PATH", str(tmp_path / "agent.mem")),
        ("HYRECALL_USER", "alice"),
        ("HYRECALL_EMBED_DISABLE", "1"),
    ):
        monkeypatch.setenv(variable, value)
    (settings,) = map(json.loads, re.findall(r"```json\n(.*?)```", HOOKS, re.S))
    ((group,),) = settings["hooks"].values()
    return str(group["hooks"][0]["command"])


def test_the_hook_of_the_page_prints_what_fits_a_prompt(hook: str, tmp_path: Path) -> None:
    def said(prompt: str, command: str = hook) -> str:
        given = json.dumps({"hook_event_name": "UserPromptSubmit", "prompt": prompt})
        done = subprocess.run(
            ["sh", "-c", command], input=given, capture_output=True, text=True, check=True
        )
        return done.stdout

    assert said("when do we deploy") == ""  # there is no store yet
    with MemorySync.open(tmp_path / "agent.mem") as memory:
        memory.remember("Deploys run on Friday at noon", user_id="alice")
        by_owner = said("when do we deploy")
        assert said("xyzzy") == ""
        of_gemini = json.loads(said("when do we deploy", hook.replace("hook.sh", "gemini.sh")))
    alone = said("when do we deploy")
    added = of_gemini["hookSpecificOutput"]["additionalContext"]
    drawn = re.compile(r"stored-[0-9a-f]{16}|\d{4}-\d\d-\d\d")
    shown = [drawn.sub("", one) for one in (by_owner, alone, added)]
    (printed,) = re.findall(r"```text\n(.*?)```", HOOKS, re.S)
    assert shown == [drawn.sub("", printed)] * 3


def test_the_commands_and_the_table_of_the_page_of_hooks_are_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = re.findall(r"```console\n(.*?)```", HOOKS, re.S)
    *_, (_, reply) = run_commands(block, tmp_path, monkeypatch)
    assert "Deploys run on Friday" in reply.stdout
    told = dict(re.findall(r"^\| `?(both|context|recall)`? \| (.*) \|$", HOOKS, re.MULTILINE))
    named = {of: set(re.findall(r"`(--[a-z-]+)", options)) for of, options in told.items()}
    for of, known in quick.OPTIONS.items():
        assert named["both"] | named[of] == known.keys()
