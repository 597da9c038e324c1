"""Degraded replies warn, because the replies of frameworks cannot say that they are."""

import asyncio
import warnings
from typing import Any

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

import hyrecall as hr
from adapters.degraded_world import degraded_index, degraded_store
from hyrecall.adapters.degraded import DegradedWarning, warn_if_degraded
from hyrecall.adapters.documents import Document, DocumentIndex
from hyrecall.memory import MemorySync
from seams import Items, UserMemories


def documents() -> DocumentIndex:
    made = DocumentIndex()
    made.write([Document(id="1", text="green tea"), Document(id="2", text="tea")], cell="ann")
    return made


def failing(query: Any, texts: Any) -> Any:
    raise RuntimeError("no model")


def test_documents_whose_reranker_fails_warn_and_keep_their_order() -> None:
    index, stage = documents(), hr.RerankBy(failing)
    with pytest.warns(DegradedWarning, match="degraded: RerankBy kept the order"):
        found = index.recall(text="tea", scope="ann", shaping=stage)
    plain = index.recall(text="tea", scope="ann")  # a warning would be an error here
    assert [one.document.id for one in found] == [one.document.id for one in plain]


def test_memories_whose_embedder_fails_warn_with_the_reason() -> None:
    with degraded_store() as store:
        memories = UserMemories(store, "ann")
        with pytest.warns(DegradedWarning, match=r"embed_unavailable \(crashed: RuntimeError\)"):
            found = asyncio.run(memories.search("tea"))
        assert [one.episode.text for one in found] == ["green tea"]


def test_items_whose_embedder_fails_warn() -> None:
    with degraded_store() as store:
        items = Items(memory=store, scope=("users",))
        items.put(("users", "ann"), "1", {"text": "green tea"}, "green tea", None)
        asked: Any = {"filter": None, "limit": 3, "offset": 0, "renew": False}
        with pytest.warns(DegradedWarning, match="embed_unavailable"):
            (found,) = items.search(("users",), query="tea", **asked)
        assert found.key == "1"
        assert items.search(("users",), query=None, **asked) == [
            found.__class__(
                found.namespace, found.key, found.value, found.created_at, found.updated_at
            )
        ]  # a list without a query asks no embedder, and warns not


def test_the_hits_of_one_query_say_whether_they_are_degraded() -> None:
    hits = degraded_index().recall_one(text="tea", scope="ann")
    assert hits.degraded
    assert "vector did not run: crashed (RuntimeError)" in hits.trace.degraded
    assert not documents().index.recall_one(text="tea", scope="ann").degraded


def test_of_a_batch_each_query_tells_its_own_trace() -> None:
    hits = degraded_index().recall(text=["tea", "milk"], scope="ann")
    assert [one.trace for one in hits] == [hits.trace.of_query(at) for at in range(2)]
    assert [one.degraded for one in hits] == [True, True]


def test_nothing_degraded_warns_not() -> None:
    with MemorySync.in_memory(embedder=None) as store, warnings.catch_warnings():
        warnings.simplefilter("error")
        store.remember("green tea", user_id="ann")
        assert asyncio.run(UserMemories(store, "ann").search("tea"))
        warn_if_degraded(())


def test_a_model_is_told_where_probably_nothing_answers() -> None:
    with MemorySync.in_memory(recipe=hr.recipes.default, embedder=None) as store:
        for text in ("the replica lags by 40 s", "tea at four"):
            store.remember(text, user_id="ann")
        mine = UserMemories(store, "ann")
        asked = ("tea at four", "the tea of Bob", "zebra")
        sure, unsure, nothing = (asyncio.run(mine.recall(query)) for query in asked)
    told = "\nProbably nothing here answers (confidence 0."
    assert [told in one for one in (sure, unsure, nothing)] == [False, True, False]
    assert "tea at four" in unsure, "it is a best guess"
