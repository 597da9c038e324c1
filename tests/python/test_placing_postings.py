"""Postings on a device: which bytes they take through the life of an index, and which searches of
texts run there."""

from pathlib import Path

import pyarrow as pa

import hyrecall as hr
from emulated import Emulator
from laws.engine import ipc_bytes
from seams import cuda_library_folder

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


def check(index: hr.Index) -> int:
    """Check the bytes of an index on the device, and return them."""
    snapshot = index._state.snapshot
    bare = snapshot.placed(cuda_library_folder(), 0, None, [], postings=False)
    assert snapshot.device_bytes == bare.device_bytes + postings_bytes(index)
    assert snapshot.device_bytes == index.stats()["device_bytes"]
    return snapshot.device_bytes


def test_usage_tells_the_bytes_of_postings_through_the_life_of_an_index(
    cuda: str, tmp_path: Path
) -> None:
    index = hr.Index.build(rows(0, 300), SCHEMA, device=cuda)
    assert postings_bytes(index) > 4 * 300
    first = check(index)
    index.add(rows(300, 40))
    second = check(index)
    assert second > first
    index.delete(list(range(60)), scope=hr.Scope(["ana", "bob"]))
    assert check(index) == second  # dead rows stay
    index.compact()
    compacted = check(index)
    assert compacted < second
    index.save(tmp_path / "saved")
    for memory in ("mmap", "ram"):
        with hr.Index.open(tmp_path / "saved", device=cuda, memory=memory) as again:
            assert check(again) == compacted


def test_a_change_uploads_the_postings_of_new_segments_only(emulated: Emulator) -> None:
    index = hr.Index.build(rows(0, 300), SCHEMA, device="cuda:0")
    first = index.stats()["device_bytes"]
    before = emulated.allocated_bytes()
    index.add(rows(300, 40))
    grown = emulated.allocated_bytes() - before
    # views and tables beside them
    assert grown < index.stats()["device_bytes"] - first + 4096


def text_only() -> hr.Schema:
    return hr.Schema(key="id", cell="user", text="body")


def test_an_index_of_texts_alone_is_on_the_device_that_is_named(emulated: Emulator) -> None:
    on_device = hr.Index.build(rows(0, 300), text_only(), device="cuda:0")
    on_host = hr.Index.build(rows(0, 300), text_only(), device="cpu")
    assert on_device.stats()["device_bytes"] == check(on_device) > 4 * 300
    assert hr.Index.build(rows(0, 300), text_only(), device="auto").device == "cpu"
    built = emulated.n_launches()
    call = {"text": ["tea", "12 tea", None], "scope": ["ana", "bob", "ana"], "limit": 20}
    assert ipc_bytes(on_device.recall(**call).to_arrow()) == ipc_bytes(
        on_host.recall(**call).to_arrow()
    )
    assert emulated.n_launches() > built


def test_a_tree_of_more_terms_than_a_device_keeps_runs_on_the_cpu_and_the_trace_says_so(
    emulated: Emulator,
) -> None:
    words = [str(i) for i in range(33)]
    tree = hr.Any(*words, hr.All("tea", "7"))
    small = hr.Any(*words[:20], hr.All("tea", "7"))
    replies = {}
    for device in ("cuda:0", "cpu"):
        index = hr.Index.build(rows(0, 300), text_only(), device=device)
        replies[device] = index.recall(text=[small, tree, "tea"], scope="ana", limit=50)
    on_device, on_host = replies["cuda:0"], replies["cpu"]
    assert ipc_bytes(on_device.to_arrow()) == ipc_bytes(on_host.to_arrow())
    assert len(on_device[1]) > 10
    (note,) = on_device.trace.notes
    assert note.startswith("body[1] has more than 32 terms in a tree")
    assert on_host.trace.notes == ()
    assert on_device.trace.of_query(0).notes == ()
    assert on_device.trace.of_query(1).notes == (note.replace("[1]", ""),)
