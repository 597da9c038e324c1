"""A collection of a local folder of Qdrant comes as it was."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")
pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")

from qdrant_client import QdrantClient, models

from hyrecall.errors import OptionError
from hyrecall.migrate import LeftOut, Migrated, into_store, open_source
from migrate.moved import DIM, MODEL, Kept, in_store, one, plant, store, vectors

N = 1103
ROWS = vectors(N)


def payload(at: int) -> dict[str, Any]:
    return {"user": f"u{at % 3}", "deep": {"a": [at, None, at / 7]}, "ok": True}


def params(size: int = DIM, **more: Any) -> Any:
    return models.VectorParams(size=size, distance=models.Distance.DOT, **more)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    client = QdrantClient(path=str(tmp_path))
    client.create_collection("notes", vectors_config=params())
    points = [
        models.PointStruct(
            id=at if at % 2 else str(UUID(int=at)),
            vector=ROWS[at].tolist(),
            payload={**payload(at), "text": f"text {at} — é"},
        )
        for at in range(N)
    ]
    client.upsert("notes", points)
    client.close()
    return tmp_path


def move(memory: Any, path: Path, user_from: str = "user", **options: Any) -> Migrated:
    with open_source("qdrant", path, **options) as source:
        return into_store(memory, source, user_from=user_from, vector_model=MODEL)


def expected() -> Kept:
    found: Kept = {}
    for at in range(N):
        key = str(at) if at % 2 else str(UUID(int=at))
        found |= one(f"u{at % 3}", key, f"text {at} — é", payload(at), ROWS[at])
    return found


def test_a_collection_comes_as_it_was_and_once(folder: Path) -> None:
    with store() as memory:
        done = move(memory, folder)
        assert (done.n_read, done.imported, done.n_vectors) == (N, N, N)
        assert (done.left_out, done.dropped, done.needs_reembed) == ((), {}, False)
        assert in_store(memory) == expected()
        again = move(memory, folder)
        assert (again.imported, again.skipped) == (0, N)


def test_a_planted_change_of_a_user_is_seen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, "records.Owners.of", lambda user: "u0")
    with store() as memory:
        move(memory, folder)
        assert in_store(memory) != expected()


def test_named_vectors_and_nested_fields_are_named(tmp_path: Path) -> None:
    client = QdrantClient(path=str(tmp_path))
    many = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    client.create_collection(
        "notes",
        vectors_config={"a": params(), "b": params(2), "many": params(2, multivector_config=many)},
        sparse_vectors_config={"words": models.SparseVectorParams()},
    )
    given = {
        "a": ROWS[0].tolist(),
        "many": [[1.0, 2.0], [3.0, 4.0]],
        "words": models.SparseVector(indices=[1], values=[0.5]),
    }
    fields = {"metadata": {"user": "ann"}, "page_content": "tea"}
    client.upsert("notes", [models.PointStruct(id=1, vector=given, payload=fields)])
    client.close()
    chosen = {"user_from": "metadata.user", "text_field": "page_content"}
    with store() as memory:
        with pytest.raises(OptionError, match=r"^vector_field: expected one of a, b, got none"):
            move(memory, tmp_path, **chosen)
        done = move(memory, tmp_path, **chosen, vector_field="a")
        assert done.dropped == {"vector 'many'": 1, "vector 'words'": 1}
        rest = {"metadata": {"user": "ann"}}
        assert in_store(memory) == one("ann", "1", "tea", rest, ROWS[0])


def test_a_vector_without_a_name_comes_beside_named_ones(tmp_path: Path) -> None:
    client = QdrantClient(path=str(tmp_path))
    client.create_collection(
        "notes",
        vectors_config=params(),
        sparse_vectors_config={"words": models.SparseVectorParams()},
    )
    words = models.SparseVector(indices=[1], values=[1.0])
    both: Any = {"": ROWS[0].tolist(), "words": words}
    client.upsert(
        "notes", [models.PointStruct(id=1, vector=both, payload={"text": "tea", "user": "ann"})]
    )
    client.close()
    with store() as memory:
        done = move(memory, tmp_path)
        assert (done.n_vectors, done.without_vector) == (1, ())
        assert done.dropped == {"vector 'words'": 1}
        assert in_store(memory) == one("ann", "1", "tea", {"user": "ann"}, ROWS[0])


def test_a_list_of_vectors_without_a_name_is_told(tmp_path: Path) -> None:
    client = QdrantClient(path=str(tmp_path))
    many = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    client.create_collection("notes", vectors_config=params(2, multivector_config=many))
    fields = {"text": "tea", "user": "ann"}
    rows: Any = [[1.0, 2.0], [3.0, 4.0]]
    client.upsert("notes", [models.PointStruct(id=1, vector=rows, payload=fields)])
    client.close()
    with store() as memory:
        done = move(memory, tmp_path)
        assert (done.imported, done.n_vectors, done.dropped) == (1, 0, {"vector ''": 1})


def test_what_a_point_lacks_is_told(tmp_path: Path) -> None:
    client = QdrantClient(path=str(tmp_path))
    client.create_collection("notes", vectors_config=params())
    client.create_collection("words", vectors_config={})
    points = [
        models.PointStruct(id=1, vector=ROWS[0].tolist(), payload={"user": "ann"}),
        models.PointStruct(id=2, vector=ROWS[1].tolist(), payload={"text": "tea"}),
        models.PointStruct(id=3, vector=ROWS[1].tolist(), payload=None),
    ]
    client.upsert("notes", points)
    client.close()
    with store() as memory:
        done = move(memory, tmp_path, collection="notes")
        assert done.left_out == (
            LeftOut("no text", 1, "1"),
            LeftOut("no user: it has no field 'user'", 2, "2"),
        )
        with pytest.raises(OptionError, match=r"^vector_field: expected none"):
            move(memory, tmp_path, collection="notes", vector_field="x")


def test_another_folder_is_refused_and_stays_empty(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"^path: expected a local folder .*, or a server"):
        move(None, tmp_path)
    assert list(tmp_path.iterdir()) == []


# qdrant-client leaves the file of its lock open when it cannot read a folder.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_folder_that_is_in_use_or_damaged_is_named(folder: Path) -> None:
    told = "^path: expected a folder that qdrant-client can open, and .*, got "
    client = QdrantClient(path=str(folder))
    with pytest.raises(OptionError, match=f"{told}RuntimeError"):
        move(None, folder)
    client.close()
    for content, got in (("{}", "KeyError"), ("{", "JSONDecodeError")):
        (folder / "meta.json").write_text(content)
        with pytest.raises(OptionError, match=f"{told}{got}"):
            move(None, folder)
