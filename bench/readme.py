"""The tables of speed in README.md and docs/performance.md, made from the committed run.

A test compares both pages with the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import results
from bench.targets import TARGETS, Target
from bench.turns import OURS
from bench.verdicts import Entry, Line, judge

ROOT = Path(__file__).parents[1]
README, PAGE = ROOT / "README.md", ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- bench.report --readme: begin -->\n", "<!-- bench.report --readme: end -->\n"

# The rows of the README: words, what an entry says, the rival at the largest size.
Absolute = tuple[str, Mapping[str, object], str]
ONE = {"kind": "dense", "queries": 1, "k": 10}
IN_README: tuple[Absolute, ...] = (
    (
        "one query, 384-d vectors grown from a model's",
        ONE | {"data": "grown", "dim": 384},
        "faiss*",
    ),
    ("one query, 768-d vectors likewise", ONE | {"data": "grown wide"}, "faiss*"),
    ("BM25, six words, of a batch", {"kind": "bm25", "threads": 2, "k": 10}, "bm25s"),
    ("both, of a batch", {"kind": "hybrid", "data": "grown"}, "bm25s + faiss* + RRF"),
    ("both, in 1,000 rows each", {"kind": "hybrid scoped"}, "bm25s + faiss* IDSelectorRange + RRF"),
)
SIZES = (10_000, 100_000, 1_000_000)
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
        f"Medians of one run, exact answers on both sides, {machine(found)}. Grown vectors are a "
        "little easier than a model's own ([method](#method))."
    )
    more = (
        "faiss* is faiss at its best setting. Above 1 hyrecall is faster. `python -m bench.report` "
        "prints all rows with targets, spreads and misses."
    )
    long = section(more, measured(found)).removeprefix(BEGIN)
    return "\n".join([BEGIN + said, "", *times(found), "", long])


def readme_table(found: results.Run) -> str:
    """Return the section of README.md between the marks."""
    said = (
        f"A query's time, {machine(found)}; rivals tuned and exact too; [all](docs/performance.md)."
    )
    return "\n".join([BEGIN + said, "", *times(found), END])


def times(found: results.Run) -> list[str]:
    """Return the table of a query's times by the size of the index, and what the index holds."""
    entries = results.entries(found)
    sizes = " | ".join(f"{size:,}" for size in SIZES)
    head = [f"| k=10, rows: | {sizes} | times faster |", "|---|---|---|---|---|"]
    return [*head, *(absolute(entries, *row) for row in IN_README), memory(entries)]


def absolute(entries: Sequence[Entry], words: str, where: Mapping[str, object], rival: str) -> str:
    """Return a row: the time of a query by size, and the rival's over ours at the largest one."""
    cells, last = [], ""
    for size in SIZES:
        wanted = {**where, "docs": size}
        these = [e for e in entries if all(e.get(n) == v for n, v in wanted.items())]
        ours = next((e for e in these if e["who"] == OURS), None)
        cells.append("" if ours is None else time(ours["stats"]["median"] / ours["queries"]))
        theirs = next((e for e in these if e["who"] == rival), None)
        if ours is not None and theirs is not None:
            last = f"{theirs['ratio']['median']:.1f}x {plain(rival)}"
    return f"| {words} | {' | '.join(cells)} | {last} |"


def memory(entries: Sequence[Entry]) -> str:
    """Return a row: what an index of the largest size holds."""
    held = {e["part"]: e["grew_mb"] / 1_000 for e in entries if e["kind"] == "memory"}
    said = "; ".join(f"{held[one]:.2g} GB" for one in ("grown vectors", "text") if one in held)
    return f"| memory: 768-d vectors; texts | | | {said} | |"


def time(seconds: float) -> str:
    """Write a time in the unit that fits."""
    small = seconds < 1e-4
    return f"{seconds * (1e6 if small else 1e3):.2g} {'us' if small else 'ms'}"


def plain(rival: str) -> str:
    """Name a rival for who has not read how it is tuned."""
    return rival.replace("faiss*", "faiss").replace(" IDSelectorRange", "")


def section(said: str, lines: list[Line]) -> str:
    """Put a sentence and a table of lines between the marks."""
    rows = [f"| {label(line)} | {line.target.against} | {line.value:.1f}x |" for line in lines]
    head = ["| work | against | times faster |", "|---|---|---|"]
    return "\n".join([BEGIN + said, "", *head, *rows, END])


# Kinds of rows, for who has not read how they are made.
DATA = {
    "gaussian": "random rows",
    "clustered": "rows in clusters",
    "grown": "rows grown from a model's",
    "grown wide": "rows grown from a model's",
}


def label(line: Line) -> str:
    """Name the work and, where it is not the target's, the size."""
    kind, _, width = line.data.partition(", x ")
    row = line.target.row.replace("x 768", f"x {width}") if width else line.target.row
    data = f", {DATA.get(kind, kind)}" if kind else ""
    ours = line.ours
    small = ours is not None and line.target.docs not in (None, ours["docs"])
    return row + data + (f" (here {ours['docs']:,})" if small and ours else "")


def write(found: results.Run) -> None:
    """Replace what stands between the marks of both pages."""
    for path, made in ((PAGE, table(found)), (README, readme_table(found))):
        before, rest = path.read_text().split(BEGIN)
        _, after = rest.split(END)
        path.write_text(before + made + after)
