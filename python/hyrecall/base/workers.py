"""Runs blocking calls in threads, so that an event loop stays free."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from hyrecall.base.forks import renew_in_children
from hyrecall.base.scans import off_thread

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["Workers", "off_loop"]

T = TypeVar("T")


class Workers:
    """A thread pool, made again in a forked child, which has none of its parent's threads."""

    def __init__(self, most: int, name: str) -> None:
        """Start nothing yet."""
        self._most, self._name = most, name
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Forget the threads."""
        self._making = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    @property
    def executor(self) -> ThreadPoolExecutor:
        """The pool, made when it is first asked for."""
        from concurrent.futures import ThreadPoolExecutor

        with self._making:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._most, self._name)
            return self._executor


_workers = Workers(8, "hyrecall")


async def off_loop(call: Callable[..., T], options: Mapping[str, Any]) -> T:
    """Run a blocking call in a thread and await its result."""
    return await off_thread(_workers.executor, partial(call, **options))
