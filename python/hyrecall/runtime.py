"""Where and with how many threads an index runs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from hyrecall.errors import DeviceUnavailableError, OptionError, error

__all__ = ["choose_device", "choose_threads", "off_loop"]

T = TypeVar("T")


class _Workers:
    """Threads that wait for native calls in place of an event loop.

    A forked child has none of its parent's threads, though their executor still counts on them:
    it gets an executor of its own.
    """

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        self.executor = ThreadPoolExecutor(max_workers=8, thread_name_prefix="hyrecall")


_workers = _Workers()


async def off_loop(call: Callable[..., T], options: Mapping[str, Any]) -> T:
    """Await a blocking call in a thread of its own."""
    job = partial(call, **options)
    return await asyncio.get_running_loop().run_in_executor(_workers.executor, job)


def choose_threads(threads: int | None) -> int:
    """Give the thread count: as asked, or what the CPU affinity and the cgroup's quota allow."""
    if threads is None:
        return max(1, min(len(os.sched_getaffinity(0)), _cgroup_cpus()))
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= 1024:
        raise error(OptionError, "threads", "an int in [1, 1024], or None", repr(threads))
    return threads


def _cgroup_cpus() -> int:
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return 1024 if quota == "max" else max(1, int(quota) // int(period))
    except (OSError, ValueError):
        return 1024


def choose_device(device: str) -> str:
    """Give the device an index runs on; only ``"auto"`` may choose."""
    if device in ("cpu", "auto"):
        return "cpu"
    kind, _, number = device.partition(":") if isinstance(device, str) else ("", "", "")
    if kind == "cuda" and number.isdecimal():
        got = f"{device}; this version recalls on the CPU (device='cpu' or 'auto')"
        raise error(DeviceUnavailableError, "device", "a device that can recall", got)
    raise error(OptionError, "device", "'cpu', 'cuda:N' or 'auto'", repr(device))
