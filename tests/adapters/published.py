"""Runs the tests that a framework publishes with its sources, with our class in its class's place.

``HYRECALL_PUBLISHED_TESTS`` names a folder of unpacked source distributions; nothing of them is
part of this package.
"""

import importlib
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from importlib.metadata import version
from pathlib import Path

import pytest

HOME = "HYRECALL_PUBLISHED_TESTS"
TESTS = Path(__file__).parent.parent


def sources(package: str) -> Path:
    """Return the unpacked sources of the installed version of a package, or skip the test."""
    name = f"{package.replace('-', '_')}-{version(package)}"
    folder = Path(os.environ.get(HOME, "")) / name
    if not os.environ.get(HOME) or not (folder / "tests").is_dir():
        pytest.skip(f"{HOME} names no folder with the sources of {name}")
    return folder


def outcomes(
    folder: Path, files: list[str], plugin: str, report: Path, *options: str
) -> dict[str, str]:
    """Run test files in a process of their own; return "passed", "failed" or "skipped" by name.

    Parameters
    ----------
    folder : Path
        Where the tests are run.
    files : list of str
    plugin : str
        Module that puts our class in the place of the framework's.
    report : Path
        Where the report may be written.
    options : str
        Of pytest.
    """
    package = Path(importlib.import_module("hyrecall").__path__[0]).parent
    paths = [str(folder), str(TESTS), str(package)]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", plugin),
            # Not by their settings, which may name plugins that are not here.
            *("-c", os.devnull, "--rootdir", str(folder)),
            *("--junitxml", str(report), *options, *files),
        ],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr  # 1: some tests failed
    found = {}
    for case in ET.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        name = f"{case.get('name')}".replace("[asyncio]", "")
        is_failed = bool(kinds & {"failure", "error"})
        found[name] = "failed" if is_failed else "skipped" if "skipped" in kinds else "passed"
    return found


def told(framework: str, found: dict[str, str]) -> str:
    """Return the counts as one line."""
    counts = ", ".join(
        f"{sum(one == kind for one in found.values())} {kind}"
        for kind in ("passed", "failed", "skipped")
    )
    return f"published: {framework} {version(framework)}: {counts}"
