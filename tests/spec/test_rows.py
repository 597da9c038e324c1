"""Every acceptance row that is proved here has a test named after it."""

from pathlib import Path

import pytest

from spec.naming import named_tests, rows_of
from spec.rows import BY_NAME, ROWS

TESTS = Path(__file__).parents[1]


def test_every_row_that_is_proved_here_has_a_test() -> None:
    named = named_tests(TESTS)
    assert [row.name for row in ROWS if row.place == "index" and row.name not in named] == []


def test_no_test_names_a_row_that_is_unknown_or_decided_against() -> None:
    named = named_tests(TESTS)
    assert sorted(named.keys() - BY_NAME.keys()) == []
    assert [row for row in named if BY_NAME[row].place == "against"] == []


def test_rows_are_numbered_without_gaps() -> None:
    counts = {part: [row.name for row in ROWS if row.name[0] == part] for part in "ABCEFG"}
    assert {part: len(names) for part, names in counts.items()} == {
        "A": 47, "B": 16, "C": 27, "E": 52, "F": 25, "G": 7,
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
    ],
)
def test_rows_are_read_from_a_name(test: str, rows: list[str]) -> None:
    assert rows_of(test) == rows


def test_tests_are_found_with_their_places(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "test_x.py").write_text(
        "def test_A01_A02_one(): ...\nasync def test_A02_two(): ...\ndef helper_A03(): ...\n"
    )
    found = named_tests(tmp_path)
    assert found == {
        "A01": ["sub/test_x.py::test_A01_A02_one"],
        "A02": ["sub/test_x.py::test_A01_A02_one", "sub/test_x.py::test_A02_two"],
    }
