"""Runs the tests of the acceptance rows and shows row -> tests -> verdict.

``python -m tests.coverage_of_spec``, in the repository's root, runs slow cases too (some five
minutes); what follows goes to pytest (``--laws=full``), unless it is files that ``pytest
--junitxml=FILE`` has written: then the tests are not run again, and one that some runs skipped
counts as the others found it. A row whose tests all skipped is shown with the reasons. Each row is
printed with its door, each test with the doors that it goes through (``spec.doors``); a row is
proved only by tests that go through its door. A row with tests through other doors only is
``part``. Exit code 1 where a row that is proved here has no test that ran or skipped, or a failing
one; not for ``part``.
"""

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from spec.doors import doors_of
from spec.naming import named_tests
from spec.rows import ALSO, ROWS, Door, Place, Row

TESTS = Path(__file__).parent
LATER: dict[Place, str] = {
    "service": "waits for REST, MCP and the command lines",
    "against": "decided against",
}


class Outcomes:
    """A pytest plugin: runs the tests that name a row, and keeps how each function went, all its
    parameters together.
    """

    def __init__(self, wanted: set[str]) -> None:
        self.wanted = wanted
        self.by_test: dict[str, set[str]] = defaultdict(set)
        self.reasons: dict[str, str] = {}

    @staticmethod
    def test_of(node: str) -> str:
        """Return ``path::name`` from this folder, with its class instead of a method. Pytest counts
        paths from the repository's root, wherever a test has changed the working directory to.
        """
        path, *names = node.split("[", maxsplit=1)[0].split("::")
        return "::".join([(TESTS.parent / path).relative_to(TESTS).as_posix(), *names[:1]])

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Leave the other tests of the files out."""
        others = [item for item in items if self.test_of(item.nodeid) not in self.wanted]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in set(others)]

    def pytest_collectreport(self, report: Any) -> None:
        """Keep that a whole file was skipped or could not be read."""
        if report.outcome != "passed":
            self._keep_of_file(self.test_of(report.nodeid), report.outcome, _reason(report))

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep a report: of the call, or of a setup or teardown that did not pass."""
        if report.when == "call" or report.outcome != "passed":
            self._keep(self.test_of(report.nodeid), report.outcome, _reason(report))

    def read(self, path: Path) -> None:
        """Keep what a run has written: a test's class is its file with dots, and its own class."""
        files = {test.split("::")[0] for test in self.wanted}
        dotted = {f"tests.{file[:-3].replace('/', '.')}": file for file in files}
        for case in ElementTree.parse(path).iter("testcase"):
            place, name = case.get("classname", ""), case.get("name", "")
            outcome, reason = "passed", ""
            for mark in ("failure", "error", "skipped"):
                if (found := case.find(mark)) is not None:
                    outcome = "skipped" if mark == "skipped" else "failed"
                    reason = found.get("message", "")
            if not place:  # a file that was left out, or could not be read
                if name in dotted:
                    self._keep_of_file(dotted[name], outcome, reason)
                continue
            module, _, kind = (place, "", "") if place in dotted else place.rpartition(".")
            if module in dotted:
                test = kind or name.split("[", maxsplit=1)[0]
                self._keep(f"{dotted[module]}::{test}", outcome, reason)

    def _keep(self, test: str, outcome: str, reason: str) -> None:
        self.by_test[test].add(outcome)
        if outcome == "skipped":
            self.reasons[test] = reason

    def _keep_of_file(self, file: str, outcome: str, reason: str) -> None:
        for test in self.wanted:
            if test.startswith(f"{file}::"):
                self._keep(test, outcome, reason)

    def verdict(self, test: str) -> str:
        """One word for a test function."""
        outcomes = self.by_test.get(test, set())
        if "failed" in outcomes:
            return "FAIL"
        return "pass" if "passed" in outcomes else "skipped" if outcomes else "missing"


def _reason(report: Any) -> str:
    """Why a test was skipped."""
    told = report.longrepr
    return str(told[2]).removeprefix("Skipped: ") if isinstance(told, tuple) else ""


