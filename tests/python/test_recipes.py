"""Recipes are plain data, and one pipeline reads them: their parts, texts and lists."""

import ast
import dataclasses
import json
from collections.abc import Callable
from dataclasses import MISSING, fields, replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import arms, recipes
from hyrecall.recipe import Coefficients
from seams import (
    Dense,
    EdgeLexical,
    Fill,
    Lexical,
    Newest,
    Recipe,
    Regex,
    Tables,
    TieBreak,
    WithThreads,
    read_words,
    reply_of,
)
from seams import ask_Listed as Listed
from several_recipes import DIM, RECIPES, World, asks, world
from several_recipes import NOW as LISTED_NOW

# ---- a recipe ----

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


# ---- the parts of a recipe refuse by name what they cannot be ----

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLAIN = Recipe(name="plain", arms=(Lexical(),), fusion=hr.RRF())
BALANCED = hr.WeightedSum(balance=0.5)


def made(**options: Any) -> Recipe:
    return PLAIN.replace(**options)


@pytest.mark.parametrize("kind", ['["x"]', "5", "null", '{"kind": "RRF"}'])
def test_a_kind_that_is_no_name_is_refused(kind: str) -> None:
    with pytest.raises(hr.OptionError, match=r"recipe: expected a kind of"):
        Recipe.from_json(f'{{"kind": {kind}}}')


@pytest.mark.parametrize("text", ['{"kind": "Provenance", "column": "a", "weights": "xy"}',
                                  '{"kind": "WeightedSum", "normalize": ["x"]}',
                                  b"\xff", "[" * 100_000])  # fmt: skip
def test_json_never_fails_otherwise_than_by_name(text: Any) -> None:
    with pytest.raises(hr.HyrecallError):
        Recipe.from_json(text)


def test_one_part_alone_is_a_tuple_of_one() -> None:
    newest, tie = arms.Newest("at"), TieBreak("id")
    recipe = Recipe(
        name="one", arms=Lexical(), fusion=hr.RRF(), more=newest, on_no_match=newest,
        tie_break=tie, expansion=hr.SharedTags("tags"), shaping=hr.Gate(0),
    )  # type: ignore[arg-type]  # fmt: skip
    assert (recipe.arms, recipe.more, recipe.on_no_match) == ((Lexical(),), (newest,), (newest,))
    assert (recipe.tie_break, recipe.shaping) == ((tie,), (hr.Gate(0),))


def test_a_balance_takes_arms_that_are_scaled_by_min_max() -> None:
    parts = (Lexical(scale="minmax"), Dense())
    assert made(fusion=BALANCED, arms=parts).arms == parts


ONE = np.int64(1)
TENTH = np.float32(0.1)


def with_every_kind() -> Recipe:
    return Recipe(
        name="numpy",
        arms=(
            Lexical(phrases=np.True_, max_terms=ONE, weight=TENTH, min_score=TENTH),  # type: ignore[arg-type]
            Dense(min_score=np.float32(0.3), weight=ONE),  # type: ignore[arg-type]
        ),
        fusion=hr.RRF(rank_constant=np.float64(7)),
        more=(arms.Tags("tags", depth=ONE), arms.EdgeLexical("graph", depth=ONE)),  # type: ignore[arg-type]
        shaping=(
            hr.Provenance("n", {ONE: TENTH}, default=TENTH),  # type: ignore[arg-type]
            hr.Rerank(ONE),  # type: ignore[arg-type]
            hr.Dedup(TENTH, keep="n", prefer=(ONE, TENTH, np.str_("x"))),  # type: ignore[arg-type]
            hr.Recency(
                "at", half_life=timedelta(hours=1.5), by="n",
                half_lives={ONE: timedelta(days=1), np.int64(2): np.float32(9), 3: "30d"},
            ),
            hr.Budget(ONE),  # type: ignore[arg-type]
            hr.MMR(TENTH),  # type: ignore[arg-type]
            hr.Gate(TENTH),  # type: ignore[arg-type]
        ),
        expansion=(hr.Context("graph", top=ONE, n=ONE), hr.SharedTags("tags", n=ONE)),  # type: ignore[arg-type]
        fill=Fill("at"),
        tie_break=(TieBreak("n", prefer=(ONE, TENTH)), TieBreak("id", descending=np.True_)),  # type: ignore[arg-type]
        depth=np.int32(5),
        normalize=np.True_,
        min_fused=TENTH,
        analyzer="porter",
    )  # type: ignore[arg-type]  # fmt: skip


