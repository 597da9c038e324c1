"""Lets one push or pull of a folder run at a time; saves and writes of the folder go on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hyrecall.base.forks import locked
from hyrecall.errors import IndexNotFoundError, WriterBusyError, error

__all__ = ["folder_lock"]


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder for pushes and pulls; a crash releases it."""
    # The lock is on the folder itself. Writers of an index or a store lock their file LOCK instead.
    with ExitStack() as held:
        try:
            held.enter_context(locked(folder, os.O_RDONLY | os.O_DIRECTORY, wait=0.0))
        except (FileNotFoundError, NotADirectoryError):
            wish = "the folder of a saved index or of a store"
            raise error(IndexNotFoundError, "path", wish, f"nothing at {folder}") from None
        except BlockingIOError:
            wish = "no other push or pull of this folder"
            raise error(WriterBusyError, str(folder), wish, "one at work") from None
        yield
