"""Tensors of another library on a device that is emulated: its memory is the host's, and a stream
does its work only when somebody waits for it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

KINDS = ("float16", "bfloat16", "float32", "float64")
_VOID = ctypes.c_void_p
_SIZE = ctypes.c_size_t


class _Controls(ctypes.Structure):
    """emulator::Controls of tests/emulator/controls.hpp."""

    _fields_ = (
        ("limit_memory", ctypes.CFUNCTYPE(None, _SIZE)),
        ("allocated_bytes", ctypes.CFUNCTYPE(_SIZE)),
        ("set_seed", ctypes.CFUNCTYPE(None, ctypes.c_uint64)),
        ("n_launches", ctypes.CFUNCTYPE(ctypes.c_uint64)),
        ("allocate", ctypes.CFUNCTYPE(_VOID, _SIZE)),
        ("release", ctypes.CFUNCTYPE(None, _VOID)),
        ("create_stream", ctypes.CFUNCTYPE(_VOID)),
        ("destroy_stream", ctypes.CFUNCTYPE(None, _VOID)),
        ("copy_later", ctypes.CFUNCTYPE(None, _VOID, _VOID, _VOID, _SIZE)),
        ("wait_for", ctypes.CFUNCTYPE(None, _VOID, _VOID)),
        ("work", _VOID),
        ("set_null", _VOID),
        ("has_context", ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_int)),
    )


class _Tensor(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (
        ("data", _VOID),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("n_axes", ctypes.c_int32),
        ("type_code", ctypes.c_uint8),
        ("type_bits", ctypes.c_uint8),
        ("type_lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
        ("context", _VOID),
        ("deleter", _VOID),
    )


_DELETER = ctypes.CFUNCTYPE(None, _VOID)
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (_VOID, ctypes.c_char_p, _VOID)
_is_capsule = ctypes.pythonapi.PyCapsule_IsValid
_is_capsule.argtypes = (ctypes.py_object, ctypes.c_char_p)
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = _VOID
_pointer_of.argtypes = (ctypes.py_object, ctypes.c_char_p)
_set_name = ctypes.pythonapi.PyCapsule_SetName
_set_name.argtypes = (ctypes.py_object, ctypes.c_char_p)
_USED = b"used_dltensor"  # a capsule keeps the address of its name


# What capsules were given for lives until their deleter is called.
_held: dict[int, tuple[DeviceTensor, _Tensor]] = {}


@_DELETER
def _let_go(address: int) -> None:
    tensor, _ = _held.pop(address)
    tensor.n_released += 1
    tensor.spoil()  # whoever reads it from now on reads NaN


@ctypes.PYFUNCTYPE(None, _VOID)
def _end_of_capsule(address: int) -> None:
    capsule = ctypes.cast(address, ctypes.py_object)
    if _is_capsule(capsule, b"dltensor"):  # nobody took it
        _let_go(_pointer_of(capsule, b"dltensor"))


_LET_GO = ctypes.cast(_let_go, _VOID)
_CAPSULE_END = ctypes.cast(_end_of_capsule, _VOID)


def emulator() -> Any:
    """Return the machine's controls, or skip the test that asks."""
    folder = os.environ.get("HYRECALL_EMULATED")
    if not folder:
        pytest.skip("HYRECALL_EMULATED names no folder of an emulated libhyrecall_cuda.so")
    library = ctypes.CDLL(f"{folder}/libhyrecall_cuda.so")
    library.emulator_controls.restype = ctypes.POINTER(_Controls)
    return library.emulator_controls().contents


