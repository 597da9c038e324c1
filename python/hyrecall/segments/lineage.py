"""Which saved versions an index holds: only these may its next save replace.

A version is known by the seal of its MANIFEST: the checksum in the last line. Segments are named at
random and saves are counted, so two versions of different content never have the same seal.
"""

from __future__ import annotations

from pathlib import Path

from hyrecall.errors import SaveConflictError, error

__all__ = ["Lineage"]


class Lineage:
    """The versions that an index was opened from or saved as, the last one of each folder.

    Attributes
    ----------
    home : pathlib.Path or None
        The folder that the index was opened from or last saved to; None before the first save.
    """

    def __init__(self) -> None:
        """Start without any version."""
        self.home: Path | None = None
        self._seals: dict[Path, set[str]] = {}

    @property
    def seals(self) -> tuple[str, ...]:
        """Return the seals of the versions that the home folder may hold; () without a home."""
        return () if self.home is None else tuple(sorted(self._seals[self.home]))

    def holds(self, seal: str) -> bool:
        """Return whether the index holds all that a version holds, whichever folder it is in."""
        return any(seal in seals for seals in self._seals.values())

    def check(self, folder: Path, seal: str, version: int) -> None:
        """Refuse to replace a version that holds documents this index may lack.

        Raises
        ------
        SaveConflictError
            The index was not opened from this version, nor saved as it.
        """
        if self.holds(seal):
            return
        known = self._seals.get(folder.absolute())
        if known is None:
            wish = "a folder without an index, or the one this index was opened from or saved to"
            got = f"version {version} of another index in {folder}"
            raise error(SaveConflictError, "path", wish, got, "replace it: save(overwrite=True)")
        wish = f"the version of {folder} that this index was opened from or last saved as"
        got = f"version {version} of another writer"
        remedy = "take it up: index.reload(), or replace it: index.save(path, overwrite=True)"
        raise error(SaveConflictError, "path", wish, got, remedy)

    def expect(self, folder: Path, seal: str) -> None:
        """Note a version that is about to be committed.

        A commit whose last sync fails raises an error, but its version may be in place.
        """
        self._seals.setdefault(folder.absolute(), set()).add(seal)

    def settle(self, folder: Path, seal: str) -> None:
        """Note the version that a folder holds now; forget those that it held before."""
        self.home = folder.absolute()
        self._seals[self.home] = {seal}

    def begin_at(self, folder: Path, seal: str) -> None:
        """Note the version that all documents were just read from; forget every other version."""
        self.home = folder.absolute()
        self._seals = {self.home: {seal}}
