"""Queries that leave documents out, and words that stand for several terms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hyrecall as hr
from hyrecall.distributed import ShardedIndex
from oracle.words import edits_between

TEXTS = ["hot tea", "hot milk", "iced tea", "milk", None, "tea and milk"]


def table(texts: list[str | None]) -> pa.Table:
    vectors = pa.array(np.eye(len(texts), 8, dtype=np.float32).tolist(), pa.list_(pa.float32(), 8))
    return pa.table({"id": list(range(len(texts))), "text": texts, "v": vectors})


SCHEMA = hr.Schema(key="id", cell=None, text="text", vector="v")


@pytest.fixture(scope="module", params=["index", "shards"])
def index(request: pytest.FixtureRequest) -> Any:
    rows = table(TEXTS)
    if request.param == "index":
        return hr.Index.build(rows, SCHEMA, device="cpu")
    return ShardedIndex.build([rows.slice(0, 3), rows.slice(3)], SCHEMA, device="cpu")


def keys_of(index: Any, query: Any) -> set[Any]:
    return set(index.recall(text=[query], vectors={}, limit=50)[0].keys)


def index_of(texts: list[str | None], analyzer: hr.Analyzer | None = None) -> hr.Index:
    return hr.Index.build(table(texts), SCHEMA, analyzer=analyzer, device="cpu")


def test_a_document_that_only_a_not_keeps_out_has_no_score(index: Any) -> None:
    asked = hr.Any("tea", hr.Not("milk"))
    near = [[1.0] * 8]
    hits = index.recall(text=[asked], vectors=near, fusion=hr.WeightedSum(), limit=6)[0]
    scores = {hit.key: hit.arm_score("text") for hit in hits}
    assert {key for key, score in scores.items() if score is None} == {4, 5}
    assert {key for key, score in scores.items() if score == 0.0} == {1, 3}
    assert keys_of(index, asked) == {0, 2}


def test_a_not_changes_no_score() -> None:
    index = index_of(TEXTS)
    plain = {hit.key: hit.score for hit in index.recall_one(text="tea", vector=None)}
    found = index.recall_one(text=hr.Any("tea", hr.Not(hr.Phrase("hot tea"))), vector=None)
    assert {hit.key: hit.score for hit in found} == {k: plain[k] for k in (2, 5)}
    for hit in found:
        told = hit.explain()
        assert told.score == hit.score
        assert [term.term for term in told.components[0].terms] == ["tea"]


def test_nots_in_groups(index: Any) -> None:
    assert keys_of(index, hr.All("milk", hr.Not(hr.Any("hot", "and")))) == {3}
    assert keys_of(index, hr.Any(hr.All("tea", hr.Not("hot")), hr.Phrase("hot tea"))) == {0, 2, 5}
    assert keys_of(index, hr.All("tea", hr.Not(hr.All("milk", hr.Not("and"))))) == {0, 2, 5}
    assert keys_of(index, hr.Any("tea", hr.Not("--"))) == {0, 2, 5}
    assert keys_of(index, hr.Any("--", hr.Not("tea"))) == set()
    assert keys_of(index, hr.All(hr.All("--", hr.Not("hot")), "tea")) == {2, 5}
    assert keys_of(index, hr.Any(hr.All("--", hr.Not("hot")), "tea")) == {0, 2, 5}


WORDS = [
    "mouse",
    "moose",
    "house",
    "mouses",
    "mosue",
    "mose",
    "état",
    "etat",
    "日本語",
    "tea-bag",
    "x",
]


@given(st.text("mouseé日", min_size=1, max_size=6), st.sampled_from([1, 2]))
def test_a_fuzzy_word_finds_the_terms_within_its_edits(word: str, edits: int) -> None:
    index = hr.Index.build(table([*WORDS]), SCHEMA, analyzer=hr.Analyzer("word"), device="cpu")
    near = {at for at, one in enumerate(WORDS) if any(
        edits_between(token, word) <= edits for token in one.replace("-", " ").split()
    )}  # fmt: skip
    assert keys_of(index, hr.Fuzzy(word, edits)) == near


def test_a_fuzzy_word_of_a_stemming_analyzer_is_compared_with_stems() -> None:
    texts = ["running", "charging stations", "the cat"]
    index = index_of([*texts], hr.Analyzer("unicode:english", stopwords="english"))
    assert keys_of(index, hr.Fuzzy("runing")) == {0}
    assert keys_of(index, hr.Fuzzy("chargin")) == set()  # two edits from "charg"
    assert keys_of(index, hr.Fuzzy("chargin", 2)) == {1}
    assert keys_of(index, hr.Fuzzy("staton")) == {1}
    assert keys_of(index, hr.Fuzzy("the")) == set()


def test_words_before_a_fuzzy_word_stand_right_before_it(index: Any) -> None:
    assert keys_of(index, hr.Fuzzy("hot tae")) == {0}
    assert keys_of(index, hr.Fuzzy("milk tae")) == set()


def test_a_phrase_whose_last_word_is_a_prefix(index: Any) -> None:
    assert keys_of(index, hr.Phrase("hot t", prefix_last=True)) == {0}
    assert keys_of(index, hr.Phrase("tea m", slop=1, prefix_last=True)) == {5}
    assert keys_of(index, hr.Phrase("tea m", prefix_last=True)) == set()
    assert keys_of(index, hr.Phrase("mi", prefix_last=True)) == keys_of(index, hr.Prefix("mi"))


ANYTHING = [
    "",
    " ",
    "?!",
    "東京都",
    "ราชา",
    "don't",
    "well-k",
    "the",
    "https://a.b/c",
    "\0",
    "a" * 5000,
]


@pytest.mark.parametrize("name", ["unicode", "unicode61", "word", "unicode:english", "porter"])
@pytest.mark.parametrize("text", ANYTHING)
def test_what_people_type_is_never_an_error(name: str, text: str) -> None:
    index = index_of(["the 東京都 don't", text], hr.Analyzer(name))
    last = hr.Phrase(text, slop=1, prefix_last=True)
    asked = [hr.Fuzzy(text), hr.Fuzzy(text, 2), last, hr.Any("the", hr.Not(last))]
    hits = index.recall(text=asked, vectors={})
    assert hits.trace.degraded == ()
