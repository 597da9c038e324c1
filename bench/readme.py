"""The tables of speed in README.md and docs/performance.md, made from the committed run.

A test compares both pages with the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench import results
from bench.targets import TARGETS, Target
from bench.verdicts import Line, judge

ROOT = Path(__file__).parents[1]
README, PAGE = ROOT / "README.md", ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- bench.report --readme: begin -->\n", "<!-- bench.report --readme: end -->\n"

# The rows of the README, as the long table names work and rival.
IN_README = {
    ("dense 1,000,000 x 768, batch 1, k=10, grown wide rows", "faiss*"),
    ("dense 1,000,000 x 768, batch 1, k=10, grown wide rows", "faiss Panorama"),
    ("BM25 300,000 docs, natural questions, real words, k=10", "PISA"),
    ("hybrid, 256 queries, 1M x 384, depth 100", "bm25s + faiss* + RRF"),
}
SHOWN: tuple[tuple[str, Mapping[str, object]], ...] = (
    ("dense", {"queries": 1, "k": 10}),
    ("dense", {"queries": 32, "k": 10}),
    ("dense", {"queries": 1_024, "k": 10}),
    ("scoped", {}),
    ("bm25", {"threads": 1, "k": 10}),
    ("questions", {"k": 10}),
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


def measured(found: results.Run) -> list[Line]:
    """Return what a run measured of the targets for a first look."""
    entries = results.entries(found)
    return [
        line
        for target in TARGETS
        if is_shown(target)
        for line in judge(target, entries, found["limits"])
        if line.value is not None
    ]


def machine(found: results.Run) -> str:
    """Name the date, the processor and the number of cores of a run."""
    cpu = found["machine_info"]["cpu"]
    isas = sorted({entry["isa"] for entry in results.entries(found)})
    return f"{found['datetime'][:10]}, {', '.join([cpu['brand_raw'], *isas])}, {cpu['count']} cores"


def table(found: results.Run) -> str:
    """Return the section of docs/performance.md between the marks."""
    said = (
        f"Medians of one run, exact answers on both sides, {machine(found)}. Above 1 hyrecall is "
        "faster. `python -m bench.report` prints all rows with targets, spreads and misses. The "
        "sections below say how they are made and what bounds them."
    )
    return section(said, measured(found))


def readme_table(found: results.Run) -> str:
    """Return the section of README.md between the marks."""
    said = (
        f"Exact answers on both sides, {machine(found)}.\n"
        "faiss* is faiss at its best setting. All rows, method and missed targets: "
        "[docs/performance.md](docs/performance.md)."
    )
    lines = [line for line in measured(found) if (label(line), line.target.against) in IN_README]
    return section(said, lines)


def section(said: str, lines: list[Line]) -> str:
    """Put a sentence and a table of lines between the marks."""
    rows = [f"| {label(line)} | {line.target.against} | {line.value:.1f}x |" for line in lines]
    head = ["| work | against | times faster |", "|---|---|---|"]
    return "\n".join([BEGIN + said, "", *head, *rows, END])


def label(line: Line) -> str:
    """Name the work and, where it is not the target's, the size."""
    data = f", {line.data} rows" if line.data else ""
    ours = line.ours
    small = ours is not None and line.target.docs not in (None, ours["docs"])
    return line.target.row + data + (f" (here {ours['docs']:,})" if small and ours else "")


def write(found: results.Run) -> None:
    """Replace what stands between the marks of both pages."""
    for path, made in ((PAGE, table(found)), (README, readme_table(found))):
        before, rest = path.read_text().split(BEGIN)
        _, after = rest.split(END)
        path.write_text(before + made + after)
