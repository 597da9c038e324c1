"""Puts what .ci/frameworks has counted beside the table of docs/frameworks.md.

    python .ci/framework_counts.py build/frameworks langgraph loomflow
    python .ci/framework_counts.py --write build/frameworks langgraph loomflow

The first says which rows differ, and ends with 1 if any does; the second writes them.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "frameworks.md"
RELEASES = {"newest": "newest", "year_old": "a year old"}
KINDS = ("passed", "refused", "skipped")


def outcome(case: ET.Element) -> str:
    """Return what became of a test: one that a suite marks as expected to fail is refused."""
    tags = {child.tag: child.get("type") for child in case}
    if "failure" in tags or "error" in tags:
        return "failed"
    if "skipped" in tags:
        return "refused" if tags["skipped"] == "pytest.xfail" else "skipped"
    return "passed"


def row_of(work: Path, name: str, release: str) -> str | None:
    """Return a row of the table, or None for a release whose tests did not run."""
    report, log = work / f"{name}-{release}.xml", work / f"{name}-{release}.log"
    if not report.is_file():
        return None
    theirs, ours = dict.fromkeys(KINDS, 0), dict.fromkeys((*KINDS, "failed"), 0)
    for case in ET.parse(report).iter("testcase"):
        # Classes are suites of the framework, functions are ours.
        is_theirs = re.search(r"[.]Test\w*$", case.get("classname") or "")
        kind = outcome(case)
        if is_theirs and kind != "failed":
            theirs[kind] += 1
        else:
            ours[kind] += 1
    told = r"^published: .*: (\d+) passed, (\d+) failed, (\d+) skipped$"
    for counts in re.findall(told, log.read_text("utf-8"), re.M):
        for kind, n in zip(KINDS, counts, strict=True):
            theirs[kind] += int(n)
    versions = (work / f"{name}-{release}.versions").read_text("utf-8").strip()
    its_own = [theirs[kind] for kind in KINDS] if any(theirs.values()) else ["", "", ""]
    cells = [name, RELEASES[release], versions, *its_own, ours["passed"], ours["skipped"]]
    if ours["failed"]:
        cells[-2] = f"{ours['passed']} ({ours['failed']} failed)"
    return f"| {' | '.join(map(str, cells))} |".replace("|  |", "| |").replace("|  |", "| |")


def key_of(row: str) -> tuple[str, ...]:
    """Return the name and the release of a row."""
    return tuple(cell.strip() for cell in row.split("|")[1:3])


def differences(page: str, rows: list[str]) -> list[str]:
    """Return the rows that the page does not have as they are."""
    kept = set(page.splitlines())
    return [row for row in rows if row not in kept]


def with_rows(page: str, rows: list[str]) -> str:
    """Return the page with rows in the place of those of the same name and release."""
    made = {key_of(row): row for row in rows}
    return "\n".join(made.get(key_of(line), line) for line in page.split("\n"))


def main(arguments: list[str]) -> int:
    """Compare or write the rows of the names."""
    is_writing = arguments[:1] == ["--write"]
    work, *names = arguments[is_writing:]
    every = (row_of(Path(work), name, release) for name in names for release in RELEASES)
    rows = [row for row in every if row is not None]
    page = PAGE.read_text("utf-8")
    if is_writing:
        PAGE.write_text(with_rows(page, rows), "utf-8")
        page = PAGE.read_text("utf-8")
    other = differences(page, rows)
    for row in other:
        print(f"docs/frameworks.md differs: {row}")
    return bool(other)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
