"""On which device a state's vectors lie."""

from __future__ import annotations

from dataclasses import replace

from hyrecall.errors import DeviceMemoryError
from hyrecall.runtime import cuda_library_folder, cuda_report, ordinal_of
from hyrecall.segments import State

__all__ = ["place", "settle_on"]

AUTO_BYTES = 2**26
"""From so many bytes of vectors on, "auto" prefers a CUDA device: below, a scan on the CPU takes
about as long as the way to the device and back."""


def settle_on(device: str, state: State) -> tuple[str, State]:
    """Give the device an index runs on, and its first state there; only "auto" may choose.

    Raises
    ------
    DeviceUnavailableError, DeviceMemoryError
        The device that was named is not there, or has no room.
    """
    if device != "auto":
        return device, place(device, state, None)
    n_bytes = sum(column.nbytes for segment in state.segments for column in segment.dense.values())
    devices = cuda_report().devices
    if n_bytes < AUTO_BYTES or not devices or devices[0].problem:
        return "cpu", state
    try:
        return "cuda:0", place("cuda:0", state, None)
    except DeviceMemoryError:
        return "cpu", state


def place(device: str, state: State, previous: State | None) -> State:
    """Give the state with its vectors on the device; what the previous one has there is shared.

    An index without vectors has nothing to place. The state given stays as it was.
    """
    if device == "cpu" or state.snapshot.device_bytes or not state.segments[0].dense:
        return state
    for segment in state.segments:
        for arm in segment.dense:
            segment.check(arm)
    held = None if previous is None else previous.snapshot
    return replace(
        state, snapshot=state.snapshot.placed(cuda_library_folder(), ordinal_of(device), held)
    )
