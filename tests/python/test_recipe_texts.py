"""A recipe reads every form of texts that a call may have, and stages get the words as given."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from seams import Dense, Fill, Lexical, Newest, Recipe, Regex, TieBreak

TEXTS = ("red tea", "green tea", "red and green", "blue")
TABLE = pa.table({"id": ["a", "b", "c", "d"], "text": TEXTS, "at": [1, 2, 3, 4]})
EYE = np.eye(4, dtype=np.float32)
ALL = Recipe(name="all", arms=(Lexical(mode="all"),), fusion=hr.RRF())
NO = np.zeros(4, np.float32)


@pytest.fixture(scope="module")
def index() -> hr.Index:
    schema = hr.Schema(key="id", cell=None, text="text", vector="v", attributes="at")
    return hr.Index.build(TABLE, schema, vectors={"v": EYE})


FORMS: dict[str, Callable[[list[str]], Any]] = {
    "list": list,
    "tuple": tuple,
    "numpy": np.array,
    "numpy objects": lambda texts: np.array(texts, object),
    "arrow": pa.array,
    "chunked": lambda texts: pa.chunked_array([pa.array(texts)]),
    "mapping": lambda texts: {"text": np.array(texts)},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_mode_reads_texts_in_every_form(form: str, index: hr.Index) -> None:
    hits = index.recall(text=FORMS[form](["red green", "tea"]), recipe=ALL)
    assert [sorted(one.keys) for one in hits] == [["c"], ["a", "b"]]


@pytest.mark.parametrize("form", FORMS)
def test_a_blank_text_is_refused_in_every_form(form: str, index: hr.Index) -> None:
    with pytest.raises(hr.OptionError, match=r"text\[1\]: expected words"):
        index.recall(text=FORMS[form](["red", " "]), recipe=ALL.replace(on_empty="error"))


@pytest.mark.parametrize("text", ["red tea", hr.All("red", "tea")], ids=repr)
@pytest.mark.parametrize("lexical", [Lexical(mode="all"), Lexical(stopwords=("red",))], ids=repr)
def test_a_reranker_gets_the_words_as_they_were_asked(
    text: Any, lexical: Lexical, index: hr.Index
) -> None:
    heard = []

    def listen(query: str, texts: list[str]) -> list[float]:
        heard.append(query)
        return [float(len(one)) for one in texts]

    recipe = Recipe(name="r", arms=(lexical,), fusion=hr.RRF(), shaping=(hr.RerankBy(listen),))
    assert not index.recall(text=[text], recipe=recipe).degraded
    assert heard == ["red tea"]


def test_a_reranker_without_words_to_go_by_degrades_the_reply(index: hr.Index) -> None:
    stage = hr.RerankBy(lambda query, texts: [0.0] * len(texts))
    hits = index.recall(text=["tea", None], vectors=EYE[:2], shaping=stage)
    assert hits.trace.degraded == ("RerankBy kept the order: no text for 1",)


def test_an_arm_beside_the_words_gets_its_own_text(index: hr.Index) -> None:
    recipe = Recipe(name="r", arms=(Lexical(),), more=(Regex("text"),), fusion=hr.RRF())
    own = index.recall(text={"text": ["red"], "regex": ["bl.e"]}, recipe=recipe)
    assert own[0].n_candidates == {"text": 2, "regex": 1}
    shared = index.recall(text={"text": ["red"]}, recipe=recipe)
    assert shared[0].n_candidates == {"text": 2, "regex": 2}


@pytest.mark.parametrize("argument", ["text", "vectors"])
def test_an_unknown_arm_is_refused_beside_a_recipe(argument: str, index: hr.Index) -> None:
    given = {"text": {"text": ["red"]}, "vectors": {"v": EYE[:1]}}
    given[argument]["bogus"] = given[argument][{"text": "text", "vectors": "v"}[argument]]
    recipe = Recipe(name="r", arms=(Lexical(), Dense()), fusion=hr.RRF())
    with pytest.raises(hr.OptionError, match=f"{argument}: expected arms of"):
        index.recall(**given, recipe=recipe)


def test_a_blank_text_changes_nothing_for_the_others(index: hr.Index) -> None:
    for recipe in (hr.recipes.default, ALL):
        for limit in (10, 200):
            alone = index.recall(text=["tea"], recipe=recipe, limit=limit)
            batch = index.recall(text=["tea", "", "  "], recipe=recipe, limit=limit)
            assert batch[0].keys == alone[0].keys
            assert [len(one) for one in batch] == [len(alone[0]), 0, 0]


def test_fill_goes_by_what_each_query_asks(index: hr.Index) -> None:
    recipe = Recipe(
        name="r",
        arms=(Lexical(), Dense(min_score=hr.Above(0.0))),
        fusion=hr.RRF(),
        fill=Fill("at"),
        tie_break=(TieBreak("id"),),
    )
    texts = [None, "red", "blue", "tea"]
    vectors = np.stack([EYE[0], NO, EYE[1], EYE[2]])
    batch = index.recall(text=texts, vectors=vectors, recipe=recipe, limit=4)
    for query in range(4):
        one = index.recall(
            text=texts[query : query + 1],
            vectors=vectors[query : query + 1],
            recipe=recipe,
            limit=4,
        )
        table = batch.to_arrow().filter(batch.to_arrow()["query"].to_numpy() == query)
        assert table.drop_columns("query").equals(one.to_arrow().drop_columns("query"))
    assert [len(one) for one in batch] == [4, 4, 2, 3]
    # The first has no text: its rows have no score there, filled or not.
    assert [hit.bm25_score for hit in batch[0]] == [None] * 4
    assert [hit.bm25_score for hit in batch[1][2:]] == [0.0, 0.0]


def test_what_a_stage_dropped_is_not_filled_in_again(index: hr.Index) -> None:
    recipe = Recipe(
        name="r", arms=(Dense(),), fusion=hr.RRF(), fill=Fill("at", "always"),
        shaping=(hr.Gate(0.5),),
    )  # fmt: skip
    found = index.recall(vectors=EYE[:1], recipe=recipe)[0]
    assert found.keys == ["a"]
    floor = recipe.replace(shaping=(), arms=(Dense(min_score=0.5),))
    assert index.recall(vectors=EYE[:1], recipe=floor)[0].keys == ["a", "d", "c", "b"]


def test_an_analyzer_is_asked_of_the_arms_that_run_alone() -> None:
    schema = hr.Schema(
        key="id",
        cell=None,
        text={"a": hr.Text("text", analyzer=hr.Analyzer("porter")), "b": "text"},
    )
    made = hr.Index.build(TABLE.select(["id", "text"]), schema)
    recipe = Recipe(name="r", arms=(Lexical(arms=("a",)),), fusion=hr.RRF(), analyzer="porter")
    assert made.recall(text=["blue"], recipe=recipe)[0].keys == ["d"]
    with pytest.raises(hr.OptionError, match="in arm 'b'"):
        made.recall(text=["blue"], recipe=recipe.replace(arms=(Lexical(),)))


def test_the_trace_says_what_one_arm_alone_leaves_without_effect(index: hr.Index) -> None:
    recipe = Recipe(
        name="r",
        arms=(Lexical(weight=2.0, scale="minmax"), Dense()),
        fusion=hr.WeightedSum(balance=0.5),
        min_fused=1e9,
    )
    notes = index.recall(text=["red"], recipe=recipe).trace.notes
    named = [note.split()[0] for note in notes if note.endswith("has no effect: only text runs")]
    assert named == ["min_fused", "balance", "weight", "scale"]
    assert index.recall(text=["red"], vectors=EYE[:1], recipe=recipe).n_hits == 0
    fusion = hr.WeightedSum(balance=0.5)
    alone = index.recall(text=["red"], arms=Newest("at"), fusion=fusion)
    assert "balance has no effect: arms of one kind run" in alone.trace.notes
