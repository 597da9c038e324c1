"""Recipes are plain data, and one pipeline reads them."""

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import recipes
from seams import Dense, Lexical, Recipe, TieBreak, read_words

PRESETS = {name: getattr(recipes, name) for name in recipes.__all__}
EYE = np.eye(4, dtype=np.float32)
TEXTS = ("postgres replication", "logical replication on the primary", "lunch", "blue green deploy")
TABLE = pa.table(
    {
        "id": ["a", "b", "c", "d"],
        "text": TEXTS,
        "pinned": [False, True, False, True],
        "source": ["memory", "session", "summary", "memory"],
        "priority": [1, 3, None, 3],
    }
)


def built(analyzer: str = "unicode", **options: Any) -> hr.Index:
    schema = hr.Schema(
        key="id", cell=None, text="text", vector="v", attributes=("pinned", "source", "priority")
    )
    analyzers = {"analyzer": hr.Analyzer(analyzer)}
    return hr.Index.build(TABLE, schema, vectors={"v": EYE}, **analyzers, **options)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_goes_through_json_and_shows_on_one_screen(name: str) -> None:
    recipe = PRESETS[name]
    assert recipe.name == name
    assert Recipe.from_json(recipe.to_json()) == recipe
    lines = recipe.explain().splitlines()
    assert lines[0] == f"recipe {name}"
    assert 4 <= len(lines) <= 24
    assert max(map(len, lines)) <= 120


def test_recipe_modules_hold_constants_and_dataclass_calls_only() -> None:
    """No second ranking code: a preset has nothing to run."""
    allowed = (ast.Constant, ast.Call, ast.Name, ast.Load, ast.Tuple, ast.keyword, ast.Dict,
               ast.Attribute, ast.UnaryOp, ast.USub)  # fmt: skip
    for node in ast.parse(Path(recipes.__file__).read_text()).body:
        if isinstance(node, ast.ImportFrom):
            assert node.module is not None
            assert node.module.startswith(("hyrecall.", "__future__"))
        elif isinstance(node, ast.Expr):
            assert isinstance(node.value, ast.Constant)
        else:
            assert isinstance(node, ast.Assign)
            if ast.unparse(node.targets[0]) != "__all__":
                assert all(isinstance(part, allowed) for part in ast.walk(node.value))


BAD_JSON: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda d: "{", "recipe: expected JSON"),
    (lambda d: json.dumps([d]), "recipe: expected an object of kind Recipe"),
    (lambda d: json.dumps(d | {"kind": "Recept"}), "recipe: expected a kind of"),
    (lambda d: json.dumps(d | {"deepness": 3}), "recipe: expected settings of"),
    (lambda d: json.dumps({k: v for k, v in d.items() if k != "arms"}), "recipe: expected the set"),
    (lambda d: json.dumps(d | {"depth": 0}), "depth: expected an int in [1, 2^31), got 0"),
    (lambda d: json.dumps(d | {"arms": [{"kind": "Lexical", "mode": "some"}]}), "mode: expected"),
    (lambda d: json.dumps(d | {"fusion": {"kind": "RRF", "k": 1}}), "recipe.fusion: expected sett"),
]


@pytest.mark.parametrize(("change", "message"), BAD_JSON, ids=[message for _, message in BAD_JSON])
def test_json_that_is_no_recipe_is_refused_by_name(change: Any, message: str) -> None:
    with pytest.raises(hr.HyrecallError) as caught:
        Recipe.from_json(change(json.loads(recipes.l0.to_json())))
    assert str(caught.value).startswith(message)


def test_a_recipe_with_a_function_is_no_plain_data() -> None:
    stage = hr.RerankBy(lambda query, texts: [0.0] * len(texts))
    recipe = recipes.loom.replace(shaping=(stage,))
    with pytest.raises(hr.DTypeError, match="functions cannot be written"):
        recipe.to_json()


MODES: list[tuple[Lexical, str, object]] = [
    (Lexical(), "blue  green", "blue  green"),
    (Lexical(), "  ", None),
    (Lexical(mode="all"), "blue green", hr.All("blue", "green")),
    (Lexical(mode="and_prefix"), "kube c++", hr.All(hr.Prefix("kube"), hr.Phrase("c++"))),
    (Lexical(max_terms=2), "a b c d", "a b"),
    (Lexical(stopwords=("the", "of")), "The end of it", "end it"),
    (Lexical(stopwords=("the", "of")), "of the", "of the"),
    (Lexical(phrases=True), 'say "blue green"', None),
    (Lexical(phrases=True), '"b g" "x y"', hr.All(hr.Phrase("b g"), hr.Phrase("x y"))),
    (Lexical(), 'say "blue green"', 'say "blue green"'),
]  # fmt: skip


@pytest.mark.parametrize(("part", "text", "expected"), MODES, ids=lambda value: repr(value)[:40])
def test_plain_text_is_read_as_the_mode_says(part: Lexical, text: str, expected: object) -> None:
    made = read_words(text, part)
    if part.phrases and text.startswith("say"):
        first = hr.Boost(hr.Phrase("blue green"), 0.5)
        expected = hr.All(first, hr.Any(first, "say"))
    assert made == expected


