"""A snapshot of Qdrant comes as the collection was; what is none is refused."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")
pytest.importorskip("qdrant_edge", reason="qdrant-edge-py is not installed")

import qdrant_edge as edge

from hyrecall.errors import OptionError
from hyrecall.memory import MemorySync
from hyrecall.migrate import Migrated, into_store, open_source
from migrate.moved import DIM, MODEL, Kept, in_store, one, store, vectors
from seams import qdrant_snapshot

N = 1103
ROWS = vectors(N)


def payload(at: int) -> dict[str, Any]:
    """An eighth is exact: of other fractions Qdrant's reader of JSON may change the last bit."""
    return {"user": f"u{at % 3}", "deep": {"a": [at, None, at / 8]}, "ok": True}


def shard(folder: Path, numbers: range, vectors_of: Any = None) -> Path:
    """Write a shard as the engine of Qdrant keeps it."""
    params = edge.EdgeVectorParams(size=DIM, distance=edge.Distance.Dot)
    made = edge.EdgeShard.create(str(folder), edge.EdgeConfig(vectors=vectors_of or {"": params}))
    points = [
        edge.Point(
            id=at if at % 2 else str(UUID(int=at)),
            vector=ROWS[at].tolist(),
            payload={**payload(at), "text": f"text {at} — é"},
        )
        for at in numbers
    ]
    made.update(edge.UpdateOperation.upsert_points(points))
    made.flush()
    made.close()
    return folder


def snapshot(file: Path, shards: dict[str, Path], *, nested: bool) -> Path:
    """Pack shards as a server does: "" is a snapshot of a shard, numbers are those of a collection.

    Releases up to 1.12 put a tar of each segment into the snapshot, later ones its files.
    """
    with tarfile.open(file, "w") as made:
        for number, folder in shards.items():
            home = f"./{number}/" if number else ""
            for segment in sorted((folder / "segments").iterdir()):
                place = f"{home}segments/{segment.name}"
                if not nested:
                    made.add(segment, place)
                    continue
                packed = io.BytesIO()
                with tarfile.open(fileobj=packed, mode="w") as inner:
                    inner.add(segment, "snapshot")
                member = tarfile.TarInfo(f"{place}.tar")
                member.size = packed.tell()
                packed.seek(0)
                made.addfile(member, packed)
            made.add(folder / "wal", f"{home}wal")
    return file


def move(memory: MemorySync, path: Path, **options: Any) -> Migrated:
    with open_source("qdrant", path, **options) as source:
        return into_store(memory, source, user_from="user", vector_model=MODEL)


def expected() -> Kept:
    found: Kept = {}
    for at in range(N):
        key = str(at) if at % 2 else str(UUID(int=at))
        found |= one(f"u{at % 3}", key, f"text {at} — é", payload(at), ROWS[at])
    return found


@pytest.mark.parametrize("nested", [True, False], ids=["tars of segments", "files of segments"])
@pytest.mark.parametrize("n_shards", [0, 1, 3], ids=["a shard", "a collection", "three shards"])
def test_a_snapshot_comes_as_the_collection_was(
    tmp_path: Path, n_shards: int, nested: bool
) -> None:
    step = max(n_shards, 1)
    shards = {
        str(at) if n_shards else "": shard(tmp_path / f"s{at}", range(at, N, step))
        for at in range(step)
    }
    file = snapshot(tmp_path / "notes.snapshot", shards, nested=nested)
    with store() as memory:
        done = move(memory, file)
        assert (done.n_read, done.imported, done.n_vectors) == (N, N, N)
        assert (done.left_out, done.dropped) == ((), {})
        assert in_store(memory) == expected()
        again = move(memory, file)
        assert (again.imported, again.skipped) == (0, N)


def test_a_shard_that_is_lost_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = {str(at): shard(tmp_path / f"s{at}", range(at, N, 2)) for at in range(2)}
    file = snapshot(tmp_path / "notes.snapshot", shards, nested=False)
    right = qdrant_snapshot._archives
    monkeypatch.setattr(qdrant_snapshot, "_archives", lambda *given: right(*given)[1:])
    with store() as memory:
        move(memory, file)
        assert in_store(memory) != expected()


def test_named_vectors_are_named(tmp_path: Path) -> None:
    many = edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim)
    config = edge.EdgeConfig(
        vectors={
            "a": edge.EdgeVectorParams(size=DIM, distance=edge.Distance.Dot),
            "b": edge.EdgeVectorParams(size=2, distance=edge.Distance.Dot),
            "many": edge.EdgeVectorParams(
                size=2, distance=edge.Distance.Dot, multivector_config=many
            ),
        },
        sparse_vectors={"words": edge.EdgeSparseVectorParams()},
    )
    made = edge.EdgeShard.create(str(tmp_path / "shard"), config)
    given = {
        "a": ROWS[0].tolist(),
        "many": [[1.0, 2.0], [3.0, 4.0]],
        "words": edge.SparseVector([1], [0.5]),
    }
    point = edge.Point(id=1, vector=given, payload={"text": "tea", "user": "ann"})
    made.update(edge.UpdateOperation.upsert_points([point]))
    made.flush()
    made.close()
    file = snapshot(tmp_path / "notes.snapshot", {"0": tmp_path / "shard"}, nested=False)
    with store() as memory:
        with pytest.raises(OptionError, match=r"^vector_field: expected one of a, b, got none"):
            move(memory, file)
        with pytest.raises(OptionError, match=r"^collection: expected none: a snapshot has one"):
            move(memory, file, collection="notes")
        done = move(memory, file, vector_field="a")
        assert done.dropped == {"vector 'many'": 1, "vector 'words'": 1}
        assert in_store(memory) == one("ann", "1", "tea", {"user": "ann"}, ROWS[0])


def test_what_is_no_snapshot_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("no tar")
    full = tmp_path / "full.snapshot"  # of a whole server: it has snapshots of its collections
    with tarfile.open(full, "w") as made:
        for name in ("config.json", "notes-1.snapshot"):
            made.addfile(tarfile.TarInfo(name), io.BytesIO())
    for file, got in ((text, "ReadError"), (full, "a tar without the segments of a shard")):
        told = rf"^path: expected a snapshot of a collection or a shard .*, got {got} "
        with pytest.raises(OptionError, match=told):
            move(None, file)


def test_a_snapshot_of_another_form_says_what_to_do(tmp_path: Path) -> None:
    made = shard(tmp_path / "shard", range(3))
    for file in made.glob("segments/*/segment.json"):
        kept = json.loads(file.read_bytes())
        kept["config"]["payload_storage_type"] = {"type": "of another release"}
        file.write_text(json.dumps(kept))
    file = snapshot(tmp_path / "notes.snapshot", {"0": made}, nested=False)
    told = r"^path: expected a snapshot that qdrant-edge-py reads \(recover another one on a Qdrant"
    with pytest.raises(OptionError, match=told):
        move(None, file)
