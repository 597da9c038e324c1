"""Reads arrays of any library (NumPy, torch, DLPack, Arrow, lists) as NumPy matrices.

The only module that reads tensors of torch. It never imports it: one exists only if it is loaded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.errors import DTypeError, OptionError, ShapeError, error
from hyrecall.table.arrow_lists import arrow_column, is_arrow, read_lists
from hyrecall.table.matrices import (
    Array,
    Mask,
    SourceDtype,
    check_rows,
    describe_row,
    native,
    refuse_dtype,
    source_dtype,
    widen_bfloat16,
)

_TORCH: dict[str, SourceDtype] = {
    "torch.float32": "float32",
    "torch.float64": "float64",
    "torch.float16": "float16",
    "torch.bfloat16": "bfloat16",
}

_TORCH_INTS = frozenset(
    f"torch.{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
) - {"torch.uint16"}

Queries = tuple[npt.NDArray[np.float32], Mask | None]


def row_count(value: object, *, argument: str = "vectors") -> int:
    """Return the number of rows of any input of :func:`query_vectors`, without reading the
    values.
    """
    shape = getattr(value, "shape", None)
    if shape is not None and len(shape) == 0:
        raise error(ShapeError, argument, "shape (n_queries, dim)", "()")
    if is_arrow(value):
        return len(arrow_column(value))
    if hasattr(value, "__len__"):
        return len(value)
    if hasattr(value, "__dlpack__"):
        return row_count(host_array(value, argument=argument)[0], argument=argument)
    raise _not_an_array(value, argument)


def query_vectors(
    value: object, *, dim: int, argument: str = "vectors", is_checked_later: bool = False
) -> Queries:
    """Read a batch of query vectors."""
    if isinstance(value, list) and len(value) == 1 and _is_plain(value[0], 1, dim):
        value = value[0][np.newaxis]
    if (
        _is_plain(value, 2, dim)
        and value.flags.c_contiguous
        and value.flags.aligned
        and (is_checked_later or _core.arithmetic.all_finite(value))
    ):  # otherwise the code below converts it or reports the error
        view = value.view()
        view.flags.writeable = False
        return view, None
    if isinstance(value, list | tuple):
        return _from_rows(value, dim, argument)
    if is_arrow(value):
        return _from_arrow(value, dim, argument)
    array, dtype = host_array(value, argument=argument, takes_ints=True)
    if array.ndim != 2 or array.shape[1] != dim:
        raise error(ShapeError, argument, f"shape (n_queries, {dim})", array.shape)
    return _float32(native(array), dtype, None, argument), None


def check_finite(queries: npt.NDArray[np.float32], argument: str) -> None:
    """Refuse NaN and infinity in queries that were read without that check."""
    _float32(queries, "float32", None, argument)


def host_array(
    value: object, *, argument: str, bits: bool = False, takes_ints: bool = False
) -> tuple[Array, SourceDtype]:
    """Return an array of floats of any library as a NumPy array, with the name of its element
    type.
    """
    # bfloat16 of torch is returned as uint16 bit patterns, bfloat16 of ml_dtypes unchanged (see
    # :func:`matrices.native`). Tensors on a device are copied to the host. With `bits`, a NumPy
    # uint16 array is read as bit patterns of bfloat16. With `takes_ints`, integers become float64,
    # but not uint16, which may be such bit patterns.
    torch = sys.modules.get("torch")  # a value can only be a tensor when torch is loaded
    if torch is not None and torch.is_tensor(value):
        return _from_torch(torch, value, argument, takes_ints)
    if isinstance(value, np.ma.MaskedArray):
        raise error(DTypeError, argument, "an array without a mask", "a masked array")
    if isinstance(value, np.ndarray):
        array = value
    elif hasattr(value, "__dlpack__"):
        array = _from_dlpack(value, argument)
        _check_is_there(array, argument)
    elif hasattr(value, "__array__"):
        array = np.asarray(value)
    else:
        raise _not_an_array(value, argument)
    dtype = "bfloat16" if bits and array.dtype.name == "uint16" else source_dtype(array.dtype)
    if dtype is None and takes_ints and array.dtype.kind in "iu" and array.dtype.name != "uint16":
        return array.astype(np.float64), "float64"
    if dtype is None:
        raise refuse_dtype(argument, array.dtype)
    return array, dtype


def plain_tensor(value: Any) -> Any:
    """Detach a torch tensor and resolve its negation for DLPack; return other values unchanged."""
    torch = sys.modules.get("torch")
    return value.detach().resolve_neg() if torch is not None and torch.is_tensor(value) else value


def _not_an_array(value: object, argument: str) -> DTypeError:
    wish = "a NumPy, torch, DLPack or Arrow array"
    return error(DTypeError, argument, wish, type(value).__name__)


def _from_torch(
    torch: Any, tensor: Any, argument: str, takes_ints: bool
) -> tuple[Array, SourceDtype]:
    name = str(tensor.dtype)
    dtype = _TORCH.get(name)
    if dtype is None and not (takes_ints and name in _TORCH_INTS):
        raise refuse_dtype(argument, tensor.dtype)
    if tensor.layout != torch.strided or tensor.is_nested or tensor.is_meta:
        got = "a meta tensor" if tensor.is_meta else f"a {tensor.layout} or nested tensor"
        raise error(DTypeError, argument, "a dense tensor that holds data", got)
    host = plain_tensor(tensor).cpu()
    if dtype == "bfloat16":  # NumPy has no such type: return the bits
        return host.contiguous().view(torch.int16).numpy().view(np.uint16), dtype
    return (host.numpy().astype(np.float64), "float64") if dtype is None else (host.numpy(), dtype)


def _from_dlpack(value: Any, argument: str) -> Array:
    """Import by DLPack, or if NumPy cannot, by the producer's own conversion."""
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as fault:
        reason: Exception = fault
    try:
        # From DLPack 1.0 the producer copies to the host when asked; NumPy asks from 2.1 on.
        return np.from_dlpack(value, device="cpu")
    except (BufferError, RuntimeError, TypeError, ValueError):
        pass
    if hasattr(value, "__array__"):
        return np.asarray(value)
    wish = "an array that DLPack can bring to host memory"
    raise error(DTypeError, argument, wish, f"{type(value).__name__} ({reason})") from reason


