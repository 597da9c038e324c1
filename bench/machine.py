"""What explains a number: processor, commit, versions. Nothing that names a machine."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import hyrecall as hr
from bench.device_report import commit, processor

__all__ = ["commit", "describe", "processor", "versions"]

_CACHES = {"l2": "index2", "l3": "index3"}


def describe() -> dict[str, Any]:
    """Return the processor, its cores and its caches."""
    found: dict[str, Any] = {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": processor(),
        "cores": os.cpu_count(),
    }
    for name, folder in _CACHES.items():
        path = Path(f"/sys/devices/system/cpu/cpu0/cache/{folder}/size")
        if path.is_file():
            found[name] = path.read_text().strip()
    return found


def versions() -> dict[str, str]:
    """Return the versions of whatever took part."""
    found = {"python": platform.python_version(), "hyrecall": hr.__version__}
    for package in ("numpy", "faiss-cpu", "torch", "bm25s", "numba", "tantivy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