def with_signals() -> Recipe:
    stage = hr.SessionSignals(
        "graph", half_life=timedelta(minutes=3), hops=ONE, n_hot=ONE, min_hot=TENTH,  # type: ignore[arg-type]
        phases=(hr.Phase("all", np.int64(0), TENTH, 0, 1 - float(TENTH)),),  # type: ignore[arg-type]
    )  # fmt: skip
    return made(shaping=stage)


def with_composite() -> Recipe:
    stage = hr.Composite(time="at", half_life=timedelta(hours=2), rating="n", scale=ONE)  # type: ignore[arg-type]
    return made(shaping=stage)


def with_evidence() -> Recipe:
    stages = (
        hr.Feedback(rows=ONE, dense=TENTH, terms=ONE),  # type: ignore[arg-type]
        hr.Around((TENTH, TENTH), thread=TENTH, length=0),  # type: ignore[arg-type]
        hr.Prior("n", {ONE: TENTH}), hr.Provenance("n", {ONE: TENTH}),  # type: ignore[arg-type]
        hr.Linear({"fused": ONE, "prior": TENTH, "provenance": 1, "n=1": TENTH}),  # type: ignore[arg-type]
    )  # fmt: skip
    return made(shaping=stages)


@pytest.mark.parametrize("make", [with_every_kind, with_signals, with_composite, with_evidence])
def test_numbers_and_durations_of_any_library_go_through_json(make: Callable[[], Recipe]) -> None:
    recipe = make()
    back = Recipe.from_json(recipe.to_json())
    assert back == recipe
    assert "np." not in repr(recipe).replace(repr(np.str_("x")), "")
    assert back.to_json() == recipe.to_json()


def test_a_duration_becomes_seconds_and_a_text_stays() -> None:
    by_type = [hr.Recency("at", half_life=given).half_life  # type: ignore[arg-type]
               for given in (timedelta(hours=1.5), np.int64(9), "30d", 7)]  # fmt: skip
    assert by_type == [5400.0, 9.0, "30d", 7.0]


OTHER = {
    "name": "other", "arms": (Dense(weight=0.123),), "fusion": hr.Max(complete=False),
    "more": (arms.Newest("seen"),), "on_no_match": (arms.Newest("made"),),
    "shaping": (hr.Gate(0.25),), "expansion": (hr.SharedTags("words"),), "fill": Fill("filled"),
    "tie_break": (TieBreak("tied"),), "depth": 77, "on_empty": "error", "normalize": True,
    "min_fused": hr.Above(0.625), "analyzer": "porter", "fuse_one_arm": True,
    "semantic": "opt-in", "budget_mmr": hr.MMR(0.375),
    "tables": Tables("shelf", ("a", "b")), "exact": True,
    "with_threads": WithThreads(hr.Around(thread=0.5)),
    "confidence": Coefficients(query={"base": -1.0}, hit={"base": -3.0, "words": 4.0}),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER)
def test_every_setting_that_is_no_default_is_shown(name: str) -> None:
    assert set(OTHER) == {one.name for one in fields(Recipe)}
    changed = made(**{name: OTHER[name]})
    assert changed.explain() != PLAIN.explain()
    default = next(one.default for one in fields(Recipe) if one.name == name)
    assert OTHER[name] != default or default is MISSING


def test_floor_and_analyzer_stand_on_the_screen() -> None:
    shown = made(min_fused=0.5, analyzer="porter").explain().splitlines()
    assert {"  min fused 0.5", "  analyzer  porter"} <= set(shown)


def test_without_graphs_a_pattern_over_edges_alone_is_no_arm() -> None:
    edges, both = arms.Regex(arms.Edges("g")), arms.Regex(("key", arms.Edges("g")), name="both")
    kept = made(more=(edges, both), on_no_match=(edges,)).without_graphs()
    assert kept.more == (replace(both, columns=("key",)),)
    assert kept.on_no_match == ()


