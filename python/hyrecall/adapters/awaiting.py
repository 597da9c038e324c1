"""Turns blocking methods into coroutine functions, for frameworks that await them."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

__all__ = ["awaited"]

P_ = ParamSpec("P_")
T_ = TypeVar("T_")


def awaited(method: Callable[P_, T_]) -> Callable[P_, Coroutine[Any, Any, T_]]:
    """Return a coroutine function that calls a method on a thread, off the event loop."""

    @functools.wraps(method)
    async def call(*args: P_.args, **options: P_.kwargs) -> T_:
        return await asyncio.to_thread(method, *args, **options)

    call.__name__ = f"{method.__name__}_async"
    call.__qualname__ = f"{method.__qualname__}_async"
    return call
