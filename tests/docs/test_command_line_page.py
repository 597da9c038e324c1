"""The commands of docs/command-line.md run as printed; its exit codes are those of the code."""

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from docs.commands import run_commands

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
ON_AN_INDEX, ON_A_STORE = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_commands_on_an_index_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = run_commands(ON_AN_INDEX, tmp_path, monkeypatch)
    assert [words[1] for words, _ in ran] == [
        "index", "info", "info", "shards", "recall", "recall", "batch",
    ]  # fmt: skip
    assert pq.read_table(tmp_path / "hits.parquet").column_names == [
        "query", "query_key", "rank", "key", "tenant", "score",
        "body_score", "body_rank", "embedding_score", "embedding_rank", "degraded",
    ]  # fmt: skip


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
