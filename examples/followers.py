"""Many readers follow one writer: each save is one atomic version that readers take up."""

import tempfile
from pathlib import Path

import pyarrow as pa

import hyrecall as hr


def notes(*rows: tuple[str, str]) -> pa.Table:
    """Make a table of (id, text)."""
    ids, texts = zip(*rows, strict=True)
    return pa.table({"id": ids, "text": texts})


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "notes"
    writer = hr.Index.build(
        notes(("1", "tea at four")), hr.Schema(key="id", cell=None, text="text")
    )
    writer.save(path)

    # Readers may be other processes. They take no lock and see one whole version at a time.
    readers = [hr.Index.open(path) for _ in range(3)]
    writer.add(notes(("2", "tea without milk")))
    writer.save(path)
    for reader in readers:
        assert reader.is_stale  # costs one small read, so ask as often as you like
        reader.reload()  # reads only the segments that are new
        print(reader.recall_one(text="tea").keys)

    # A second writer cannot undo what the first one saved.
    other = readers[0]
    other.add(notes(("3", "tea in the garden")))
    writer.add(notes(("4", "tea for two")))
    writer.save(path)
    try:
        other.save(path)
    except hr.SaveConflictError as conflict:
        print(type(conflict).__name__, conflict.argument)
    other.reload(discard_changes=True)
    other.add(notes(("3", "tea in the garden")))
    other.save(path)
    assert sorted(hr.Index.open(path).recall_one(text="tea").keys) == ["1", "2", "3", "4"]
