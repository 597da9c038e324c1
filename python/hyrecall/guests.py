"""Tensors of other libraries that lie on the index's own device: read there, not on the host."""

from __future__ import annotations

from typing import Any

from hyrecall import _core
from hyrecall.tensors import plain_tensor

__all__ = ["guest_queries"]

_CUDA = 2  # in DLPack's numbers


def guest_queries(
    value: Any, *, snapshot: _core.Snapshot, dim: int, argument: str
) -> _core.GuestQueries | None:
    """Take query vectors that lie on the snapshot's device, by DLPack.

    The producer lets a stream of ours wait for its own; the search reads the tensor after that and
    holds it until it has.

    Parameters
    ----------
    value : object
        What the caller gave.
    snapshot : _core.Snapshot
        Where the queries are asked.
    dim : int
        Values in a query.
    argument : str
        What to name in messages.

    Returns
    -------
    GuestQueries or None
        None: :func:`tensors.query_vectors` takes the value, or says why not.
    """
    place = snapshot.device
    if place is None or not hasattr(value, "__dlpack_device__"):
        return None
    folder, ordinal = place
    try:
        if tuple(value.__dlpack_device__()) != (_CUDA, ordinal):
            return None
        gate = _core.Gate(folder, ordinal)
        capsule = plain_tensor(value).__dlpack__(stream=gate.stream)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        return None
    return _core.GuestQueries.take(gate, capsule, dim, argument)
