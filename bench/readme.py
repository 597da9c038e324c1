"""The README's table of speed, made from the committed run; a test holds the two together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench import results
from bench.targets import TARGETS, Target
from bench.verdicts import Line, judge

README = Path(__file__).parents[1] / "docs" / "performance.md"
BEGIN, END = "<!-- bench.report --readme: begin -->\n", "<!-- bench.report --readme: end -->\n"

SHOWN: tuple[tuple[str, Mapping[str, object]], ...] = (
    ("dense", {"queries": 1, "k": 10}),
    ("dense", {"queries": 32, "k": 10}),
    ("dense", {"queries": 1_024, "k": 10}),
    ("scoped", {}),
    ("bm25", {"threads": 1, "k": 10}),
    ("hybrid", {}),
    ("hybrid scoped", {}),
    ("build", {}),
)


def is_shown(target: Target) -> bool:
    """Whether a target is one of the few for a first look."""
    if target.figure != "ratio":
        return False
    return any(
        target.where["kind"] == kind
        and all(target.where.get(name) == value for name, value in where.items())
        for kind, where in SHOWN
    )


def table(found: results.Run) -> str:
    """Return the section between the marks."""
    entries, cpu = results.entries(found), found["machine_info"]["cpu"]
    lines = [
        line
        for target in TARGETS
        if is_shown(target)
        for line in judge(target, entries, found["limits"])
        if line.value is not None
    ]
    rows = [f"| {label(line)} | {line.target.against} | {line.value:.1f}x |" for line in lines]
    processor = ", ".join([cpu["brand_raw"], *sorted({entry["isa"] for entry in entries})])
    said = (
        "Medians of one run (above 1: hyrecall is faster), exact answers on both "
        f"sides, {found['datetime'][:10]}, {processor}, {cpu['count']} cores; "
        "`python -m bench.report` prints all of them with targets, spreads and misses, "
        "the sections below say how they are made and what bounds them."
    )
    head = ["| work | against | times faster |", "|---|---|---|"]
    return "\n".join([BEGIN + said, "", *head, *rows, END])


def label(line: Line) -> str:
    """Name the work and, where it is not the target's, the size."""
    data = f", {line.data} rows" if line.data else ""
    ours = line.ours
    small = ours is not None and line.target.docs not in (None, ours["docs"])
    return line.target.row + data + (f" (here {ours['docs']:,})" if small and ours else "")


def write(found: results.Run, path: Path = README) -> None:
    """Replace what stands between the marks."""
    text = path.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    path.write_text(before + table(found) + after)
