"""Loads newer versions of an index, or of its shards, while it answers requests."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import Executor, Future

from hyrecall.distributed.sharded import ShardedIndex
from hyrecall.index import Index

__all__ = ["LOOK_AGAIN", "NewerVersions"]

LOOK_AGAIN = 1.0
"""Seconds after which a request lets the folder be looked at again."""


class NewerVersions:
    """Looks for newer versions of an index, and loads them in a thread."""

    def __init__(self, index: Index | ShardedIndex, threads: Executor, log: logging.Logger) -> None:
        """Count the open version as looked at now."""
        self._index, self._threads, self._log = index, threads, log
        self._looked = time.monotonic()
        self._is_after_pause = False
        self.loading: Future[None] | None = None

    async def look_again(self) -> None:
        """Load a newer version if the last look is long ago."""
        # Requests go on meanwhile. The first ones after a pause wait for it, at most LOOK_AGAIN:
        # nobody has looked during the pause, so the open version may be as old as the
        # pause is long.
        now = time.monotonic()
        is_busy = self.loading is not None and not self.loading.done()
        if not is_busy and now >= self._looked + LOOK_AGAIN:
            self._is_after_pause = now >= self._looked + 2 * LOOK_AGAIN
            self._looked = now
            self.loading = self._threads.submit(self._load)
        if self._is_after_pause and self.loading is not None and not self.loading.done():
            await asyncio.wait([asyncio.wrap_future(self.loading)], timeout=LOOK_AGAIN)

    def _load(self) -> None:
        try:
            if self._index.is_stale and self._index.reload() is not False:
                self._log.info("index: took up the version that was saved anew")
        except Exception as fault:  # also those of the file system; nothing reads the Future
            kind = type(fault).__name__
            self._log.error("index: the new version cannot be read (%s)", kind)
