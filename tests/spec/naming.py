"""Which tests say by their name that they prove a row: ``test_A09_...``, ``test_A09_A10_...``."""

import ast
import re
from collections import defaultdict
from pathlib import Path

_NAMED = re.compile(r"test((?:_[A-H]\d\d)+)(?:_|$)")


def rows_of(test: str) -> list[str]:
    """The rows in a test's name."""
    found = _NAMED.match(test)
    return found[1].strip("_").split("_") if found else []


def named_tests(folder: Path) -> dict[str, list[str]]:
    """Row -> its tests as ``path::name`` from the folder, read from the sources."""
    out: dict[str, list[str]] = defaultdict(list)
    for path in sorted(folder.rglob("test_*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for row in rows_of(node.name):
                    out[row].append(f"{path.relative_to(folder).as_posix()}::{node.name}")
    return dict(out)
