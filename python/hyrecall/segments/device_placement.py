"""Chooses the device of an index and copies vectors and postings of its states there."""

from __future__ import annotations

import time
from dataclasses import replace

import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.queries import lower
from hyrecall.ask.scope import read_scopes
from hyrecall.base.runtime import cuda_library_folder, cuda_report, ordinal_of
from hyrecall.errors import DeviceMemoryError
from hyrecall.segments.segments import HostRates, IndexFacts, Rows, State
from hyrecall.segments.writer import build
from hyrecall.table.schema import Schema
from hyrecall.table.tensors import take_guest

AUTO_BYTES = 2**26
"""The least bytes of vectors for which "auto" chooses a CUDA device: for fewer, a scan on the CPU
takes about as long as the transfer to the device and back."""

_RATE_ROWS = 2**16
"""The texts on which rates are measured: 68,000 postings of one query, as many as a batch has
whose scan takes about as long as a launch."""

_RATE_ROUNDS = 6
"""How often each time is taken; the first makes room and records."""


def choose_device(device: str, facts: IndexFacts, state: State) -> tuple[str, IndexFacts, State]:
    """Return the device of an index, its facts, and its first state there."""
    # Only "auto" chooses; on a device its facts have the rates that send texts there or not.
    if device != "auto":
        return device, facts, place(device, state, None)
    columns = [column for segment in state.segments for column in segment.dense.values()]
    is_small = sum(column.nbytes for column in columns) < AUTO_BYTES
    most = _core.device.MAX_DIMS  # of many vectors a row as of float32: int8 codes are read
    is_wide = any(one.dim > most[one.dtype if one.begins is None else "float32"] for one in columns)
    devices = cuda_report().devices
    if is_small or is_wide or not devices or devices[0].problem:
        return "cpu", facts, _without_guests(state)
    try:
        placed = place("cuda:0", state, None)
        rates = measure_rates("cuda:0", facts.threads) if facts.text_arms else None
    except DeviceMemoryError:
        return "cpu", facts, _without_guests(state)
    return "cuda:0", replace(facts, host_rates=rates), placed


def place(device: str, state: State, previous: State | None) -> State:
    """Return a copy of the state with its vectors and postings on the device."""
    # What the previous state has on the device is shared.
    if device == "cpu" or state.snapshot.device_bytes:
        return _without_guests(state)
    for segment in state.segments:
        for arm in (*segment.lexical, *segment.dense):
            segment.check_whole(arm)  # all of it is copied
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


def measure_rates(device: str, threads: int) -> HostRates:
    """Return what a launch on a device costs, and how fast the CPU reads postings."""
    # Both are measured on texts made here, so no document of an index is read. Each time is the
    # least of a few: other work on the machine can only add to it.
    texts = [f"two{i % 2} three{i % 3} five{i % 5}" for i in range(_RATE_ROWS)]
    table = pa.table({"id": range(_RATE_ROWS), "text": [*texts[1:], "rare"]})
    schema = Schema(key="id", cell=None, text="text", stored=())
    facts, state = build(table, schema, None, None, None, threads, 0)
    n_postings, scan = _time_text(facts, state, "two0 three0 five0")
    _, launch = _time_text(facts, place(device, state, None), "rare")
    return HostRates(launch, n_postings / scan)


def _time_text(facts: IndexFacts, state: State, text: str) -> tuple[int, float]:
    """Return how many postings a text has, and the seconds of its search without its analysis."""
    request = _core.BatchRequest(
        scopes=read_scopes(facts.cell_types, state.snapshot, None, 1),
        filters=[], filter_of=None, depth=100, limit=10, offset=0, threads=facts.threads,
    )  # fmt: skip
    analyzer, bm25 = facts.analyzers["text"].native, facts.bm25["text"].numbers
    request.add_lexical(0, "text", bm25, analyzer, [text], lower, None)
    request.set_fusion(
        kind="none", weights=[1.0], rank_constant=60.0, scales=["none"], complete=True,
        balance=None, min_fused=None, normalize=False,
    )  # fmt: skip
    execution = _core.Execution(state.snapshot, request)
    statistics = execution.statistics()
    times = []
    for _ in range(_RATE_ROUNDS):
        began = time.perf_counter()
        execution.hits(statistics)
        times.append(time.perf_counter() - began)
    return sum(statistics.of(0, 0)[-1]), min(times)
