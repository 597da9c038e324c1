"""Callables of a client, which the owner calls while it answers that client's request."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

from hyrecall.errors import error
from hyrecall.memory.sharing.faults import raise_fault
from hyrecall.memory.sharing.frames import ConnectionLost, Frames
from hyrecall.memory.sharing.protocol import ANSWER, CALL
from hyrecall.memory.sharing.wire import Codec, WireError

__all__ = ["Callbacks"]


class Callbacks:
    """The callables that one request names, as functions of the owner.

    A function may be called on any thread, also on one that the request left behind: then it
    raises. Calls of one request take turns.

    Parameters
    ----------
    frames : Frames
    codec : Codec
    """

    def __init__(self, frames: Frames, codec: Codec) -> None:
        """Be ready for the calls of one request."""
        self._frames, self._codec = frames, codec
        self._turn = threading.Lock()
        self._numbers = itertools.count()
        self._is_over = False

    def function(self, number: int) -> Callable[..., Any]:
        """Return the function that calls the callable of a number."""

        def call(*args: Any, **keywords: Any) -> Any:
            return self._call(number, args, keywords)

        return call

    def _call(self, number: int, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        with self._turn:
            if self._is_over:
                raise ConnectionLost("the request is over")
            at = next(self._numbers)
            self._frames.send(self._codec.encode([CALL, at, number, args, keywords]))
            told = self._codec.decode(self._frames.receive())
        if not isinstance(told, list) or len(told) != 4 or told[:2] != [ANSWER, at]:
            self._frames.end()
            raise error(WireError, "message", f"the answer to call {at}", "another")
        if told[3] is not None:
            raise raise_fault(told[3])
        return told[2]

    def end(self) -> bool:
        """Refuse further calls; return whether one is still under way, on a thread left behind.

        The connection then carries no further request: an answer may come that nobody awaits.
        """
        self._is_over = True
        is_free = self._turn.acquire(blocking=False)
        if is_free:
            self._turn.release()
        return not is_free
