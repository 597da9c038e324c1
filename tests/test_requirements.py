"""The lock files have every package that they are made for, each with its hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

requirements = pytest.importorskip("packaging.requirements", reason="packaging is not installed")

ROOT = Path(__file__).parents[1]
# Each lock with the extras and the groups that it is made for.
LOCKS = {
    "service": (("serve", "mcp", "cli", "http", "local"), ()),
    "ci": (("test", "cli", "local", "dev"), ("ci",)),
    "release": ((), ("release",)),
}
every_lock = pytest.mark.parametrize("lock", LOCKS)


def name_of(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def locked(lock: str) -> dict[str, list[tuple[str, int]]]:
    """The versions of each package, with the number of their hashes."""
    found: dict[str, list[tuple[str, int]]] = {}
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    for block in re.split(r"\n(?=[A-Za-z])", re.sub(r"(?m)^\s*#.*\n?", "", text).strip()):
        pin = re.match(r"([\w.-]+)(?:\[[\w,]+\])?==([\w.+]+)", block)
        assert pin is not None, block
        hashes = re.findall(r"--hash=sha256:[0-9a-f]{64}\b", block)
        found.setdefault(name_of(pin[1]), []).append((pin[2], len(hashes)))
    return found


@every_lock
def test_a_lock_file_has_all_that_is_needed_with_hashes(lock: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras, groups = LOCKS[lock]
    wanted = [one for name in extras for one in project["project"]["optional-dependencies"][name]]
    wanted += [one for name in groups for one in project["dependency-groups"][name]]
    if extras:
        wanted += project["project"]["dependencies"]
    found = locked(lock)
    assert min(n for pins in found.values() for _, n in pins) > 0
    for one in map(requirements.Requirement, wanted):
        pins = found[name_of(one.name)]
        assert all(one.specifier.contains(version) for version, _ in pins), one


@every_lock
def test_a_lock_file_names_what_it_is_made_for(lock: str) -> None:
    head = (ROOT / "requirements" / f"{lock}.txt").read_text().splitlines()[1]
    made_for = (
        tuple(re.findall(r"--extra (\w+)", head)),
        tuple(re.findall(r"--group \S*?(\w+) ", head)),
    )
    assert made_for == LOCKS[lock]
    assert "--generate-hashes" in head


@pytest.mark.parametrize("extra", ["serve", "test"])
def test_a_parser_of_requests_with_a_known_fault_is_not_admitted(extra: str) -> None:
    """h11 before 0.16 reads chunked bodies that others read otherwise (CVE-2025-43859)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    given = map(requirements.Requirement, project["optional-dependencies"][extra])
    (h11,) = [one for one in given if one.name == "h11"]
    assert not h11.specifier.contains("0.15.9")
    assert h11.specifier.contains("0.16.0")


def test_the_citation_names_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
