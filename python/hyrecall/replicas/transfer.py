"""Moves chunks between files and a remote place, several at a time, and counts what moved."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from types import TracebackType
from typing import Any, TypeVar

from hyrecall.base.progress import ProgressFunction
from hyrecall.errors import CorruptRemoteError, error
from hyrecall.replicas.generation import PushedFile, hash_of, object_of
from hyrecall.replicas.remote import Remote
from hyrecall.replicas.sources import SourceFile

__all__ = ["Transfer"]

THREADS = 8
_MOST_WAITING = 2 * THREADS  # chunks that may lie in memory

T = TypeVar("T")


class Transfer:
    """One push or pull."""

    def __init__(self, remote: Remote, total: int, tell: ProgressFunction | None) -> None:
        """Start with nothing moved."""
        self._remote = remote
        self._total = total
        self._done = 0
        self._tell = tell
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="hyrecall-transfer")
        self._guard = threading.Lock()
        self._taken: set[str] = set()
        self._waiting: Collection[Future[Any]] = ()
        self.n_moved = self.bytes_moved = 0

    def __enter__(self) -> Transfer:
        """Use the threads in a with statement."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for the chunks that are being moved."""
        self._pool.shutdown(cancel_futures=True)

    @property
    def url(self) -> str:
        """The address of the place."""
        return self._remote.url

    # ---- to the place ----

    def send(self, file: SourceFile, held: Mapping[str, str], epoch: str) -> PushedFile:
        """Send the chunks of a file that the place lacks."""
        begins = range(0, file.size, file.chunk_bytes)
        jobs = (partial(self._send_chunk, file, held, epoch, at) for at in begins)
        names = []
        for name, n_bytes, is_sent in self._run(jobs):
            names.append(name)
            self._count(n_bytes, is_moved=is_sent)
        return PushedFile(file.name, file.size, file.mark, file.chunk_bytes, tuple(names))

    def pass_over(self, file: PushedFile) -> PushedFile:
        """Count a file that need not be sent."""
        self._count(file.size, is_moved=False)
        return file

    def _send_chunk(
        self, file: SourceFile, held: Mapping[str, str], epoch: str, at: int
    ) -> tuple[str, int, bool]:
        content = file.read(at, min(file.chunk_bytes, file.size - at))
        digest = hash_of(content)
        if digest in held:
            return held[digest], len(content), False
        name = f"{digest}-{epoch}"
        with self._guard:  # one thread sends it; if that fails, the push fails
            is_taken = name in self._taken
            self._taken.add(name)
        # A push that was interrupted may have sent it.
        is_missing = not is_taken and not self._remote.has(object_of(name))
        if is_missing:
            self._remote.put(object_of(name), content)
        return name, len(content), is_missing

    # ---- from the place ----

    def fetch(self, file: PushedFile, handle: int, *, is_fresh: bool) -> None:
        """Write a file; chunks that it already holds are kept."""
        os.ftruncate(handle, file.size)
        first: dict[str, int] = {}
        for number, chunk in enumerate(file.chunks):
            first.setdefault(chunk, number)
        again = [number for number, chunk in enumerate(file.chunks) if first[chunk] != number]
        fetches = (
            partial(self._fetch_chunk, file, handle, number, is_fresh=is_fresh)
            for number in first.values()
        )
        # Repeated chunks, such as empty pages, are fetched once and then copied.
        copies = (
            partial(self._copy_chunk, file, handle, first[file.chunks[number]], number)
            for number in again
        )
        try:
            for jobs in (fetches, copies):
                for n_bytes, is_fetched in self._run(jobs):
                    self._count(n_bytes, is_moved=is_fetched)
        except BaseException:
            self._give_up()
            raise

    def _fetch_chunk(
        self, file: PushedFile, handle: int, number: int, *, is_fresh: bool
    ) -> tuple[int, bool]:
        n_bytes, at = file.length_of(number), number * file.chunk_bytes
        digest = file.chunks[number].partition("-")[0]
        if not is_fresh and hash_of(os.pread(handle, n_bytes, at)) == digest:
            return n_bytes, False
        content = self._remote.get(object_of(file.chunks[number]))
        self._check(file.chunks[number], content, n_bytes, digest)
        _write_at(handle, content, at)
        return n_bytes, True

    def _copy_chunk(
        self, file: PushedFile, handle: int, first: int, number: int
    ) -> tuple[int, bool]:
        n_bytes = file.length_of(number)
        content = os.pread(handle, n_bytes, first * file.chunk_bytes)
        self._check(file.chunks[number], content, n_bytes, file.chunks[number].partition("-")[0])
        _write_at(handle, content, number * file.chunk_bytes)
        return n_bytes, False

    def _check(self, chunk: str, content: bytes, n_bytes: int, digest: str) -> None:
        where = f"{self._remote.url}/{object_of(chunk)}"
        if len(content) != n_bytes:
            raise error(CorruptRemoteError, where, f"{n_bytes} bytes", f"{len(content)} bytes")
        found = hash_of(content)
        if found != digest:
            raise error(CorruptRemoteError, where, f"SHA-256 {digest}", found)

    # ---- both ----

    def keep(self, n_bytes: int) -> None:
        """Count bytes that need not be moved."""
        self._count(n_bytes, is_moved=False)

    def _count(self, n_bytes: int, *, is_moved: bool) -> None:
        self._done += n_bytes
        self.n_moved += is_moved
        self.bytes_moved += n_bytes * is_moved
        if self._tell is not None:
            self._tell(self._done, self._total)

    def _run(self, jobs: Iterable[Callable[[], T]]) -> Iterator[T]:
        """Run jobs on the threads and yield their results in order."""
        waiting: deque[Future[T]] = deque()
        self._waiting = waiting
        for job in jobs:
            waiting.append(self._pool.submit(job))
            if len(waiting) >= _MOST_WAITING:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _give_up(self) -> None:
        """Return when no job runs any more, before the caller closes the file."""
        # A job that is still running would write to the next file with the same descriptor.
        for one in self._waiting:
            one.cancel()
        wait([one for one in self._waiting if not one.cancelled()])


def _write_at(handle: int, content: bytes, at: int) -> None:
    view = memoryview(content)
    while view:
        n_bytes = os.pwrite(handle, view, at)
        view, at = view[n_bytes:], at + n_bytes
