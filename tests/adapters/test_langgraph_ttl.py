"""The time to live of items in ``HyrecallStore``, and settings that would be ignored."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("langgraph.store.base", reason="langgraph is not installed")

import hyrecall as hr
from adapters.store_programs import embed
from hyrecall.adapters.langgraph import HyrecallStore
from hyrecall.memory import EVERYONE, MemorySync
from memory.stores import HOUR, Clock

ANN, BOB = ("users", "ann"), ("users", "bob")


@pytest.fixture
def store() -> Iterator[HyrecallStore]:
    with HyrecallStore.open(":memory:", scope=EVERYONE, embedder=None) as made:
        yield made


@pytest.fixture
def timed(store: HyrecallStore) -> tuple[HyrecallStore, Clock, MemorySync]:
    clock, memory = Clock(), store._items.memory
    ttl: Any = {"default_ttl": 60.0, "refresh_on_read": True, "omit_expired": True}
    return HyrecallStore(memory, scope=("users",), ttl=ttl, clock=clock), clock, memory


def test_an_item_expires_after_it_was_last_read(timed: Any) -> None:
    made, clock, memory = timed
    made.put(ANN, "read", {"text": "tea"})
    made.put(ANN, "found", {"text": "tea"})
    made.put(ANN, "left", {"text": "tea"})
    made.put(ANN, "kept", {"text": "tea"}, ttl=None)
    clock.now += 0.75 * HOUR
    assert made.get(ANN, "read") is not None
    assert made.get(ANN, "left", refresh_ttl=False) is not None
    assert len(made.search(ANN, query="tea", filter={"text": "tea"}, limit=2)) == 2
    renewed = {one.key for one in made.search(ANN, refresh_ttl=False, limit=9)}
    assert renewed == {"read", "found", "left", "kept"}
    clock.now += 0.75 * HOUR
    alive = {one.key for one in made.search(ANN, query="tea", refresh_ttl=False)}
    assert "read" in alive
    assert "kept" in alive
    assert alive == {one.key for one in made.search(ANN, refresh_ttl=False)}
    clock.now += 2 * HOUR
    assert [one.key for one in made.search(ANN)] == ["kept"]
    assert made.get(ANN, "read") is None
    assert made.sweep_ttl() == 3
    assert len(memory.list(user_id="users.ann")) == 1


def test_an_expired_namespace_is_not_listed(timed: Any) -> None:
    made, clock, _ = timed
    made.put(ANN, "tea", {"text": "tea"}, ttl=1)
    made.put(BOB, "tea", {"text": "tea"}, ttl=None)
    assert made.list_namespaces() == [ANN, BOB]
    clock.now += timedelta(minutes=1)
    assert made.list_namespaces() == [BOB]


def test_reading_an_item_keeps_its_value_and_its_times(timed: Any) -> None:
    made, clock, _ = timed
    made.put(ANN, "tea", {"text": "tea"})
    first = made.get(ANN, "tea")
    clock.now += 0.5 * HOUR
    assert made.get(ANN, "tea") == first
    assert made.search(ANN)[0].updated_at == first.updated_at


def test_a_sweep_leaves_what_was_renewed_meanwhile(
    timed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, clock, memory = timed
    made.put(ANN, "tea", {"v": 1})
    clock.now += 2 * HOUR
    forget = memory.forget

    def late(*args: Any, **options: Any) -> Any:
        made.put(ANN, "tea", {"v": 2})
        return forget(*args, **options)

    monkeypatch.setattr(type(memory), "forget", lambda self, *a, **o: late(*a, **o))
    assert made.sweep_ttl() == 0
    assert made.get(ANN, "tea").value == {"v": 2}


@pytest.mark.parametrize(
    ("ttl", "told"),
    [({"omit_expired": False}, "omit_expired"), ({"sweep_interval_minutes": 5}, "sweep_ttl")],
)
def test_options_of_ttl_that_would_be_ignored_are_refused(
    store: HyrecallStore, ttl: Any, told: str
) -> None:
    with pytest.raises(hr.OptionError, match=told):
        HyrecallStore(store._items.memory, scope=ANN, ttl=ttl)


@pytest.mark.parametrize(
    ("options", "kind", "told"),
    [
        ({"ttl": {"default": 5}}, hr.OptionError, "ttl: expected keys of .*'default_ttl'.*got 'de"),
        ({"ttl": {"default_ttl": 1e12}}, hr.OptionError, "ttl: expected minutes"),
        ({"ttl": 5}, hr.DTypeError, "ttl: expected a dict"),
        ({"index": {"embedding": embed}}, hr.OptionError, "index: expected keys of .*'embed'"),
        ({"index": {"dims": 12}}, hr.OptionError, "index: expected embed beside dims"),
    ],
)
def test_settings_that_would_be_ignored_are_refused(options: Any, kind: type, told: str) -> None:
    with pytest.raises(kind, match=told):
        HyrecallStore.open(":memory:", scope=ANN, **options)
