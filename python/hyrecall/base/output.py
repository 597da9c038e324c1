"""Writes files that a user named: whole or not at all, and never over a store's or an index's own.

A target is written under a random name beside it and renamed when it is whole. The random name is
made with O_EXCL, so no file of somebody else is ever opened, replaced or removed.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from hyrecall.base import disk
from hyrecall.errors import OptionError, error

__all__ = ["check_outside", "moved", "replaced", "resolved"]


@contextmanager
def replaced(argument: str, path: Path, *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Open a new file for writing that takes its name when the block ends without an error.

    Parameters
    ----------
    argument : str
        What an error calls the path.
    path : Path
        A file that is there stays as it is until the new one is whole. A symbolic link stays, and
        the file it names is replaced. A pipe or a device is written to.
    mode : int, default 0o666
        Of the new file, less the process's umask.

    Raises
    ------
    OptionError
        The path is a folder's, or a loop of symbolic links.
    OSError
        The file cannot be written; the old one is as it was.
    """
    target = resolved(argument, path)
    if path.exists() and not path.is_file():  # a pipe or a device: its name must stay
        with path.open("wb") as out:
            yield out
        return
    # Short, so that a name of the greatest length can be replaced too.
    part = target.with_name(f".hyrecall-{secrets.token_hex(16)}.tmp")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except OSError as fault:
        fault.filename = str(path)  # the name that the caller knows
        raise
    try:
        with open(handle, "wb") as out:
            yield out
            out.flush()
            os.fsync(handle)
        os.replace(part, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise
    disk.sync_folder(target.parent)


def check_outside(argument: str, path: Path, folder: Path) -> None:
    """Refuse a target that lies in a folder, or is another name of a file in it.

    Folders and files are compared as the system knows them, so links and mounts change nothing.

    Raises
    ------
    OptionError
        The target belongs to the folder.
    """
    target = _followed(argument, path)
    own = [_identity(one) for one in (folder, *folder.rglob("*"))]
    if any(_identity(one) in own for one in (target, *target.parents)):
        raise error(OptionError, argument, f"a file outside {folder}", repr(str(path)))


def moved(source: Path, target: Path) -> None:
    """Return a whole file, already on the disk, another name in the same file system.

    Parameters
    ----------
    source : Path
    target : Path
        As :func:`resolved` returns it; a file of this name is replaced.
    """
    os.replace(source, target)
    disk.sync_folder(target.parent)


def resolved(argument: str, path: Path) -> Path:
    """Return the file that a path names, behind all symbolic links.

    Raises
    ------
    OptionError
        The path is a folder's, or a loop of symbolic links.
    """
    target = _followed(argument, path)
    if target.is_dir():
        raise error(OptionError, argument, "a file", f"the folder {path}")
    return target


def _followed(argument: str, path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a loop, as different versions of Python say it
        raise error(OptionError, argument, "a file", f"a loop of links {path}") from None


def _identity(path: Path) -> tuple[int, int] | Path:
    """Return what tells a file from every other; of one that is not there its name."""
    try:
        found = path.stat()
    except OSError:
        return path
    return found.st_dev, found.st_ino
