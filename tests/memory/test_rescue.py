"""What a saved index still holds comes back by an import."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from hyrecall import recipes
from hyrecall.errors import CorruptStoreError, OptionError
from hyrecall.memory import EVERYONE, Fact, MemorySync
from memory.copies import copy_store
from memory.stores import NOON, lasting, open_store
from seams import LOG, RESCUED_FACT, rescue
from seams import memory_DATABASE as DATABASE


def fill(memory: MemorySync) -> None:
    memory.remember(
        "the answer", input="a question", id="full", user_id="ann", session_id="s", tags=("t", "u"),
        source="web", importance=3.0, occurred_at=NOON, kind="note", visibility="global",
        metadata={"a": [1]},
    )  # fmt: skip
    memory.remember("first", id="twice", user_id="ann")
    memory.update("twice", output="second", user_id="ann")
    memory.remember("gone", id="gone", user_id="ann")
    memory.forget("gone", user_id="ann")
    memory.remember("bob's", id="bob's", user_id="bob", org="acme")
    memory.link(["full", "twice"], "near", id="edge", user_id="ann", visibility="private")
    valid_from = datetime(2026, 1, 2, tzinfo=UTC)
    fact = {"subject": "ann", "predicate": "likes", "object": "tea", "valid_from": valid_from}
    memory.remember_fact(Fact(id="fact", user_id="ann", **fact))


def rescued(path: Path, file: Path) -> dict[str, Any]:
    """Import what was rescued into a new store, and give it by id."""
    with open_store(embedder=None) as other:
        done = other.import_(file)
        assert done.errors == ()
        found = {}
        for org, user in ((None, "ann"), ("acme", "bob")):
            for one in other.list(user_id=user, org=org):
                found[one.id] = one
        assert other.doctor(full=True).ok
        found |= {f"edge {edge.id}": edge for edge in other.links("full", user_id="ann")}
        return found


@pytest.mark.parametrize("recipe", [recipes.loom, recipes.l0, recipes.hypergraph])
@pytest.mark.parametrize("is_gone", [False, True])
def test_everything_live_is_rescued_where_the_database_is_lost(
    tmp_path: Path, recipe: Any, *, is_gone: bool
) -> None:
    path = tmp_path / "store"
    with open_store(path, embedder=None, recipe=recipe) as memory:
        fill(memory)
    if is_gone:
        (path / DATABASE).unlink()
    else:
        (path / DATABASE).write_bytes((path / DATABASE).read_bytes()[:5000])
    before = lasting(path)
    assert rescue(path, tmp_path / "lines") == 5
    assert lasting(path) == before
    found = rescued(path, tmp_path / "lines")
    assert found.keys() == {"full", "twice", "bob's", "fact", "edge edge"}
    full = found["full"]
    assert (full.output, full.tags, full.importance) == ("a question\nthe answer", ("t", "u"), 3.0)
    assert (full.kind, full.source, full.session_id) == ("note", "web", "s")
    assert (full.occurred_at, full.visibility) == (NOON, "global")
    assert full.metadata == ({"a": [1]} if recipe == recipes.hypergraph else {})
    assert found["twice"].output == "second"
    assert (found["fact"].output, found["fact"].kind) == ("ann likes tea", RESCUED_FACT)
    assert found["fact"].metadata == {"valid_from": "2026-01-02T00:00:00+00:00"}
    assert [one.id for one in found["edge edge"].participants] == ["full", "twice"]


@pytest.mark.parametrize("left", ["the log", "no log"])
def test_rescue_of_an_emptied_store_reads_the_index_and_keeps_the_log(
    tmp_path: Path, left: str
) -> None:
    path = tmp_path / "store"
    with open_store(path, embedder=None) as memory:
        fill(memory)
    with open_store(path, embedder=None) as memory:
        memory.remember("later", id="later", user_id="ann")
        path = copy_store(path, tmp_path / "killed")
    (path / DATABASE).write_bytes(b"")
    if left == "no log":
        (path / LOG).unlink()
    before = lasting(path)
    assert (LOG in before) == (left == "the log")
    assert rescue(path, tmp_path / "lines") == 5
    assert lasting(path) == before


def test_rescue_beside_the_database_of_another_program_reads_the_index(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with open_store(path, embedder=None) as memory:
        fill(memory)
    (path / DATABASE).unlink()
    other = apsw.Connection(str(path / DATABASE))
    other.execute("CREATE TABLE things (name TEXT)")
    other.close()
    before = lasting(path)
    assert rescue(path, tmp_path / "lines") == 5
    assert lasting(path) == before


def test_what_an_older_database_lacks_is_rescued_and_imported_into_it(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with open_store(path, embedder=None) as memory:
        memory.remember("kept", id="kept", user_id="ann")
        memory.remember("old", id="changed", user_id="ann")
    shutil.copyfile(path / DATABASE, tmp_path / "backup.db")
    with open_store(path, embedder=None) as memory:
        memory.update("changed", output="new", user_id="ann")
        memory.remember("lost", id="lost", user_id="ann")
        assert rescue(path, tmp_path / "nothing") == 0, "a store that lost nothing"
    shutil.copyfile(tmp_path / "backup.db", path / DATABASE)
    assert rescue(path, tmp_path / "lines") == 2
    with open_store(path, embedder=None, accept_loss=True) as memory:
        assert memory.import_(tmp_path / "lines").imported == 2
        texts = {one.id: one.output for one in memory.list(user_id="ann")}
        assert texts == {"kept": "kept", "changed": "new", "lost": "lost"}
    assert rescue(path, tmp_path / "again") == 0


def test_a_forgotten_or_erased_memory_is_not_rescued(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with open_store(path, embedder=None) as memory:
        for key in ("a", "b", "c"):
            memory.remember(key, id=key, user_id="ann")
        memory.snapshot()
        memory.forget("a", user_id="ann")
        memory.forget("b", user_id="ann", erase=True)
        assert rescue(path, tmp_path / "lines") == 0
    (path / DATABASE).unlink()
    assert rescue(path, tmp_path / "lines") == 1


def test_without_a_whole_index_nothing_is_rescued(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with open_store(path, embedder=None) as memory:
        fill(memory)
    with pytest.raises(OptionError, match="file"):
        rescue(path, path / "lines")
    for file in (path / "index" / "nodes").glob("*-rows.arrow"):
        file.write_bytes(file.read_bytes()[:-9])
    before = lasting(path)
    with pytest.raises(CorruptStoreError, match="expected an undamaged saved index"):
        rescue(path, tmp_path / "lines")
    assert not (tmp_path / "lines").exists()
    assert lasting(path) == before
    shutil.rmtree(path / "index")
    with pytest.raises(CorruptStoreError, match="none there"):
        rescue(path, tmp_path / "lines")
    with open_store(path, embedder=None) as memory:
        assert len(memory.list(user_id=EVERYONE)) == 3
