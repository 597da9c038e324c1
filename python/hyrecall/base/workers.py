"""Runs blocking calls in threads, so that an event loop stays free."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from hyrecall.base.scans import off_thread

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["off_loop"]

T = TypeVar("T")


class _Workers:
    """A thread pool, made again in a forked child, which has none of its parent's threads."""

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self._making = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    @property
    def executor(self) -> ThreadPoolExecutor:
        """The pool, made when it is first asked for."""
        from concurrent.futures import ThreadPoolExecutor

        with self._making:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(max_workers=8, thread_name_prefix="hyrecall")
            return self._executor


_workers = _Workers()


async def off_loop(call: Callable[..., T], options: Mapping[str, Any]) -> T:
    """Run a blocking call in a thread and await its result."""
    return await off_thread(_workers.executor, partial(call, **options))
