"""Runs the tests of the acceptance rows and shows row -> tests -> verdict.

``python -m tests.coverage_of_spec``, in the repository's root; what follows goes to pytest
(``--laws=full``). Exit code 1 where a row that is proved here has no passing test or a failing one.
"""

import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tests.spec.naming import named_tests
from tests.spec.rows import ROWS, Place, Row

TESTS = Path(__file__).parent
LATER: dict[Place, str] = {
    "memory": "waits for the durable store",
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

    @staticmethod
    def test_of(node: str) -> str:
        """``path::name`` from this folder."""
        path, *names = node.split("[", maxsplit=1)[0].split("::")
        return "::".join([Path(path).resolve().relative_to(TESTS).as_posix(), *names])

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Leave the other tests of the files out."""
        others = [item for item in items if self.test_of(item.nodeid) not in self.wanted]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if item not in set(others)]

    def pytest_collectreport(self, report: Any) -> None:
        """Keep that a whole file was skipped or could not be read."""
        if report.outcome != "passed":
            file = self.test_of(report.nodeid)
            for test in self.wanted:
                if test.startswith(f"{file}::"):
                    self.by_test[test].add(report.outcome)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep a report: of the call, or of a setup or teardown that did not pass."""
        if report.when == "call" or report.outcome != "passed":
            self.by_test[self.test_of(report.nodeid)].add(report.outcome)

    def verdict(self, test: str) -> str:
        """One word for a test function."""
        outcomes = self.by_test.get(test, set())
        if "failed" in outcomes:
            return "FAIL"
        return "pass" if "passed" in outcomes else "skipped" if outcomes else "missing"


def verdict_of(row: Row, verdicts: list[str]) -> str:
    """Say how a row stands: a failing test fails it, a skipped one leaves it partly shown."""
    if "FAIL" in verdicts:
        return "FAIL"
    if row.place != "index":
        return LATER[row.place]
    if "pass" not in verdicts:
        return "missing"
    return "pass" if set(verdicts) == {"pass"} else "partly"


def main(options: list[str]) -> int:
    """Run, print, and give the exit code."""
    named = named_tests(TESTS)
    wanted = {test for tests in named.values() for test in tests}
    files = {str(TESTS / test.split("::")[0]) for test in wanted}
    outcomes = Outcomes(wanted)
    quiet = ["-q", "--no-header", "--no-summary", "-p", "no:cacheprovider"]
    pytest.main([*quiet, *options, *sorted(files)], plugins=[outcomes])
    bad = 0
    for row in sorted(ROWS, key=lambda row: row.place != "index"):
        verdicts = {test: outcomes.verdict(test) for test in named.get(row.name, [])}
        verdict = verdict_of(row, list(verdicts.values()))
        bad += verdict in ("FAIL", "missing")
        print(f"{row.name}  {verdict:7}  {row.title}{f': {row.why}' if row.why else ''}")
        for test, one in verdicts.items():
            print(f"              {one:7}  {test}")
    here = sum(row.place == "index" for row in ROWS)
    print(f"{here} of {len(ROWS)} rows are proved here, {bad} of them are not yet.")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
