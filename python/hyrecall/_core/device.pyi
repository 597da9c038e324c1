"""CUDA devices, through libhyrecall_cuda.so."""

from collections.abc import Sequence
from typing import Any, TypedDict, final

import numpy as np
import numpy.typing as npt

class _DeviceReport(TypedDict):
    has_library: bool
    driver_version: int
    runtime_version: int
    devices: list[tuple[str, int, int, int, int]]
    problem: str

MAX_ARITY: int
STATE_BYTES: dict[str, int]
"""Device memory of a query's scope and filter: for a group, for each range of rows, and in each
segment for the filter and its tests."""
MAX_DIMS: dict[str, int]
"""The most dimensions of a column of each type on a device."""

def describe(folder: str) -> _DeviceReport: ...
def formulas(
    folder: str, ordinal: int, op: str, arguments: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return a formula of the golden table, computed on a device, shape (n,)."""

def dots(
    folder: str, ordinal: int, query: npt.NDArray[np.float32], rows: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return canonical dots and inverse norms of float32 rows, computed on a device."""

def first_scores(
    folder: str,
    ordinal: int,
    queries: npt.NDArray[np.float32],
    rows: npt.NDArray[np.float32] | npt.NDArray[np.uint16],
    dtype: str,
) -> npt.NDArray[np.float32]:
    """Return a device's first-pass scores of all rows, query by query, shape (n,)."""

def scans(folder: str, ordinal: int) -> list[str]:
    """Return the scan kernels allowed by ``HYRECALL_CUDA_KERNELS``, as ``PLANE:WIDTH:ARCH``."""

def kernel_times() -> list[tuple[str, int, float]]:
    """Return (kernel, launches, ms) of searches with ``HYRECALL_CUDA_TIMES=1``; forget them."""

@final
class DeviceTensor:
    """An array of a reply on a CUDA device."""

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Export it; the given stream waits until it can be read, and the caller does not."""
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __len__(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...

def give_tensors(
    folder: str, ordinal: int, arrays: Sequence[npt.NDArray[Any]]
) -> list[DeviceTensor]:
    """Copy arrays to a device, in one block that their tensors share."""
