"""Checks matrices of floats and converts them to the engine's types, with at most one rounding.

NumPy has no bfloat16, so its rows are uint16 bit patterns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.table.schema import VectorDtype

Array: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_]
SourceDtype: TypeAlias = VectorDtype | Literal["float64"]

# Checks and conversions work in blocks, so that their temporary arrays take only a few MB.
_BLOCK_VALUES = 1 << 20


@dataclass(frozen=True, eq=False)
class VectorInput:
    """The document vectors of one dense arm."""

    dtype: VectorDtype
    dim: int
    chunks: tuple[Array, ...]
    valid: Mask | None
    guest: Any = None
    begins: npt.NDArray[np.uint32] | None = None  # of the vectors of rows of many
    sparse: Any = None  # instead of chunks: table/sparse.py:SparseRows


@lru_cache(maxsize=64)  # NumPy composes the name again each time
def source_dtype(dtype: np.dtype[Any]) -> SourceDtype | None:
    """Return the name of an element type, in any byte order, or None if vectors cannot have it."""
    return _SOURCES.get(dtype.name)


def native(array: Array) -> Array:
    """Return a plain array, C-contiguous, aligned, in native byte order; copies only if needed."""
    # An ml_dtypes array of bfloat16 is returned as uint16 bit patterns.
    if array.dtype.name == "bfloat16":
        return np.require(array, requirements=["C", "A", "E"]).view(np.uint16)
    return np.require(array, dtype=array.dtype.newbyteorder("="), requirements=["C", "A", "E"])


def widen_bfloat16(bits: Array) -> npt.NDArray[np.float32]:
    """Widen bit patterns of bfloat16 to float32, exactly."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def convert(values: Array, source: SourceDtype, target: VectorDtype) -> Array:
    """Convert with one rounding, to nearest even; too large values become infinite."""
    if source == target:
        return values
    if source == "bfloat16":
        values = widen_bfloat16(values)
    quiet = np.errstate(over="ignore", under="ignore", invalid="ignore")
    with quiet, _core.arithmetic.RoundToNearest():
        if target == "bfloat16":
            return _round_to_bfloat16(values)
        return values.astype(target)


def _round_to_bfloat16(values: Array) -> npt.NDArray[np.uint16]:
    floats = values.astype(np.float32)
    bits = floats.view(np.uint32)
    if values.dtype == np.float64:
        # Rounding twice could double the error. Rounding to odd first prevents that (Boldo and
        # Melquiond, IEEE TC 2008): truncate, then set the last bit if the value was inexact.
        inexact = floats != values
        bits = bits - (np.abs(floats) > np.abs(values))
        bits = np.where(inexact, bits | np.uint32(1), bits)
    tie_to_even = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = ((bits + np.uint32(0x7FFF) + tie_to_even) >> np.uint32(16)).astype(np.uint16)
    rounded[np.isnan(values)] = 0x7FC0  # a carry could turn a NaN into zero
    return rounded


def describe_row(row_name: str, row: int) -> str:
    """Return the words for a row of the input in a message; rows count from 0."""
    return f"in {row_name} {row}"


_AS_ARRAY = "rows = np.stack(np.asarray(rows))"  # also of a column of lists
_LARGEST = "np.abs(rows).max(axis=1, keepdims=True).clip(np.finfo(rows.dtype).tiny)"
_SCALED = f"scale them: {_AS_ARRAY}; rows = rows / {_LARGEST}"


def for_rows(row_name: str, remedy: str) -> str:
    """Return the remedy, or "": it speaks of the table's columns, and of one vector a row."""
    return remedy if row_name == "row" else ""


def check_rows(
    rows: Array,
    source: SourceDtype,
    target: VectorDtype,
    *,
    valid: Mask | None = None,
    first_row: int = 0,
    argument: str,
    row_name: str,
) -> Array:
    """Convert a matrix to the target type and refuse every row that is not finite there."""
    same = source == target
    out = rows.view() if same else np.empty(rows.shape, _STORAGE[target])
    for part in _blocks(rows):
        if not same:
            out[part] = convert(rows[part], source, target)
        if _all_finite(out[part], target):
            row = None if same else _vanished(rows[part], out[part], source)
            if row is not None and (valid is None or valid[part][row]):
                wish = "a norm in [2^-60, 2^60] or a zero vector"
                if target == "float16":
                    wish = "values that fit float16, or a zero vector"
                norm = np.hypot.reduce(rows[part][row].astype(np.float64))
                told = f"{norm:g} {describe_row(row_name, first_row + part.start + row)}"
                raise error(OptionError, argument, wish, told, for_rows(row_name, _SCALED))
            continue
        good = _finite(out[part], target)
        bad = ~good if valid is None else ~good & valid[part, None]
        if bad.any():
            row, column = (int(i) for i in np.argwhere(bad)[0])
            value = rows[part][row, column : column + 1]
            got = float((widen_bfloat16(value) if source == "bfloat16" else value)[0])
            where = describe_row(row_name, first_row + part.start + row)
            wish, line = "finite values", "rows[~np.isfinite(rows).all(axis=1)] = 0"
            remedy = f"a row of zeros counts as no vector: {_AS_ARRAY}; {line}"
            if np.isfinite(got):
                wish = f"values that fit {target}"
                remedy = _SCALED
            raise error(OptionError, argument, wish, f"{got} {where}", for_rows(row_name, remedy))
    out.flags.writeable = False
    return out


_SOURCES: dict[str, SourceDtype] = {
    "float32": "float32",
    "float64": "float64",
    "float16": "float16",
    "bfloat16": "bfloat16",
}
_STORAGE: dict[VectorDtype, npt.DTypeLike] = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": np.uint16,
}


def _blocks(rows: Array) -> Iterator[slice]:
    step = max(1, _BLOCK_VALUES // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        yield slice(start, min(start + step, len(rows)))


def _vanished(rows: Array, out: Array, source: SourceDtype) -> int | None:
    """Return the first row whose values all became 0 by rounding, or None."""
    if source not in ("float64", "float32"):
        return None
    zeros = np.flatnonzero(
        ~(out.view(np.uint16) << 1 if out.dtype == np.uint16 else out).any(axis=1)
    )
    lost = zeros[rows[zeros].any(axis=1)]
    return int(lost[0]) if len(lost) else None


def _all_finite(values: Array, dtype: VectorDtype) -> bool:
    if dtype == "float32":
        return _core.arithmetic.all_finite(values)
    return bool(_finite(values, dtype).all())


def _finite(values: Array, dtype: VectorDtype) -> Mask:
    # An exponent of all ones is an infinity or a NaN; for 16 bits, testing integers is fast.
    if dtype == "float32":
        return np.isfinite(values)
    exponent = np.uint16(0x7F80 if dtype == "bfloat16" else 0x7C00)
    finite: Mask = (values.view(np.uint16) & exponent) != exponent
    return finite


def refuse_dtype(argument: str, got: object) -> DTypeError:
    """Make the error for values that are not floats."""
    wish = "float16, bfloat16, float32 or float64 values"
    return error(DTypeError, argument, wish, got)
