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
_TRACED = str(_PACKAGE / "memory")


class Lines:
    """Counts lines that run; ``at``: the number of the line that is interrupted, 0: none is.

    Lines where Python delivers no signal do not count, as a fault raised there would leave a lock
    held for ever: the end of a ``with`` block, and a bare ``try:``, which no handler covers.
    """

    def __init__(self, at: int = 0) -> None:
        self.at = at
        self.n_run = 0
        self.where = ""

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "call":
            return self if frame.f_code.co_filename.startswith(_TRACED) else None
        if event == "line" and not _takes_no_signal(frame):
            self.n_run += 1
            if self.n_run == self.at:
                self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self


def _takes_no_signal(frame: FrameType) -> bool:
    """Return whether a frame is at a bare ``try:`` or about to leave a ``with`` block.

    A block ends where the frame comes back to its first line. If it returns a value, that is
    swapped beneath the arguments of ``__exit__`` first.
    """
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip()
    operation = dis.opname[frame.f_code.co_code[frame.f_lasti]]
    if line.startswith(("with ", "async with ")):
        return operation in ("LOAD_CONST", "SWAP")
    return operation == "NOP"


@contextmanager
def interrupted(lines: Lines) -> Iterator[None]:
    """Count the lines of this thread inside the block, and interrupt the one that is wanted."""
    before = sys.gettrace()
    sys.settrace(lines)
    try:
        yield
    finally:
        sys.settrace(before)
