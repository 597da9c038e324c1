"""Filters on JSON values, namespaces as cells, and items: what adapters build on."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

import hyrecall as hr
from hyrecall.memory import EVERYONE, MemorySync
from seams import Items, check_filter, json_filters, narrowing, passes, user_of

SCALARS = (0, 1, 2.5, -3, True, False, None, "x", "y", "2")


@pytest.fixture
def memory() -> Iterator[MemorySync]:
    with MemorySync.in_memory(embedder=None) as made:
        yield made


# ---- filters ----


@pytest.mark.parametrize(
    ("value", "wish", "expected"),
    [
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1.0}, {"a": 1}, True),
        ({"a": True}, {"a": 1}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({}, {"a": None}, True),
        ({"a": None}, {"a": None}, True),
        ({"a": [1]}, {"a": 1}, False),
        ({"a": [1, 2]}, {"a": [1, 2]}, True),
        ({"a": [2, 1]}, {"a": [1, 2]}, False),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True),
        ({"a": [{"b": 1}]}, {"a": {"b": 1}}, False),
        ({"a": {"b": 1, "c": 2}}, {"a": {"$eq": {"b": 1}}}, False),
        ({"a": {"b": True}}, {"a": {"$eq": {"b": 1}}}, False),
        ({"a": 5}, {"a": {"$gt": 4.5, "$lte": 5}}, True),
        ({"a": 5}, {"a": {"$gt": 5}}, False),
        ({"a": "5"}, {"a": {"$gt": 4}}, False),
        ({"a": "2026-02"}, {"a": {"$gte": "2026-01"}}, True),
        ({"a": True}, {"a": {"$gte": 0}}, False),
        ({}, {"a": {"$lt": 5}}, False),
        ({}, {"a": {"$ne": 5}}, True),
        ({"a": 5}, {"a": 5, "b": 1}, False),
    ],
)
def test_a_value_passes_as_json_compares(value: Any, wish: Any, expected: bool) -> None:
    assert passes(value, wish) is expected


@pytest.mark.parametrize(
    ("wish", "kind", "told"),
    [
        ([], hr.DTypeError, "filter: expected a mapping"),
        ({1: 2}, hr.DTypeError, "filter: expected a mapping with names"),
        ({"$gt": 2}, hr.OptionError, r"filter\['\$gt'\]: expected the name of a field"),
        ({"a": {"$in": [1]}}, hr.OptionError, r"filter\['a'\]: expected operators .*'\$in'"),
        ({"a": {"$gt": 1, "b": 2}}, hr.OptionError, "got 'b'"),
        ({"a": {"b": {"$gt": None}}}, hr.DTypeError, r"\['b'\]\['\$gt'\]: expected a number"),
        ({"a": {"$lt": True}}, hr.DTypeError, "expected a number or a string, got bool"),
    ],
)
def test_a_filter_that_cannot_be_asked_is_refused(wish: Any, kind: type, told: str) -> None:
    with pytest.raises(kind, match=told):
        check_filter(wish)


def drawn(rng: np.random.Generator, depth: int = 0) -> Any:
    def scalar() -> Any:
        return SCALARS[int(rng.integers(len(SCALARS)))]

    kind = rng.integers(4 if depth < 2 else 2)
    if kind < 2:
        return scalar()
    if kind == 2:
        return [drawn(rng, depth + 1) for _ in range(rng.integers(3))]
    return {key: drawn(rng, depth + 1) for key in ("a", "b", "a.b") if rng.random() < 0.5}


def drawn_filter(rng: np.random.Generator, depth: int = 0) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key in ("a", "b", "a.b"):
        kind = rng.random()
        if kind < 0.25:
            made[key] = drawn(rng, 1)
        elif kind < 0.5:
            bounds = (0, 1.5, "x", "2")
            names = ("$gt", "$gte", "$lt", "$lte", "$eq", "$ne")
            made[key] = {
                names[int(rng.integers(6))]: bounds[int(rng.integers(4))]
                for _ in range(rng.integers(1, 3))
            }
        elif kind < 0.6 and depth < 2:
            made[key] = drawn_filter(rng, depth + 1)
    return made


def asks_an_operator_of_a_list(wish: dict[str, Any], path: str) -> dict[str, Any]:
    """A bug: $ne as the complement that an index has, which lists do not pass."""
    asked = narrowing(wish, path)
    for key, one in wish.items():
        if isinstance(one, dict) and "$ne" in one:
            asked[f"{path}.{key}"] = hr.NoneOf(one["$ne"])
    return asked


def compare(memory: MemorySync, ask: Any, seed: int) -> int:
    """Compare what an index lets through with what passes; return how many passed."""
    rng = np.random.default_rng(seed)
    values = [drawn_object(rng) for _ in range(40)]
    for at, value in enumerate(values):
        memory.remember("x", id=f"{seed} {at}", user_id=str(seed), metadata={"value": value})
    n_passed = 0
    for _ in range(40):
        wish = drawn_filter(rng)
        check_filter(wish)
        found = memory.list(user_id=str(seed), metadata=ask(wish, "value") or None)
        let = {int(one.id.split()[1]) for one in found}
        passing = {at for at, value in enumerate(values) if passes(value, wish)}
        assert passing <= let, f"{wish}: {[values[at] for at in passing - let]}"
        n_passed += len(passing)
    return n_passed


def drawn_object(rng: np.random.Generator) -> dict[str, Any]:
    return {key: drawn(rng) for key in ("a", "b", "a.b") if rng.random() < 0.7}


@pytest.mark.plain_cases(5)
@pytest.mark.parametrize("seed", range(100))
def test_an_index_lets_through_every_value_that_passes(memory: MemorySync, seed: int) -> None:
    assert compare(memory, json_filters.narrowing, seed) > 20


def test_a_narrowing_that_loses_values_is_found(memory: MemorySync) -> None:
    def compare_all() -> None:
        for seed in range(20):
            compare(memory, asks_an_operator_of_a_list, seed)

    with pytest.raises(AssertionError, match=r"\$ne"):
        compare_all()


# ---- namespaces ----


def test_no_two_namespaces_are_one_user() -> None:
    labels = ("a", "b", "ab", " ", "a b", "é", "*", "/", "\\")
    every = [(), *((one,) for one in labels), *((one, two) for one in labels for two in labels)]
    assert len({user_of(one) for one in every}) == len(every)
    assert not any(user_of(one).startswith(".") for one in every)


@pytest.mark.parametrize("namespace", [("",), ("a.b",), ("a", "\0"), (1,), "a", None])
def test_what_is_no_namespace_is_refused(namespace: Any) -> None:
    with pytest.raises((hr.OptionError, hr.DTypeError), match="namespace"):
        user_of(namespace)


def test_namespaces_are_found_under_each_of_their_prefixes(memory: MemorySync) -> None:
    made, elsewhere = (
        Items(memory=memory, scope=EVERYONE, org="acme", workspace=one) for one in ("lab", "other")
    )
    for one in (("a", "b"), ("ab",), ("a",), ("a", "b", "c"), ("a", "b")):
        made.add(one)
    elsewhere.add(("a", "z"))
    assert made.under(()) == [("a",), ("a", "b"), ("a", "b", "c"), ("ab",)]
    assert made.under(("a", "b")) == [("a", "b"), ("a", "b", "c")]
    assert made.under(("b",)) == []
    assert elsewhere.under(()) == [("a", "z")]


# ---- items ----


def test_what_only_fills_a_list_answers_no_query(memory: MemorySync) -> None:
    store = Items(memory=memory, scope=EVERYONE, recipe=hr.recipes.loom)
    for at, text in enumerate(["green tea", "cold milk"]):
        store.put((f"n{at}",), "k", {}, text, None)
    asked: dict[str, Any] = {"filter": None, "limit": 9, "offset": 0, "renew": False}
    assert [one.namespace for one in store.search((), query="tea", **asked)] == [("n0",)]
    assert len(store.search((), query=None, **asked)) == 2


def test_items_are_found_by_what_they_say(memory: MemorySync) -> None:
    store = Items(memory=memory, scope=("users",))
    for at in range(12):
        store.put(("users", f"u{at % 3}"), f"k{at}", {"n": at, "list": [at]}, f"note {at}", None)
    asked: dict[str, Any] = {"limit": 3, "offset": 1, "renew": False}
    found = store.search(("users",), query=None, filter={"n": {"$gte": 6}}, **asked)
    assert [one.key for one in found] == ["k10", "k9", "k8"]
    assert store.search(("users",), query=None, filter={"list": 3}, **asked) == []
    by_words = store.search(("users", "u0"), query="note", filter={"n": {"$ne": 0}}, **asked)
    assert len(by_words) == 2
    assert all(one.score is not None for one in by_words)
    store.delete(("users", "u0"), "k0")
    assert store.get(("users", "u0"), "k0", renew=False) is None
    assert store.namespaces(("users",)) == [("users", f"u{at}") for at in range(3)]


@pytest.mark.parametrize(("name", "value"), [("limit", -1), ("offset", -1), ("limit", "3")])
def test_a_page_that_cannot_be_is_refused(memory: MemorySync, name: str, value: Any) -> None:
    store = Items(memory=memory, scope=EVERYONE)
    options: dict[str, Any] = {"limit": 1, "offset": 0} | {name: value}
    with pytest.raises(hr.OptionError, match=f"{name}: expected an int >= 0"):
        store.search((), query=None, filter=None, renew=False, **options)


def test_a_search_finds_more_than_the_depth_of_its_recipe(memory: MemorySync) -> None:
    store = Items(memory=memory, scope=EVERYONE)
    for at in range(130):
        store.put(("a",), str(at), {"list": [1] if at % 2 else 1}, "tea", None)
    found = store.search((), query="tea", filter={"list": 1}, limit=200, offset=0, renew=False)
    assert len(found) == 65


@pytest.mark.parametrize("ttl", [1e18, 1e12, 0, -1, True])
def test_a_time_to_live_that_no_date_can_have_is_refused(memory: MemorySync, ttl: float) -> None:
    store = Items(memory=memory, scope=EVERYONE)
    with pytest.raises((hr.OptionError, hr.DTypeError), match="ttl: expected minutes"):
        store.put(("a",), "k", {}, "tea", ttl)
    store.put(("a",), "longest", {}, "tea", 1e9)
    found = store.search((), query=None, filter=None, limit=9, offset=0, renew=True)
    assert [one.key for one in found] == ["longest"]
    assert store.sweep() == 0
