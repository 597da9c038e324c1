"""Locks the files of parts of an index in memory."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from hyrecall import _core
from hyrecall.base.arguments import as_items, is_one_of
from hyrecall.errors import OptionError, error

__all__ = ["PINNED_PARTS", "lock", "read_pin"]

PINNED_PARTS = ("plane", "terms", "documents", "rows", "vectors")
"""The parts that can be kept in memory: the roles of files in docs/format.md, without numbers."""


def read_pin(pin: object) -> tuple[str, ...]:
    """Return the parts to pin: a name of ``PINNED_PARTS``, or a sequence of names."""
    named = (pin,) if isinstance(pin, str) else as_items(pin)
    if named is None or not all(is_one_of(name, PINNED_PARTS) for name in named):
        raise error(OptionError, "pin", f"parts of {list(PINNED_PARTS)}", repr(pin))
    return tuple(dict.fromkeys(named))


def lock(where: Path, file: _core.files.MappedFile) -> None:
    """Keep a mapped file in memory, or refuse to if the system does."""
    fault = file.lock()
    if fault:
        limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
        got = f"{os.strerror(fault)} (this process may lock {limit} bytes)"
        remedy = "raise the limit (ulimit -l), or pin less"
        wish = f"room to lock the {file.size} bytes of {where}"
        raise error(OptionError, "pin", wish, got, remedy)
