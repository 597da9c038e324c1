"""The files that the commands of tests/cli/test_screens.py read."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from retrieval_set import small_set, write_folder


def write_corpus(folder: Path) -> None:
    texts = [
        ("Release", "Deploys run on Friday at noon, after the database has been copied."),
        ("Release", "We deployed twice in May; the second deploy was rolled back within an hour, "
         "because the migration of the largest table took longer than the window that had been "
         "agreed with the customers, and replicas fell behind by more than ten minutes."),
        ("Tea", "Green tea is in the kitchen."),
        ("数据库", "数据库在五月迁移，备份已经完成。"),
        ("Plan", "The database of jobs moves to another host."),
    ]  # fmt: skip
    table = {
        "id": [f"note-{at:032d}" for at in range(len(texts))],
        "tenant": ["acme", "acme", "acme", "acme", "bolt"],
        "title": [title for title, _ in texts],
        "text": [text for _, text in texts],
        "stars": [5, 4, 3, 2, 1],
        "embedding": pa.array(
            [[1, 0, 0, 0], [0.8, 0.6, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
            pa.list_(pa.float32(), 4),
        ),
    }
    pq.write_table(pa.table(table), folder / "notes.parquet")
    asked = [{"q": "deploy", "tenant": "acme"}, {"q": "jobs", "tenant": "bolt"}]
    bad = [*asked, {"q": "tea", "tenant": None}]
    for name, rows in (("queries.jsonl", asked), ("bad.jsonl", bad)):
        (folder / name).write_text("".join(json.dumps(one) + "\n" for one in rows))
    memories = [{"id": "m1", "memory": "Tea", "user_id": "ann", "hash": "5d"}, {"id": "m2"}]
    (folder / "mem0.json").write_text(json.dumps(memories))
    write_folder(small_set(), folder / "small")
    disks = "# Disks\n\n## Replace\n\nStop the replica, then replace its disk.\n"
    for path, text in (("disks.md", disks), ("later/disks.md", disks), ("later/tea.txt", "Tea")):
        (folder / "docs" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "docs" / path).write_text(text)
    (folder / "docs" / "link.md").symlink_to("disks.md")
