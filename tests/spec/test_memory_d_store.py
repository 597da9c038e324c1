"""Part D of the acceptance rows: what a save writes, byte for byte, and what it leaves alone."""

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyrecall import recipes
from hyrecall.memory import MemorySync
from memory.stores import NOON, BrokenEmbedder, FixedEmbedder, episode, folder, open_store
from seams import decode_vector, take_sequence


def columns(memory: MemorySync, names: str, key: str = "e0") -> Any:
    select = f"SELECT {names} FROM versions JOIN documents USING (cell, id, version) WHERE id = ?"
    with memory._store.database.reading() as connection:
        return connection.execute(select, (key,)).get


def put_blob(memory: MemorySync, blob: bytes, key: str = "e0") -> None:
    with memory._store.database.transaction() as connection:
        change = "UPDATE versions SET embedding = ?, embedding_model = 'fixed' WHERE id = ?"
        connection.execute(change, (blob, key))
        change = "UPDATE documents SET changed = ? WHERE id = ?"
        connection.execute(change, (take_sequence(connection), key))


def test_D04_a_save_embeds_once_into_the_row_of_its_text() -> None:
    embedder = FixedEmbedder({"disk": [1.0, 0.5]})
    with open_store(embedder=embedder, recipe=recipes.l0) as memory:
        kept = memory.remember(episode(0, "disk"))
        assert kept.embedded
        assert embedder.calls == [["disk"]]
        assert columns(memory, "output, embedding_model") == ("disk", "fixed")
        memory.remember_batch([episode(at, f"text {at}") for at in range(1, 9)])
        assert len(embedder.calls) == 2
        memory.update("e0", kind="semantic", user_id="alice")
        assert len(embedder.calls) == 2, "the same text has the same vector"
        memory.update("e1", input="asked", output="again", user_id="alice")
        assert embedder.calls[2:] == [["asked\nagain"]]
        assert columns(memory, "embedding") == struct.pack("<2f", 1.0, 0.5)


def test_D19_a_vector_is_little_endian_float32_to_any_reader() -> None:
    """Another program's SQLite, in a process of its own, reads what ours wrote."""
    path, row = folder(), [1.5, -0.0, 1e18, 1e-45]
    with open_store(
        path, embedder=FixedEmbedder({"disk": row}, dim=4), recipe=recipes.l0
    ) as memory:
        memory.remember(episode(0, "disk"))
    program = (
        "import sqlite3, struct, sys, json\n"
        "c = sqlite3.connect('file:' + sys.argv[1] + '?mode=ro', uri=True)\n"
        "blob, = c.execute('SELECT embedding FROM versions').fetchone()\n"
        "print(json.dumps([blob.hex(), list(struct.unpack('<%df' % (len(blob) // 4), blob))]))\n"
    )
    command = [sys.executable, "-c", program, str(path / "memory.db")]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    blob, values = json.loads(answer)
    assert bytes.fromhex(blob) == struct.pack("<4f", *row)
    assert values == np.array(row, np.float32).tolist()


