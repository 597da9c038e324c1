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


Imports = list[ast.Import | ast.ImportFrom]


def imports_of(text: str) -> Imports:
    """Return the imports of a file, wherever they stand."""
    nodes = ast.walk(ast.parse(text))
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


@cache  # two tests read all of them
def imports_of_tests() -> dict[str, Imports]:
    """Return the imports of each file that may name the package or its seams."""
    return {
        path.relative_to(TESTS).as_posix(): imports_of(text)
        for path in sorted(TESTS.rglob("*.py"))
        if "hyrecall" in (text := path.read_text("utf-8")) or "seams" in text
    }


def imported(nodes: Imports) -> Iterator[str]:
    """Yield the private modules that a file imports, or imports from."""
    for node in nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif node.module is not None:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (name for name in names if name in private_modules())


def test_no_other_file_imports_a_private_module() -> None:
    found = {
        path: names
        for path, nodes in imports_of_tests().items()
        if path != FOR_TYPES and (names := list(imported(nodes)))
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
    assert "hyrecall.recall.planning" in set(imported(imports_of(text)))


def test_every_name_is_used() -> None:
    used = {
        alias.name
        for nodes in imports_of_tests().values()
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == "seams"
        for alias in node.names
    }
    assert {*seams.MODULES, *seams.PLACES} - used == set()