def test_a_phrase_counts_once_beside_other_words() -> None:
    index = built("porter")
    alone = index.recall_one(text=hr.Phrase("blue green"))[0].score
    recipe = Recipe(name="p", arms=(Lexical(phrases=True),), fusion=hr.RRF())
    (hit,) = index.recall_one(text='"blue green" lunch', recipe=recipe)
    assert (hit.key, hit.score) == ("d", alone)


def test_a_recipe_runs_the_arms_that_the_call_asks() -> None:
    index = built()
    loom = recipes.loom.replace(fill=None, tie_break=(), on_empty="empty")
    only_text = index.recall(text=["replication"], recipe=loom)
    assert only_text.trace.arms == ("text",)
    assert [hit.score == hit.bm25_score for hit in only_text[0]] == [True, True]
    assert index.recall(vectors=EYE[:1], recipe=loom).trace.arms == ("v",)


@pytest.mark.parametrize(("alpha", "runs"), [(0.0, "text"), (1.0, "v")])
def test_an_arm_without_weight_takes_its_floor_and_constants_with_it(
    alpha: float, runs: str
) -> None:
    arms = (Lexical(bm25=hr.BM25("okapi")), Dense(min_score=0.5))
    by_alpha = Recipe(name="x", arms=arms, fusion=hr.RRF(alpha=alpha))
    weights = {"text": Lexical(bm25=hr.BM25("okapi"), weight=1 - alpha),
               "v": Dense(min_score=0.5, weight=alpha)}  # fmt: skip
    by_weight = Recipe(name="x", arms=tuple(weights.values()), fusion=hr.WeightedSum())
    for recipe in (by_alpha, by_weight):
        hits = built().recall(text=["replication"], vectors=EYE[:1], recipe=recipe)
        assert hits.trace.arms == (runs,)
        assert hits[0].keys == (["a", "b"] if runs == "text" else ["a"])


@pytest.mark.parametrize("descending", [False, True])
def test_tie_break_columns_decide_before_the_insertion_number(*, descending: bool) -> None:
    ties = (TieBreak("priority", descending=descending), TieBreak("id", descending=True))
    recipe = Recipe(name="t", arms=(Dense(),), fusion=hr.RRF(), tie_break=ties)
    hits = built().recall_one(vector=np.ones(4), recipe=recipe)
    assert len({hit.score for hit in hits}) == 1
    assert hits.keys == (["d", "b", "a", "c"] if descending else ["a", "d", "b", "c"])
    assert (
        built().recall_one(vector=np.ones(4), recipe=recipe, limit=2, offset=1).keys
        == hits.keys[1:3]
    )


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"recipe": "loom"}, "recipe: expected an hr.Recipe"),
    ({"recipe": recipes.loom, "fusion": hr.RRF()}, "fusion: expected none beside recipe="),
    ({"recipe": recipes.loom, "shaping": hr.Gate(0)}, "shaping: expected none beside recipe="),
    ({"recipe": recipes.loom, "min_score": 0.5}, "min_score: expected none beside recipe="),
    ({"recipe": recipes.l0}, "recipe: expected the analyzer 'unicode61' ("),
    ({"recipe": recipes.honeycomb}, "Recency.column: expected a column of"),
    ({"recipe": recipes.loom}, "Fill.column: expected an attribute column of"),
    (
        {"recipe": Recipe(name="x", arms=(Dense(arms=("w",)),), fusion=hr.RRF())},
        "recipe: expected arms of ['v'], got 'w'",
    ),
]


@pytest.mark.parametrize(("options", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(hr.HyrecallError) as caught:
        built().recall(text=["lunch"], vectors=EYE[:1], **options)
    assert str(caught.value).startswith(message)


def test_a_tie_after_a_stage_goes_by_the_recipes_tie_break() -> None:
    """Session text comes first in the fused list; with no weight at all both score 0."""
    texts = ["tea tea", "tea and milk and more", "tea"]
    table = pa.table({"id": [1, 2, 3], "text": texts, "source": ["session", "summary", None]})
    index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text", attributes="source"))
    plain = Recipe(name="plain", arms=(Lexical(),), fusion=hr.RRF())
    before = index.recall_one(text="tea", recipe=plain).keys
    assert before.index(1) < before.index(2)
    weights = hr.Provenance("source", {"session": 0.0, "summary": 0.0}, default=0.0)
    orders = {
        (): [1, 2, 3],
        (TieBreak("source", prefer=("summary", "session")),): [2, 1, 3],
        (TieBreak("source"),): [1, 2, 3],
        (TieBreak("source", descending=True),): [2, 1, 3],
        (TieBreak("source", prefer=("session",)),): [1, 2, 3],
        (TieBreak("source", prefer=("memory",)), TieBreak("id", descending=True)): [3, 2, 1],
    }
    for ties, expected in orders.items():
        recipe = plain.replace(shaping=(weights,), tie_break=ties)
        assert index.recall_one(text="tea", recipe=recipe).keys == expected
    with pytest.raises(hr.OptionError, match="prefer: expected prefer or descending, not both"):
        TieBreak("source", descending=True, prefer=("memory",))
