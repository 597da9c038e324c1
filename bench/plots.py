"""Draw how cost grows, from the JSON of a run.

python -m bench.plots                 the committed run, into docs/plots
python -m bench.plots results.json    another one
python -m bench.plots --out FOLDER
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import results
from bench.svg import Series, line_chart

OUT = Path(__file__).parents[1] / "docs" / "plots"
AXES = {
    "documents": "documents",
    "dim": "dimensions",
    "k": "k",
    "batch": "queries in a call",
    "tenants": "tenants, each query in its own",
}


def others(axis: str, entry: Mapping[str, Any]) -> str:
    """Say what was held still."""
    facts = {
        "documents": f"{entry['docs']:,} rows",
        "dim": f"{entry['dim']} dim",
        "batch": f"batch {entry['queries']:,}",
        "k": f"k={entry['k']}",
    }
    return ", ".join(fact for name, fact in facts.items() if name != axis)


def chart(axis: str, entries: Sequence[Mapping[str, Any]]) -> str | None:
    """Draw one axis; None where it was not measured at two places."""
    here = [e for e in entries if e["kind"] == "growth" and e["axis"] == axis]
    lines = {}
    for who in dict.fromkeys(entry["who"] for entry in here):
        mine = {e["value"]: e for e in here if e["who"] == who}
        lines[who] = [
            (float(value), entry["stats"]["median"] / entry["queries"] * 1e6)
            for value, entry in sorted(mine.items())
        ]
    if not any(len(points) > 1 for points in lines.values()):
        return None
    return line_chart(
        f"Dense recall, {others(axis, here[-1])}",
        AXES[axis],
        "microseconds a query",
        [Series(who, points) for who, points in lines.items()],
    )


def draw(found: results.Run, out: Path) -> list[Path]:
    """Write a file for each axis; give those that were written."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for axis in AXES:
        drawn = chart(axis, results.entries(found))
        if drawn is not None:
            path = out / f"growth_{axis}.svg"
            path.write_text(drawn)
            written.append(path)
    return written


def main(arguments: list[str] | None = None) -> int:
    """Draw what a run has."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.plots",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("results", nargs="?", type=Path, help="the JSON of a run")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(arguments)
    path = given.results or results.committed()
    written = draw(results.load(path), given.out)
    if not written:
        print(f"results: expected entries of bench_growth.py in {path}, got none", file=sys.stderr)
        return 1
    for one in written:
        print(one)
    return 0


if __name__ == "__main__":
    sys.exit(main())
