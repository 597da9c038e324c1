"""The machine of fibers that stands in for a CUDA device (tests/emulator), as tests steer it."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class _Controls(ctypes.Structure):
    """As tests/emulator/controls.hpp has it."""

    _fields_ = (
        ("limit_memory", ctypes.CFUNCTYPE(None, ctypes.c_size_t)),
        ("allocated_bytes", ctypes.CFUNCTYPE(ctypes.c_size_t)),
        ("set_seed", ctypes.CFUNCTYPE(None, ctypes.c_uint64)),
        ("n_launches", ctypes.CFUNCTYPE(ctypes.c_uint64)),
    )


class Emulator:
    """An emulated libhyrecall_cuda.so, which is the one that hyrecall loads from this folder."""

    def __init__(self, folder: str) -> None:
        library = ctypes.CDLL(str(Path(folder) / "libhyrecall_cuda.so"))
        library.emulator_controls.restype = ctypes.POINTER(_Controls)
        self._controls = library.emulator_controls().contents

    def allocated_bytes(self) -> int:
        """Count the device memory that is taken, by what is held and by idle searches."""
        return int(self._controls.allocated_bytes())

    def n_launches(self) -> int:
        """Count the kernels that have run."""
        return int(self._controls.n_launches())

    @contextmanager
    def memory(self, n_bytes: int) -> Iterator[None]:
        """Let the device have so many bytes in all; what is taken stays taken."""
        self._controls.limit_memory(max(n_bytes, 1))
        try:
            yield
        finally:
            self._controls.limit_memory(0)
