"""Counts how scenarios went at each face, and prints the matrix at the end of a run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent.name
ORDER = (
    "MemorySync", "Memory", "agent's view", "2nd process", "REST", "MCP", "Index", "mmap", "ram",
    "1 shard", "2 shards", "5 shards", "cuda:0", "served", "command line",
)  # fmt: skip
SIGNS = {"passed": "x", "lacks": "-", "differs": "d", "failed": "F", "skipped": "s"}


class Matrix:
    """A pytest plugin; reports say which face a scenario ran at by the first part of the id."""

    def __init__(self, *, is_whole: bool) -> None:
        self._is_whole = is_whole
        self._cells: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        self._whys: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str] | None:
        """Count what a face lacks apart from what was skipped."""
        if report.when == "call" and report.skipped and _told(report).startswith("lacks "):
            return "lacks", "-", "LACKS"
        return None

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep how a scenario went at a face."""
        file, _, rest = report.nodeid.partition("::")
        if f"{FOLDER}/test_" not in file or "[" not in rest:
            return
        if report.when != "call" and report.passed:
            return
        scenario, _, parameters = rest.partition("[")
        face, _, case = parameters.removesuffix("]").partition("-")
        group = Path(file).stem.removeprefix("test_")
        went, told = report.outcome, _told(report)
        if told.startswith("lacks "):
            went = "lacks"
            self._whys.add(f"{face}: {told}")
        elif hasattr(report, "wasxfail"):
            went = "differs"
            self._whys.add(f"{face}: differs, {scenario}: {report.wasxfail}")
        elif went == "skipped":
            self._whys.add(f"{face}: {told}")
        self._cells[group, scenario + (f"[{case}]" if case else "")][face] = went

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the matrix: counts by group, or every scenario."""
        if not self._cells:
            return
        terminalreporter.section("scenarios by face")
        for kind in ("store", "index"):
            for line in self._lines(kind):
                terminalreporter.line(line)
        signs = ", ".join(f"{sign} {went}" for went, sign in SIGNS.items())
        terminalreporter.line(f"passed/lacks, and what else there is: {signs}")
        if self._is_whole:
            for why in sorted(self._whys):
                terminalreporter.line(f"  {why}")

    def _lines(self, kind: str) -> list[str]:
        cells = {key: row for key, row in self._cells.items() if key[0].startswith(kind)}
        faces = sorted({face for row in cells.values() for face in row}, key=ORDER.index)
        if not faces:
            return []
        wide, names = max(map(len, faces)) + 2, 66 if self._is_whole else 20

        def line(name: str, told: Iterable[str]) -> str:
            return f"{name:<{names}}" + "".join(f"{one:>{wide}}" for one in told)

        def counted(rows: Collection[dict[str, str]]) -> Iterator[str]:
            for face in faces:
                yield _short(Counter(row[face] for row in rows if face in row))

        lines = [line(kind, faces)]
        for group in sorted({group for group, _ in cells}):
            own = {scenario: row for (of, scenario), row in cells.items() if of == group}
            title = f"{group.removeprefix(kind + '_')} ({len(own)})"
            lines.append(line(title, counted(own.values())))
            for scenario, row in own.items() if self._is_whole else ():
                signs = (SIGNS.get(row.get(face, ""), "") for face in faces)
                lines.append(line(f"  {scenario.removeprefix('test_')[:62]}", signs))
        lines.append(line(f"all ({len(cells)})", counted(cells.values())))
        return lines


def _short(counts: Counter[str]) -> str:
    more = "".join(
        f" {counts[went]}{SIGNS[went]}" for went in ("differs", "failed", "skipped") if counts[went]
    )
    return f"{counts['passed']}/{counts['lacks']}{more}"


def _told(report: Any) -> str:
    """Why a test was skipped."""
    told = report.longrepr
    return str(told[2]).removeprefix("Skipped: ") if isinstance(told, tuple) else ""