def verdict_of(row: Row, by_test: Mapping[str, str], doors: Mapping[str, Set[Door]]) -> str:
    """Say how a row stands: a failing test fails it, a skipped one leaves it partly shown. If no
    test goes through the row's door, those of other doors show a part of it.
    """
    if "FAIL" in by_test.values():
        return "FAIL"
    if row.place != "here":
        return LATER[row.place]
    verdicts = [one for test, one in by_test.items() if row.door in doors[test]]
    if not verdicts and "pass" in by_test.values():
        return "part"
    verdicts = verdicts or list(by_test.values())
    if "pass" not in verdicts:
        return "skipped" if verdicts and set(verdicts) == {"skipped"} else "missing"
    return "pass" if set(verdicts) == {"pass"} else "partly"


def ran(options: list[str], wanted: set[str]) -> Outcomes:
    """Run the tests, or read what runs have written."""
    outcomes = Outcomes(wanted)
    if options and all(one.endswith(".xml") for one in options):
        for one in options:
            outcomes.read(Path(one))
        return outcomes
    files = {str(TESTS / test.split("::")[0]) for test in wanted}
    if not any(one.startswith("--laws") for one in options):
        options = ["--laws=slow", *options]  # some rows have slow tests only
    # In this process: workers would not have the plugin that leaves other tests out.
    quiet = ["-q", "--no-header", "--no-summary", "-p", "no:cacheprovider", "-n", "0"]
    pytest.main([*quiet, *options, *sorted(files)], plugins=[outcomes])
    return outcomes


def lines_of(
    rows: Iterable[Row],
    named: dict[str, list[str]],
    outcomes: Outcomes,
    doors: Mapping[str, Set[Door]],
) -> tuple[list[str], dict[str, int]]:
    """The table, a row and its tests a line each, and how often each verdict was given."""
    lines, counts = [], dict.fromkeys(("FAIL", "missing", "partly", "skipped", "part", "pass"), 0)
    for row in sorted(rows, key=lambda row: row.place != "here"):
        tests = named.get(row.name, [])
        verdicts = {test: outcomes.verdict(test) for test in tests}
        verdict = verdict_of(row, verdicts, doors)
        if row.place == "here":
            counts[verdict] += 1
        why = sorted({outcomes.reasons.get(test, "") for test in tests}) if verdict in _OPEN else []
        others = {door for test in tests for door in doors[test]}
        other = _other_door(others) if verdict == "part" else ""
        told = [one for one in (row.why, row.note, other, *why) if one]
        lines.append(": ".join([f"{row.name}  {verdict:7}  {row.door:8}  {row.title}", *told]))
        for test, one in verdicts.items():
            lines.append(f"              {one:7}  {'+'.join(sorted(doors[test])):8}  {test}")
    return lines, counts


_OPEN = ("partly", "skipped")


def headline(counts: Mapping[str, int]) -> str:
    """Count the rows all of whose tests passed; the others by their verdict."""
    told = ", ".join(f"{verdict} {n}" for verdict, n in counts.items() if verdict != "pass")
    elsewhere = len(ROWS) - sum(counts.values())
    return (
        f"{counts['pass']} of {len(ROWS)} rows are proved here: {told}, not tried here {elsewhere}."
    )


def _other_door(doors: Set[Door]) -> str:
    """Say what the tests of a row use instead of its door."""
    if "index" in doors:
        return "only through an index built by hand"
    return f"only through {' and '.join(sorted(doors))}"


def main(options: list[str]) -> int:
    """Run, print, and give the exit code."""
    named = named_tests(TESTS, ALSO)
    wanted = {test for tests in named.values() for test in tests}
    outcomes = ran(options, wanted)
    doors = {test: doors_of(TESTS, test) for test in wanted}
    lines, counts = lines_of(ROWS, named, outcomes, doors)
    print(*lines, sep="\n")
    print(headline(counts))
    return int(counts["FAIL"] + counts["missing"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
