"""An adapter uses no private name, and names the extra that it lacks."""

import ast
import importlib
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import hyrecall as hr
from frameworks import FRAMEWORKS, module_of
from seams import needs_extra

# ---- no private name: not of the engine, the store or a framework ----

PACKAGE = Path(__file__).parents[2] / "python/hyrecall"
FILES = (*sorted((PACKAGE / "adapters").glob("*.py")), PACKAGE / "systems/loom/loomflow.py")
MODULES = {one.stem: one.read_text("utf-8") for one in FILES}


def private_names(text: str) -> list[str]:
    """Return the private names that a module uses and no class of the adapters defines."""
    tree = ast.parse(text)
    own = defined(text).union(*(defined(MODULES[name]) for name in imported(tree)))
    return [
        name
        for node in ast.walk(tree)
        for name in _used(node)
        if any(map(_is_private, name.split("."))) and name not in own
    ]


def imported(tree: ast.Module) -> list[str]:
    """Return the modules of the adapters that a module imports from."""
    home = "hyrecall.adapters."
    froms = (node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return [one.removeprefix(home) for one in froms if one.startswith(home)]


@cache
def defined(text: str) -> frozenset[str]:
    """Return the private attributes that the classes of a module define."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            found.update(one.name for one in node.body if isinstance(one, ast.FunctionDef))
            found.update(one.name for one in node.body if isinstance(one, ast.AsyncFunctionDef))
            annotated = (one.target for one in node.body if isinstance(one, ast.AnnAssign))
            found.update(one.id for one in annotated if isinstance(one, ast.Name))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.update([node.attr] if ast.unparse(node.value) == "self" else [])
    return frozenset(found)


def _used(node: ast.AST) -> Iterator[str]:
    """The names of a node that may be somebody else's: attributes, and what is imported."""
    if isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Import):
        yield from (one.name for one in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{node.module}.{one.name}" for one in node.names)
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("attr"):
        texts = (one.value for one in node.args if isinstance(one, ast.Constant))
        yield from (one for one in texts if isinstance(one, str))


def _is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


@pytest.mark.parametrize("name", MODULES)
def test_an_adapter_uses_no_private_name(name: str) -> None:
    assert private_names(MODULES[name]) == []


def test_there_are_adapters_to_read() -> None:
    assert MODULES.keys() > {"documents", "langchain", "loomflow"}


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("from hyrecall import _core", "hyrecall._core"),
        ("from hyrecall._core import Snapshot", "hyrecall._core.Snapshot"),
        ("import langchain_core._api", "langchain_core._api"),
        ("from haystack.dataclasses.document import _Document", "._Document"),
        ("found = memory._store", "_store"),
        ("class Mine(Theirs):\n    def get(self):\n        return self._hidden()", "_hidden"),
        ("class Mine(Theirs):\n    def get(self):\n        return super()._hidden()", "_hidden"),
        ("found = getattr(memory, '_store')", "_store"),
        ("documents._state = None", "_state"),
    ],
)
def test_a_private_name_is_found(line: str, name: str) -> None:
    (found,) = private_names(line)
    assert found.endswith(name)


def test_what_a_module_defines_itself_is_its_own() -> None:
    text = "class Mine:\n    _b: int\n    def _a(self):\n        self._c = self._a, self._b\n"
    assert private_names(f"{text}\ndef make(mine):\n    return mine._c, mine.__dict__\n") == []


# ---- an adapter whose framework is not installed says how to install it ----

PYTHON = Path(hr.__file__).parents[1]
PROJECT = Path(__file__).parents[2] / "pyproject.toml"
PLACES = {name: PYTHON / f"{module_of(name).replace('.', '/')}.py" for name in FRAMEWORKS}
PRESENT = [name for name, place in PLACES.items() if place.exists()]


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Make the import of a package, and of what it holds, fail as if it were not installed."""
    for name in [one for one in sys.modules if f"{one}.".startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize("name", PRESENT)
def test_an_adapter_without_its_framework_names_the_extra(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, FRAMEWORKS[name].partition(".")[0])
    monkeypatch.delitem(sys.modules, module_of(name), raising=False)
    extra = name.replace("_", "-")
    with pytest.raises(hr.MissingExtraError, match=rf"pip install 'hyrecall\[{extra}\]'"):
        importlib.import_module(module_of(name))
    assert extra in tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]


def test_the_error_names_the_package_and_other_faults_stay_as_they_are() -> None:
    with pytest.raises(hr.MissingExtraError) as raised, needs_extra("some"):
        importlib.import_module("no_such_package")
    told = "adapters: expected the extra [some] (pip install 'hyrecall[some]'), got no package "
    assert str(raised.value) == f"{told}no_such_package"
    with pytest.raises(ModuleNotFoundError, match="no_such_module"), needs_extra("some"):
        importlib.import_module("hyrecall.no_such_module")
