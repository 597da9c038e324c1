"""Checks the mapped files of an index around a call that reads them."""

from __future__ import annotations

from hyrecall import _core

__all__ = ["Reading"]


class Reading:
    """Refuses a call whose mapped files were cut or changed, before it or during it."""

    # A read of a page that is lost sees zeros, so what such a call made is not returned, and
    # its own
    # error is replaced by the one that names the file.

    __slots__ = ("_files",)

    def __init__(self, files: _core.files.MappedFiles) -> None:
        """Keep the files of a state."""
        self._files = files

    def __enter__(self) -> None:
        """Check the files."""
        self._files.check()

    def __exit__(self, *exc: object) -> None:
        """Check that no read since then met a page that is lost."""
        self._files.check_reads()
