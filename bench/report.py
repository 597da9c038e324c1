"""Print every target beside its measurement, and how far each missed target was missed.

python -m bench.report                          the committed run
python -m bench.report results.json             another run
python -m bench.report --run small              run everything at 100,000 documents first
python -m bench.report --run full --only dense  one part; it takes its place in the JSON
python -m bench.report --readme                 write README's and docs/performance.md's tables

A run is pytest-benchmark's JSON: ``pytest-benchmark compare results.json`` shows all that it
measured, a table for each work.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import readme, results
from bench.sizes import SIZES
from bench.targets import HELD, NOT_OFFERED, TARGETS
from bench.verdicts import Line, judge

NOISY_CORES = 0.2  # more than this of others: read such a row with care
Entry = Mapping[str, Any]


def milliseconds(seconds: float) -> str:
    """Write seconds as milliseconds, to three figures or so."""
    ms = seconds * 1e3
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.3g}"


def spread(stats: Mapping[str, float]) -> str:
    """Write a median and its extremes."""
    low, high = milliseconds(stats["min"]), milliseconds(stats["max"])
    return f"{milliseconds(stats['median'])} ({low}..{high})"


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lay out a table."""
    lines = ["| " + " | ".join(headings) + " |", "|---" * len(headings) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def is_noisy(line: Line) -> bool:
    """Whether others took so much of the machine that the figure proves nothing.

    A peer whose threads wait for one another (OpenMP, BLAS) then loses far more than others do.
    """
    taken = [(entry.get("others_cores") or 0.0) for entry in (line.ours, line.rival) if entry]
    return max(taken, default=0.0) >= NOISY_CORES


def noise(entries: Iterable[Entry | None]) -> str:
    """Say how busy others were, where that was much."""
    most = max((e.get("others_cores") or 0.0 for e in entries if e is not None), default=0.0)
    return "" if most < NOISY_CORES else f"{most:.1f}"


def target_row(line: Line) -> list[str]:
    """One line of the target table."""
    ours, rival = line.ours, line.rival
    return [
        line.target.row + (f" ({line.data})" if line.data else ""),
        line.target.against or "-",
        spread(ours["stats"]) if ours else "",
        spread(rival["stats"]) if rival else "",
        line.figure,
        line.bound,
        line.verdict + (" (noisy)" if is_noisy(line) and line.value is not None else ""),
        noise([ours, rival]),
    ]


TARGET_HEADINGS = (
    "work",
    "against",
    "ours, ms (min..max)",
    "theirs, ms",
    "figure (quartiles)",
    "target",
    "verdict",
    "others' cores",
)


def targets_table(entries: Sequence[Entry], limits: Mapping[str, float]) -> list[str]:
    """Every target, measured or not."""
    lines = []
    for title, targets in (("Targets", TARGETS), ("Also held", HELD)):
        joined = [line for target in targets for line in judge(target, entries, limits)]
        lines += [f"## {title}", "", *markdown(TARGET_HEADINGS, map(target_row, joined)), ""]
        lines += [tally(joined), ""]
    return lines + [f"Not offered: {reason}." for reason in NOT_OFFERED]


def tally(lines: Sequence[Line]) -> str:
    """Count the verdicts."""
    passed = sum(line.verdict == "pass" for line in lines)
    missed = sum(line.verdict.startswith("MISS") for line in lines)
    noisy = sum(line.verdict != "-" and line.value is not None and is_noisy(line) for line in lines)
    without = len(lines) - passed - missed
    return (
        f"{passed} pass, {missed} miss ({noisy} of them on a noisy machine), "
        f"{without} without a verdict."
    )


def heading(found: results.Run) -> list[str]:
    """Say what a reader must know of the run."""
    limits, cpu = found["limits"], found["machine_info"]["cpu"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    commits = sorted({str(entry.get("commit"))[:12] for entry in results.entries(found)})
    int8 = limits.get("int8_gop_s")
    return [
        f"Size {found['size']}, {found['datetime'][:10]}, commit {', '.join(commits)}. "
        f"{cpu['brand_raw']}, {cpu['count']} cores. {versions}.",
        "",
        f"Limits measured in this run: stream read {limits['stream_gb_s']:.1f} GB/s "
        f"({limits['stream_gb_s_1_thread']:.1f} on one thread)"
        + (f", int8 products {int8:,.0f} GOP/s (AVX-512 VNNI)" if int8 else "")
        + f", numpy sgemm {limits['numpy_sgemm_gflop_s']:,.0f} GFLOP/s.",
        "",
        "A ratio is a rival's time over ours, the median of rounds taken in turns; above 1 we are "
        "faster. A verdict is given at the size that a target names; elsewhere the figure stands "
        "with its number of documents. `others' cores`: used by other processes meanwhile; such a "
        "row says little, and its verdict is `noisy`.",
        "",
        *spectra(found),
        *([found["note"], ""] if "note" in found else []),
    ]


def spectra(found: results.Run) -> list[str]:
    """Say how the energy of grown rows lies in their principal directions."""
    told = {
        f"{one['data']}, {one['docs']:,} x {one['dim']}: "
        + ", ".join(f"{share:.0%} in {m}" for m, share in one["energy"].items())
        for one in results.entries(found)
        if one.get("energy")
    }
    if not told:
        return []
    return [f"Energy in the first principal directions: {'; '.join(sorted(told))}.", ""]


def render(found: results.Run) -> str:
    """Return the whole report as Markdown."""
    table = targets_table(results.entries(found), found["limits"])
    return "\n".join([*heading(found), *table])


def main(arguments: list[str] | None = None) -> int:
    """Run if asked, then print."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("results", nargs="?", type=Path, help="the JSON of an earlier run")
    parser.add_argument("--run", choices=tuple(SIZES), help="run the benchmarks first")
    parser.add_argument("--only", help=f"parts of a run, of {','.join(results.PARTS)}")
    parser.add_argument("-k", dest="keyword", help="which benchmarks, as pytest's -k")
    parser.add_argument(
        "--readme",
        action="store_true",
        help="write the tables of README.md and docs/performance.md",
    )
    given = parser.parse_args(arguments)
    path = given.results or (results.path_of(given.run) if given.run else results.committed())
    status = 0
    if given.run:
        parts = given.only.split(",") if given.only else list(results.PARTS)
        status = results.run(given.run, path, parts, given.keyword)
    if not path.is_file():
        print(f"results: expected the JSON of a run, got {path}", file=sys.stderr)
        return status or 1
    found = results.load(path)
    print(render(found))
    if given.readme:
        readme.write(found)
    return status


if __name__ == "__main__":
    sys.exit(main())
