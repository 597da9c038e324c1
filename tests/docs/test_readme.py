"""What the README shows, runs; what it promises in numbers, the code says too."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import hyrecall as hr
from docs.commands import run_commands

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
SCREEN = 40  # lines
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SLOW = {"agent_service", "several_workers", "study_of_rankings"}  # seconds each
NEEDS = {  # packages of the extra [test], and one with a model
    "agent_service": ("fastapi", "httpx2"),
    "sparse": ("torch", "safetensors", "cognition"),
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
    assert names["matches"][0].episode.text == "The build runs on Debian 12"
    assert b"INV-2026" not in (tmp_path / "agent.mem" / "memory.db").read_bytes()


def test_the_readme_fits_three_screens_and_the_first_example_the_first_one():
    text = README.read_text()
    lines = text.splitlines()
    assert len(lines) <= 3 * SCREEN
    assert max(map(len, lines)) <= 120
    end_of_example = text.index("```\n", text.index("```python\n") + 1)
    assert text.count("\n", 0, end_of_example) < SCREEN


def test_the_first_screen_says_how_rankings_are_joined_without_fusion():
    first_screen = " ".join(README.read_text().splitlines()[:SCREEN])
    assert "`fusion=hr.RRF()` joins" in first_screen
    assert "Without `fusion=`" in first_screen
    assert "[docs/evaluation.md](docs/evaluation.md)" in first_screen


def test_the_store_is_shown_in_ten_lines():
    (block,) = [block for block in blocks("python") if "MemorySync" in block]
    assert len([line for line in block.splitlines() if line.strip()]) <= 10


def test_the_first_block_is_at_most_twelve_lines():
    assert len([line for line in blocks("python")[0].splitlines() if line.strip()]) <= 12


def test_the_commands_of_the_readme_run(tmp_path, monkeypatch):
    (block,) = blocks("console")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "disk.md").write_text("# Disks\n\nHow to replace one.\n")
    assert [words[1] for words, _ in run_commands(block, tmp_path, monkeypatch)] == [
        "index", "index", "recall", "batch",
    ]  # fmt: skip
    assert pq.read_table(tmp_path / "hits.parquet").num_rows


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW else [])
        for path in EXAMPLES
    ],
)
def test_every_example_runs_alone_without_a_warning(path, tmp_path):
    for package in NEEDS.get(path.stem, ()):
        if find_spec(package) is None:
            pytest.skip(f"the example needs {package}")
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(path)], cwd=tmp_path, capture_output=True, check=False
    )
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stdout
    assert not ran.stderr


def test_there_are_examples():
    assert EXAMPLES


def test_the_install_lines_name_extras_that_exist():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = re.findall(r"'\.\[([a-z,]+)\]'", "".join(blocks("sh")))
    assert named == ["cli,local,memory", "test"]
    assert {one for part in named for one in part.split(",")} <= set(extras)
