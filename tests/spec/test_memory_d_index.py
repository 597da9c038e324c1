"""Part D of the acceptance rows: the index of a store follows it, and may be lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hyrecall import recipes
from hyrecall.memory import MemorySync
from memory.stores import folder, open_store


def ids(memory: MemorySync, query: str, user: str = "alice") -> list[str]:
    return [one.episode.id for one in memory.search(query, user_id=user, recipe=recipes.l0)]


@pytest.fixture
def path() -> Path:
    return folder()


def test_D30_the_index_follows_an_update_a_deletion_and_a_rename(path: Path) -> None:
    with open_store(path, recipe=recipes.l0, embedder=None) as memory:
        memory.remember("the deploy key rotates monthly", id="keys", user_id="alice")
        memory.remember("coffee is downstairs", id="coffee", user_id="alice")
        assert ids(memory, "deploy") == ["keys"]
        memory.update("keys", user_id="alice", output="the signing cert rotates yearly")
        assert ids(memory, "deploy") == []
        assert ids(memory, "cert") == ["keys"]
        # A memory is renamed by one that takes its place; the id is searched, too.
        kept = memory.get("keys", user_id="alice")
        assert kept is not None
        memory.supersede("keys", kept.model_copy(update={"id": "certs"}), user_id="alice")
        assert ids(memory, "cert") == ["certs"]
        assert ids(memory, "keys") == []
        memory.forget("coffee", user_id="alice")
        assert ids(memory, "coffee") == []
        assert ids(memory, "cert", user="bob") == []


@pytest.mark.parametrize("lost", ["index", "index/HEADER", "index/nodes", "index/nodes/MANIFEST"])
def test_D30_a_missing_index_is_built_again_at_open(path: Path, lost: str) -> None:
    with open_store(path, recipe=recipes.l0, embedder=None) as memory:
        memory.remember("the deploy key rotates monthly", id="keys", user_id="alice")
        memory.remember("the deploy key is in the safe", id="safe", user_id="alice")
        before = [(one.episode, one.score) for one in memory.search("deploy key", user_id="alice")]
        assert len(before) == 2
    gone = path / lost
    assert gone.exists()
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    with open_store(path, recipe=recipes.l0, embedder=None) as memory:
        matches = memory.search("deploy key", user_id="alice")
        assert [(one.episode, one.score) for one in matches] == before
        assert not matches.degraded
    assert gone.exists()  # it was saved when the store was closed
