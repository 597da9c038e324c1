"""Lets the owner call functions of a client, such as rerankers, during that client's request."""

from __future__ import annotations

import contextvars
import inspect
import itertools
import queue
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from hyrecall.base import threads
from hyrecall.errors import error
from hyrecall.memory.sharing.wire import (
    ANSWER,
    CALL,
    Codec,
    ConnectionLost,
    Frames,
    WireError,
    lower_fault,
    raise_fault,
)


class Callbacks:
    """The callables that one request names, as functions of the owner."""

    # A function may be called on any thread, also on one that the request left behind: then it
    # raises. Calls of one request take turns.

    def __init__(self, frames: Frames, codec: Codec) -> None:
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
        """Refuse further calls; return whether one is still under way, on a thread left behind."""
        # The connection then carries no further request: an answer may come that nobody awaits.
        self._is_over = True
        is_free = self._turn.acquire(blocking=False)
        if is_free:
            self._turn.release()
        return not is_free


class CallbackCaller:
    """Calls the callables of a request for the owner, on one thread and in the order of calls."""

    def __init__(self, frames: Frames, codec: Codec, mine: list[Callable[..., Any]]) -> None:
        self._frames, self._codec, self._mine = frames, codec, mine
        self._calls: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._n_left = 0
        self._counting = threading.Lock()
        self._raised: list[BaseException] = []
        self._context = contextvars.copy_context()
        self._is_started = False

    def __enter__(self) -> CallbackCaller:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._is_started:
            self._calls.put(None)

    @property
    def is_idle(self) -> bool:
        """Whether every call was answered."""
        return not self._n_left

    def put(self, told: Any) -> None:
        """Let the thread make a call."""
        with self._counting:
            self._n_left += 1
        self._calls.put(told)
        if not self._is_started:
            self._is_started = True
            threads.start(self._run, name="hyrecall-callback", stop=lambda: self._calls.put(None))

    def original(self, fault: Exception) -> BaseException:
        """Return the exception of a callable of this process, if the error stands for one."""
        number = vars(fault).get("callback")
        if isinstance(number, int) and 0 <= number < len(self._raised):
            return self._raised[number]
        return fault

    def _run(self) -> None:
        while (told := self._calls.get()) is not None:
            answer = self._context.run(self._answer, told)
            with self._counting:
                self._n_left -= 1
            try:
                self._frames.send(answer)
            except (ConnectionLost, TimeoutError):
                return

    def _answer(self, told: Any) -> bytes:
        _, at, number, args, keywords = told
        try:
            value = self._mine[number](*args, **keywords)
            return self._encoded(at, value)
        except BaseException as fault:
            self._raised.append(fault)
            lowered = lower_fault(fault, self._codec)
            lowered["more"]["callback"] = len(self._raised) - 1
            return self._codec.encode([ANSWER, at, None, lowered])

    def _encoded(self, at: int, value: Any) -> bytes:
        if inspect.isawaitable(value):
            import asyncio

            value = asyncio.run(_result(value))
        try:
            return self._codec.encode([ANSWER, at, value, None])
        except WireError:  # an array of another library
            return self._codec.encode([ANSWER, at, np.asarray(value, np.float64), None])


async def _result(value: Awaitable[Any]) -> Any:
    return await value
