"""Build, save, open, change: a reply always equals that of a new build of the live documents."""

import tempfile
from pathlib import Path

import pyarrow as pa

import hyrecall as hr


def memories(*rows: tuple[str, str, str]) -> pa.Table:
    """Make a table of (id, user, text)."""
    ids, users, texts = zip(*rows, strict=True)
    return pa.table({"id": ids, "user": users, "text": texts})


schema = hr.Schema(key="id", cell="user", text="text")
index = hr.Index.build(memories(("1", "ann", "tea at four"), ("2", "ann", "cake at five")), schema)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "memories"
    index.save(path)
    index = hr.Index.open(path)
    index.add(memories(("3", "ann", "tea without milk"), ("1", "ben", "a key of ben's own")))
    index.upsert(memories(("2", "ann", "no cake this week")))
    assert index.delete(["1"], scope="ann") == 1  # ben's document 1 stays
    index.save(path)  # writes new segments, then commits by one rename

    opened = hr.Index.open(path)
    fresh = hr.Index.build(
        memories(
            ("3", "ann", "tea without milk"),
            ("1", "ben", "a key of ben's own"),
            ("2", "ann", "no cake this week"),
        ),
        schema,
    )
    for user in ("ann", "ben"):
        reply = opened.recall(text=["tea cake key"], scope=user).to_arrow()
        assert reply.equals(fresh.recall(text=["tea cake key"], scope=user).to_arrow())
        print(user, reply.select(["rank", "key", "score"]).to_pylist())
