"""A class name means one thing in the package, except for the names below."""

import ast
from collections import defaultdict
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "python" / "hyrecall"
ADAPTERS = "a framework's users import it from the module of their framework"
SHAPES = "clients read it in the description of the REST API or of an MCP tool"
ALLOWED = {
    **dict.fromkeys(("HyrecallMemory", "HyrecallRetriever", "HyrecallVectorStore"), ADAPTERS),
    "FoundDocument": ADAPTERS,
    **dict.fromkeys(("ChangedMemory", "NewMemory", "RecallBody", "SearchBody"), SHAPES),
    **dict.fromkeys(("Edge", "Hit", "Node", "OneMemory", "Scores"), SHAPES),
    "BatchOptions": "the same options as arguments of Python and as a part of a REST request",
}


def repeated(package: Path) -> dict[str, list[str]]:
    """Return the class names that several modules define, each with its modules."""
    found = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path.relative_to(package).as_posix())
    return {name: places for name, places in found.items() if len(places) > 1}


def test_a_class_name_means_one_thing() -> None:
    found = repeated(PACKAGE)
    assert {name: found[name] for name in found.keys() - ALLOWED.keys()} == {}


def test_no_exception_is_left_over() -> None:
    assert ALLOWED.keys() - repeated(PACKAGE).keys() == set()


def test_a_planted_second_meaning_is_found(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "one.py").write_text("class Link: ...\nclass Other: ...\n")
    (tmp_path / "room" / "two.py").write_text("def f():\n    class Link: ...\n")
    assert repeated(tmp_path) == {"Link": ["one.py", "room/two.py"]}
