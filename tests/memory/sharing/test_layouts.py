"""Processes with recipes of different indexes: all write, and who shares the index searches it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hyrecall import Analyzer
from hyrecall.errors import StoreMismatchError
from hyrecall.memory import MemorySync
from hyrecall.recipes import hypergraph, l0
from memory.sharing.handles import ids, is_owner, opened
from memory.sharing.peer import USER
from seams import SharedKeeper


def found(memory: MemorySync, query: str = "note") -> list[str]:
    return sorted(one.episode.id for one in memory.search(query, user_id=USER, limit=50))


OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"recipe": hypergraph}, "analyzer"),
    ({"recipe": l0}, "analyzer"),
    ({"recipe": l0.replace(name="mine", analyzer="word"), "analyzer": "word"}, ""),
    ({"analyzer": "unicode"}, "analyzer"),
]


@pytest.mark.parametrize(("options", "name"), OTHERS[:2] + OTHERS[3:])
def test_a_process_of_another_layout_writes_and_reads_and_its_search_is_told_what_differs(
    tmp_path: Path, options: dict[str, Any], name: str
) -> None:
    owner, second = opened(tmp_path / "s"), opened(tmp_path / "s", **options)
    assert second.remember("note", id="a", user_id=USER).version == 1
    assert second.update("a", user_id=USER, text="note again").version == 2
    assert second.remember("note", id="b", user_id=USER).version == 1
    assert second.forget("b", user_id=USER, erase=True) == 1
    assert ids(second) == ["a"]
    assert found(owner) == ["a"]
    told = rf"{name}: expected .*pid {os.getpid()}"
    calls: list[Callable[[], object]] = [
        lambda: second.search("note", user_id=USER),
        lambda: second.wait_until_ready(timeout=1),
    ]
    for call in calls:
        with pytest.raises(StoreMismatchError, match=told):
            call()
    assert second.doctor().ok
    assert found(owner) == ["a"]


def test_recipes_of_one_analyzer_and_other_texts_differ_in_the_recipe(tmp_path: Path) -> None:
    opened(tmp_path / "s", recipe=l0, embedder=None)
    second = opened(tmp_path / "s", recipe=None, analyzer=l0.analyzer, embedder=None)
    with pytest.raises(StoreMismatchError, match=r"recipe: expected l0, .*got default"):
        second.search("note", user_id=USER)


def rebuilt(memory: MemorySync) -> int:
    return int(memory._store.follower.report()["rebuilds"])


def test_a_take_over_by_another_layout_leaves_the_index_to_those_who_search_it(
    tmp_path: Path,
) -> None:
    owner, searching = opened(tmp_path / "s"), opened(tmp_path / "s")
    writing = opened(tmp_path / "s", recipe=hypergraph)
    owner.remember("note", id="a", user_id=USER)
    owner.close()
    writing.remember("note", id="b", user_id=USER)
    assert is_owner(writing)
    assert found(searching) == ["a", "b"]
    assert writing._store.owner.layout == searching._store.layout
    assert rebuilt(writing) == 0  # the saved index was taken as it is
    writing.close()
    assert found(searching) == ["a", "b"]
    assert is_owner(searching)
    assert rebuilt(searching) == 0


def test_an_owner_that_searches_itself_has_the_index_of_its_own_layout(tmp_path: Path) -> None:
    owner, searching = opened(tmp_path / "s"), opened(tmp_path / "s")
    second = opened(tmp_path / "s", recipe=hypergraph)
    owner.remember("note", id="a", user_id=USER)
    owner.close()
    second.remember("note", id="b", user_id=USER)
    assert found(searching) == ["a", "b"]
    assert found(second) == ["a", "b"]
    assert second._store.owner.layout == second._store.layout
    assert rebuilt(second) == 1
    with pytest.raises(StoreMismatchError, match=rf"analyzer: .*pid {os.getpid()}"):
        found(searching)
    searching.remember("note", id="c", user_id=USER)
    assert found(second) == ["a", "b", "c"]


def test_a_client_connects_to_the_layout_that_its_owner_inherited(tmp_path: Path) -> None:
    owner, second = opened(tmp_path / "s"), opened(tmp_path / "s", recipe=hypergraph)
    owner.close()
    second.remember("note", id="a", user_id=USER)
    assert found(opened(tmp_path / "s")) == ["a"]
    with pytest.raises(StoreMismatchError, match="analyzer"):
        found(opened(tmp_path / "s", recipe=hypergraph))


def test_a_layout_with_a_callable_is_not_inherited(tmp_path: Path) -> None:
    spaces = Analyzer.from_callable(str.split, name="spaces", version="1")
    owner = opened(tmp_path / "s", analyzer=spaces)
    second = opened(tmp_path / "s")
    owner.close()
    second.remember("note", id="a", user_id=USER)
    assert found(second) == ["a"]


def test_a_reply_that_was_made_while_the_index_was_claimed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, searching = opened(tmp_path / "s"), opened(tmp_path / "s")
    second = opened(tmp_path / "s", recipe=hypergraph)
    owner.remember("note", id="a", user_id=USER)
    owner.close()
    second.remember("note", id="b", user_id=USER)
    keeper = second._store._shared
    assert isinstance(keeper, SharedKeeper)
    made = keeper.owner
    assert made is not None
    search = made.search_index

    def claimed_after(question: Any) -> Any:
        reply = search(question)
        monkeypatch.undo()
        assert found(second) == ["a", "b"]
        return reply

    monkeypatch.setattr(made, "search_index", claimed_after)
    with pytest.raises(StoreMismatchError):
        found(searching)


def test_doctor_of_another_layout_reports_the_index(tmp_path: Path) -> None:
    opened(tmp_path / "s").remember("note", id="a", user_id=USER)
    report = opened(tmp_path / "s", recipe=hypergraph).doctor(full=True)
    (check,) = (one for one in report.checks if one.name == "index")
    assert check.ok
    assert json.loads(check.detail)["documents"] == 1
