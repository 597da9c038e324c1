"""Tests reach private modules through seams.py alone, and seams.py has no name that nobody uses."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import seams

TESTS = Path(__file__).parent
BASELINE = TESTS / "api" / "baseline.txt"
FOR_TYPES = "refused_keywords.py"  # mypy reads it, and needs the module that a type stands in


@cache
def public_names() -> set[str]:
    """Return the public modules, and what users import from them."""
    out = {"hyrecall.errors", "hyrecall.systems", "hyrecall.systems.loom.loomflow"}
    module = ""
    for line in BASELINE.read_text("utf-8").splitlines():
        if section := re.fullmatch(r"\[(.+)\]", line):
            module = section[1]
            out.add(module)
        elif name := re.match(r"(?:class|function|value|module) (\w+)", line):
            out.add(f"{module}.{name[1]}")
    return out


@cache
def private_modules() -> set[str]:
    """Return the modules of the package whose names are not public."""
    package = TESTS.parent / "python"
    files = (path.relative_to(package) for path in (package / "hyrecall").rglob("*.py"))
    modules = {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in files}
    return {m for m in modules - public_names() if not m.startswith("hyrecall.adapters")}


def imported(text: str) -> Iterator[str]:
    """Yield the private modules that a file imports, or imports from."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (name for name in names if name in private_modules())


def test_no_other_file_imports_a_private_module() -> None:
    found = {
        path.relative_to(TESTS).as_posix(): names
        for path in sorted(TESTS.rglob("*.py"))
        if path.name != FOR_TYPES and (names := list(imported(path.read_text("utf-8"))))
    }
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "import hyrecall.recall.planning",
        "from hyrecall.recall.planning import make_plan",
        "def test():\n    from hyrecall.recall import planning",
    ],
)
def test_a_planted_import_is_found(text: str) -> None:
    assert "hyrecall.recall.planning" in set(imported(text))


def test_every_name_is_used() -> None:
    used = {
        alias.name
        for path in TESTS.rglob("*.py")
        if "seams" in (text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.module == "seams"
        for alias in node.names
    }
    assert {*seams.MODULES, *seams.PLACES} - used == set()
