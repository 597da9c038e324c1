"""Imports tensors of other libraries on a CUDA device by DLPack, without a copy to the host."""

from __future__ import annotations

from typing import Any

from hyrecall import _core
from hyrecall.table.tensors import plain_tensor

__all__ = ["is_on_cuda", "take_guest"]

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
