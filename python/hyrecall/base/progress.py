"""How far a build is, told to the caller's function."""

from __future__ import annotations

from collections.abc import Callable

from hyrecall.errors import DTypeError, error

__all__ = ["Progress", "ProgressFunction", "read_progress"]

ProgressFunction = Callable[[int, int], object]
"""``progress(done, total)``, in rows times arms."""


class Progress:
    """Counts what the arms of a build have done, one after the other.

    Parameters
    ----------
    tell : callable or None
        Called with (done, total); ``done`` never falls and at last is ``total``.
    n_rows, n_arms : int
        Each arm indexes each row: their product is the total.
    """

    def __init__(self, tell: ProgressFunction | None, n_rows: int, n_arms: int) -> None:
        """Begin at nothing done."""
        self._tell = tell
        self._n_rows = n_rows
        self._total = n_rows * n_arms
        self._finished = 0

    def of_arm(self) -> Callable[[int], object] | None:
        """Return what takes the number of rows that the arm at work has done; None: nobody asks."""
        tell = self._tell
        if tell is None:
            return None
        finished, total = self._finished, self._total
        return lambda n_rows: tell(finished + n_rows, total)

    def finish_arm(self) -> None:
        """Count all rows of the arm at work."""
        self._finished += self._n_rows
        if self._tell is not None:
            self._tell(self._finished, self._total)


def read_progress(progress: object) -> ProgressFunction | None:
    """Check the argument ``progress``."""
    if progress is not None and not callable(progress):
        raise error(DTypeError, "progress", "a callable (done, total), or None", repr(progress))
    return progress
