"""What people type into a search box, read as a query: never an error, and the right rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import hyrecall as hr
from hyrecall import parse


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ('"green tea" milk', hr.Any("milk", hr.Phrase("green tea"))),
        ('"green te*"', hr.Phrase("green te", prefix_last=True)),
        ("tea -milk", hr.Any("tea", hr.Not("milk"))),
        ('-"oat milk" tea', hr.Any("tea", hr.Not(hr.Phrase("oat milk")))),
        ("tea -e-mail", hr.Any("tea", hr.Not(hr.Phrase("e-mail")))),
        ("+tea", hr.All("tea")),
        ("+tea +c++", hr.All("tea", hr.Phrase("c++"))),
        ("inv* mosue~ disc~2", hr.Any(hr.Prefix("inv"), hr.Fuzzy("mosue"), hr.Fuzzy("disc", 2))),
        ("tea OR milk", hr.Any("tea", "milk")),
        ("+tea -bag OR milk", hr.Any(hr.All("tea", hr.Not("bag")), "milk")),
        ("+(tea milk)", hr.All(hr.Any("tea milk"))),
        ("-(tea OR inv*)", hr.Any("", hr.Not(hr.Any("tea", hr.Prefix("inv"))))),
        ("-(+tea milk)", hr.Any("", hr.Not(hr.All("tea")))),
        ("(f(x) y)", hr.Any("f(x) y")),
        ("(tea", "(tea"),
        ("東京* -大阪", hr.Any(hr.Prefix("東京"), hr.Not(hr.Phrase("大阪")))),
    ],
)
def test_the_grammar(text: str, query: Any) -> None:
    assert parse(text) == query


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "disk full", "title:disk", "C++", "--", "- +", "-- -+", "https://a.b/c?d=e&f=(g)",
        '5" disk', '"lone', '""', "(", ")(", "OR", "tea OR", "OR tea", "a AND b NOT c", "*", "~",
        "~2", "foo~3", "-", "-->", "f(x)", ":(", "don't", "a*b", "\ud800",
    ],
)  # fmt: skip
def test_what_is_no_grammar_is_words(text: str) -> None:
    assert parse(text) == text


@pytest.fixture(scope="module")
def index() -> hr.Index:
    texts = [
        "green tea", "black tea with milk", "oat milk", "teapot", "coffee", "green tea milk",
        "the mouse runs", "tea bag",
    ]  # fmt: skip
    table = pa.table({"id": list(range(len(texts))), "text": texts})
    analyzer = hr.Analyzer("unicode", stopwords="english")
    return hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"), analyzer=analyzer)


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("tea -milk", {0, 7}),
        ("+tea milk", {0, 1, 5, 7}),
        ("+tea +milk", {1, 5}),
        ("+the +milk", {1, 2, 5}),
        ("+the +milk tea", {1, 2, 5}),
        ('"green tea" -milk', {0}),
        ("tea*", {0, 1, 3, 5, 7}),
        ("mosue~", {6}),
        ("coffee OR +tea +bag", {4, 7}),
        ("+(coffee tea) -green", {1, 4, 7}),
        ("-milk", set()),
        ("(the -milk) coffee", {4}),
    ],
)
def test_what_is_found(index: hr.Index, text: str, keys: set[int]) -> None:
    assert set(index.recall_one(text=parse(text)).keys) == keys


def test_what_is_required_weighs_as_much_as_in_plain_words(index: hr.Index) -> None:
    plain = {hit.key: hit.score for hit in index.recall_one(text="tea milk bag")}
    for text in ("+tea milk bag", "+(tea) milk bag", "+tea (milk bag)"):
        found = index.recall_one(text=parse(text))
        assert len(found) == 4
        assert all(hit.score == plain[hit.key] for hit in found)


typed = st.text("ab \"+-*~2()\u3042'OR:", max_size=40) | st.text(max_size=20)


@given(typed)
@example("(" * 200 + "a" + ")" * 200)
@example("+(" * 50 + "a b" + " c)" * 50)
@example("-(+(" * 50 + "a b" + " c) d)" * 50)
@example("(+a (+b (+c (+d (+e f OR g) h OR i) j OR k) l OR m) n OR o)")
def test_every_text_is_read_and_searched(index: hr.Index, text: str) -> None:
    query = parse(text)
    assert parse(text) == query
    if text.isprintable() or text.isascii():
        assert not index.recall_one(text=query).trace.degraded
