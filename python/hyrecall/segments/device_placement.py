"""Chooses the device of an index and copies vectors and postings of its states there."""

from __future__ import annotations

from dataclasses import replace

from hyrecall import _core
from hyrecall.base.runtime import cuda_library_folder, cuda_report, ordinal_of
from hyrecall.errors import DeviceMemoryError
from hyrecall.segments.segments import Rows, State
from hyrecall.table.device_tensors import take_guest

__all__ = ["choose_device", "place"]

AUTO_BYTES = 2**26
"""The least bytes of vectors for which "auto" chooses a CUDA device: for fewer, a scan on the CPU
takes about as long as the transfer to the device and back."""


def choose_device(device: str, state: State) -> tuple[str, State]:
    """Return the device of an index and its first state there; only for "auto" is there a choice.

    Raises
    ------
    DeviceUnavailableError, DeviceMemoryError
        The named device is not present, or does not have enough memory.
    """
    if device != "auto":
        return device, place(device, state, None)
    columns = [column for segment in state.segments for column in segment.dense.values()]
    is_small = sum(column.nbytes for column in columns) < AUTO_BYTES
    is_wide = any(column.dim > _core.device.MAX_DIMS[column.dtype] for column in columns)
    devices = cuda_report().devices
    if is_small or is_wide or not devices or devices[0].problem:
        return "cpu", _without_guests(state)
    try:
        return "cuda:0", place("cuda:0", state, None)
    except DeviceMemoryError:
        return "cpu", _without_guests(state)


def place(device: str, state: State, previous: State | None) -> State:
    """Return a copy of the state with its vectors and postings on the device.

    What the previous state has on the device is shared.
    """
    if device == "cpu" or state.snapshot.device_bytes:
        return _without_guests(state)
    for segment in state.segments:
        for arm in segment.dense:
            segment.check(arm)
    held = None if previous is None else previous.snapshot
    folder, ordinal = cuda_library_folder(), ordinal_of(device)
    guests = _take_guests(state, folder, ordinal)
    placed = state.snapshot.placed(folder, ordinal, held, guests, postings=True)
    return replace(_without_guests(state), snapshot=placed)


def _take_guests(
    state: State, folder: str, ordinal: int
) -> list[tuple[int, int, _core.Guest, Rows]]:
    """Return the vector columns that the caller gave as tensors on this device."""
    found = []
    for number, segment in enumerate(state.segments):
        for at, (arm, column) in enumerate(segment.dense.items()):
            value, order = segment.guests.get(arm, (None, None))
            guest = take_guest(value, folder=folder, ordinal=ordinal, dim=column.dim)
            if guest is not None and order is not None and guest.n_rows == len(order):
                found.append((number, at, guest, order))
    return found


def _without_guests(state: State) -> State:
    """Return the state without the callers' tensors, which are no longer needed."""
    if not any(segment.guests for segment in state.segments):
        return state
    segments = tuple(replace(one, guests={}) if one.guests else one for one in state.segments)
    return replace(state, segments=segments)
