"""Engines of others carry BatchRecall: the programs of ``examples/frameworks`` run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import hyrecall as hr

PROGRAMS = Path(__file__).parents[2] / "examples" / "frameworks"
MODULES = {"spark": "pyspark", "daft": "daft"}
HOW = {"spark": ".ci/frameworks spark", "daft": ".ci/frameworks tables"}
KEY = {"spark": "query_key", "daft": "query"}


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    package = str(Path(hr.__file__).parents[1])
    path = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])
    (folder / "program.py").write_text(code, "utf-8")
    return subprocess.run(
        [sys.executable, folder / "program.py"],
        cwd=folder, capture_output=True, text=True, timeout=280, check=False,
        env={**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip


def program(engine: str) -> str:
    """Return the program for an engine, where the engine can run."""
    module = MODULES[engine]
    pytest.importorskip(module, reason=f"{module} is not installed: {HOW[engine]}")
    if engine == "spark" and shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip(f"Spark needs Java: {HOW[engine]}")
    if engine == "daft" and version("daft").startswith("0.6."):
        pytest.skip("processes of daft 0.6 abort at their end now and then, also without hyrecall")
    return (PROGRAMS / f"{engine}_batch.py").read_text("utf-8")


@pytest.mark.parametrize("engine", MODULES)
def test_the_program_runs(engine: str, tmp_path: Path) -> None:
    done = run(program(engine), tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    for query, key in (("q3", 2), ("q2", 3)):
        assert f"'{KEY[engine]}': '{query}', 'rank': 1, 'key': {key}" in done.stdout


@pytest.mark.parametrize("engine", MODULES)
def test_the_program_sees_a_scope_moved_by_one_row(engine: str, tmp_path: Path) -> None:
    given = program(engine)
    code = given.replace(
        '"asked_by": ["ann", "bob", "ann"],', '"asked_by": ["bob", "ann", "bob"],', 1
    )
    spoiled = code.replace('scope=queries()["asked_by"]', 'scope=["ann", "bob", "ann"]')
    assert spoiled not in (code, given)
    done = run(spoiled, tmp_path)
    assert done.returncode == 1
    assert "AssertionError" in done.stderr
