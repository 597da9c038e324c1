"""What mem0 itself exports comes as it was; its local folder of Qdrant has the vectors too."""

import json
import subprocess
import sys
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")
if find_spec("mem0") is None or find_spec("qdrant_client") is None:
    pytest.skip("mem0ai or qdrant-client is not installed", allow_module_level=True)

from hyrecall.migrate import into_store, open_source
from migrate.moved import DIM, MODEL, in_store, store

TEXTS = {"ann": ["Drinks tea at four", "Lives in Oslo — é"], "bob": ["Plays chess"]}

# In a process of its own: it keeps files open, and counts letters in place of a model.
EXPORT = """
import json, sys
from importlib.metadata import version
from mem0 import Memory

class Letters:
    def embed(self, text, memory_action=None):
        return [float(text.count(letter) + 1) for letter in "aeio"]
    def embed_batch(self, texts, memory_action=None):
        return [self.embed(text) for text in texts]

texts, dim = json.loads(sys.argv[1]), int(sys.argv[2])
place = {"path": "qdrant", "on_disk": True, "collection_name": "mem0", "embedding_model_dims": dim}
nobody = {"provider": "openai", "config": {"api_key": "none"}}
stored = {"provider": "qdrant", "config": place}
memory = Memory.from_config(
    {"llm": nobody, "embedder": nobody, "vector_store": stored, "history_db_path": "history.db"}
)
letters = Letters()
letters.config = memory.embedding_model.config
memory.embedding_model = letters
for user, said in texts.items():
    for text in said:
        memory.add(text, user_id=user, metadata={"n": len(text)}, infer=False)
    is_old = version("mem0ai").startswith("1.")
    new = {"filters": {"user_id": user}, "top_k": 1000}
    whose = {"user_id": user, "limit": 1000} if is_old else new
    with open(f"{user}.json", "w") as file:
        json.dump(memory.get_all(**whose), file)
memory.vector_store.client.close()
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an export of each user, and mem0's folder of Qdrant."""
    folder = tmp_path_factory.mktemp("mem0")
    env = {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder / "own"), "HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", EXPORT, json.dumps(TEXTS), str(DIM)],
        cwd=folder, env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


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
                assert kept.text == one["memory"]
                assert kept.occurred_at == datetime.fromisoformat(one["created_at"])
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
            row = np.array([text.count(letter) + 1 for letter in "aeio"], "<f4")
            assert blob == row.tobytes()
