"""Every acceptance row that is proved here has a test named after it, which names its recipe."""

from pathlib import Path

import pytest

from coverage_of_spec import Outcomes, headline, lines_of
from spec.doors import doors_of
from spec.named_recipes import unnamed_in
from spec.naming import functions_in, named_tests, rows_of
from spec.rows import ALSO, BY_NAME, ROWS, Door, Row

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
        "A": 48, "B": 16, "C": 29, "D": 35, "E": 54, "F": 25, "G": 7, "H": 15,
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
    doors: dict[str, set[Door]] = {test: {"store"} for test in outcomes.wanted}
    (tmp_path / "report.xml").write_text(REPORT)
    outcomes.read(tmp_path / "report.xml")
    rows = [Row(name, "here", name.lower(), note="as noted" * (name == "A01")) for name in HERE]
    lines, counts = lines_of(rows, named, outcomes, doors)
    told = {line[:3]: line for line in lines if line[0] == "A"}
    assert {name: line.split()[1] for name, line in told.items()} == WISH
    assert told["A01"].endswith("a01: as noted")
    assert told["A03"].endswith(": server")
    assert told["A05"].endswith(": no package")
    assert counts == {
        "FAIL": 1, "missing": 1, "partly": 1, "skipped": 2, "part": 0, "pass": 2,
    }  # fmt: skip
    # Another run, which had what this one lacked.
    other = REPORT.replace('<skipped message="server"/>', "")
    (tmp_path / "other.xml").write_text(other)
    outcomes.read(tmp_path / "other.xml")
    assert lines_of(rows, named, outcomes, doors)[1]["skipped"] == 1


def test_the_headline_counts_only_rows_whose_tests_all_passed() -> None:
    counts = {"FAIL": 1, "missing": 212, "partly": 2, "skipped": 3, "part": 4, "pass": 5}
    assert headline(counts) == (
        f"5 of {len(ROWS)} rows are proved here: FAIL 1, missing 212, partly 2, skipped 3, part 4, "
        f"not tried here {len(ROWS) - 227}."
    )


def test_a_test_is_known_by_its_path_whatever_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Outcomes.test_of("tests/spec/x.py::TestA01Two::test_it[a]") == "spec/x.py::TestA01Two"


FILES = {
    "helpers.py": """
import hyrecall as hr
from hyrecall.memory import MemorySync
def build(): return hr.Index.build(table)
def opened(): return MemorySync.open(path, recipe=recipes.l0)
class Memory: ...
""",
    "conftest.py": """
def run():
    from hyrecall.cli.app import app
    return invoke(app)
def index(): return build()
""",
    "sub/test_x.py": """
import hyrecall as hr
from hyrecall.evaluate import evaluate
from hyrecall.memory import Episode, Memory as Async
from hyrecall.systems.l0 import Notes
from helpers import Memory, build, opened
def by_helper(): return opened()
def given(): return by_helper()
def test_A01_built_by_hand(): build()
def test_A01_open(): opened()
def test_A01_by_a_fixture(given): given
def test_A01_on_the_command_line(run): run("recall")
def test_A01_notes(): Notes(memory)
async def test_A01_async(): await Async.open(path)
class TestA01Both:
    def test_it(self):
        build()
        opened()
def test_A01_another_memory(): Memory()
def test_A01_types(): Episode()
@pytest.mark.usefixtures("given")
def test_A01_fixtures_by_name(): ...
def test_A01_evaluated(): evaluate(run)
def test_A01_index_by_its_name(): hr.Index.open(path)
""",
}
DOORS: dict[str, set[Door]] = {
    "test_A01_built_by_hand": {"index"},
    "test_A01_open": {"store"},
    "test_A01_by_a_fixture": {"store"},
    "test_A01_on_the_command_line": {"store"},
    "test_A01_notes": {"store"},
    "test_A01_async": {"store"},
    "TestA01Both": {"index", "store"},
    "test_A01_another_memory": {"parts"},
    "test_A01_types": {"types"},
    "test_A01_fixtures_by_name": {"store"},
    "test_A01_evaluated": {"evaluate"},
    "test_A01_index_by_its_name": {"index"},
}


