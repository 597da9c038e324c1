"""Examples name how they recall, so that another default changes none of them.

A store that is opened names its recipe; a recall by texts and by vectors its recipe or its fusion;
commands on a store set the recipe first.
"""

import ast
import doctest
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.test_docs_code import python_blocks

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OPENING = {"open", "in_memory"}
STORES = {"Memory", "MemorySync"}
RECALLS = {"recall", "arecall", "recall_one", "arecall_one"}


def unnamed(code: str) -> list[str]:
    """Every call of a program that leaves to a default how is recalled."""
    tree = ast.parse(code)
    # What a dict holds that is handed over with **: enough for examples.
    spread = {
        key.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant)
    }
    return [
        ast.unparse(call)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        if _leaves_it_open(call, call.func, spread)
    ]


def _leaves_it_open(call: ast.Call, method: ast.Attribute, spread: set[object]) -> bool:
    given = {
        one.arg
        for one in call.keywords
        if not (isinstance(one.value, ast.Constant) and one.value.value is None)
    }
    if None in given:
        given |= spread
    if method.attr in OPENING and isinstance(method.value, ast.Name) and method.value.id in STORES:
        return "recipe" not in given
    has_both = "text" in given and bool(given & {"vector", "vectors"})
    return method.attr in RECALLS and has_both and not given & {"recipe", "fusion"}


def docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def programs() -> Iterator[tuple[str, str]]:
    """Every example: the file that has it, and its code."""
    for page in PAGES:
        for _, code in python_blocks(page.read_text(encoding="utf-8")):
            yield page.name, code
    for path in sorted((ROOT / "examples").glob("*.py")):
        yield f"examples/{path.name}", path.read_text(encoding="utf-8")
    package = ROOT / "python"
    for path in sorted(package.rglob("*.py")):
        for text in docstrings(path):
            lines = [one.source for one in doctest.DocTestParser().get_examples(text)]
            if lines:
                yield str(path.relative_to(package)), "".join(lines)


def test_every_example_names_its_recipe_or_its_fusion() -> None:
    seen = list(programs())
    assert len(seen) > 150
    assert [(where, call) for where, code in seen for call in unnamed(code)] == []


@pytest.mark.parametrize(
    ("code", "n_unnamed"),
    [
        ("MemorySync.open(path, embedder=None)", 1),
        ("MemorySync.open(path, recipe=recipes.l0)", 0),
        ("async def f():\n async with Memory.open(path) as m: pass", 1),
        ("Memory.in_memory()", 1),
        ("options = {'recipe': l0}\nMemory.open(path, **options)", 0),
        ("Index.open(path)", 0),
        ("index.recall(text=a, vectors=b)", 1),
        ("index.recall_one(text=a, vector=b, scope=c)", 1),
        ("index.recall(text=a, vectors=None)", 0),
        ("index.recall(text=a, vectors=b, fusion=hr.RRF())", 0),
        ("index.recall(text=a, vectors=b, recipe=hr.recipes.default)", 0),
        ("index.recall(text=a, vectors=b, recipe=None)", 1),
        ("index.recall(text=a, scope=c)", 0),
    ],
)
def test_a_call_that_names_neither_would_be_seen(code: str, n_unnamed: int) -> None:
    assert len(unnamed(code)) == n_unnamed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_on_a_store_set_its_recipe_first(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if re.search(r"^hyrecall remember", block, re.MULTILINE):
            assert block.startswith("hyrecall config set recipe ")
