"""The float arithmetic of a score, from its definition.

Two forms of each: a scalar one in plain Python with libm's ``fmaf`` (the definition), and one over
whole arrays whose fused multiply-add is built from float64 with rounding to odd. The second is
exact as well, so that bulk tests need no dot product of anybody else; ``test_arithmetic`` holds it
against the first.
"""

import ctypes
import ctypes.util
import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

LANES = 32
FOLDS = (16, 8, 4, 2, 1)
SMALLEST_NORM = 2.0**-60
LARGEST_NORM = 2.0**60

_libm = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
_libm.fmaf.restype = ctypes.c_float
_libm.fmaf.argtypes = [ctypes.c_float, ctypes.c_float, ctypes.c_float]


def plain_dot(row: F32, query: F32) -> np.float32:
    """Dot product in 32 lanes: lane j takes the elements i = j mod 32 in rising order, then the
    lanes fold.
    """
    lanes = [0.0] * LANES
    padded = -(-len(row) // LANES) * LANES
    for i in range(padded):
        x, y = (float(row[i]), float(query[i])) if i < len(row) else (0.0, 0.0)
        lanes[i % LANES] = _libm.fmaf(x, y, lanes[i % LANES])
    for width in FOLDS:
        for j in range(width):
            lanes[j] = float(np.float32(lanes[j]) + np.float32(lanes[j + width]))
    return np.float32(lanes[0])


def plain_sum_of_squares(row: F32) -> float:
    """Sum of squares in float64, in the lane order of the dot product (the square of a float32 is
    exact).
    """
    lanes = [0.0] * LANES
    for i, x in enumerate(row):
        lanes[i % LANES] += float(x) * float(x)
    for width in FOLDS:
        for j in range(width):
            lanes[j] += lanes[j + width]
    return lanes[0]


def plain_cosine(row: F32, query: F32) -> np.float32 | None:
    """Cosine of two vectors, or None where one of them is zero (which counts as missing)."""
    squares = plain_sum_of_squares(row), plain_sum_of_squares(query)
    if 0.0 in squares:
        return None
    inv_row, inv_query = (np.float32(1.0 / math.sqrt(s)) for s in squares)
    product = plain_dot(row, query) * inv_row * inv_query
    return np.float32(min(max(product, np.float32(-1)), np.float32(1))) + np.float32(0)


def fma(a: F32, b: F32, c: F32) -> F32:
    """``a * b + c`` rounded once to float32, elementwise.

    The product of two float32 is exact in float64. Their sum with ``c`` is rounded to odd (the
    neighbour whose last bit is one, whenever it is not exact), which keeps the second rounding, to
    float32, from seeing a false tie: Boldo and Melquiond, "Emulation of a FMA and correctly rounded
    sums", IEEE TC 2008.
    """
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    bits = total.view(np.int64)
    fix = (error != 0) & (bits & 1 == 0)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return (bits + fix * step).view(np.float64).astype(np.float32)


def _lanes(matrix: NDArray[np.floating]) -> NDArray[np.floating]:
    """Reshape [n, dim] to [n, steps, 32], padded with +0."""
    n, dim = matrix.shape
    steps = max(1, -(-dim // LANES))
    padded = np.zeros((n, steps * LANES), matrix.dtype)
    padded[:, :dim] = matrix
    return padded.reshape(n, steps, LANES)


def _fold(lanes: NDArray[np.floating]) -> NDArray[np.floating]:
    for width in FOLDS:
        lanes = lanes[:, :width] + lanes[:, width : 2 * width]
    return lanes[:, 0]


def dots(rows: F32, query: F32) -> F32:
    """``plain_dot`` of every row of a matrix [n, dim] with one query [dim]."""
    laned_rows, laned_query = _lanes(rows), _lanes(query[None, :])
    lanes = np.zeros((len(rows), LANES), np.float32)
    for step in range(laned_rows.shape[1]):
        lanes = fma(laned_rows[:, step], laned_query[:, step], lanes)
    return _fold(lanes)


def sums_of_squares(rows: F32) -> F64:
    """``plain_sum_of_squares`` of every row of a matrix [n, dim]."""
    laned = _lanes(rows.astype(np.float64))
    lanes = np.zeros((len(rows), LANES))
    for step in range(laned.shape[1]):
        lanes = lanes + laned[:, step] * laned[:, step]
    return _fold(lanes)


def inverse_norms(rows: F32) -> F32:
    """float32(1 / sqrt(sum of squares)) of every row; 0 stands for a zero row, which has no
    direction.
    """
    squares = sums_of_squares(rows)
    safe = np.where(squares == 0, 1.0, squares)
    return np.where(squares == 0, 0.0, 1.0 / np.sqrt(safe)).astype(np.float32)


def cosines(rows: F32, query: F32) -> F32:
    """Cosine of every row with one query; NaN stands for "missing" (a zero row, a zero query)."""
    inv_rows, inv_query = inverse_norms(rows), inverse_norms(query[None, :])[0]
    product = (dots(rows, query) * inv_rows) * inv_query
    clamped = np.clip(product, np.float32(-1), np.float32(1)) + np.float32(0)
    return np.where((inv_rows == 0) | (inv_query == 0), np.float32(np.nan), clamped)


def f32(value: ArrayLike) -> np.float32:
    """Round to float32 once."""
    return np.float32(value)
