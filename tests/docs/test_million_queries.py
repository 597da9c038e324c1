"""The command in the docstring of examples/million_queries.py writes what the program writes."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

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
