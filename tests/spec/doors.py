"""Says by which doors a test reaches the library, read from the sources of the tests.

A door is what a user calls: the store (``Memory``, ``Notes``, ``hm_recall``, the command line), an
index (``Index``), the types and adapters alone, ``hyrecall.evaluate``, or ``hyrecall.serve``. A
test goes through the doors that its own body names, and those of the helpers and fixtures that it
uses; if it names none, its door is ``parts``.
"""

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from spec.rows import Door

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
# What opens a store or reads one, by its public name.
STORE = {"Memory", "MemorySync", "AgentMemory", "AgentMemorySync", "Notes", "hm_recall"}
# What starts ``hyrecall mcp`` in a process of its own.
SPAWNED = {"spawned", "talk"}
INDEX = {"Index", "IndexWriter", "build", "open_index"}


@dataclass(frozen=True)
class Source:
    """A parsed file: what it defines at its top, and where its other names come from."""

    tree: ast.Module
    defined: dict[str, list[ast.stmt]]
    imported: dict[str, tuple[str, str]]
    modules: dict[str, str]


@functools.cache
def read(path: Path) -> Source:
    """Parse a file."""
    tree = ast.parse(path.read_text("utf-8"))
    defined: dict[str, list[ast.stmt]] = {}
    for node in tree.body:
        if isinstance(node, Definition):
            defined.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for one in (inner for target in targets for inner in ast.walk(target)):
                if isinstance(one, ast.Name):
                    defined.setdefault(one.id, []).append(node)
    imported: dict[str, tuple[str, str]] = {}
    modules: dict[str, str] = {}
    for inner in ast.walk(tree):
        if isinstance(inner, ast.ImportFrom) and inner.module:
            imported |= {one.asname or one.name: (inner.module, one.name) for one in inner.names}
        elif isinstance(inner, ast.Import):
            modules |= {one.asname or one.name.split(".")[0]: one.name for one in inner.names}
    return Source(tree, defined, imported, modules)


def doors_of(tests: Path, test: str) -> set[Door]:
    """Return the doors of ``path::name``, a test function or class below the folder ``tests``."""
    file, name = test.split("::")
    found: set[Door] = set()
    seen: set[tuple[Path, str]] = set()
    todo = [(tests / file, name)]
    while todo:
        if (place := todo.pop()) in seen or not place[0].exists():
            continue
        seen.add(place)
        path, wanted = place
        source = read(path)
        for node in source.defined.get(wanted, []):
            for used in _names(node):
                if used in source.defined:
                    todo.append((path, used))
                elif used.split(".")[0] in source.imported:
                    module, original = source.imported[used.split(".")[0]]
                    rest = used.partition(".")[2]
                    if door := _door(module, original, rest):
                        found.add(door)
                    elif not module.startswith("hyrecall"):
                        inside = tests / module.replace(".", "/")
                        todo.append((inside.with_suffix(".py"), original))
                        if rest:  # a module of the package: ``from parity import test_loom``
                            todo.append((inside / f"{original}.py", rest.split(".")[0]))
                elif used.split(".")[0] in source.modules:
                    module = source.modules[used.split(".")[0]]
                    if module.startswith("hyrecall") and (
                        door := _door(module, *_split(used.partition(".")[2]))
                    ):
                        found.add(door)
            # A parameter may be a fixture of a conftest.py.
            for parameter in _parameters(node):
                if parameter not in source.defined:
                    todo += [
                        (folder / "conftest.py", parameter)
                        for folder in path.parents
                        if folder.is_relative_to(tests)
                    ]
    return found or {"parts"}


def _split(dotted: str) -> tuple[str, str]:
    first, _, rest = dotted.partition(".")
    return first, rest


def _door(module: str, name: str, rest: str) -> Door | None:
    """The door that a name of the library is."""
    dotted = f"{module}.{name}.{rest}"
    parts = set(dotted.split("."))
    if not module.startswith("hyrecall"):
        return "service" if module == "mcp_world" and name in SPAWNED else None
    if module.startswith("hyrecall.cli"):
        return "store"
    if module.startswith("hyrecall.serve") or parts & {"routes", "tools"}:
        return "service"
    if parts & {"memory", "systems"}:
        return "store" if parts & STORE else "types"
    if "evaluate" in parts:
        return "evaluate"
    return "index" if parts & INDEX else None


def _names(node: ast.stmt) -> Iterator[str]:
    """Every name in a definition, with the attributes that follow it, and its parameters."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute | ast.Name):
            dotted = ast.unparse(inner)
            if dotted.replace(".", "").isidentifier():
                yield dotted
    yield from _parameters(node)
    for decorator in getattr(node, "decorator_list", []):  # usefixtures names them by texts
        for inner in ast.walk(decorator):
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                yield inner.value


def _parameters(node: ast.stmt) -> set[str]:
    return {inner.arg for inner in ast.walk(node) if isinstance(inner, ast.arg)}
