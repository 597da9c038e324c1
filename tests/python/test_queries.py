"""Typed text queries: what each matches, and that text is never parsed."""

from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr

TEXTS = [
    "blue green deploy of the service",
    "green blue deploy",
    "blue deploy",
    "postgres replication lag",
    "postgresql replica",
    'a "quoted phrase" AND more OR less NOT none',
    "deploy* title:deploy ^2 (x)",
]


@pytest.fixture(scope="module")
def index() -> hr.Index:
    table = pa.table({"id": range(len(TEXTS)), "text": TEXTS})
    schema = hr.Schema(key="id", cell=None, text="text")
    return hr.Index.build(table, schema, analyzer=hr.Analyzer("word"))


def found(index: hr.Index, query: Any) -> list[int]:
    return sorted(index.recall_one(text=query, limit=100).keys)


def test_operators_in_text_are_words(index: hr.Index) -> None:
    assert found(index, '"blue green"') == [0, 1, 2]
    assert found(index, "blue AND service") == [0, 1, 2, 5]
    assert found(index, "NOT") == [5]
    assert found(index, "postg*") == []
    assert found(index, "title:service") == [0, 6]
    assert found(index, "service^99") == found(index, "service")
    assert found(index, "(x) OR -x") == [5, 6]


def test_a_prefix_without_a_word_finds_nothing_and_says_so(index: hr.Index) -> None:
    for text in ("", "--"):
        hits = index.recall(text=[hr.Prefix(text)])
        assert hits[0].keys == []
        assert hits.trace.notes == ("text[0] has no indexable token",)
        assert not hits.degraded


def test_deep_nesting_is_refused_not_overflown(index: hr.Index) -> None:
    query: Any = "blue"
    for depth in range(1, 5000):
        query = hr.Any(query) if depth % 2 else hr.Boost(query, 1)
        if depth == 32:
            assert found(index, query) == [0, 1, 2]
        if depth in (33, 400, 4999):
            with pytest.raises(hr.OptionError) as caught:
                index.recall(text=["blue", query])
            assert str(caught.value) == "text[1]: expected queries nested at most 32 deep, got more"


def test_queries_are_frozen_and_equal_by_value() -> None:
    same = [lambda: hr.Phrase("a b", slop=1), lambda: hr.Prefix("a"), lambda: hr.Boost("a", 2)]
    same += [lambda: hr.All("a", hr.Any("b")), lambda: hr.Any("a")]
    for make in same:
        assert make() == make()
        assert hash(make()) == hash(make())
        assert eval(repr(make()), {"__builtins__": {}}, vars(hr)) == make()
    assert hr.All("a") != hr.Any("a")


IDENTIFIERS = ["getUserById x", "get rest", "C++ foo", "snake_case get get"]


@pytest.fixture(scope="module")
def identifiers() -> hr.Index:
    table = pa.table({"id": range(len(IDENTIFIERS)), "text": IDENTIFIERS})
    return hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))


@pytest.mark.parametrize("text", ["getUserById rest", "C++ foo", "snake_case more", "get rest"])
def test_only_the_last_word_of_a_prefix_may_be_unfinished(identifiers: hr.Index, text: str) -> None:
    first, last = (IDENTIFIERS.index(one) for one in ("get rest", "C++ foo"))
    wanted = {"get rest": [first], "C++ foo": [last]}.get(text, [])
    for typed in (text, text[:-1]):
        assert identifiers.recall_one(text=hr.Prefix(typed)).keys == wanted
    assert len(identifiers.recall_one(text=hr.Prefix(text.split(maxsplit=1)[0]))) >= 1


def test_an_identifier_and_its_first_part_are_one_occurrence_of_a_prefix(
    identifiers: hr.Index,
) -> None:
    hits = identifiers.recall_one(text=hr.Prefix("get"))
    freqs = {hit.key: hit.explain().components[0].terms[0].term_freq for hit in hits}
    assert freqs == {0: 1, 1: 1, 3: 2}
