"""How sure a reply is: its floor, what cannot be judged, and which embedders are known."""

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.distributed import Request, Statistics, merge
from hyrecall.embed import HashEmbedder
from hyrecall.recipe import Coefficients, Fill, Lexical, Recipe

ROWS = [
    {"id": 1, "text": "Ann drinks green tea", "kind": "habit", "number": 1},
    {"id": 2, "text": "rain in May", "kind": "weather", "number": 2},
    {"id": 3, "text": "Ann bought a car in 2023", "kind": "thing", "number": 3},
]
SCHEMA = hr.Schema(key="id", cell=None, text="text", attributes=("kind", "number"))
SURE, UNSURE = "who drinks green tea", "rain for Bob"


class Named:
    """An embedder under another's name, whose vectors are those of hashes."""

    is_prompt = True
    dim = 64

    def __init__(self, model: str) -> None:
        self.model = model

    def embed(self, texts: Sequence[str]) -> Any:
        return HashEmbedder(dim=64).embed(texts)


@pytest.fixture(scope="module")
def index() -> hr.Index:
    return hr.Index.build(ROWS, SCHEMA)


def vectors_of(model: str) -> hr.Index:
    schema = hr.Schema(key="id", cell=None, text="text", vector="v")
    return hr.Index.build(ROWS, schema, embed=Named(model))


def test_a_floor_leaves_a_reply_as_it_is_or_without_hits(index: hr.Index) -> None:
    plain = index.recall(text=[SURE, UNSURE], query_keys=["a", "b"], facets="kind")
    sure, unsure = plain.confidence
    assert sure is not None
    assert unsure is not None
    assert sure > unsure > 0
    for floor, n_left in ((0.0, 2), (unsure, 2), (sure, 1), (1.0, 0)):
        hits = index.recall(
            text=[SURE, UNSURE], query_keys=["a", "b"], facets="kind", min_confidence=floor
        )
        assert [list(one.keys) for one in hits] == [
            list(one.keys) if at < n_left else [] for at, one in enumerate(plain)
        ]
        assert hits.confidence == [sure, unsure]
        assert [one.query_key for one in hits] == ["a", "b"]
        assert hits.total == plain.total
        assert hits.facets == plain.facets
        assert hits[1].n_candidates == plain[1].n_candidates
    assert index.recall_one(text=SURE, min_confidence=sure).keys == plain[0].keys
    assert not index.recall_one(text=UNSURE, min_confidence=sure)


def test_what_a_floor_left_out_is_told(index: hr.Index) -> None:
    hits = index.recall_one(text=UNSURE, min_confidence=0.9)
    floor, page = hits.explain_dropped().stages
    assert (floor.stage, floor.n_in, floor.n_out) == ("min_confidence", 1, 0)
    (row,) = floor.rows
    assert (row.key, row.reason, row.value, row.bound) == (2, "floor", hits.confidence, 0.9)
    assert (page.stage, page.n_in, page.n_dropped) == ("limit", 0, 0)
    kept = index.recall_one(text=UNSURE, min_confidence=0.0)
    assert [one.n_dropped for one in kept.explain_dropped().stages] == [0, 0]


def test_nothing_found_is_nothing_sure(index: hr.Index) -> None:
    assert index.recall(text=["coffee", "?"]).confidence == [0.0, 0.0]
    empty = hr.Index.build(pa.Table.from_pylist(ROWS).slice(0, 0), SCHEMA)
    assert empty.recall_one(text=SURE).confidence == 0.0


def test_of_a_text_that_was_refused_nothing_is_known(index: hr.Index) -> None:
    text = " ".join(f"w{at}" for at in range(65_537))
    hits = index.recall_one(text=text, min_confidence=0.5)
    assert hits.degraded
    assert hits.confidence is None


def test_names_and_numbers_that_nobody_holds_lower_it(index: hr.Index) -> None:
    def of(text: str) -> hr.Explanation:
        return index.recall_one(text=text)[0].explain()

    shares = {
        "the car of Ann": 0.0,
        "the car of Bob": 1.0,
        "is it Bob or Ann, 2023 or 1999": 0.5,
        "bob bought a car": 0.0,
    }
    for text, share in shares.items():
        made = of(text).reply_confidence
        assert made is not None
        assert {one.name: one.value for one in made.signals}["names"] == share


def test_each_query_has_the_confidence_of_its_own_recipe(index: hr.Index) -> None:
    short = Recipe(name="words", arms=(Lexical(),), fusion=hr.RRF())
    filled = short.replace(name="filled", fill=Fill("number"))
    both = index.recall(text=[SURE, UNSURE], recipe=[short, filled], limit=3)
    alone = index.recall(text=[SURE, UNSURE])
    assert both.confidence == alone.confidence
    assert [hit.confidence for hit in both[1]][1:] == [None, None], "they fill the list"
    floored = index.recall(text=[SURE, UNSURE], recipe=[short, filled], min_confidence=0.9)
    assert [len(one) for one in floored] == [0, 0]


