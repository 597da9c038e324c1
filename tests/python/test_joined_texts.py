"""Hits, budgets and rerankers read all columns of a text arm, joined by a line break."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from seams import Lexical, Recipe

TITLES = ["tea", "", None, "tea", None]
TEXTS = ["a hot drink", "milk and tea", "tea with lemon", " \t", None]
JOINED = {0: "tea\na hot drink", 1: "milk and tea", 2: "tea with lemon", 3: "tea", 4: None}


def built(stored: Sequence[str] | None = None, n_adds: int = 0) -> hr.Index:
    table = pa.table({
        "id": list(range(5)),
        "user": ["ana"] * 5,
        "title": pa.array(TITLES, pa.string()),
        "text": pa.array(TEXTS, pa.string()),
    })  # fmt: skip
    text = {"words": hr.Text("title", "text"), "title": "title"}
    schema = hr.Schema(key="id", cell="user", text=text, stored=stored)
    index = hr.Index.build(table[: 5 - n_adds], schema)
    for at in range(5 - n_adds, 5):
        index.add(table[at : at + 1])
    return index


def ask(index: hr.Index, *shaping: Any, **options: Any) -> hr.QueryHits:
    asked = {"text": {"words": ["tea"]}, "scope": "ana", "shaping": shaping} | options
    return index.recall(**asked)[0]


@pytest.mark.parametrize("n_adds", [0, 3])
def test_the_text_of_a_hit_is_every_column_of_the_first_text_arm(n_adds: int) -> None:
    hits = ask(built(n_adds=n_adds))
    assert {hit.key: hit.text for hit in hits} == {at: JOINED[at] for at in range(4)}
    newest = hr.Schema(key="id", cell=None, text={"words": hr.Text("title", "text")},
                       attributes="id")  # fmt: skip
    table = pa.table(
        {"id": [1], "title": pa.nulls(1, pa.string()), "text": pa.nulls(1, pa.string())}
    )
    (hit,) = hr.Index.build(table, newest).recall(arms=hr.arms.Newest("id"))[0]
    assert hit.text is None


def test_a_hit_of_one_text_column_has_it_as_it_is_stored() -> None:
    table = pa.table({"id": [1, 2], "text": ["  tea \n", "tea"]})
    index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))
    assert {hit.key: hit.text for hit in index.recall(text=["tea"])[0]} == {1: "  tea \n", 2: "tea"}


def test_a_budget_counts_every_column_of_the_arm() -> None:
    hits = ask(built(), hr.Budget(1000))
    tokens = dict(zip(hits.keys, hits.to_arrow()["token_estimate"].to_pylist(), strict=True))
    assert tokens == {at: -(-len(str(JOINED[at])) // 4) for at in range(4)}
    for budget in (1, 5, 8, 20):
        kept = ask(built(), hr.Budget(budget))
        assert len(kept) == 1 or sum(tokens[key] for key in kept.keys) <= budget
    only = ask(built(), hr.Budget(1000, column="title")).to_arrow()
    assert set(only["token_estimate"].to_pylist()) == {1}


def test_a_budgets_own_estimate_gets_the_joined_text_and_is_not_asked_about_nothing() -> None:
    heard: list[str] = []

    def count(texts: list[str]) -> list[int]:
        heard.extend(texts)
        return [len(text.split()) for text in texts]

    found = ask(built(), hr.Budget(6, estimate=count))
    assert sorted(heard) == sorted(str(JOINED[at]) for at in range(4))
    assert sum(len(hit.text.split()) for hit in found) <= 6
    assert len(ask(built(), hr.Budget(6, estimate=count), text={"words": ["zebra"]})) == 0


def test_a_reranker_gets_every_column_of_the_arm() -> None:
    heard: list[str] = []

    def longest(query: str, texts: list[str]) -> list[float]:
        heard.extend(texts)
        return [float(len(text)) for text in texts]

    hits = ask(built(), hr.RerankBy(longest, timeout="30s"))
    assert sorted(heard) == sorted(str(JOINED[at]) for at in range(4))
    assert [hit.text for hit in hits] == sorted(heard, key=len, reverse=True)


def test_several_recipes_of_a_batch_give_joined_texts() -> None:
    one = Recipe(name="one", arms=(Lexical(arms=("words",)),), fusion=hr.RRF())
    two = one.replace(name="two", shaping=(hr.Budget(8),))
    hits = built().recall(text=["tea", "tea"], scope="ana", recipe=[one, two])
    assert {hit.key: hit.text for hit in hits[0]} == {at: JOINED[at] for at in range(4)}
    assert all(hit.text == JOINED[hit.key] for hit in hits[1])
    assert 1 <= len(hits[1]) < 4


def test_a_column_of_the_arm_that_is_not_stored_is_named() -> None:
    index = built(stored=("title",))
    with pytest.raises(AttributeError, match="the text column 'text' is not stored"):
        _ = ask(index)[0].text
    wish = r"Budget\.column: expected a stored column of \[.*\], got 'text'"
    with pytest.raises(hr.OptionError, match=wish):
        ask(index, hr.Budget(5))
    with pytest.raises(hr.OptionError, match=r"RerankBy\.column: expected a stored column"):
        ask(index, hr.RerankBy(lambda query, texts: [0.0] * len(texts)))
    assert len(ask(index, hr.Budget(1, column="title"))) == 1
