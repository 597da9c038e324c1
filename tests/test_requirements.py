"""The lock file of a service has every package that a service needs, each with its hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

requirements = pytest.importorskip("packaging.requirements", reason="packaging is not installed")

ROOT = Path(__file__).parents[1]
EXTRAS = ("serve", "mcp", "cli", "http", "local")


def name_of(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def locked() -> dict[str, list[tuple[str, int]]]:
    """The versions of each package, with the number of their hashes."""
    found: dict[str, list[tuple[str, int]]] = {}
    text = (ROOT / "requirements" / "service.txt").read_text()
    for block in re.split(r"\n(?=[A-Za-z])", re.sub(r"(?m)^\s*#.*\n?", "", text).strip()):
        pin = re.match(r"([\w.-]+)(?:\[[\w,]+\])?==([\w.+]+)", block)
        assert pin is not None, block
        hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}\b", block)
        found.setdefault(name_of(pin[1]), []).append((pin[2], len(hashes)))
    return found


def test_the_lock_file_of_a_service_has_all_it_needs_with_hashes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    lock = locked()
    assert min(n for pins in lock.values() for _, n in pins) > 0
    wanted = [*project["dependencies"], *(one for extra in EXTRAS for one in extras[extra])]
    for one in map(requirements.Requirement, wanted):
        pins = lock[name_of(one.name)]
        assert all(one.specifier.contains(version) for version, _ in pins), one


def test_the_lock_file_names_the_extras_that_it_is_made_for() -> None:
    head = (ROOT / "requirements" / "service.txt").read_text().splitlines()[1]
    assert re.findall(r"--extra (\w+)", head) == list(EXTRAS)
    assert "--generate-hashes" in head


@pytest.mark.parametrize("extra", ["serve", "test"])
def test_a_parser_of_requests_with_a_known_fault_is_not_admitted(extra: str) -> None:
    """h11 before 0.16 reads chunked bodies that others read otherwise (CVE-2025-43859)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    given = map(requirements.Requirement, project["optional-dependencies"][extra])
    (h11,) = [one for one in given if one.name == "h11"]
    assert not h11.specifier.contains("0.15.9")
    assert h11.specifier.contains("0.16.0")
