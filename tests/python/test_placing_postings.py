"""Postings on a device: which bytes they take through the life of an index, and that nobody pays
for them before a search there reads them."""

from pathlib import Path

import pyarrow as pa

import hyrecall as hr
from emulated import Emulator
from hyrecall import _core
from hyrecall.base.runtime import cuda_library_folder

SCHEMA = hr.Schema(key="id", cell="user", text=("title", "body"), vector="near")

AS_ON_THE_HOST = (
    "doc_lengths",
    "posting_offsets",
    "run_offsets",
    "runs",
    "escape_offsets",
    "escapes",
)


def rows(first: int, n: int) -> pa.Table:
    """Documents whose bodies are short, or (every fifth) long enough for an escape."""
    ids = range(first, first + n)
    return pa.table(
        {
            "id": list(ids),
            "user": ["ana" if i % 3 else "bob" for i in ids],
            "title": [f"number {i % 7}" for i in ids],
            "body": [None if i % 11 == 0 else f"tea {i} " * (20 if i % 5 == 0 else 2) for i in ids],
            "near": pa.array([[float(i), 1.0] for i in ids], pa.list_(pa.float32(), 2)),
        }
    )


def postings_bytes(index: hr.Index) -> int:
    """What the lexical columns take on a device: four bytes a posting, the rest as on the host."""
    total = 0
    for segment in index._state.segments:
        for column in segment.lexical.values():
            parts = column.parts()
            total += (column.n_postings + 3) // 4 * 16
            total += sum(parts[name].nbytes for name in AS_ON_THE_HOST)
    return total


def placed(index: hr.Index, previous: _core.Snapshot | None) -> _core.Snapshot:
    """Return the index's snapshot with its vectors and postings on the device."""
    return index._state.snapshot.placed(cuda_library_folder(), 0, previous, [], postings=True)


def check(index: hr.Index, previous: _core.Snapshot | None = None) -> _core.Snapshot:
    """Check the bytes of an index whose vectors lie on the device, with its postings there too."""
    made = placed(index, previous)
    assert made.device_bytes == index.stats()["device_bytes"] + postings_bytes(index)
    return made


def test_usage_tells_the_bytes_of_postings_through_the_life_of_an_index(
    cuda: str, tmp_path: Path
) -> None:
    index = hr.Index.build(rows(0, 300), SCHEMA, device=cuda)
    assert postings_bytes(index) > 4 * 300
    first = check(index)
    index.add(rows(300, 40))
    second = check(index, first)
    assert second.device_bytes > first.device_bytes
    index.delete(list(range(60)), scope=hr.Scope(["ana", "bob"]))
    assert check(index, second).device_bytes == second.device_bytes  # dead rows stay
    index.compact()
    compacted = check(index, second)
    assert compacted.device_bytes < second.device_bytes
    index.save(tmp_path / "saved")
    for memory in ("mmap", "ram"):
        with hr.Index.open(tmp_path / "saved", device=cuda, memory=memory) as again:
            assert check(again).device_bytes == compacted.device_bytes


def test_a_change_uploads_the_postings_of_new_segments_only(emulated: Emulator) -> None:
    index = hr.Index.build(rows(0, 300), SCHEMA, device="cuda:0")
    first = placed(index, None)
    index.add(rows(300, 40))
    before = emulated.allocated_bytes()
    second = placed(index, first)
    grown = emulated.allocated_bytes() - before
    assert grown < second.device_bytes - first.device_bytes + 4096  # views and tables beside them


def test_an_index_takes_no_memory_for_postings_that_no_search_reads(emulated: Emulator) -> None:
    before = emulated.allocated_bytes()
    index = hr.Index.build(rows(0, 300), SCHEMA, device="cuda:0")
    grown = emulated.allocated_bytes() - before
    assert index.stats()["device_bytes"] <= grown < index.stats()["device_bytes"] + 4096
    assert postings_bytes(index) > 4096
    text_only = hr.Schema(key="id", cell="user", text="body")
    before = emulated.allocated_bytes()
    texts = hr.Index.build(rows(0, 300), text_only, device="cuda:0")
    assert emulated.allocated_bytes() == before
    assert texts.stats()["device_bytes"] == 0
