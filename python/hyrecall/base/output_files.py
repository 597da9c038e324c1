"""Writes files at paths that a user chose: atomically, and never over files of a store or an index.

The data goes to a new file with a random name beside the target, which is renamed when it is
complete. The random file is created with O_EXCL, so no other existing file is ever touched.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from hyrecall.base import disk
from hyrecall.base.forks import Birth, kept_from_children
from hyrecall.errors import OptionError, error

__all__ = ["check_outside", "move_file", "open_replacement", "resolve_target"]


@contextmanager
def open_replacement(argument: str, path: Path, *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Open a temporary file for writing; it replaces the target if the block ends without an
    error.
    """
    target = resolve_target(argument, path)
    if path.exists() and not path.is_file():  # a pipe or a device: its name must stay
        with path.open("wb") as out:
            yield out
        return
    birth = Birth()
    # A short name, so that a target whose name has the greatest length can be replaced too.
    part = target.with_name(f".hyrecall-{secrets.token_hex(16)}.tmp")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except OSError as fault:
        fault.filename = str(path)  # the name that the caller knows
        raise
    try:
        with kept_from_children(handle), open(handle, "wb") as out:
            yield out
            out.flush()
            os.fsync(handle)
        os.replace(part, target)
    except BaseException:
        if birth.is_here:  # else the file is that of the process that forked this one
            with suppress(OSError):
                os.unlink(part)
        raise
    disk.sync_folder(target.parent)


def check_outside(argument: str, path: Path, folder: Path) -> None:
    """Refuse a target inside `folder`, or one that is a link to a file inside it."""
    # Files are compared by device and inode, so links and mounts make no difference.
    target = _followed(argument, path)
    own = [_identity(one) for one in (folder, *folder.rglob("*"))]
    if any(_identity(one) in own for one in (target, *target.parents)):
        raise error(OptionError, argument, f"a file outside {folder}", repr(str(path)))


def move_file(source: Path, target: Path) -> None:
    """Rename a complete file that is already on the disk, and sync its folder."""
    os.replace(source, target)
    disk.sync_folder(target.parent)


def resolve_target(argument: str, path: Path) -> Path:
    """Return the file that a path leads to through all symbolic links."""
    target = _followed(argument, path)
    if target.is_dir():
        raise error(OptionError, argument, "a file", f"the folder {path}")
    return target


def _followed(argument: str, path: Path) -> Path:
    try:
        path.resolve(strict=True)  # only then does every version of Python tell of a loop
    except RuntimeError:
        is_loop = True
    except OSError as fault:
        is_loop = fault.errno == errno.ELOOP
    else:
        is_loop = False
    if is_loop:
        raise error(OptionError, argument, "a file", f"a loop of links {path}") from None
    return path.resolve()


def _identity(path: Path) -> tuple[int, int] | Path:
    """Return device and inode of a file, or its path if it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return path
    return found.st_dev, found.st_ino
