"""The tables of speed in README.md and docs/performance.md are those of the committed run."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README, PAGE = ROOT / "README.md", ROOT / "docs" / "performance.md"
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
    assert short.count("x |\n") == 4
    assert long.count("x |\n") > 20
    assert short in README.read_text(), "python -m bench.report --readme"
    assert long in PAGE.read_text(), "python -m bench.report --readme"


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
    assert long not in PAGE.read_text()
