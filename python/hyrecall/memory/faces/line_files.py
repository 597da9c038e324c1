"""Files of JSON lines: writes lines to a path or an open file, and opens what an import reads."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from hyrecall.base.arguments import read_path
from hyrecall.base.output_files import check_outside, open_replacement
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.memory.faces.l0_import import read_l0
from hyrecall.memory.faces.transfer import Numbered, read_lines

__all__ = ["File", "lines_of", "write_lines"]

File = str | os.PathLike[str] | IO[str]


def write_lines(file: File, lines: Iterable[str], folder: Path | None) -> int:
    """Write lines to a path outside ``folder``, or to an open file, and return how many."""
    if not isinstance(file, str | os.PathLike):
        return _write_to(file, lines)
    path = read_path(file)
    if folder is not None:
        check_outside("file", path, folder)
    n_lines = 0
    # Readable by its owner only, as the store is.
    with open_replacement("file", path, mode=0o600) as out:
        for line in lines:
            out.write(f"{line}\n".encode())
            n_lines += 1
    return n_lines


def _write_to(out: IO[str], lines: Iterable[str]) -> int:
    is_binary = isinstance(out, io.RawIOBase | io.BufferedIOBase)
    if is_binary or not callable(getattr(out, "write", None)):
        raise error(DTypeError, "file", "a path, or a text file to write to", type(out).__name__)
    n_lines = 0
    for line in lines:
        out.write(f"{line}\n")
        n_lines += 1
    return n_lines


@contextmanager
def lines_of(file: File, source: str) -> Iterator[Iterable[Numbered]]:
    """Open the lines of an export, or those that another program's database is read as."""
    if source == "l0":
        if not isinstance(file, str | os.PathLike):
            raise error(OptionError, "file", "the path of a database of l0", type(file).__name__)
        yield read_l0(read_path(file))
    elif not isinstance(file, str | os.PathLike):
        yield read_lines(_text_lines(file))
    else:
        # A line that is not UTF-8 is refused alone: the others are taken.
        with read_path(file).open(encoding="utf-8", errors="surrogateescape") as given:
            yield read_lines(given)


def _text_lines(file: object) -> Iterator[str]:
    """Return the lines of a text file, or of any iterable of them."""
    wish = "a path, or a text file or its lines"
    if not isinstance(file, Iterable) or isinstance(file, bytes):
        raise error(DTypeError, "file", wish, type(file).__name__)
    for line in file:
        if not isinstance(line, str):
            raise error(DTypeError, "file", wish, f"a line that is a {type(line).__name__}")
        yield line
