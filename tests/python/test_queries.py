"""Typed text queries: what each matches, what it refuses, and that text is never parsed."""

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


MADE: list[tuple[Any, type[hr.HyrecallError], str]] = [
    (lambda: hr.Phrase(["a"]), hr.DTypeError, "Phrase: expected a str, got list"),
    (
        lambda: hr.Phrase("a b", slop=-1),
        hr.OptionError,
        "slop: expected an int in [0, 1000], got -1",
    ),
    (
        lambda: hr.Phrase("a b", slop=1001),
        hr.OptionError,
        "slop: expected an int in [0, 1000], got 1001",
    ),
    (
        lambda: hr.Phrase("a b", slop=True),
        hr.OptionError,
        "slop: expected an int in [0, 1000], got True",
    ),
    (
        lambda: hr.Phrase("a b", slop=1.0),
        hr.OptionError,
        "slop: expected an int in [0, 1000], got 1.0",
    ),
    (hr.All, hr.OptionError, "All: expected at least one query, got none"),
    (hr.Any, hr.OptionError, "Any: expected at least one query, got none"),
    (lambda: hr.Prefix(None), hr.DTypeError, "Prefix: expected a str, got NoneType"),
    (lambda: hr.Boost("a", 0), hr.OptionError, "factor: expected a number in [2^-20, 2^20], got 0"),
    (
        lambda: hr.Boost("a", -1),
        hr.OptionError,
        "factor: expected a number in [2^-20, 2^20], got -1",
    ),
    (
        lambda: hr.Boost("a", 2**21),
        hr.OptionError,
        f"factor: expected a number in [2^-20, 2^20], got {2**21}",
    ),
    (
        lambda: hr.Boost("a", 10**400),
        hr.OptionError,
        f"factor: expected a number in [2^-20, 2^20], got {10**400}",
    ),
    (
        lambda: hr.Boost("a", float("nan")),
        hr.OptionError,
        "factor: expected a number in [2^-20, 2^20], got nan",
    ),
    (
        lambda: hr.Boost("a", "2"),
        hr.OptionError,
        "factor: expected a number in [2^-20, 2^20], got '2'",
    ),
]


@pytest.mark.parametrize(("make", "kind", "message"), MADE)
def test_queries_refuse_by_name_when_made(
    make: Any, kind: type[hr.HyrecallError], message: str
) -> None:
    with pytest.raises(kind) as caught:
        make()
    assert str(caught.value) == message
    assert caught.value.argument == message.split(":", maxsplit=1)[0]  # type: ignore[attr-defined]


@pytest.mark.parametrize("part", [None, 5, ["a"], b"a", hr.Filter(id=1)])
def test_parts_must_be_queries(part: Any) -> None:
    wish = "expected a str, hr.Phrase, hr.Prefix, hr.All, hr.Any or hr.Boost, got "
    for make in (lambda: hr.All("a", part), lambda: hr.Any(part), lambda: hr.Boost(part, 2)):
        with pytest.raises(hr.DTypeError, match=wish):
            make()


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
