"""Makes an embedder from an async function, which runs on its own event loop."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from hyrecall.base import threads
from hyrecall.base.forks import leave_to_parent, renew_in_children
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, OptionError, error

__all__ = ["AsyncEmbedder", "from_async"]

_Function = Callable[[Sequence[str]], Awaitable[object]]


class AsyncEmbedder:
    """Calls an async function on its own event loop; made by :func:`from_async`."""

    def __init__(self, function: _Function, *, model: str, dim: int | None) -> None:
        """Check the arguments; the first call starts the loop."""
        if not callable(function):
            raise error(DTypeError, "function", "an async function", type(function).__name__)
        if not isinstance(model, str) or not model.strip():
            raise error(OptionError, "model", "a name", repr(model))
        self.model = model
        self.dim = dim
        self._function = function
        self._loop: asyncio.AbstractEventLoop | None = None
        self.renew()
        renew_in_children(self)

    def embed(self, texts: Sequence[str]) -> object:
        """Return the function's result, or raise its exception."""
        return self._future(texts).result()

    def embed_within(self, texts: Sequence[str], seconds: float) -> object:
        """Return the function's result, or cancel it after some seconds."""
        future = self._future(texts)
        try:
            return future.result(seconds)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the loop and cancel running calls."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)

    def renew(self) -> None:
        """Forget the parent's loop in a forked child; to close it would act on the parent's."""
        self._lock = threading.Lock()
        loop, self._loop = self._loop, None
        leave_to_parent(loop)

    def _future(self, texts: Sequence[str]) -> concurrent.futures.Future[object]:
        async def call() -> object:
            return await self._function(texts)

        loop = self._running()
        return asyncio.run_coroutine_threadsafe(call(), loop)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                try:
                    threads.start(partial(_run, loop), name="hyrecall-await", stop=self.close)
                except RuntimeError:
                    loop.close()
                    raise
                self._loop = loop
            return self._loop

    def __repr__(self) -> str:
        """Show the model."""
        return f"AsyncEmbedder({self.model!r})"


@check_keywords
def from_async(function: _Function, *, model: str, dim: int | None = None) -> AsyncEmbedder:
    """Make an embedder from an async function, such as a method of an async client.

    All calls run on one event loop in its own thread, so a client can keep its connections.

    Parameters
    ----------
    function : async callable
        Returns one row per text.
    model : str
        Name stored with the vectors.
    dim : int, optional
        Length of a vector; None if it is not known before the first reply.

    Returns
    -------
    AsyncEmbedder
        Call its ``close()`` at the end. The first call starts the thread.

    Raises
    ------
    DTypeError, OptionError
        Not a function, or an invalid model name.

    Examples
    --------
    >>> async def lengths(texts):
    ...     return [[float(len(text)), 1.0] for text in texts]
    >>> embedder = from_async(lengths, model="lengths", dim=2)
    >>> embedder.embed(["tea", "coffee"])
    [[3.0, 1.0], [6.0, 1.0]]
    >>> embedder.close()
    """
    return AsyncEmbedder(function, model=model, dim=dim)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped, then cancel its tasks."""
    try:
        loop.run_forever()
        loop.run_until_complete(_cancel_all(asyncio.all_tasks(loop)))
    finally:
        loop.close()


async def _cancel_all(tasks: set[asyncio.Task[object]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
