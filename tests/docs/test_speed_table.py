"""The table of speed in docs/performance.md is the one that the committed run makes."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"
PROGRAM = """
import json, sys
from bench import readme, results
found = json.loads(sys.stdin.read() or results.committed().read_text())
print(readme.table(found), end="")
"""


def made_table(run: str = "") -> str:
    """Have it made in another process: importing bench sets the environment of BLAS."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        input=run,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_the_page_shows_the_committed_run():
    made = made_table()
    assert made.count("\n| ") > 5
    assert made in PAGE.read_text(), "python -m bench.report --readme"


def test_a_run_that_the_page_does_not_show_is_noticed():
    runs = ROOT / "bench" / "results"
    path = next(
        runs / f"{size}.json" for size in ("full", "small") if (runs / f"{size}.json").is_file()
    )
    run = json.loads(path.read_text())
    facts = (one["extra_info"] for one in run["benchmarks"])
    rival = next(one for one in facts if one["who"] == "faiss*")
    rival["ratio"]["median"] *= 2
    assert made_table(json.dumps(run)) not in PAGE.read_text()
