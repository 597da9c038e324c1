"""Reports the progress of a build to the caller's function; limits the size of replies."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from hyrecall.errors import DTypeError, error

ProgressFunction = Callable[[int, int], object]
"""``progress(done, total)``; both count rows times arms."""


class Progress:
    """Adds up the finished rows of a build's arms, which run one after the other."""

    def __init__(self, tell: ProgressFunction | None, n_rows: int, n_arms: int) -> None:
        self._tell = tell
        self._n_rows = n_rows
        self._total = n_rows * n_arms
        self._finished = 0

    def of_arm(self) -> Callable[[int], object] | None:
        """Return the current arm's callback for its number of finished rows; None if unused."""
        tell = self._tell
        if tell is None:
            return None
        finished, total = self._finished, self._total
        return lambda n_rows: tell(finished + n_rows, total)

    def finish_arm(self) -> None:
        """Count the current arm as finished."""
        self._finished += self._n_rows
        if self._tell is not None:
            self._tell(self._finished, self._total)


def read_progress(progress: object, name: str = "progress") -> ProgressFunction | None:
    """Check the argument ``progress``, or another one."""
    if progress is not None and not callable(progress):
        raise error(DTypeError, name, "a callable (done, total), or None", repr(progress))
    return progress


# ---- Bounds the characters that a request reads from a store in order to show them ----
# A reply that would be refused as too long is refused while its memories are read.


class Room:
    """The number of bytes that are left in the reply to a request."""

    def __init__(self, n_characters: int, refusal: Callable[[], Exception]) -> None:
        self._left, self._refusal = n_characters, refusal

    def take(self, n_characters: int) -> None:
        """Take some of it, or raise the error."""
        self._left -= n_characters
        if self._left < 0:
            raise self._refusal()


ROOM: ContextVar[Room | None] = ContextVar("hyrecall_reply_room", default=None)
"""The room of the request that runs; None: the call is the program's own and is not bounded."""