def test_the_doors_of_a_test_are_read_from_its_source_and_its_helpers(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name, source in FILES.items():
        (tmp_path / name).write_text(source)
    assert {name: doors_of(tmp_path, f"sub/test_x.py::{name}") for name in DOORS} == DOORS


def test_a_row_of_the_store_is_not_proved_by_an_index_built_by_hand() -> None:
    doors: dict[str, set[Door]] = {
        "a::by_hand": {"index"}, "a::store": {"store", "types"}, "a::types": {"types"},
    }  # fmt: skip
    outcomes = Outcomes(set(doors))
    for test in doors:
        outcomes.by_test[test].add("passed")
    rows = [
        Row("A01", "here", "one"),
        Row("A02", "here", "two"),
        Row("A03", "here", "three", door="index"),
        Row("A04", "here", "four"),
    ]
    named = {"A01": ["a::by_hand"], "A02": ["a::by_hand", "a::store"], "A03": ["a::by_hand"],
             "A04": ["a::types"]}  # fmt: skip
    lines, counts = lines_of(rows, named, outcomes, doors)
    told = [line for line in lines if line[0] == "A"]
    assert told[0] == "A01  part     store     one: only through an index built by hand"
    assert told[1] == "A02  pass     store     two"
    assert told[2] == "A03  pass     index     three"
    assert told[3] == "A04  part     store     four: only through types"
    assert (counts["part"], counts["pass"]) == (2, 2)
    assert "              pass     index     a::by_hand" in lines
    outcomes.by_test["a::by_hand"].add("failed")  # by any door, a failing test fails its row
    assert lines_of(rows, named, outcomes, doors)[1]["FAIL"] == 3


# ---- row tests name their recipe, so that another default changes no row ----


def test_every_store_of_a_row_test_names_its_recipe() -> None:
    found = {
        path.relative_to(TESTS).as_posix(): calls
        for path in sorted(TESTS.rglob("test_*.py"))
        if (calls := unnamed_in(path.read_text("utf-8")))
    }
    assert found == {}


ROW = "def test_A01_a_row():\n    "
HELPER = "def helper(**options):\n    return MemorySync.open(path, **options)\n\n"


@pytest.mark.parametrize(
    ("source", "n_unnamed"),
    [
        (f"{ROW}MemorySync.open(path, embedder=None)", 1),
        (f"{ROW}MemorySync.open(path, recipe=recipes.l0)", 0),
        (f"{ROW}MemorySync.open(path, recipe=None)", 1),
        (f"{ROW}Memory.open(path)", 1),
        (f"{ROW}MemorySync.in_memory()", 1),
        (f"{ROW}open_store()", 1),
        (f"{ROW}open_store(recipe=recipes.hebb)", 0),
        (f"{ROW}with open_store() as a, open_store() as b: pass", 2),
        (f"{ROW}given = {{'recipe': recipes.l0}}\n    open_store(**given)", 0),
        (f"{ROW}given = {{'dim': 8}}\n    open_store(**given)", 1),
        (f"{ROW}Index.open(path)", 0),
        (f"def helper():\n    return open_store()\n\n{ROW}helper()", 1),
        (f"{HELPER}{ROW}helper()", 1),
        (f"{HELPER}{ROW}helper(recipe=recipes.l0)", 0),
        (f"{HELPER}def outer(**more):\n    return helper(**more)\n\n{ROW}outer()", 1),
        (f"class TestA34Lazy:\n    def test_it(self):\n        open_store()\n\n{ROW}pass", 1),
        (f"def test_another_thing():\n    open_store()\n\n{ROW}pass", 0),
        ("def test_another_thing():\n    open_store()", 0),
    ],
)
def test_a_store_that_leaves_its_recipe_to_the_default_is_found(
    source: str, n_unnamed: int
) -> None:
    assert len(unnamed_in(source)) == n_unnamed
