"""What mem0 itself exports comes as it was; its local folder of Qdrant has the vectors too."""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")
if find_spec("mem0") is None:  # it reads its settings when it is imported
    pytest.skip("mem0ai is not installed", allow_module_level=True)
pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")

from hyrecall.migrate import into_store, open_source
from migrate.moved import DIM, MODEL, in_store, store

TEXTS = {"ann": ["Drinks tea at four", "Lives in Oslo — é"], "bob": ["Plays chess"]}


class Letters:
    """Vectors of a text, without a model."""

    config = None

    def embed(self, text: str, memory_action: object = None) -> list[float]:
        return [float(text.count(letter) + 1) for letter in "aeio"]

    def embed_batch(self, texts: Sequence[str], memory_action: object = None) -> list[list[float]]:
        return [self.embed(text) for text in texts]


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an export of each user, and mem0's folder of Qdrant."""
    monkeypatch.setenv("MEM0_TELEMETRY", "False")
    monkeypatch.setenv("MEM0_DIR", str(tmp_path / "mem0"))
    from mem0 import Memory

    place = {"path": str(tmp_path / "qdrant"), "on_disk": True}
    memory = Memory.from_config(
        {
            "llm": {"provider": "openai", "config": {"api_key": "none"}},
            "embedder": {"provider": "openai", "config": {"api_key": "none"}},
            "vector_store": {
                "provider": "qdrant",
                "config": {**place, "collection_name": "mem0", "embedding_model_dims": DIM},
            },
            "history_db_path": str(tmp_path / "history.db"),
        }
    )
    memory.embedding_model = Letters()
    for user, texts in TEXTS.items():
        for text in texts:
            memory.add(text, user_id=user, metadata={"n": len(text)}, infer=False)
        found = memory.get_all(filters={"user_id": user}, top_k=1000)
        (tmp_path / f"{user}.json").write_text(json.dumps(found))
    memory.vector_store.client.close()
    memory.close()
    return tmp_path


def test_what_get_all_returns_comes_as_it_was(exported: Path) -> None:
    with store() as memory:
        for user, texts in TEXTS.items():
            with open_source("mem0", exported / f"{user}.json") as source:
                done = into_store(memory, source, user_from="user_id")
            assert (done.imported, done.left_out) == (len(texts), ())
            assert done.dropped == {"hash": len(texts)}
            given = json.loads((exported / f"{user}.json").read_text())["results"]
            for one in given:
                kept = memory.get(one["id"], user_id=user)
                assert kept is not None
                assert kept.output == one["memory"]
                assert kept.occurred_at.isoformat() == one["created_at"]
                assert kept.metadata.items() >= one["metadata"].items()
        assert {user for user, _ in in_store(memory)} == set(TEXTS)


def test_its_folder_of_qdrant_has_the_vectors_too(exported: Path) -> None:
    options = {"collection": "mem0", "text_field": "data"}
    with store() as memory, open_source("qdrant", exported / "qdrant", **options) as source:
        done = into_store(
            memory, source, user_from="user_id", time_from="created_at", vector_model=MODEL
        )
        assert (done.imported, done.n_vectors, done.needs_reembed) == (3, 3, False)
        for (user, _), (text, _, blob) in in_store(memory).items():
            assert text in TEXTS[user]
            assert blob is not None
            assert blob == np.array(Letters().embed(text), "<f4").tobytes()
