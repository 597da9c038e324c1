"""Every acceptance row that is proved here has a test named after it."""

from pathlib import Path

import pytest

from coverage_of_spec import Outcomes, lines_of
from spec.naming import functions_in, named_tests, rows_of
from spec.rows import ALSO, BY_NAME, ROWS, Row

TESTS = Path(__file__).parents[1]


def test_every_row_that_is_proved_here_has_a_test() -> None:
    named = named_tests(TESTS, ALSO)
    assert [row.name for row in ROWS if row.place == "here" and row.name not in named] == []


def test_tests_that_prove_a_row_by_another_name_are_there() -> None:
    assert {test for tests in ALSO.values() for test in tests} - set(functions_in(TESTS)) == set()


def test_no_test_names_a_row_that_is_unknown_or_decided_against() -> None:
    named = named_tests(TESTS, ALSO)
    assert sorted(named.keys() - BY_NAME.keys()) == []
    assert [row for row in named if BY_NAME[row].place == "against"] == []


def test_rows_are_numbered_without_gaps() -> None:
    counts = {part: [row.name for row in ROWS if row.name[0] == part] for part in "ABCDEFGH"}
    assert {part: len(names) for part, names in counts.items()} == {
        "A": 47, "B": 16, "C": 27, "D": 33, "E": 52, "F": 25, "G": 7, "H": 15,
    }  # fmt: skip
    for part, names in counts.items():
        assert names == [f"{part}{at:02}" for at in range(1, len(names) + 1)]


@pytest.mark.parametrize(
    ("test", "rows"),
    [
        ("test_A09_a_match_wins", ["A09"]),
        ("test_A09_A10_short_lists", ["A09", "A10"]),
        ("test_A09", ["A09"]),
        ("test_a_B2_thing", []),
        ("test_A091_thing", []),
        ("TestA33Custom", ["A33"]),
        ("TestAnything", []),
    ],
)
def test_rows_are_read_from_a_name(test: str, rows: list[str]) -> None:
    assert rows_of(test) == rows


def test_tests_are_found_with_their_places(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "test_x.py").write_text(
        "def test_A01_A02_one(): ...\nasync def test_A02_two(): ...\ndef helper_A03(): ...\n"
        "class TestA04Thing: ...\n"
    )
    found = named_tests(tmp_path)
    assert found == {
        "A01": ["sub/test_x.py::test_A01_A02_one"],
        "A02": ["sub/test_x.py::test_A01_A02_one", "sub/test_x.py::test_A02_two"],
        "A04": ["sub/test_x.py::TestA04Thing"],
    }


REPORT = """<testsuites><testsuite>
  <testcase classname="tests.x.test_a" name="test_A01_one[1-a]"/>
  <testcase classname="tests.x.test_a" name="test_A01_one[2-b]"><skipped message="key"/></testcase>
  <testcase classname="tests.x.test_a" name="test_A02_two"><failure message="1 != 2"/></testcase>
  <testcase classname="tests.x.test_a" name="test_A03_three"><skipped message="server"/></testcase>
  <testcase classname="tests.x.test_a.TestA04Four" name="test_it"/>
  <testcase classname="" name="tests.x.test_b"><skipped message="no package"/></testcase>
  <testcase classname="tests.elsewhere" name="test_A07_seven"/>
</testsuite></testsuites>"""
HERE = {"A01": "test_a.py::test_A01_one", "A02": "test_a.py::test_A02_two",
        "A03": "test_a.py::test_A03_three", "A04": "test_a.py::TestA04Four",
        "A05": "test_b.py::test_A05_five", "A06": "test_b.py::test_A06_six",
        "A07": "test_a.py::test_A07_seven"}  # fmt: skip
WISH = {
    "A01": "pass", "A02": "FAIL", "A03": "skipped", "A04": "pass", "A05": "skipped",
    "A06": "partly", "A07": "missing",
}  # fmt: skip


def test_a_row_that_skipped_is_shown_with_its_reason_and_is_not_missing(tmp_path: Path) -> None:
    named = {row: [f"x/{test}"] for row, test in HERE.items()}
    named["A06"] += named["A04"]
    outcomes = Outcomes({test for tests in named.values() for test in tests})
    (tmp_path / "report.xml").write_text(REPORT)
    outcomes.read(tmp_path / "report.xml")
    rows = [Row(name, "here", name.lower(), note="as noted" * (name == "A01")) for name in HERE]
    lines, counts = lines_of(rows, named, outcomes)
    told = {line[:3]: line for line in lines if line[0] == "A"}
    assert {name: line.split()[1] for name, line in told.items()} == WISH
    assert told["A01"].endswith("a01: as noted")
    assert told["A03"].endswith(": server")
    assert told["A05"].endswith(": no package")
    assert counts == {"FAIL": 1, "missing": 1, "partly": 1, "skipped": 2, "pass": 2}
    # Another run, which had what this one lacked.
    other = REPORT.replace('<skipped message="server"/>', "")
    (tmp_path / "other.xml").write_text(other)
    outcomes.read(tmp_path / "other.xml")
    assert lines_of(rows, named, outcomes)[1]["skipped"] == 1
