"""Keeping, reading and listing memories."""

from __future__ import annotations

from conformance.faces import at, ids, moment, refused
from conformance.store_face import Store


def test_A05_a_memory_comes_back_as_it_was_given(store: Store) -> None:
    fields = {
        "input": "when is tea?", "kind": "note", "source": "summary", "session_id": "s1",
        "importance": 7.5, "pinned": True, "tags": ["tea", "time"], "metadata": {"n": [1, {"x": None}]},
        "visibility": "global", "occurred_at": at(3),
    }  # fmt: skip
    kept = store.remember("Tea at four", id="tea", **fields)
    assert kept == {"id": "tea", "version": 1, "embedded": False}
    (found,) = store.search("tea")
    wanted = fields | {"id": "tea", "text": "Tea at four", "user_id": "ann"}
    wanted["occurred_at"] = moment(at(3))
    assert {name: found[name] for name in wanted} == wanted


def test_a_list_is_newest_first_and_in_pages(store: Store) -> None:
    store.fill("one", "two", "three", {"text": "four", "kind": "note", "tags": ["x"]})
    assert ids(store.list()) == ["m3", "m2", "m1", "m0"]
    assert ids(store.list(limit=2, offset=1)) == ["m2", "m1"]
    assert ids(store.list(kind="note")) == ids(store.list(tags=["x"])) == ["m3"]


def test_a_taken_id_is_refused(store: Store) -> None:
    store.remember("tea", id="a")
    with refused("taken", "id"):
        store.remember("coffee", id="a")
    assert [one["text"] for one in store.search("tea coffee")] == ["tea"]