def test_a_session_takes_keys_and_times_in_any_form() -> None:
    before = hr.Session({np.int64(1): datetime(2025, 12, 31, 23)}, n_recalls=np.int64(2))  # type: ignore[arg-type]
    after = before.after(pa.array([2, 3]), now=NOW)
    assert after == hr.Session({2: NOW, 3: NOW, 1: NOW - timedelta(hours=1)}, 3)
    assert list(after.accessed) == [2, 3, 1]
    assert before.after(np.array([7]), now=NOW).n_recalls == 3


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=5)), timezone(-timedelta(hours=5))])
@pytest.mark.parametrize("now", [datetime.min, datetime.max])
def test_a_session_lives_at_the_ends_of_time(now: datetime, zone: timezone) -> None:
    at = now.replace(tzinfo=zone)
    assert hr.Session().after(["b", "a"], now=at) == hr.Session({"a": at, "b": at}, 1)


# ---- every form of texts that a call may have ----

FORM_TEXTS = ("red tea", "green tea", "red and green", "blue")
FORM_TABLE = pa.table({"id": ["a", "b", "c", "d"], "text": FORM_TEXTS, "at": [1, 2, 3, 4]})
ALL = Recipe(name="all", arms=(Lexical(mode="all"),), fusion=hr.RRF())
NO = np.zeros(4, np.float32)


@pytest.fixture(scope="module")
def index() -> hr.Index:
    schema = hr.Schema(key="id", cell=None, text="text", vector="v", attributes="at")
    return hr.Index.build(FORM_TABLE, schema, vectors={"v": EYE})


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
    made = hr.Index.build(FORM_TABLE.select(["id", "text"]), schema)
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


# ---- a batch by several recipes: what it gives beside its hits, takes, and refuses ----

LISTED_ONE = np.ones((1, DIM), np.float32)
BOTH, WORDS, GRAPH, LISTED = (RECIPES[name] for name in ("both", "words", "graph", "listed"))
FALLBACK, FORCED = RECIPES["fallback"], RECIPES["forced"]


@pytest.fixture(scope="module")
def here() -> World:
    return world(4)


def ask(here: World, texts: Any, recipe: Any, **options: Any) -> hr.Hits:
    return here.index.recall(text=texts, recipe=recipe, scope="ann", now=LISTED_NOW, **options)


def net(here: World) -> dict[str, hr.Graph]:
    return {"net": here.graph}


# ---- beside the hits


def test_related_documents_are_those_of_each_part(here: World) -> None:
    asked = asks(8, 20)
    hits = here.together(asked)
    assert len(hits.parts) > 4
    found = arms.related(hits, "tags", n=3, columns=("data",))
    assert len(found) == 20
    for query, one in enumerate(asked):
        alone = hr.Hits(reply_of(here.alone(one)))
        assert [found[query]] == arms.related(alone, "tags", n=3, columns=("data",))
    assert sum(map(bool, found)) > 5
    with pytest.raises(hr.OptionError, match="column: expected an attribute column"):
        arms.related(hits, "nope")


# ---- where nothing was found


def test_what_runs_where_nothing_matches_has_arms_of_its_own(here: World) -> None:
    hits = ask(here, ["oak", "(o", "nowhere", "ak"], FALLBACK)
    assert [list(one.n_candidates) for one in hits] == [["text"], *[["pattern"]] * 3]
    assert [len(one) > 0 for one in hits] == [True, True, False, True]
    assert hits.trace.arms == ("text", "pattern")
    score, rank = hits.arm_scores("pattern"), hits.arm_ranks("pattern")
    fell = np.array([hit.query > 0 for one in hits for hit in one])
    assert score.is_null().to_numpy(zero_copy_only=False).tolist() == (~fell).tolist()
    assert rank.is_null().to_numpy(zero_copy_only=False).tolist() == (~fell).tolist()
    assert hits.arm_scores("text").is_null().to_numpy(zero_copy_only=False).tolist() == (
        fell.tolist()
    )
    assert {hit.evidence("pattern") for hit in hits[1]} == {"data"}
    assert {hit.evidence("pattern") for hit in hits[3]} >= {"text"}
    assert any("is no pattern" in note for note in hits.trace.notes)
    with pytest.raises(hr.OptionError, match="arm: expected an arm of"):
        hits[0][0].arm_score("pattern")  # its part has no such arm, as if it were alone


