"""Scopes and filters of an index: what a query may see, and what it asks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from conformance.faces import python_refusals, refused
from conformance.index_faces import Index, World
from conformance.index_worlds import DAY, DRAWN, ONE_ARM, TEAS, ask, cells, keys, row, same
from oracle import scope
from oracle.documents import Call
from oracle.words import Words


def test_a_query_sees_its_cells_only(index: Index) -> None:
    for who, found in (("ana", ["hot", "cold", "green"]), ("bob", ["hot"]), (None, ["nobody"])):
        assert keys(index.recall(ask("tea", scope=cells(who)))) == [found]
        same(index, TEAS, ask("tea", [1, 1, 1], cells(who)))


def test_several_cells_are_one_scope_with_one_set_of_statistics(index: Index) -> None:
    call = ask("hot tea", [1, 1, 0], cells("ana", "bob"))
    same(index, TEAS, call)
    (found,) = index.recall(call)
    assert {(hit.key, hit.cell) for hit in found} >= {("hot", ("ana",)), ("hot", ("bob",))}


def test_an_empty_scope_and_an_unknown_cell_see_nothing(index: Index) -> None:
    assert index.recall(ask("tea", [1, 0, 0], cells("nobody at all"))) == [()]
    assert index.recall(ask("tea", [1, 0, 0], frozenset())) == [()]


def test_rows_of_others_change_no_bit(make_index: Callable[..., Index]) -> None:
    crowd = tuple(row(f"b{n}", "bob", "hot hot mint tea", [1, n, 0]) for n in range(200))
    index = make_index(World(ONE_ARM, (*crowd[:100], *TEAS.rows, *crowd[100:])))
    for text, vector in (("hot tea", None), (None, [1, 0, 0]), ("mint", [0, 1, 0])):
        same(index, TEAS, ask(text, vector))


FILTERS: dict[str, tuple[scope.Predicate, list[str]]] = {
    "equal": (scope.Equal("kind", "note"), ["hot", "green"]),
    "range": (scope.Range("number", 2, 3), ["cold", "green"]),
    "open range": (scope.Range("number", 2, None), ["cold", "green"]),
    "time": (scope.Range("at", DAY, DAY + timedelta(hours=24)), ["hot", "cold"]),
    "any of": (scope.AnyOf("kind", ("fact", "task")), ["cold"]),
    "any of a list": (scope.AnyOf("tags", ("blue", "green")), ["cold"]),
    "all of a list": (scope.AllOf("tags", ("red", "blue")), ["cold"]),
    "none of": (scope.NoneOf("kind", ("note",)), ["cold", "bean"]),
    "null": (scope.IsNull("at"), ["green", "bean"]),
    "not null": (scope.NotNull("price"), ["bean"]),
    "both": (scope.And(scope.Equal("kind", "note"), scope.Range("number", 3, 9)), ["green"]),
    "either": (scope.Or(scope.Equal("kind", "fact"), scope.NotNull("price")), ["cold", "bean"]),
    "not": (scope.Not(scope.Equal("kind", "note")), ["cold", "bean"]),
}


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_narrows_the_reply(index: Index, name: str) -> None:
    predicate, found = FILTERS[name]
    for call in (ask(vector=[1, 1, 1], filter=predicate), ask("tea", [1, 0, 0], filter=predicate)):
        assert sorted(map(str, keys(index.recall(call))[0])) == sorted(found)
        same(index, TEAS, call)


def test_a_filter_leaves_statistics_alone(index: Index) -> None:
    (whole,) = index.recall(ask("hot tea"))
    (found,) = index.recall(ask("hot tea", filter=scope.Equal("kind", "fact")))
    assert [(hit.key, hit.score) for hit in found] == [("cold", whole[1].score)]


def test_each_query_of_a_batch_has_its_filter(make_index: Callable[..., Index]) -> None:
    index = make_index(DRAWN)
    texts = {"text": (Words("ash grow"),) * 3}
    filters = (None, scope.Equal("kind", "note"), scope.Range("number", 0, 3))
    same(index, DRAWN, Call((cells("ana"), cells("ana"), cells("bob")), texts, filters=filters))


def test_E07_a_small_cell_of_a_large_table(make_index: Callable[..., Index]) -> None:
    crowd = tuple(row(f"b{n}", f"u{n % 40}", f"tea {n % 7}", [1, n % 5, n % 3]) for n in range(800))
    index = make_index(World(ONE_ARM, (*crowd, *TEAS.rows)))
    same(
        index, World(ONE_ARM, (*crowd, *TEAS.rows)), ask("tea 3", [1, 2, 0], cells("u3"), limit=20)
    )


def test_an_unknown_column_is_refused_by_name(index: Index) -> None:
    with refused("value", "colour"):
        index.recall(ask("tea", filter=scope.Equal("colour", "red")))


def test_a_missing_scope_is_refused(index: Index) -> None:
    if index.name in ("served", "command line"):
        call = replace(ask("tea"), scopes=(frozenset(),))
        assert index.recall(call) == [()]  # said as an empty list: nothing
        return
    with refused("scope", "scope"), python_refusals():
        index.index.recall(text=["tea"])
