"""Tensors of other libraries that lie on a CUDA device: read there, not on the host."""

from __future__ import annotations

from typing import Any

from hyrecall import _core
from hyrecall.table.tensors import plain_tensor

__all__ = ["is_on_cuda", "take_guest"]

_CUDA = 2  # in DLPack's numbers
_REFUSALS = (AttributeError, BufferError, RuntimeError, TypeError, ValueError)


def is_on_cuda(value: Any, ordinal: int | None = None) -> bool:
    """Whether a value is an array on a CUDA device, or on this one, by what it says of itself."""
    if not hasattr(value, "__dlpack_device__"):
        return False
    try:
        kind, number = value.__dlpack_device__()
    except _REFUSALS:
        return False
    return bool(kind == _CUDA and ordinal in (None, number))


def take_guest(value: Any, *, folder: str, ordinal: int, dim: int) -> _core.Guest | None:
    """Take a matrix that lies on the device ``cuda:<ordinal>``, by DLPack.

    The producer lets a stream of ours wait for its own; whoever reads the tensor does so after
    that, and holds it until it has.

    Parameters
    ----------
    value : object
        What the caller gave.
    folder : str
        Where ``libhyrecall_cuda.so`` lies.
    ordinal : int
        The N of ``cuda:N``.
    dim : int
        Values in a row.

    Returns
    -------
    Guest or None
        None: it lies elsewhere or cannot be read there; :mod:`.tensors` takes it or says why not.
    """
    if not is_on_cuda(value, ordinal):
        return None
    gate = _core.Gate(folder, ordinal)
    try:
        capsule = plain_tensor(value).__dlpack__(stream=gate.stream)
    except _REFUSALS:
        return None
    return _core.Guest.take(gate, capsule, dim)
