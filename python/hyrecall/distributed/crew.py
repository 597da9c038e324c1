"""Worker processes of a build of shards, which run tasks in parallel."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Self

from hyrecall.base.forks import locked
from hyrecall.distributed.build_plan import WORKERS
from hyrecall.distributed.pipes import PipeClosed, read_frames, rebuild, system_error, write_frames
from hyrecall.errors import ShardLostError, WriterBusyError, error

__all__ = ["Crew"]

MOST_WAIT = 10.0  # seconds to wait for the workers of a killed build; they end at once


class Crew:
    """Processes that run the tasks of one build; use it in a with statement."""

    def __init__(self, work: Path, n_workers: int) -> None:
        """Start processes that read the plan of a folder."""
        command = [sys.executable, "-m", "hyrecall.distributed.build_worker", str(work)]
        with _alone(work) as lock:
            # Each worker inherits the lock, so it holds it from its start.
            self._all = [
                subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[lock]
                )
                for _ in range(n_workers)
            ]
        self._free: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        for one in self._all:
            self._free.put(one)
        self._threads = ThreadPoolExecutor(n_workers, "hyrecall-build")

    def run(self, tasks: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, Any]]:
        """Run tasks; yield the number and the answer of each when it is done."""
        numbers = {self._threads.submit(self._do, task): at for at, task in enumerate(tasks)}
        try:
            for done in as_completed(numbers):
                yield numbers[done], done.result()
        finally:
            for one in numbers:
                one.cancel()

    def _do(self, task: Mapping[str, Any]) -> Any:
        worker = self._free.get()
        try:
            assert worker.stdin is not None
            assert worker.stdout is not None
            write_frames(worker.stdin, json.dumps(task).encode())
            kind, answer = read_frames(worker.stdout)
        except (OSError, PipeClosed, ValueError) as fault:
            got = f"a worker that ended (exit code {worker.poll()})"
            remedy = "go on with resume=True and less memory_limit= or fewer workers="
            raise error(ShardLostError, "workers", "an answer", got, remedy) from fault
        finally:
            self._free.put(worker)
        if kind != b"answer":
            raise system_error(answer) or rebuild(answer)
        return json.loads(answer)

    def __enter__(self) -> Self:
        """Use the workers in a with statement."""
        return self

    def __exit__(self, *exc: object) -> None:
        """End the workers, even during a task."""
        for one in self._all:
            one.kill()
        self._threads.shutdown(cancel_futures=True)
        for one in self._all:
            for pipe in (one.stdin, one.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            one.wait()


@contextlib.contextmanager
def _alone(work: Path) -> Iterator[int]:
    """Wait until no worker of an earlier, killed build is left; yield the lock for new workers."""
    with contextlib.ExitStack() as held:
        try:
            how = os.O_RDWR | os.O_CREAT
            handle = held.enter_context(
                locked(work / WORKERS, how, 0o644, wait=MOST_WAIT, unlocks=False)
            )
        except BlockingIOError:
            wish, got = "no worker of another build", "one"
            raise error(WriterBusyError, str(work), wish, got) from None
        yield handle