def test_vectors_count_where_their_embedder_is_known() -> None:
    for model, with_words, alone in (
        ("all-MiniLM-L6-v2", "minilm", "minilm alone"),
        ("wordllama/l2_supercat_256", "static", "static alone"),
        ("mine", "words", None),
    ):
        index = vectors_of(model)
        vector = HashEmbedder(dim=64).embed([SURE])[0]
        made = index.recall_one(text=SURE)[0].explain().reply_confidence
        assert made is not None
        assert made.model == with_words
        hits = index.recall_one(vector=vector)
        made = hits[0].explain().reply_confidence
        assert (None if made is None else made.model) == alone
        assert (hits.confidence is None) == (hits[0].confidence is None) == (alone is None)
        floor: dict[str, Any] = {"vector": vector, "min_confidence": 0.5}
        if alone is None:
            told = "min_confidence: expected a text, or a vector of a known embedder, got"
            with pytest.raises(hr.OptionError, match=told):
                index.recall_one(**floor)
        else:
            index.recall_one(**floor)


BOTH = Coefficients(
    query={"base": -1, "cosine": 2, "lead": 1}, hit={"words": 1, "base": 0, "query": 1}
)
WORDS = Coefficients(query={"base": -1, "names": -1}, hit={"base": 0, "query": 1})
VECTORS = Coefficients(query={"base": -1, "cosine": 2}, hit={"base": 0, "query": 1})


def test_a_recipes_coefficients_judge_queries_that_ask_what_they_weigh() -> None:
    index, vector = vectors_of("mine"), HashEmbedder(dim=64).embed([SURE])[0]
    for own, asked, model in (
        (BOTH, {"text": SURE, "vector": vector}, "recipe"),
        (BOTH, {"text": SURE}, "recipe"),  # which the index embeds
        (BOTH, {"vector": vector}, None),
        (WORDS, {"text": SURE}, "recipe"),
        (WORDS, {"vector": vector}, None),
        (VECTORS, {"vector": vector}, "recipe"),
        (VECTORS, {"text": SURE, "vector": vector}, "recipe"),
    ):
        recipe = Recipe.from_json(hr.recipes.default.replace(confidence=own).to_json())
        assert recipe.confidence == own
        hits = index.recall_one(**asked, recipe=recipe)
        explained = hits[0].explain()
        made = explained.reply_confidence
        assert (None if made is None else made.model) == model
        if made is None:
            assert hits.confidence is None
            continue
        assert [(one.name, one.weight) for one in made.signals] == [*own.query]
        assert made.value == hits.confidence
        assert explained.confidence is not None
        assert [(one.name, one.weight) for one in explained.confidence.signals] == [*own.hit]
        assert "by recipe" in str(explained)
        floored = index.recall_one(**asked, recipe=recipe, min_confidence=hits.confidence)
        assert floored.keys == hits.keys
    recipes = [hr.recipes.default.replace(confidence=VECTORS), hr.recipes.default]
    mixed = index.recall(text=[SURE, SURE], recipe=recipes)
    told = [one[0].explain().reply_confidence for one in mixed]
    assert [None if one is None else one.model for one in told] == ["recipe", "words"]


def test_coefficients_without_their_vector_leave_a_text_to_the_package(index: hr.Index) -> None:
    by_own = index.recall_one(text=SURE, recipe=hr.recipes.default.replace(confidence=BOTH))
    assert by_own.confidence == index.recall_one(text=SURE).confidence


def test_what_no_arm_ranked_here_is_refused(index: hr.Index) -> None:
    hits = index.recall(text=[SURE])
    with pytest.raises(hr.OptionError, match="hits: expected hits as a recall gives them"):
        _ = pickle.loads(pickle.dumps(hits)).confidence
    with pytest.raises(hr.OptionError, match="hits: expected hits by score, got hits in the order"):
        _ = index.recall(text=[SURE], sort="kind").confidence
    told = "min_confidence: expected None where columns order the rows"
    with pytest.raises(hr.OptionError, match=told):
        index.recall(text=[SURE], sort="kind", min_confidence=0.5)
    request = Request(text=[SURE])
    summed = Statistics.sum([index.statistics(request)])
    merged = merge(request, [index.candidates(request, summed)])
    with pytest.raises(hr.OptionError, match="hits: expected hits of one index"):
        _ = merged.confidence


def test_stages_and_floors_leave_it_as_it_is(index: hr.Index) -> None:
    plain = index.recall_one(text=SURE).confidence
    assert index.recall_one(text=SURE, shaping=(hr.Budget(1),)).confidence == plain
    assert index.recall_one(text=SURE, group="kind").confidence == plain


def test_the_terms_add_up(index: hr.Index) -> None:
    made = index.recall_one(text=SURE)[0].explain()
    for one in (made.confidence, made.reply_confidence):
        assert one is not None
        assert sum(signal.product for signal in one.signals) == pytest.approx(one.logit)
        assert one.value == pytest.approx(1 / (1 + np.exp(-one.logit)))


def test_neither_limit_nor_depth_changes_how_sure_a_reply_is() -> None:
    table = pa.table({"id": range(30), "text": ["tea cup"] * 29 + ["green tea"]})
    with hr.Index.build(table, hr.Schema(key="id", cell=None, text="text")) as index:
        asked = [(1, 5), (1, 30), (10, 10), (10, 30), (100, 30)]
        found = [index.recall_one(text="tea", depth=a, limit=b) for a, b in asked]
        assert len({one.confidence for one in found}) == 1
