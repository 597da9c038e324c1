"""Pages of an index: rows by columns, how many match, and the values that they have."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from conformance.faces import refused
from conformance.index_faces import Index
from conformance.index_worlds import DRAWN, TEAS, ask, cells, keys, same
from oracle.documents import Page
from oracle.scope import Equal

FACETS = Page(None, ("kind", "tags"), (None, 0, 1.5, None))


def test_a_reply_counts_what_matches_whatever_its_limit(index: Index) -> None:
    same(index, TEAS, ask("tea", limit=1, page=FACETS), ask(vector=[1, 0, 0], page=FACETS))
    ((hit,),) = index.recall(ask("tea mint", limit=1, page=FACETS))
    assert hit.counted[0] == 3
    assert hit.counted[1][1] == ("tags", (("red", 2), ("blue", 1)))


def test_columns_order_all_rows_that_pass(index: Index) -> None:
    page = Page((("kind", True), ("number", False)), ("kind",))
    same(index, TEAS, ask(page=page), ask(page=page, filter=Equal("kind", "note"), limit=1))
    assert keys(index.recall(ask(page=page))) == [["hot", "green", "cold", "bean"]]
    assert {hit.score for hit in index.recall(ask(page=page))[0]} == {None}


def test_columns_order_what_a_text_or_a_vector_matches(make_index: Callable[..., Index]) -> None:
    index, page = make_index(DRAWN), Page((("price", False), ("kind", True)), ("number", "tags"))
    for tenant in ("ana", "bob"):
        scope = cells(tenant)
        same(index, DRAWN, ask("grow ash", scope=scope, page=page, limit=30, offset=2))
        same(index, DRAWN, ask("zen", [1, 0, 2], scope, page=page))


@pytest.mark.parametrize("name", ["text", "tags", "nowhere"])
def test_only_an_attribute_of_one_value_orders(index: Index, name: str) -> None:
    with refused("value", "sort"):
        index.recall(ask(page=Page(((name, False),), ("kind",))))
