"""Bounds the calls at work and those that wait, and the time of each."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from hyrecall.serve.options import ServiceOptions

__all__ = ["BusyError", "Gate"]

T_ = TypeVar("T_")


class BusyError(Exception):
    """Too many calls wait, or a call took too long; the message is for the caller."""


@dataclass
class Gate:
    """Lets so many calls in at a time, lets so many more wait, and refuses others.

    Parameters
    ----------
    options : ServiceOptions
        ``max_running``, ``max_waiting`` and ``deadline``.
    """

    options: ServiceOptions

    def __post_init__(self) -> None:
        """Let nobody in yet."""
        self._room = asyncio.Semaphore(self.options.max_running)
        self._n_inside = 0

    async def run(self, call: Callable[[], Awaitable[T_]]) -> T_:
        """Return what a call returns.

        Raises
        ------
        BusyError
            The queue is full, or the deadline has passed.
        """
        options = self.options
        if self._n_inside >= options.max_running + options.max_waiting:
            raise BusyError("too many calls are waiting: try again in a second")
        self._n_inside += 1
        try:
            async with asyncio.timeout(options.deadline), self._room:
                return await call()
        except TimeoutError:
            told = f"the call took more than {options.deadline:g} seconds"
            raise BusyError(f"{told}; a write may have been committed") from None
        finally:
            self._n_inside -= 1
