"""Runs as pytest-benchmark's JSON: made in parts, each in a process of its own, and joined."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FOLDER = HERE / "results"
NOTHING_CHOSEN = 5  # pytest's exit status where -k left no test of a file
TOOLS = {"device", "report", "scale", "scale_fits"}  # tests of what stands beside the benchmarks
PARTS = tuple(
    sorted({path.stem.removeprefix("bench_") for path in HERE.glob("bench_*.py")} - TOOLS)
)
Run = dict[str, Any]
Entry = dict[str, Any]


def path_of(size: str) -> Path:
    """Where a run of a size is kept."""
    return FOLDER / f"{size}.json"


def committed() -> Path:
    """Return the committed run that says most: the full one, if there is one."""
    return next((path_of(s) for s in ("full", "small") if path_of(s).is_file()), path_of("small"))


def load(path: Path) -> Run:
    """Read a run."""
    found: Run = json.loads(path.read_text())
    return found


def entries(run: Run) -> list[Entry]:
    """Return what a run's benchmarks say of themselves, with ``group`` and ``stats``."""
    return [
        one["extra_info"] | {"group": one["group"], "stats": one["stats"]}
        for one in run["benchmarks"]
    ]


def run(size: str, out: Path, parts: list[str], keyword: str | None) -> int:
    """Run each part in a process of its own, so that none leaves memory to the next.

    What is done is kept after each: a run that is cut off can be gone on with by ``--only``.
    """
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        print(f"only: expected parts of {', '.join(PARTS)}, got {unknown}", file=sys.stderr)
        return 2
    worst = 0
    for part in parts:
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "part.json"
            command = [sys.executable, "-m", "pytest", str(HERE / f"bench_{part}.py"), "-q"]
            command += ["-n", "0", f"--bench-size={size}", f"--benchmark-json={made}"]
            command += ["-k", keyword] if keyword else []
            status = subprocess.run(command, cwd=HERE.parent, check=False).returncode
            worst = max(worst, 0 if status == NOTHING_CHOSEN else abs(status))
            if made.is_file():
                found = without_rounds(load(made))
                joined = join(load(out), found) if out.is_file() else found
                out.write_text(json.dumps(joined, indent=1) + "\n")
    return worst


def without_rounds(run: Run) -> Run:
    """Drop the time of each single round, as --benchmark-save does."""
    for one in run["benchmarks"]:
        one["stats"].pop("data", None)
    return run


def join(old: Run, new: Run) -> Run:
    """Put new groups in the place of old ones; of a limit, the best that was seen counts.

    Of another processor or size nothing is kept: its numbers do not stand beside these.
    """
    if place(old) != place(new):
        return new
    again = {one["group"] for one in new["benchmarks"]}
    kept = [one for one in old["benchmarks"] if one["group"] not in again]
    names = new["limits"].keys() | old["limits"].keys()
    limits = {n: max(old["limits"].get(n, 0.0), new["limits"].get(n, 0.0)) for n in sorted(names)}
    return {**new, "limits": limits, "benchmarks": kept + new["benchmarks"]}


def place(run: Run) -> tuple[object, ...]:
    """Return what two runs must share."""
    cpu = run["machine_info"]["cpu"]
    return run["size"], *(cpu.get(name) for name in ("brand_raw", "count", "l3_cache_size"))
