"""What the README shows, runs; what it promises in numbers, the code says too."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hyrecall as hr

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NEEDS = {  # packages of the extra [test]
    "agent_service": ("fastapi", "httpx2"),
    "study_of_rankings": ("ir_measures",),
}


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of a language, in order."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    assert found
    return found


def test_the_python_of_the_readme_runs_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    printed = []
    for number, block in enumerate(blocks("python")):
        exec(compile(block, f"README.md block {number}", "exec"), names)
        printed.append(capsys.readouterr().out)
    hits = names["hits"]
    assert isinstance(hits, hr.Hits)
    assert hits[0].keys == ["m1", "m2"]  # alice's, though bob's document has the word too
    assert hits[1].keys == ["m3"]
    assert printed[0] == blocks("text")[0]
    assert (tmp_path / "memories.index" / "MANIFEST").exists()
    assert names["matches"][0].episode.output == "The build runs on Debian 12"
    assert b"INV-2026" not in (tmp_path / "agent.mem" / "memory.db").read_bytes()


def test_the_store_is_shown_in_ten_lines():
    (block,) = [block for block in blocks("python") if "MemorySync" in block]
    assert len([line for line in block.splitlines() if line.strip()]) <= 10


def test_the_first_block_is_at_most_twelve_lines():
    assert len([line for line in blocks("python")[0].splitlines() if line.strip()]) <= 12


def test_the_commands_of_the_readme_run(tmp_path, monkeypatch):
    pytest.importorskip("typer", reason="the extra [cli] is not installed")
    pytest.importorskip("rich", reason="the extra [cli] is not installed")
    from typer.testing import CliRunner

    from hyrecall.cli.app import app

    monkeypatch.chdir(tmp_path)
    write_corpus_and_queries(tmp_path)
    block, _ = blocks("console")
    commands = [shlex.split(line) for line in block.splitlines()]
    assert [command[:2] for command in commands] == [
        ["hyrecall", name] for name in ("index", "info", "info", "recall", "recall", "batch")
    ]
    for command in commands:
        result = CliRunner().invoke(app, command[1:])
        assert result.exit_code == 0, result.stderr
    assert pq.read_table("hits.parquet").column_names == [
        "query", "query_key", "rank", "key", "tenant", "score",
        "body_score", "body_rank", "embedding_score", "embedding_rank",
    ]  # fmt: skip


def test_the_commands_on_a_store_run(tmp_path, monkeypatch):
    for package, extra in (("typer", "cli"), ("rich", "cli"), ("apsw", "memory")):
        pytest.importorskip(package, reason=f"the extra [{extra}] is not installed")
    from typer.testing import CliRunner

    from hyrecall.cli.app import app

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYRECALL_PATH", "agent.mem")
    monkeypatch.setenv("HYRECALL_CONFIG", "config.json")
    _, block = blocks("console")
    replies = []
    for line in block.splitlines():
        result = CliRunner().invoke(app, shlex.split(line)[1:])
        assert result.exit_code == 0, result.stderr
        replies.append(result.stdout)
    assert "Deploys run on Friday" in replies[2]
    assert replies[3] == "/memories/episodic/\n"
    assert len((tmp_path / "backup.jsonl").read_text().splitlines()) == 2


def write_corpus_and_queries(folder: Path) -> None:
    rng = np.random.default_rng(5)
    vectors = pa.FixedSizeListArray.from_arrays(rng.standard_normal(40, dtype=np.float32), 4)
    corpus = {
        "id": range(10),
        "tenant": ["acme", "bolt"] * 5,
        "title": ["Postgres"] * 10,
        "text": ["replication lag", "failover of the primary"] * 5,
        "created_at": pa.array(range(10), pa.timestamp("s")),
        "kind": ["note", "note", "task", "task", "note"] * 2,
        "embedding": vectors,
    }
    pq.write_table(pa.table(corpus), folder / "corpus.parquet")
    queries = {"id": ["a", "b"], "tenant": ["acme", "bolt"], "question": ["lag", "primary"]}
    pq.write_table(
        pa.table({**queries, "embedding": vectors.slice(3, 2)}), folder / "queries.parquet"
    )


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_every_example_runs_alone_without_a_warning(path, tmp_path):
    for package in NEEDS.get(path.stem, ()):
        pytest.importorskip(package, reason=f"the example needs {package}")
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(path)], cwd=tmp_path, capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stdout
    assert not ran.stderr


def test_there_are_examples():
    assert EXAMPLES


def test_the_table_of_exit_codes_is_that_of_the_code():
    pytest.importorskip("typer", reason="the extra [cli] is not installed")
    pytest.importorskip("rich", reason="the extra [cli] is not installed")
    from hyrecall.cli import app

    codes = {app.REFUSED, app.USAGE, app.CORRUPT, app.INTERNAL, app.INTERRUPTED}
    told = re.findall(r"^\| (\d+) \|", README.read_text(), re.MULTILINE)
    assert {int(code) for code in told} == codes | {0}


def test_the_install_lines_name_extras_that_exist():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = re.findall(r"'\.\[([a-z,]+)\]'", "".join(blocks("sh")))
    assert named == ["cli,local,memory", "test"]
    assert {one for part in named for one in part.split(",")} <= set(extras)