class DeviceTensor:
    """A matrix on the device, which its producer's stream fills once somebody waits for it.

    Parameters
    ----------
    machine : _Controls
        See :func:`emulator`.
    values : ndarray, shape (n, dim)
        Bit patterns for bfloat16.
    kind : str
        Element type.
    layout : {"plain", "compact", "transposed", "spread", "upside down"}
        How it lies; compact tells no strides.
    device : tuple of int
        What it says of itself.
    """

    def __init__(
        self,
        machine: Any,
        values: Any,
        kind: str = "float32",
        *,
        layout: str = "plain",
        device: tuple[int, int] = (2, 0),
    ) -> None:
        self.machine, self.kind, self.layout, self.device = machine, kind, layout, device
        stored = np.uint16 if kind == "bfloat16" else np.dtype(kind)
        self.values = np.ascontiguousarray(values, stored)
        self.shape = self.values.shape
        n, dim = self.shape
        image, strides, first = self.values, (dim, 1), 0
        if layout == "transposed":
            image, strides = np.ascontiguousarray(self.values.T), (1, n)
        elif layout == "spread":
            image = np.full((n, 2 * dim + 1), 7, stored)
            image[:, 1::2] = self.values
            strides, first = (2 * dim + 1, 2), 1
        elif layout == "upside down":
            image, strides, first = self.values[::-1].copy(), (-dim, 1), (n - 1) * dim
        self._image, self._first = image, first
        self._strides = (ctypes.c_int64 * 2)(*strides)
        self._shape = (ctypes.c_int64 * 2)(n, dim)
        self._memory = machine.allocate(image.nbytes)
        self._stream = machine.create_stream()
        machine.copy_later(self._stream, self._memory, image.ctypes.data, image.nbytes)
        self.streams: list[int] = []  # on which it was asked for
        self.n_given = 0
        self.n_released = 0
        self.n_host_copies = 0

    def __del__(self) -> None:
        self.machine.destroy_stream(self._stream)
        self.machine.release(self._memory)

    def __len__(self) -> int:
        return int(self.shape[0])

    @property
    def n_held(self) -> int:
        """Capsules that somebody holds."""
        return self.n_given - self.n_released

    @property
    def is_filled(self) -> bool:
        """Whether its stream has run."""
        return ctypes.string_at(self._memory, self._image.nbytes) == self._image.tobytes()

    def spoil(self) -> None:
        """Fill its memory with NaN."""
        ctypes.memset(self._memory, 0xFF, self._image.nbytes)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: int | None = None, **options: object) -> object:
        if stream is None or options:
            raise BufferError("this producer has never heard of the host")
        self.streams.append(stream)
        self.machine.wait_for(stream, self._stream)
        code, item = (4 if self.kind == "bfloat16" else 2), self._image.itemsize
        if self.kind.startswith("uint"):
            code = 1
        if self.kind.startswith("int"):
            code = 0
        made = _Tensor(
            self._memory, *self.device, 2, code, 8 * item, 1, self._shape, self._strides,
            self._first * item, None, _LET_GO,
        )  # fmt: skip
        if self.layout == "compact":
            made.strides = None
        self.n_given += 1
        _held[ctypes.addressof(made)] = (self, made)
        return _new_capsule(ctypes.addressof(made), b"dltensor", _CAPSULE_END)

    def __array__(self, dtype: object = None, copy: object = None) -> Any:
        self.n_host_copies += 1
        if self.kind == "bfloat16":
            raise TypeError("NumPy has no such type")
        return self.values


def as_float32(values: Any, kind: str) -> Any:
    """Return the matrix as the host reads it."""
    if kind == "bfloat16":
        return (np.asarray(values, np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.asarray(values, kind)


def stored_as(values: Any, kind: str) -> Any:
    """Round a matrix to the element type; bit patterns for bfloat16."""
    if kind == "bfloat16":
        return (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return np.asarray(values, kind)


def on_device(machine: Any, vectors: object, kinds: Sequence[str] = ("float32",)) -> object:
    """Return a recall's vectors as tensors on the device where they are matrices."""
    if isinstance(vectors, dict):
        return {arm: on_device(machine, matrix, kinds) for arm, matrix in vectors.items()}
    if not isinstance(vectors, np.ndarray):
        return vectors
    return DeviceTensor(machine, vectors, kinds[0])


class TakenTensor:
    """A tensor on the device, imported as another library does: its capsule is used up.

    Parameters
    ----------
    machine : _Controls
    tensor : object
        With ``__dlpack__``.
    stream : int, optional
        On which it will be read: -1 and None mean none.
    """

    def __init__(self, machine: Any, tensor: Any, stream: int | None = -1) -> None:
        self.machine = machine
        capsule = tensor.__dlpack__(stream=stream)
        self.address = _pointer_of(capsule, b"dltensor")
        _set_name(capsule, _USED)
        said = _Tensor.from_address(self.address)
        self.device = (said.device_type, said.device_id)
        kind = {0: "int", 2: "float", 6: "bool"}[said.type_code]
        self.dtype = np.dtype(kind if kind == "bool" else f"{kind}{said.type_bits}")
        assert (said.n_axes, said.type_lanes, said.byte_offset) == (1, 1, 0)
        assert (said.strides[0], said.type_bits) == (1, 8 * self.dtype.itemsize)
        self.n, self.data, self.deleter = said.shape[0], said.data, said.deleter
        assert self.data % 256 == 0

    def values(self, stream: int | None = None) -> Any:
        """Read it on a stream; without one at once, as the device's memory is now."""
        out = np.empty(self.n, self.dtype)
        if stream is None:
            ctypes.memmove(out.ctypes.data, self.data, out.nbytes)
        else:
            self.machine.copy_later(stream, out.ctypes.data, self.data, out.nbytes)
            self.machine.destroy_stream(stream)  # which waits for it
        return out

    def release(self) -> None:
        """Call its deleter, without the GIL, as other libraries do."""
        ctypes.CFUNCTYPE(None, _VOID)(self.deleter)(self.address)


def taken_on_a_stream(machine: Any, tensor: Any) -> Any:
    """Return a tensor's values as a consumer on a stream of its own finds them."""
    stream = machine.create_stream()
    taken = TakenTensor(machine, tensor, stream)
    values = taken.values(stream)
    taken.release()
    return values
