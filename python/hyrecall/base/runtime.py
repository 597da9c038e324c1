"""Finds the CUDA devices and the number of threads that an index can use."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from hyrecall import _core
from hyrecall.base.arguments import as_int, is_one_of
from hyrecall.errors import DeviceUnavailableError, OptionError, error

LEAST_COMPUTE = (8, 0)
"""Ampere, the first with asynchronous copies and bfloat16 in tensor cores."""


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A CUDA device that this process can see."""

    device: str
    name: str
    compute_capability: tuple[int, int]
    memory_bytes: int
    n_multiprocessors: int

    @property
    def problem(self) -> str:
        """Why no index can run on it; empty if one can."""
        if self.compute_capability >= LEAST_COMPUTE:
            return ""
        least, own = (".".join(map(str, of)) for of in (LEAST_COMPUTE, self.compute_capability))
        return f"it has compute capability {own}, expected {least} or later"


@dataclass(frozen=True, slots=True)
class CudaReport:
    """The CUDA driver, runtime and devices that this process can use."""

    has_library: bool
    driver_version: str | None
    runtime_version: str | None
    devices: tuple[DeviceInfo, ...]
    problem: str


def cuda_library_folder() -> str:
    """Return the folder of ``libhyrecall_cuda.so``: ``HYRECALL_CUDA_LIBRARY`` or the package's
    own.
    """
    # A build without CUDA has no such file there.
    return os.environ.get("HYRECALL_CUDA_LIBRARY") or str(Path(_core.__file__).parent)


def cuda_report() -> CudaReport:
    """Look for CUDA devices; loads ``libhyrecall_cuda.so`` on first use and never raises."""
    found = _core.device.describe(cuda_library_folder())
    return CudaReport(
        has_library=found["has_library"],
        driver_version=_version(found["driver_version"]),
        runtime_version=_version(found["runtime_version"]),
        devices=tuple(
            DeviceInfo(f"cuda:{ordinal}", name, (major, minor), memory_bytes, n_multiprocessors)
            for ordinal, (name, major, minor, memory_bytes, n_multiprocessors) in enumerate(
                found["devices"]
            )
        ),
        problem=found["problem"],
    )


def _version(number: int) -> str | None:
    return f"{number // 1000}.{number % 1000 // 10}" if number else None


def devices() -> tuple[DeviceInfo, ...]:
    """List the CUDA devices that this process can see; empty without a driver."""
    return cuda_report().devices


def choose_threads(threads: int | None) -> int:
    """Return the given thread count, by default what CPU affinity and cgroup quota allow."""
    if threads is None:
        return max(1, min(allowed_cores(), _cgroup_cpus()))
    count = as_int(threads)
    if count is None or not 1 <= count <= 1024:
        raise error(OptionError, "threads", "an int in [1, 1024], or None", repr(threads))
    return count


def allowed_cores() -> int:
    """Return how many cores this process may run on; macOS binds none to some of them."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cgroup_cpus() -> int:
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return 1024 if quota == "max" else max(1, int(quota) // int(period))
    except (OSError, ValueError):
        return 1024


def ordinal_of(device: str) -> int:
    """Return the N of "cuda:N"."""
    return int(device.partition(":")[2])


def check_device(device: str) -> None:
    """Refuse a device that is not present or a string that is not a device name."""
    if is_one_of(device, ("cpu", "auto")):
        return
    kind, _, number = device.partition(":") if isinstance(device, str) else ("", "", "")
    if kind != "cuda" or not (number.isascii() and number.isdecimal()):
        raise error(OptionError, "device", "'cpu', 'cuda:N' or 'auto'", repr(device))
    report = cuda_report()
    ordinal = int(number)
    if ordinal < len(report.devices):
        why = report.devices[ordinal].problem
    else:
        there = ", ".join(found.device for found in report.devices)
        why = report.problem or f"there is no such device, only {there}"
    if why:
        raise error(DeviceUnavailableError, "device", "a CUDA device", f"{device}: {why}")
