"""CUDA devices, through libhyrecall_cuda.so."""

from typing import TypedDict

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
"""What a query's scope and filter take on a device: a group, each range of rows, and in each
segment the filter and its tests."""
MAX_DIMS: dict[str, int]
"""Dimensions that a column of a type may have on a device."""

def describe(folder: str) -> _DeviceReport: ...
def formulas(
    folder: str, ordinal: int, op: str, arguments: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """A formula of the golden table on a device, shape (n,)."""

def dots(
    folder: str, ordinal: int, query: npt.NDArray[np.float32], rows: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Canonical dots and inverse norms of float32 rows on a device."""

def first_scores(
    folder: str,
    ordinal: int,
    queries: npt.NDArray[np.float32],
    rows: npt.NDArray[np.float32] | npt.NDArray[np.uint16],
    dtype: str,
) -> npt.NDArray[np.float32]:
    """What the first pass on a device says of each row, query after query, shape (n,)."""

def scans(folder: str, ordinal: int) -> list[str]:
    """The scanning kernels that ``HYRECALL_CUDA_KERNELS`` leaves a device, ``PLANE:WIDTH:ARCH``."""
