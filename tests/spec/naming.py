"""Which tests say by their name that they prove a row: ``test_A09_...``, ``test_A09_A10_...``,
and classes of tests that do: ``TestA33Custom``.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

NONE: Mapping[str, Iterable[str]] = MappingProxyType({})
_NAMED = re.compile(r"test((?:_[A-H]\d\d)+)(?:_|$)")
_CLASS = re.compile(r"Test((?:[A-H]\d\d)+)")
_DEFINED = re.compile(r"^(?:def|async def|class) (\w+)", re.MULTILINE)  # parsing takes seconds
_ROW = re.compile(r"[A-H]\d\d")


def rows_of(test: str) -> list[str]:
    """The rows in the name of a test or of a class of tests."""
    found = _NAMED.match(test) or _CLASS.match(test)
    return _ROW.findall(found[1]) if found else []


@cache  # three tests read all of them
def functions_in(folder: Path) -> tuple[str, ...]:
    """Every test function or class as ``path::name`` from the folder, read from the sources."""
    return tuple(
        f"{path.relative_to(folder).as_posix()}::{name}"
        for path in sorted(folder.rglob("test_*.py"))
        for name in _DEFINED.findall(path.read_text("utf-8"))
    )


def named_tests(folder: Path, also: Mapping[str, Iterable[str]] = NONE) -> dict[str, list[str]]:
    """Row -> the tests that name it, and those that are said to prove it too."""
    out: dict[str, list[str]] = defaultdict(list)
    for test in functions_in(folder):
        for row in rows_of(test.split("::")[1]):
            out[row].append(test)
    for row, tests in also.items():
        out[row].extend(tests)
    return dict(out)