def _check_is_there(array: Array, argument: str) -> None:
    """Refuse memory that the process does not have: DLPack gives an address without a limit."""
    # The first and the last byte are looked at, by the system, which does not crash.
    if not array.size:
        return
    steps = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
    first = array.__array_interface__["data"][0]
    low = first + sum(step for step in steps if step < 0)
    high = first + sum(step for step in steps if step > 0) + array.itemsize - 1
    try:
        handle = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # not in every sandbox
        return
    try:
        os.pread(handle, 1, low)
        os.pread(handle, 1, high)
    except (OSError, OverflowError):
        wish = "an array in memory that is there (DLPack)"
        raise error(OptionError, argument, wish, f"bytes {low:#x} to {high:#x}") from None
    finally:
        os.close(handle)


def _from_arrow(value: Any, dim: int, argument: str) -> Queries:
    column = arrow_column(value)
    rows = read_lists(
        column, bits=False, dim=dim, argument=argument, row_name="query", takes_ints=True
    )
    chunks = []
    first = 0
    for chunk in rows.chunks:
        valid = None if rows.valid is None else rows.valid[first : first + len(chunk)]
        chunks.append(_float32(native(chunk), rows.dtype, valid, argument, first))
        first += len(chunk)
    if len(chunks) == 1 and rows.valid is None:
        return chunks[0], None
    queries = np.concatenate(chunks) if chunks else np.empty((0, dim), np.float32)
    if rows.valid is not None:
        queries[~rows.valid] = 0
    return queries, rows.valid


def _from_rows(rows: Sequence[object], dim: int, argument: str) -> Queries:
    plain = [row for row in rows if _is_plain(row, 1, dim)]
    if plain and len(plain) == len(rows):
        matrix = np.stack(plain) if len(plain) > 1 else plain[0][np.newaxis]
        return _float32(matrix, "float32", None, argument), None
    if any(isinstance(row, int | float | np.number) for row in rows):
        raise error(ShapeError, argument, f"shape (n_queries, {dim})", f"({len(rows)},)")
    # Every element type widens to float64 exactly; the only rounding is at the end.
    values = np.zeros((len(rows), dim), np.float64)
    valid = np.ones(len(rows), np.bool_)
    for i, row in enumerate(rows):
        if row is None:
            valid[i] = False
            continue
        where = describe_row("query", i)
        array, dtype = _row(row, argument, where)
        if array.shape != (dim,):
            got = len(array) if array.ndim == 1 else f"shape {array.shape}"
            raise error(ShapeError, argument, f"{dim} values in every query", f"{got} {where}")
        with np.errstate(invalid="ignore"):  # a signalling NaN; reported below
            values[i] = widen_bfloat16(native(array)) if dtype == "bfloat16" else array
    queries = _float32(values, "float64", None, argument)
    return queries, None if valid.all() else valid


def _is_plain(value: object, n_axes: int, dim: int) -> TypeGuard[npt.NDArray[np.float32]]:
    """Return whether a row or a matrix has the engine's type and width."""
    return (
        type(value) is np.ndarray
        and value.dtype == np.float32
        and value.ndim == n_axes
        and value.shape[-1] == dim
    )


def _row(row: object, argument: str, where: str) -> tuple[Array, SourceDtype]:
    if not isinstance(row, Sequence) or isinstance(row, str | bytes):
        return host_array(row, argument=argument, takes_ints=True)
    try:
        array = np.asarray(row)
    except ValueError as fault:
        raise error(ShapeError, argument, "a flat row of numbers", f"{fault} {where}") from fault
    if array.dtype.kind not in "iuf" and array.size:
        raise error(DTypeError, argument, "a row of numbers", f"dtype {array.dtype} {where}")
    return array, "float64"


def _float32(
    rows: Array, dtype: SourceDtype, valid: Mask | None, argument: str, first_row: int = 0
) -> npt.NDArray[np.float32]:
    return check_rows(
        rows,
        dtype,
        "float32",
        valid=valid,
        first_row=first_row,
        argument=argument,
        row_name="query",
    )


# ---- Imports tensors of other libraries on a CUDA device by DLPack, without a copy to the host

_CUDA = 2  # kDLCUDA of DLPack
_REFUSALS = (AttributeError, BufferError, RuntimeError, TypeError, ValueError)


def is_on_cuda(value: Any, ordinal: int | None = None) -> bool:
    """Return whether an array reports to be on a CUDA device (`ordinal`, or any)."""
    if not hasattr(value, "__dlpack_device__"):
        return False
    try:
        kind, number = value.__dlpack_device__()
    except _REFUSALS:
        return False
    return bool(kind == _CUDA and ordinal in (None, number))


def take_guest(value: Any, *, folder: str, ordinal: int, dim: int) -> _core.Guest | None:
    """Import a matrix on the device ``cuda:<ordinal>`` by DLPack."""
    # The producer makes our stream wait for its own. The tensor is read after that, and held until
    # the read is finished.
    if not is_on_cuda(value, ordinal):
        return None
    gate = _core.Gate(folder, ordinal)
    try:
        capsule = plain_tensor(value).__dlpack__(stream=gate.stream)
    except _REFUSALS:
        return None
    return _core.Guest.take(gate, capsule, dim)
