"""Bounds the characters that a request reads from a store in order to show them.

A reply that would be refused as too long is refused while its memories are read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar


class Room:
    """The room that is left in the reply to a request."""

    def __init__(self, n_characters: int, refusal: Callable[[], Exception]) -> None:
        """Begin with all of it."""
        self._left, self._refusal = n_characters, refusal

    def take(self, n_characters: int) -> None:
        """Take some of it, or raise the error."""
        self._left -= n_characters
        if self._left < 0:
            raise self._refusal()


ROOM: ContextVar[Room | None] = ContextVar("hyrecall_reply_room", default=None)
"""The room of the request that runs; None: the call is the program's own and is not bounded."""