def test_nothing_runs_instead_where_the_call_gives_it_nothing_to_read(here: World) -> None:
    near = Recipe(
        name="near",
        arms=(Lexical(), Dense(min_score=1.0)),
        on_no_match=(Regex(("text",)), Listed("last")),
        fusion=hr.RRF(),
    )
    options: dict[str, Any] = {"scope": "ann", "recipe": near, "now": LISTED_NOW}
    alone = here.index.recall(vectors=LISTED_ONE, **options)
    assert [one.n_candidates for one in alone] == [{"v": 0}]
    newest = near.replace(on_no_match=(Newest("at"),))
    found = here.index.recall(vectors=LISTED_ONE, **options | {"recipe": newest})
    assert list(found[0].n_candidates) == ["newest"]
    assert len(found[0]) == 10
    two = here.index.recall(text=["nowhere", "fir"], **options | {"recipe": newest})
    assert [list(one.n_candidates) for one in two] == [["newest"], ["text"]]
    last = ["k03", "k07", "k05", "k01"]
    listed = here.index.recall(vectors=LISTED_ONE, candidates={"last": [last]}, **options)
    assert list(listed[0].n_candidates) == ["last"]
    assert listed[0].keys == [key for key in last if key in listed[0].keys] != []


# ---- queries without words


def test_blank_texts_get_what_their_own_recipe_says(here: World) -> None:
    texts = ["", "oak", "  ", "\t", "oak"]
    hits = ask(here, texts, [WORDS, WORDS, PLAIN, FALLBACK, PLAIN], limit=25)
    assert [len(hits[query]) for query in (0, 2, 3)] == [25, 0, 0]
    assert {hit.score for hit in hits[0]} == {1.0}
    times = [hit["at"] for hit in hits[0]]
    assert times == sorted(times, reverse=True)
    origins = hits.to_arrow().select(["query", "origin"]).to_pylist()
    assert {row["origin"] for row in origins if row["query"] == 0} == {"fill"}
    assert {row["origin"] for row in origins if row["query"] == 1} == {"fill", "hit"}
    assert {row["origin"] for row in origins if row["query"] == 4} == {None}
    assert "pattern" not in hits.trace.arms  # a blank query finds nothing, and asks nothing
    with pytest.raises(hr.OptionError, match=r"text\[3\]: expected words \(forced\), got blank"):
        ask(here, texts, [WORDS, WORDS, PLAIN, FORCED, PLAIN], graphs=net(here))


def test_what_filled_a_list_goes_where_something_else_is_found(here: World) -> None:
    recipe = FALLBACK.replace(fill=Fill("at", when="no_match"))
    hits = ask(here, ["ak", "nowhere", "oak"], recipe, limit=4)
    origins = hits.to_arrow().select(["query", "rank", "origin"]).to_pylist()
    assert [row["origin"] for row in origins] == ["hit"] * 4 + ["fill"] * 4 + ["hit"] * 4
    assert [row["rank"] for row in origins] == [1, 2, 3, 4] * 3
    assert hits.n_hits == len(hits.to_arrow()) == 12


# ---- what only some of the recipes read


ALONE = Recipe(name="alone", arms=(Lexical(),), on_no_match=(EdgeLexical("net"),), fusion=hr.RRF())


def test_a_recipe_that_names_no_graph_is_not_made_again(here: World) -> None:
    assert PLAIN.bind(graphs={}) is PLAIN
    alone = ALONE.bind(graphs=net(here))
    assert alone.on_no_match == (EdgeLexical(here.graph),)
    assert alone == dataclasses.replace(ALONE, on_no_match=alone.on_no_match)


def test_a_graph_is_for_all_that_runs_even_what_runs_seldom(here: World) -> None:
    for text, found in (("oak", "text"), ("nowhere", "edges")):
        hits = ask(here, [text], ALONE, graphs=net(here))
        assert list(hits[0].n_candidates) == [found]
        with pytest.raises(hr.OptionError, match=r"graphs: expected {'net': hr\.Graph}"):
            ask(here, [text], ALONE)  # whether or not it would have run


