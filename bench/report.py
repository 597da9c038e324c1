"""Print where we stand: every target beside what was measured, and what each miss lacks.

python -m bench.report                          the committed run
python -m bench.report results.json --details   another run, and all that it measured
python -m bench.report --run small              run everything at 100,000 documents first
python -m bench.report --run full --only dense  one part; it takes its place in the JSON
python -m bench.report --readme                 write the README's table from the committed run
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import readme, results
from bench.measuring import OURS
from bench.sizes import SIZES
from bench.targets import HELD, NOT_OFFERED, TARGETS
from bench.verdicts import Line, judge, share

NOISY_CORES = 0.2  # more than this of others: read such a row with care
Entry = Mapping[str, Any]


def milliseconds(seconds: float) -> str:
    """Write seconds as milliseconds, to three figures or so."""
    ms = seconds * 1e3
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.3g}"


def spread(seconds: Mapping[str, float]) -> str:
    """Write a median and its extremes."""
    low, high = milliseconds(seconds["min"]), milliseconds(seconds["max"])
    return f"{milliseconds(seconds['median'])} ({low}..{high})"


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
        spread(ours["seconds"]) if ours else "",
        spread(rival["seconds"]) if rival else "",
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


def details(entries: Sequence[Entry], limits: Mapping[str, float]) -> list[str]:
    """All that was measured, a table for each work."""
    works: dict[str, list[Entry]] = {}
    for entry in entries:
        works.setdefault(entry["work"], []).append(entry)
    headings = ("who", "ms (min..max)", "us a query", "of the limit", "x of ours", "others' cores")
    lines = ["", "## All measurements", ""]
    for work, group in works.items():
        ordered = sorted(group, key=lambda e: (e["who"] != OURS, e["seconds"]["median"]))
        lines += [f"**{work}**", "", *markdown(headings, (detail(e, limits) for e in ordered)), ""]
        for one in ordered:
            facts = ", ".join(f"{name} {value}" for name, value in extra(one).items())
            lines += [f"{one['who']}: {facts}", ""] if facts else []
    return lines


def detail(entry: Entry, limits: Mapping[str, float]) -> list[str]:
    """One line of a work's table."""
    of_limit = share(entry, limits)
    median = entry["seconds"]["median"]
    return [
        entry["who"],
        spread(entry["seconds"]),
        f"{median / entry['queries'] * 1e6:,.1f}" if entry["queries"] else "",
        "" if of_limit is None or entry["who"] != OURS else f"{of_limit:.0%}",
        f"{entry['ratio']['median']:.2f}" if "ratio" in entry else "",
        noise([entry]),
    ]


_TOLD = {
    "work", "who", "kind", "docs", "dim", "queries", "bytes", "threads", "isa", "others_cores",
    "rounds", "seconds", "ratio", "k", "data", "commit", "limit_bytes", "limit_int8_ops", "arms",
    "arm", "tenants", "axis", "value", "part", "reader", "recipe", "how",
}  # fmt: skip


def extra(entry: Entry) -> dict[str, object]:
    """What an entry measured beside its time."""
    return {
        name.replace("_", " "): value
        for name, value in entry.items()
        if name not in _TOLD and value is not None and not isinstance(value, dict)
    }


def heading(found: Mapping[str, Any]) -> list[str]:
    """Say what a reader must know of the run."""
    limits, machine = found["limits"], found["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    commits = sorted({str(entry.get("commit"))[:12] for entry in found["entries"]})
    int8 = limits.get("int8_gop_s")
    return [
        f"Size {found['size']}, {found['date']}, commit {', '.join(commits)}. "
        f"{machine['processor']}, {machine['cores']} cores. {versions}.",
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
        *([found["note"]] if "note" in found else []),
        "",
    ]


def render(found: Mapping[str, Any], *, with_details: bool = False) -> str:
    """Return the whole report as Markdown."""
    entries, limits = found["entries"], found["limits"]
    lines = [*heading(found), *targets_table(entries, limits)]
    return "\n".join([*lines, *(details(entries, limits) if with_details else [])])


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
    parser.add_argument("--details", action="store_true", help="all that was measured, too")
    parser.add_argument("--readme", action="store_true", help="write the README's table")
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
    print(render(found, with_details=given.details))
    if given.readme:
        readme.write(found)
    return status


if __name__ == "__main__":
    sys.exit(main())
