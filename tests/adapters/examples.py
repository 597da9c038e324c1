"""Loads an adapter, and runs an example of a framework as a process in an empty folder."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from frameworks import FRAMEWORKS

EXAMPLES = Path(__file__).parents[2] / "examples" / "frameworks"


def adapter(name: str, module: str = "") -> Any:
    """Return the module of an adapter; skip what is not installed, or not in this release."""
    pytest.importorskip(FRAMEWORKS[name], reason=f"not installed: .ci/frameworks {name}")
    try:
        return importlib.import_module(f"hyrecall.adapters.{module or name}")
    except ModuleNotFoundError as fault:
        pytest.skip(f"this release of {name} has no {fault.name}")


def run_example(name: str, folder: Path) -> str:
    """Run an example, without a network; return what it prints.

    Parameters
    ----------
    name : str
        Of its file, without ``.py``.
    folder : Path
        An empty one.
    """
    package = Path(importlib.import_module("hyrecall").__path__[0]).parent
    proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")],
        cwd=folder,
        env=os.environ | proxies | {"PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