Call = Callable[[World], object]
LISTED_REFUSED: list[tuple[Call, type[Exception], str]] = [
    (
        lambda w: ask(w, ["oak"] * 2, [PLAIN, WORDS], graphs={"net": w.graph}),
        hr.OptionError,
        "graphs: expected graphs that are named ([]), got 'net'",
    ),
    (
        lambda w: ask(w, ["oak"] * 2, [PLAIN, GRAPH], graphs={"net": w.graph, "x": w.graph}),
        hr.OptionError,
        "graphs: expected graphs that are named (",
    ),
    (
        lambda w: ask(w, ["oak"] * 2, [PLAIN, GRAPH]),
        hr.OptionError,
        "graphs: expected {'net': hr.Graph}, which EdgeLexical names, got []",
    ),
    (
        lambda w: ask(w, ["oak"] * 2, [PLAIN, GRAPH], graphs=[w.graph]),
        hr.DTypeError,
        "graphs: expected {name: hr.Graph}, got list",
    ),
    (
        lambda w: ask(w, ["oak"] * 2, [PLAIN, WORDS], session=hr.Session()),
        hr.OptionError,
        "session: expected SessionSignals among the stages, got none",
    ),
    (
        lambda w: ask(w, ["oak"] * 2, [PLAIN, GRAPH], graphs={"net": w.graph}, session=[None]),
        hr.ShapeError,
        "session: expected 2 entries, one per query, got 1",
    ),
    (
        lambda w: ask(w, ["oak"] * 2, [PLAIN, LISTED], candidates={"hint": [None, None]}),
        hr.OptionError,
        "candidates: expected arms of [] (arms.Listed), got 'hint'",
    ),
    (
        lambda w: ask(
            w,
            ["oak"] * 2,
            [BOTH, LISTED],
            vectors=np.repeat(LISTED_ONE, 2, 0),
            candidates={"hints": [None]},
        ),
        hr.ShapeError,
        "candidates['hints']: expected 2 queries as vectors['v'] has, got 1",
    ),
    (
        lambda w: w.index.recall_one(text="oak", recipe=[PLAIN, WORDS], scope="ann"),
        hr.ShapeError,
        "recipe: expected 1 entries, one per query, got 2",
    ),
]


@pytest.mark.parametrize("at", range(len(LISTED_REFUSED)))
def test_what_does_not_fit_is_refused_by_name(at: int, here: World) -> None:
    call, kind, start = LISTED_REFUSED[at]
    with pytest.raises(kind) as caught:
        call(here)
    assert str(caught.value).startswith(start)


# ---- small batches


def test_a_recipe_that_reads_nothing_of_a_query_answers_each(here: World) -> None:
    newest = Recipe(name="newest", arms=(), more=(Newest("at"),), fusion=hr.RRF())
    for options in ({"text": ["oak", "fir"]}, {"vectors": np.repeat(LISTED_ONE, 2, 0)}):
        hits = here.index.recall(recipe=newest, scope="ann", **options)
        assert [one.keys for one in hits] == [hits[0].keys] * 2
        assert len(hits[0]) == 10
    mixed = ask(here, ["oak", "oak", "fir"], [newest, PLAIN, newest])
    assert [one.keys for one in mixed] == [hits[0].keys, ask(here, ["oak"], PLAIN)[0].keys,
                                           hits[0].keys]  # fmt: skip
    with pytest.raises(hr.ShapeError, match="recipe: expected 2 entries"):
        ask(here, ["oak", "fir"], [newest] * 3)


def test_a_list_of_one_recipe_is_that_recipe(here: World) -> None:
    for recipe, options in ((BOTH, {}), (GRAPH, {"graphs": net(here)})):
        texts = ["oak fir", "elm", "nowhere"]
        options |= {"vectors": np.repeat(LISTED_ONE, 3, 0)}
        listed = ask(here, texts, [recipe] * 3, **options)
        assert listed.to_arrow().equals(ask(here, texts, recipe, **options).to_arrow())
    assert here.index.recall_one(text="oak", recipe=[PLAIN], scope="ann").keys == (
        ask(here, ["oak"], PLAIN)[0].keys
    )


@pytest.mark.parametrize("name", RECIPES)
def test_no_query_gets_an_empty_reply(name: str, here: World) -> None:
    recipe = RECIPES[name]
    graphs = net(here) if '"net"' in recipe.to_json() else None
    hits = ask(here, [], recipe, graphs=graphs, vectors=LISTED_ONE[:0])
    assert len(hits) == hits.n_hits == hits.to_arrow().num_rows == 0
    assert hits.to_list() == list(hits) == []


def test_limit_and_offset_cut_each_list(here: World) -> None:
    texts, recipes = ["oak", "fir", "oak ash"], [PLAIN, WORDS, RECIPES["sum"]]
    options: dict[str, Any] = {"vectors": np.repeat(LISTED_ONE, 3, 0)}
    whole = ask(here, texts, recipes, limit=20, **options)
    part = ask(here, texts, recipes, limit=3, offset=2, **options)
    assert [one.keys for one in part] == [one.keys[2:5] for one in whole]
    assert [[hit.rank for hit in one] for one in part] == [[3, 4, 5]] * 3
    assert ask(here, texts, recipes, limit=0, **options).n_hits == 0