@pytest.mark.parametrize("size", [3, 5])
def test_D21_bytes_that_are_no_vector_are_passed_over_and_refused_by_name(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyrecall.memory.keeping.owner.FIRST_SECONDS", 3600.0)
    embedder = FixedEmbedder({"disk": [1.0, 0.0], "tape": [0.9, 0.1]})
    path = folder()
    with open_store(path, embedder=embedder, recipe=recipes.l0) as memory:
        memory.remember_batch([episode(0, "disk"), episode(1, "tape")])
        put_blob(memory, b"x" * size)
    with pytest.raises(ValueError, match="blob: expected a multiple of 4 bytes"):
        decode_vector(b"x" * size)
    for _ in range(2):
        with open_store(path, embedder=embedder, recipe=recipes.l0) as memory:
            near = memory.search("disk", user_id="alice", alpha=1.0)
            assert [(one.episode.id, one.vector_score is None) for one in near][:1] == [
                ("e1", False)
            ]
            words = memory.search("disk", user_id="alice", alpha=0.0)
            assert words[0].episode.id == "e0"
            bad = [one.name for one in memory.doctor().checks if not one.ok]
            assert bad == ["vectors", "embeddings"]
        for file in (path / "index").rglob("*"):
            if file.is_file():
                file.unlink()  # and the same with an index made anew


def test_D22_a_vector_that_comes_later_changes_no_other_column() -> None:
    path = folder()
    with open_store(path, embedder="off", recipe=recipes.l0) as memory:
        memory.remember(episode(0, "disk", tags=("t",), metadata={"a": 1}))
        before = memory.get("e0", user_id="alice")
        row = columns(memory, "version, recorded_at, occurred_at, tags, metadata, output")
        assert columns(memory, "embedding, embedding_model") == (None, None)
    with open_store(
        path, embedder=FixedEmbedder({"disk": [1.0, 0.0]}), recipe=recipes.l0
    ) as memory:
        assert memory.reembed(user_id="alice").embedded == 1
        assert memory.get("e0", user_id="alice") == before
        same = columns(memory, "version, recorded_at, occurred_at, tags, metadata, output")
        assert same == row
        assert columns(memory, "embedding") == struct.pack("<2f", 1.0, 0.0)
        assert memory.search("disk", user_id="alice", alpha=1.0)[0].vector_score == 1.0


def test_D23_another_text_whose_embedding_fails_has_no_vector() -> None:
    path = folder()
    with open_store(
        path, embedder=FixedEmbedder({"disk": [1.0] + [0.0] * 7}, dim=8), recipe=recipes.l0
    ) as memory:
        memory.remember(episode(0, "disk"))
    with open_store(path, embedder=BrokenEmbedder(), recipe=recipes.l0) as memory:
        changed = memory.update("e0", output="tape", user_id="alice")
        assert not changed.embedded
        assert [str(one.reason) for one in changed.reasons] == ["embed_unavailable"]
        assert columns(memory, "output, embedding, embedding_model") == ("tape", None, None)
        (found,) = memory.search("tape", user_id="alice")
        assert (found.episode.output, found.vector_score) == ("tape", None)


def test_D28_what_is_archived_is_in_no_list_and_no_arm(tmp_path: Path) -> None:
    lines = [
        {"version": {
            "id": f"e{at}", "user_id": "alice", "recorded_at": NOON.isoformat(), "status": status,
            "content": {"output": "old words", "occurred_at": NOON.isoformat()},
        }}
        for at, status in enumerate(["archived", "live"])
    ]  # fmt: skip
    file = tmp_path / "lines.jsonl"
    file.write_text("\n".join(json.dumps(one) for one in ({"format": 2}, *lines)))
    with open_store(recipe=recipes.l0) as memory:
        assert memory.import_(file).imported == 2
        memory.reembed(user_id="alice")
        assert [one.id for one in memory.list(user_id="alice")] == ["e1"]
        for alpha in (0.0, 1.0):
            found = memory.search("old words", user_id="alice", alpha=alpha)
            assert [one.episode.id for one in found] == ["e1"]


def test_D17_a_row_that_fails_is_named_and_the_others_are_kept() -> None:
    class Picky(FixedEmbedder):
        def embed(self, texts):  # type: ignore[no-untyped-def]
            if "tea 2" in texts:
                raise RuntimeError("about tea 2")
            return super().embed(texts)

    path = folder()
    with MemorySync.open(path, embedder=None, recipe=recipes.l0) as memory:
        for n in range(5):
            memory.remember(f"tea {n}", id=f"e{n}", user_id="ana")
    with MemorySync.open(
        path, embedder=Picky({f"tea {n}": (n, 1) for n in range(5)}), recipe=recipes.l0
    ) as memory:
        done = memory.reembed(user_id="ana")
        assert (done.scanned, done.embedded, done.skipped) == (5, 4, 0)
        assert [(one.id, one.error) for one in done.errors] == [("e2", "crashed: RuntimeError")]
    with MemorySync.open(path, embedder=None, recipe=recipes.l0) as memory:
        models = {f"e{n}": columns(memory, "embedding_model", f"e{n}") for n in range(5)}
        assert [key for key, model in models.items() if model is None] == ["e2"]
