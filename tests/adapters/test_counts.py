"""The table of counts in docs/frameworks.md has every run of .ci/frameworks, and can be checked."""

import re
import sys
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
REPORT = """<testsuites><testsuite>
<testcase classname="a.test_x" name="ours" />
<testcase classname="a.test_x" name="ours too"><skipped type="pytest.skip" /></testcase>
<testcase classname="a.test_x.TestSuite" name="theirs" />
<testcase classname="a.test_x.TestSuite" name="a"><skipped type="pytest.xfail" /></testcase>
<testcase classname="a.test_x.TestSuite" name="b"><skipped type="pytest.skip" /></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def counts() -> Iterator[ModuleType]:
    place = ROOT / ".ci" / "framework_counts.py"
    if not place.is_file():
        pytest.skip("the sources are not beside the tests")
    spec = util.spec_from_file_location("framework_counts", place)
    assert spec is not None
    assert spec.loader is not None
    made = util.module_from_spec(spec)
    sys.modules["framework_counts"] = made
    spec.loader.exec_module(made)
    yield made
    del sys.modules["framework_counts"]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """What a run leaves: a report, the versions, and the counts of published tests."""
    (tmp_path / "x-newest.xml").write_text(REPORT)
    (tmp_path / "x-newest.versions").write_text("x 1.2, y 3\n")
    (tmp_path / "x-newest.log").write_text("published: x 1.2: 10 passed, 2 failed, 3 skipped\n")
    return tmp_path


def test_a_row_has_the_suites_beside_our_tests(counts: ModuleType, work: Path) -> None:
    assert counts.row_of(work, "x", "newest") == "| x | newest | x 1.2, y 3 | 11 | 3 | 4 | 1 | 1 |"
    assert counts.row_of(work, "x", "year_old") is None


def test_a_name_without_a_suite_has_no_counts_of_one(counts: ModuleType, work: Path) -> None:
    (work / "x-newest.log").write_text("1 passed\n")
    report = "\n".join(line for line in REPORT.splitlines() if "TestSuite" not in line)
    (work / "x-newest.xml").write_text(report)
    assert counts.row_of(work, "x", "newest") == "| x | newest | x 1.2, y 3 | | | | 1 | 1 |"


def test_a_failure_is_no_refusal(counts: ModuleType, work: Path) -> None:
    failed = REPORT.replace('name="theirs" />', 'name="theirs"><failure /></testcase>')
    (work / "x-newest.xml").write_text(failed)
    assert counts.row_of(work, "x", "newest").endswith("| 10 | 3 | 4 | 1 (1 failed) | 1 |")


def test_a_table_that_differs_is_told_and_written(
    counts: ModuleType,
    work: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = work / "page.md"
    page.write_text(
        "text\n\n| x | newest | x 1.1 | 1 | 1 | 1 | 1 | 1 |\n| z | newest | | | | | | |\n"
    )
    monkeypatch.setattr(counts, "PAGE", page)
    assert counts.main([str(work), "x"]) == 1
    assert (
        capsys.readouterr().out
        == f"docs/frameworks.md differs: {counts.row_of(work, 'x', 'newest')}\n"
    )
    assert counts.main(["--write", str(work), "x"]) == 0
    assert counts.main([str(work), "x"]) == 0
    assert page.read_text().splitlines()[2:] == [
        counts.row_of(work, "x", "newest"), "| z | newest | | | | | | |",
    ]  # fmt: skip


def test_the_table_has_a_row_for_each_release(counts: ModuleType) -> None:
    script = (ROOT / ".ci" / "frameworks").read_text("utf-8")
    wanted = {
        (name, counts.RELEASES[release])
        for release, name in re.findall(r"^(newest|year_old)\[(\w+)\]=", script, re.M)
    }
    rows = [line for line in counts.PAGE.read_text("utf-8").splitlines() if line.count("|") == 9]
    table = {counts.key_of(row): row for row in rows if set(row) - set("|- ")}
    table.pop(("tests", "release"))
    assert table.keys() == wanted
    for row in table.values():
        _, _, _, versions, *numbers, _ = (cell.strip() for cell in row.split("|"))
        assert re.fullmatch(r"[\w.-]+ [\w.]+(, [\w.-]+ [\w.]+)*", versions), row
        assert all(map(str.isdecimal, numbers[3:])), row
