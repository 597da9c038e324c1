"""Finds calls that open a store without naming a recipe, in row tests and the helpers they use."""

import ast
import re
from collections.abc import Iterator

from spec.naming import rows_of

STORES = {"Memory", "MemorySync"}
OPENING = {"open", "in_memory"}
ROW_TEST = re.compile(r"(def test_|class Test)[A-H]\d\d")
SHARED = {"open_store"}  # helpers that other modules have, and that need a recipe

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def unnamed_in(source: str) -> list[str]:
    """Return ``line: call`` for each store that a row test or a helper opens without a recipe.

    Tests that name no row are left out. A helper that passes its ``**options`` on may leave the
    recipe to its callers; then calls of the helper are checked as if they opened a store. Files
    without row tests give nothing.
    """
    if not ROW_TEST.search(source):  # most files; parsing takes long
        return []
    tree = ast.parse(source)
    tests = [node for node in tree.body if isinstance(node, Definition) and _is_test(node.name)]
    if not any(rows_of(test.name) for test in tests):
        return []
    checked = [node for node in tree.body if node not in tests or _has_rows(node)]
    openers = set(SHARED)
    while more := {name for node in checked for name in _passing_on(node, openers)} - openers:
        openers |= more
    found = {
        (call.lineno, call.col_offset): f"{call.lineno}: {ast.unparse(call)}"
        for node in checked
        for call in _opening(node, openers)
        if "recipe" not in _given(call, node)
        if not (_options_of(node) and _spreads(call, _options_of(node)))
    }
    return [found[place] for place in sorted(found)]


def _is_test(name: str) -> bool:
    return name.startswith(("test", "Test"))


def _has_rows(node: ast.stmt) -> bool:
    return isinstance(node, Definition) and bool(rows_of(node.name))


def _options_of(node: ast.stmt) -> str:
    """The name of a helper's ``**options``; a test has none."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.args.kwarg:
        return node.args.kwarg.arg
    return ""


def _passing_on(node: ast.stmt, openers: set[str]) -> Iterator[str]:
    """A helper's name, if it opens a store with the options that it was given and no recipe."""
    name = _options_of(node)
    if name and isinstance(node, Definition):
        for call in _opening(node, openers):
            if _spreads(call, name) and "recipe" not in _given(call, node):
                yield node.name


def _spreads(call: ast.Call, name: str) -> bool:
    return any(
        one.arg is None and any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(one))
        for one in call.keywords
    )


def _opening(node: ast.AST, openers: set[str]) -> Iterator[ast.Call]:
    for call in ast.walk(node):
        if not isinstance(call, ast.Call):
            continue
        called = call.func
        if isinstance(called, ast.Name) and called.id in openers:
            yield call
        elif isinstance(called, ast.Attribute) and called.attr in OPENING:
            owner = called.value
            yield from [call] * (isinstance(owner, ast.Name) and owner.id in STORES)


def _given(call: ast.Call, node: ast.AST) -> set[object]:
    """The names of a call's arguments; ``recipe=None`` names none. For ``**given``, the keys of
    every dictionary in the same function.
    """
    names: set[object] = {
        one.arg
        for one in call.keywords
        if not (isinstance(one.value, ast.Constant) and one.value.value is None)
    }
    if None in names:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Dict):
                names |= {key.value for key in inner.keys if isinstance(key, ast.Constant)}
            elif isinstance(inner, ast.Call) and ast.unparse(inner.func) == "dict":
                names |= {one.arg for one in inner.keywords}
    return names
