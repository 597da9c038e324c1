"""Runs an example of a framework as a process of its own, in an empty folder."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples" / "frameworks"


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
