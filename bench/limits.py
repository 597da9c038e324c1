"""Measure the machine's limits in the same run, and how busy other processes kept it."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

_REPEATS = 8
_WINDOW_S = 0.005
_WINDOW_BYTES = 1 << 25


def stream_read(threads: int, n_bytes: int) -> float:
    """Measure GB/s of reading memory in order: libc's memchr looks for a byte that is not there.

    It is vectorised, touches every byte once, and ctypes lets go of the interpreter meanwhile. A
    lower bound of what the memory gives: the best of many short windows, since in some of them
    others rest. All of it is read before any of it is read again, so no cache helps.
    """
    find = ctypes.CDLL(None).memchr
    find.restype = ctypes.c_void_p
    find.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
    shares = [np.full(n_bytes // threads, 7, np.uint8) for _ in range(threads)]
    window = min(_WINDOW_BYTES, n_bytes // threads)

    def read(place: tuple[int, int]) -> None:
        share, begin = place
        assert find(shares[share].ctypes.data + begin, 9, window) is None

    best = np.inf
    with ThreadPoolExecutor(threads) as pool:
        for at in list(range(0, n_bytes // threads - window + 1, window)) * 2:
            begin = time.perf_counter()
            list(pool.map(read, [(share, at) for share in range(threads)]))
            best = min(best, time.perf_counter() - begin)
    return threads * window / best / 1e9


def gemm_rate(n: int) -> float:
    """Measure GFLOP/s of an n x n x n float32 product in numpy: a stand-in for the fma rate."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))
    best = np.inf
    for _ in range(_REPEATS):
        begin = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - begin)
    return 2 * n**3 / best / 1e9


def int8_rate(threads: int, windows: int) -> float:
    """Measure 10^9 int8 operations/s of AVX-512 VNNI, a product and a sum being two; 0 without it.

    Independent chains of vpdpbusd in registers (int8_rate.c): what no kernel of hyrecall can pass.
    (One that used AMX could.) The best of many short windows: in some, others rest. 0 too where no
    C compiler is at hand.
    """
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return 0.0
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "int8_rate.so"
        source = Path(__file__).with_name("int8_rate.c")
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source)]
        subprocess.run(command, check=True)
        measured = ctypes.CDLL(str(library)).int8_rate
    measured.restype = ctypes.c_double
    measured.argtypes = (ctypes.c_double,)
    best = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(windows):
            best = max(best, sum(pool.map(measured, [_WINDOW_S] * threads)))
    return best / 1e9


def measure(threads: int, *, is_tiny: bool) -> dict[str, float]:
    """Measure the limits; a tiny run takes small ones, in a second."""
    n_bytes = 1 << 26 if is_tiny else 1 << 30
    alone = stream_read(1, n_bytes)
    return {
        "stream_gb_s": max(alone, stream_read(threads, n_bytes)),
        "stream_gb_s_1_thread": alone,
        "numpy_sgemm_gflop_s": gemm_rate(512 if is_tiny else 4096),
        "int8_gop_s": int8_rate(threads, 10 if is_tiny else 200),
    }


@dataclass
class Neighbours:
    """How many cores others used since this was made: the noise of a measurement."""

    began: float
    busy: float
    own: float

    @classmethod
    def watch(cls) -> Neighbours:
        """Begin to watch."""
        return cls(time.perf_counter(), _busy_seconds(), _own_seconds())

    def cores(self) -> float | None:
        """Return the cores others used on average; None where the system does not tell."""
        elapsed = time.perf_counter() - self.began
        if np.isnan(self.busy) or elapsed < 0.05:  # the kernel counts in hundredths of a second
            return None
        others = (_busy_seconds() - self.busy) - (_own_seconds() - self.own)
        return round(max(0.0, others / elapsed), 2)


def _busy_seconds() -> float:
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:
        return float("nan")
    user, nice, system, _, _, irq, softirq, steal = (int(f) for f in fields)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def resident_bytes() -> int:
    """Return the memory this process holds; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def reset_peak() -> bool:
    """Forget the peak so far; whether the system lets us."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def peak_bytes() -> int:
    """Return the most memory this process held since reset_peak()."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def give_back_memory() -> None:
    """Return freed memory back to the system, so that what a process holds is what it uses."""
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
