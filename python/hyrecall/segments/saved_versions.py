"""Records the saved versions that an index contains: its next save may replace only these.

A version is identified by the seal of its MANIFEST, the checksum in the last line. Segments have
random names and saves are counted, so versions of different content have different seals.
"""

from __future__ import annotations

from pathlib import Path

from hyrecall.errors import SaveConflictError, error

__all__ = ["Lineage"]


class Lineage:
    """The last version of each folder that an index was opened from or saved to."""

    def __init__(self) -> None:
        """Start without any version."""
        self.home: Path | None = None
        self._seals: dict[Path, set[str]] = {}

    @property
    def seals(self) -> tuple[str, ...]:
        """Return the seals that the home folder may have; () without a home folder."""
        return () if self.home is None else tuple(sorted(self._seals[self.home]))

    def holds(self, seal: str) -> bool:
        """Return whether the index contains a version, in any folder."""
        return any(seal in seals for seals in self._seals.values())

    def check(self, folder: Path, seal: str, version: int) -> None:
        """Refuse to replace a version that may have documents which this index does not contain."""
        if self.holds(seal):
            return
        known = self._seals.get(folder.absolute())
        if known is None:
            wish = "a folder without an index, or the one this index was opened from or saved to"
            got = f"version {version} of another index in {folder}"
            raise error(
                SaveConflictError, "path", wish, got, "replace it: index.save(path, overwrite=True)"
            )
        wish = f"the version of {folder} that this index was opened from or last saved to"
        got = f"version {version} of another writer"
        remedy = "load it: index.reload(), or replace it: index.save(path, overwrite=True)"
        raise error(SaveConflictError, "path", wish, got, remedy)

    def expect(self, folder: Path, seal: str) -> None:
        """Add a version that is about to be committed."""
        # A commit whose last sync fails raises an error, but its version may be in place.
        self._seals.setdefault(folder.absolute(), set()).add(seal)

    def settle(self, folder: Path, seal: str) -> None:
        """Record the folder's current version as the only one of that folder, and its home."""
        self.home = folder.absolute()
        self._seals[self.home] = {seal}

    def begin_at(self, folder: Path, seal: str) -> None:
        """Record the version that all documents were just read from, and forget all others."""
        self.home = folder.absolute()
        self._seals = {self.home: {seal}}
