"""Counts what came of a source and what did not, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["LeftOut", "Migrated", "Tally"]


@dataclass(frozen=True)
class LeftOut:
    """Records, or vectors of records, that did not come.

    Attributes
    ----------
    reason : str
    count : int
    example : str
        The id of the first.
    """

    reason: str
    count: int
    example: str


@dataclass(frozen=True)
class Migrated:
    """The report of a migration.

    Attributes
    ----------
    system : str
        The system that the records are from.
    n_read : int
        Records that the source had: imported, skipped, or left out.
    imported : int
    skipped : int
        Records that had come before.
    left_out : tuple of LeftOut
        Records that did not come; they changed nothing.
    dropped : Mapping of str to int
        Fields that have no place here, and how many imported records had them.
    n_vectors : int
        Imported records whose vectors came along.
    n_other_vectors : int
        Those among them that the target cannot search: of another model or length than it has.
    without_vector : tuple of LeftOut
        Imported records whose vectors did not come.
    """

    system: str
    n_read: int
    imported: int
    skipped: int
    left_out: tuple[LeftOut, ...]
    dropped: Mapping[str, int]
    n_vectors: int
    n_other_vectors: int
    without_vector: tuple[LeftOut, ...]

    @property
    def needs_reembed(self) -> bool:
        """Whether imported records have no vector that the target can search."""
        return bool(self.n_other_vectors or self.without_vector)


class _Reasons:
    """Counts reasons in the order in which they are met, each with its first id."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, str]] = {}

    def add(self, reason: str, example: object) -> None:
        n, first = self._found.get(reason, (0, str(example)))
        self._found[reason] = (n + 1, first)

    def told(self) -> tuple[LeftOut, ...]:
        return tuple(LeftOut(reason, *found) for reason, found in self._found.items())


class Tally:
    """Counts one migration."""

    def __init__(self, system: str, dropped: Mapping[str, int]) -> None:
        """Start with nothing read."""
        self._system = system
        self._dropped = Counter(dropped)
        self._left_out, self._without_vector = _Reasons(), _Reasons()
        self.n_read = self._imported = self._skipped = self._n_vectors = self._n_other = 0

    def read(self) -> None:
        """Count a record that was read."""
        self.n_read += 1

    def skip(self) -> None:
        """Count a record that had come before."""
        self._skipped += 1

    def leave_out(self, reason: str, key: object) -> None:
        """Count a record that does not come."""
        self._left_out.add(reason, key)

    def keep(
        self, key: str, dropped: Iterable[str], fault: str | None, *, is_searched: bool
    ) -> None:
        """Count an imported record: what it lost, and why its vector did not come, or None."""
        self._imported += 1
        self._dropped.update(dict.fromkeys(dropped, 1))
        if fault is not None:
            self._without_vector.add(fault, key)
        else:
            self._n_vectors += 1
            self._n_other += not is_searched

    def report(self) -> Migrated:
        """Return the report."""
        return Migrated(
            system=self._system,
            n_read=self.n_read,
            imported=self._imported,
            skipped=self._skipped,
            left_out=self._left_out.told(),
            dropped=dict(self._dropped),
            n_vectors=self._n_vectors,
            n_other_vectors=self._n_other,
            without_vector=self._without_vector.told(),
        )
