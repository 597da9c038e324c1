"""Engines of others carry BatchRecall: the program of ``examples/frameworks`` runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hyrecall as hr

PROGRAM = Path(__file__).parents[2] / "examples" / "frameworks" / "spark_batch.py"


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    package = str(Path(hr.__file__).parents[1])
    path = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])
    (folder / "program.py").write_text(code, "utf-8")
    return subprocess.run(
        [sys.executable, folder / "program.py"],
        cwd=folder, capture_output=True, text=True, timeout=280, check=False,
        env={**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _needs_spark() -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed: .ci/frameworks spark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java: .ci/frameworks spark")


def test_the_program_for_spark_runs(tmp_path: Path) -> None:
    done = run(PROGRAM.read_text("utf-8"), tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    assert "'query_key': 'q3', 'rank': 1, 'key': 2" in done.stdout
    assert "'query_key': 'q2', 'rank': 1, 'key': 3" in done.stdout


def test_the_program_sees_a_scope_moved_by_one_row(tmp_path: Path) -> None:
    code = PROGRAM.read_text("utf-8").replace(
        '"asked_by": ["ann", "bob", "ann"],', '"asked_by": ["bob", "ann", "bob"],', 1
    )
    spoiled = code.replace('scope=queries()["asked_by"]', 'scope=["ann", "bob", "ann"]')
    assert spoiled not in (code, PROGRAM.read_text("utf-8"))
    done = run(spoiled, tmp_path)
    assert done.returncode == 1
    assert "AssertionError" in done.stderr
