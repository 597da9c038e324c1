"""Ctrl-C at a chosen line of the store's code: the same line each time, unlike a signal."""

from __future__ import annotations

import dis
import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import hyrecall

_PACKAGE = Path(hyrecall.__file__).parent
_TRACED = (str(_PACKAGE / "memory"), str(_PACKAGE / "disk.py"), str(_PACKAGE / "files.py"))


class Lines:
    """Counts lines that run; ``at``: the number of the line that is interrupted, 0: none is.

    The end of a ``with`` block is no such line: Python delivers a signal before it, where the block
    still catches, or after it. A fault raised just there would leave its lock held for ever.
    """

    def __init__(self, at: int = 0) -> None:
        self.at = at
        self.n_run = 0
        self.where = ""

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "call":
            return self if frame.f_code.co_filename.startswith(_TRACED) else None
        if event == "line" and not _ends_with(frame):
            self.n_run += 1
            if self.n_run == self.at:
                self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self


def _ends_with(frame: FrameType) -> bool:
    """Say whether a frame is about to leave a ``with`` block: it comes back to the first line."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip()
    operation = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    return line.startswith(("with ", "async with ")) and operation == "LOAD_CONST"


@contextmanager
def interrupted(lines: Lines) -> Iterator[None]:
    """Count the lines of this thread inside the block, and interrupt the one that is wanted."""
    before = sys.gettrace()
    sys.settrace(lines)
    try:
        yield
    finally:
        sys.settrace(before)
