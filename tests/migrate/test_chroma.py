"""A collection of Chroma comes as it was."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")
pytest.importorskip("chromadb", reason="chromadb is not installed")

import chromadb

from hyrecall.errors import MissingExtraError, OptionError
from hyrecall.migrate import LeftOut, Migrated, into_store, open_source
from migrate.moved import MODEL, Kept, in_store, one, plant, store, vectors

N = 1103  # more than two pages
ROWS = vectors(N)


def fields(at: int) -> dict[str, Any]:
    return {"user": f"u{at % 3}", "n": at, "f": at / 8, "ok": at % 2 == 0}


def folder_with(path: Path, *names: str) -> Path:
    client = client_of(path)
    for name in names:
        made = client.create_collection(name, embedding_function=None)
        made.add(
            ids=[f"k{at}" for at in range(N)],
            documents=[f"text {at} — é" for at in range(N)],
            embeddings=ROWS,
            metadatas=[fields(at) for at in range(N)],
        )
    close(client)
    return path


def client_of(path: Path) -> Any:
    settings = chromadb.config.Settings(anonymized_telemetry=False)
    return chromadb.PersistentClient(str(path), settings=settings)


def close(client: Any) -> None:
    getattr(client, "close", lambda: None)()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_with(tmp_path_factory.mktemp("chroma"), "notes")


def move(memory: Any, path: Path, collection: str | None = None) -> Migrated:
    with open_source("chroma", path, collection=collection) as source:
        return into_store(memory, source, user_from="user", vector_model=MODEL)


def expected() -> Kept:
    found: Kept = {}
    for at in range(N):
        found |= one(f"u{at % 3}", f"k{at}", f"text {at} — é", fields(at), ROWS[at])
    return found


def test_a_collection_comes_as_it_was_and_once(folder: Path) -> None:
    with store() as memory:
        done = move(memory, folder)
        assert (done.n_read, done.imported, done.n_vectors) == (N, N, N)
        assert (done.left_out, done.dropped, done.needs_reembed) == ((), {}, False)
        assert in_store(memory) == expected()
        again = move(memory, folder)
        assert (again.imported, again.skipped) == (0, N)


def test_a_planted_change_of_a_vector_is_seen(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(mapped: Any) -> Any:
        return type(mapped)(**{**vars(mapped), "vector": np.nextafter(mapped.vector, 9)})

    plant(monkeypatch, "records.Mapper.of", changed)
    with store() as memory:
        move(memory, folder)
        assert in_store(memory) != expected()


def test_what_a_collection_lacks_is_told(tmp_path: Path) -> None:
    client = client_of(tmp_path)
    made = client.create_collection("notes", embedding_function=None)
    meta = {"user": "ann"}
    made.add(ids=["a"], embeddings=ROWS[:1], metadatas=[meta])
    made.add(ids=["b"], documents=["tea"], embeddings=ROWS[1:2])
    made.add(ids=["c"], documents=["tea"], embeddings=ROWS[2:3], metadatas=[meta], uris=["x://y"])
    close(client)
    with store() as memory:
        done = move(memory, tmp_path)
        assert done.left_out == (
            LeftOut("no text", 1, "a"),
            LeftOut("no user: it has no field 'user'", 1, "b"),
        )
        assert done.dropped == {"uri": 1}
        assert in_store(memory) == one("ann", "c", "tea", meta, ROWS[2])


def test_one_of_several_collections_is_named(tmp_path: Path) -> None:
    client = client_of(tmp_path)
    for name in ("first", "second"):
        made = client.create_collection(name, embedding_function=None)
        made.add(ids=[name], documents=["tea"], embeddings=ROWS[:1], metadatas=[{"user": "ann"}])
    close(client)
    with store() as memory:
        with pytest.raises(OptionError, match=r"^collection: expected one of first, second"):
            move(memory, tmp_path)
        move(memory, tmp_path, "second")
        assert set(in_store(memory)) == {("ann", "second")}


def test_another_folder_is_refused_and_stays_empty(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"^path: expected a folder of Chroma"):
        move(None, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_a_client_of_this_process_has_open_is_refused(tmp_path: Path) -> None:
    settings = chromadb.config.Settings(anonymized_telemetry=False, allow_reset=True)
    client = chromadb.PersistentClient(str(tmp_path), settings=settings)
    with pytest.raises(OptionError, match=r"^path: expected a folder that no other client"):
        move(None, tmp_path)
    close(client)


def test_a_missing_package_is_named_with_its_install_command(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "chromadb", None)
    with pytest.raises(MissingExtraError, match=r"\(pip install chromadb\), got no package"):
        move(None, folder)
