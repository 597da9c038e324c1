"""Copies of a store's folder, also of one that is open or was killed."""

from __future__ import annotations

import shutil
from pathlib import Path

from seams import SOCKET


def copy_store(source: Path, target: Path, *, without: str = SOCKET) -> Path:
    """Copy everything but the owner's socket, which no program can copy, and what is named."""
    ignore = shutil.ignore_patterns(SOCKET, without)
    return Path(shutil.copytree(source, target, ignore=ignore))
