"""The stage Linear as a caller meets it; laws/test_recipes.py has its definition."""

import datetime as dt
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import _core
from laws.checks import LawBroken, compare_with
from laws.engine import EngineSubject
from laws.registry import BY_NAME
from oracle import staged
from oracle.recipe import RecipeOracle
from seams import linear

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
N_ROWS = 120
WEIGHTS = {
    "fused": 0.9, "text_score": 0.3, "embedding_score": -0.2, "text_rank": 0.1, "agreement": 0.4,
    "neighbour_1": 1.5, "neighbour_2": 0.5, "thread": 0.8, "length": 0.3, "role=assistant": -0.25,
    "mark=3": 0.2, "recency(at, 30d)": 0.15, "prior": 1.2, "provenance": 0.7,
    "text_before_1": 0.3, "text_after_1": -0.1, "embedding_before_3": 0.2,
    "embedding_after_2": 0.25, "shared(tags)": 0.6, "shared(role)": -0.1,
}  # fmt: skip
AROUND = hr.Around()
BEFORE = (
    AROUND, hr.Prior("role", {"assistant": -0.3}), hr.Provenance("mark", {1: 0.5, 2: 0}, 0.9),
)  # fmt: skip
ENGINE = partial(EngineSubject, threaded=True)


def table() -> pa.Table:
    random = np.random.default_rng(5)
    words = ("tea", "kettle", "leaf", "cup", "milk", "rust", "boat", "sail")
    return pa.table(
        {
            "id": [f"d{row}" for row in range(N_ROWS)],
            "user": ["ann" if row % 3 else "bob" for row in range(N_ROWS)],
            "text": [
                None if row % 17 == 0 else " ".join(random.choice(words, random.integers(1, 9)))
                for row in range(N_ROWS)
            ],
            "chat": [f"c{row // 9}" for row in range(N_ROWS)],
            "role": ["user" if row % 4 else "assistant" for row in range(N_ROWS)],
            "tags": [
                None if row % 10 == 0 else list(random.choice(list("pqrst"), row % 4))
                for row in range(N_ROWS)
            ],
            "mark": pa.array([None if row % 5 == 0 else row % 7 for row in range(N_ROWS)]),
            "at": pa.array(
                [None if row % 11 == 0 else NOW - dt.timedelta(days=row) for row in range(N_ROWS)],
                pa.timestamp("us", "UTC"),
            ),
        }
    )


@pytest.fixture(scope="module")
def index() -> hr.Index:
    vectors = np.random.default_rng(6).standard_normal((N_ROWS, 12)).astype(np.float32)
    vectors[::13] = 0  # missing
    schema = hr.Schema(
        key="id", cell=("user",), text="text", vector="embedding", thread="chat",
        attributes=("role", "mark", "at", "tags"),
    )  # fmt: skip
    return hr.Index.build(table(), schema, vectors={"embedding": vectors})


def asked(**options: Any) -> dict[str, Any]:
    vectors = np.random.default_rng(7).standard_normal((3, 12)).astype(np.float32)
    return {
        "text": ["tea with milk", "a boat", None], "vectors": vectors,
        "scope": ["ann", "bob", "ann"], "depth": N_ROWS, "limit": N_ROWS, "now": NOW, **options,
    }  # fmt: skip


def test_planted_bugs_in_features_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the law of the stage, which knows its definition."""
    weigh, term = _core.shaping.weigh, linear._term
    array_of, column = linear._array_of, linear.attribute_column

    def given(at: int, change: Any) -> tuple[object, str, object]:
        """What the engine is given, with a change in one place."""
        bug = lambda *args: weigh(*args[:at], change(*args), *args[at + 1 :])  # noqa: E731
        return _core.shaping, "weigh", bug

    def on_the_other_side(*args: Any) -> Any:
        kind, at, steps, *rest = term(*args)
        return kind, at, -steps, *rest

    plants: dict[str, tuple[object, str, object]] = {
        "all queries of a batch are one": given(
            1, lambda _, offsets, *rest: np.array([0, offsets[-1]])),
        "scores of the other arm": given(2, lambda _, __, scores, *rest: scores[:, ::-1].copy()),
        "arms that list nothing are heard": given(
            3, lambda _, __, ___, ranks, *rest: np.maximum(ranks, 1000)),
        "the time of another call": given(9, lambda *args: args[9] + 1),
        "all threads are one": given(8, lambda *args: args[8] and (args[8][0] * 0, *args[8][1:])),
        "the neighbour before": (linear, "_array_of", lambda feature: array_of(
            feature._replace(of="neighbour_1") if feature.of == "neighbour_2" else feature)),
        "an addend is left out": (_core.shaping, "weigh", lambda *args: (
            made := weigh(*args)[0], made[:, 1:].sum(axis=1))),
        "the row behind for the one before": (linear, "_term", on_the_other_side),
        "values of another row": (linear, "attribute_column", lambda one: column(one[::-1])),
        "two of the best": (staged, "N_NAMESAKES", 2),
    }  # fmt: skip
    missed = []
    for name, (module, place, bug) in plants.items():
        with monkeypatch.context() as patch, suppress(LawBroken):
            patch.setattr(module, place, bug, raising=False)
            compare_with(RecipeOracle, ENGINE, range(60), entry=BY_NAME["Linear"])
            missed.append(name)
    assert missed == []


def test_explanations_give_the_score_to_the_last_bit_feature_by_feature(index: hr.Index) -> None:
    stages = (*BEFORE, hr.Linear(WEIGHTS), hr.Rerank(7), hr.MMR(0.8))
    for shaping in (stages[:4], stages[:5], stages):
        for hits in index.recall(**asked(shaping=shaping, limit=20)):
            for hit in hits:
                made = hit.explain()
                assert made.score == hit.score
                assert list(made.steps[2].factors) == list(WEIGHTS)
    text = str(hits[0].explain())
    assert "Linear: score" in text
    assert "role=assistant" in text


def test_tables_agree_within_themselves(index: hr.Index) -> None:
    weights = {"agreement": 1.0, "text_score": 0.5, "embedding_score": 0.25}
    recipe = hr.recipes.default.replace(with_threads=None, shaping=(hr.Linear(weights),))
    tables = hr.recipe.Tables("user", ("ann", "bob"))
    both = asked(scope=hr.Scope(["ann", "bob"]), recipe=recipe.replace(tables=tables))
    for hits in index.recall(**both):
        parts = [hit.explain().steps[0].factors for hit in hits]
        assert hits
        for factors in parts:
            own = [
                factors[f"{arm}_score"] / weights[f"{arm}_score"] for arm in ("text", "embedding")
            ]
            least = min(own) if any(one["text_score"] for one in parts) else own[1]
            assert factors["agreement"] == least


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("title_score", r"an arm of \['text', 'embedding'\], got 'title'"),
        ("colour=red", "a column of .*, got 'colour'"),
        ("mark=red", "a value of int64, got 'red'"),
        ("mark=\ud800", "a value of int64"),
        ("recency(role, 3d)", "a timestamp or date column, got 'role' of large_string"),
        ("neighbour_3", "one of the 2 neighbours of Around"),
        ("title_before_1", r"an arm of \['text', 'embedding'\], got 'title'"),
        ("shared(colour)", "an attribute column of .*, got 'colour'"),
        ("shared(mark)", "a column of strings or lists of strings, got int64"),
        ("prior", r"weights\['prior'\]: expected Prior among the stages, got none"),
        ("provenance", r"weights\['provenance'\]: expected Provenance among the stages, got none"),
    ],
)
def test_features_that_an_index_lacks_are_refused(index: hr.Index, name: str, told: str) -> None:
    with pytest.raises((hr.OptionError, hr.DTypeError), match=told):
        index.recall(**asked(shaping=(AROUND, hr.Linear({name: 1.0}))))


def test_evidence_without_the_stage_that_finds_it_is_refused(index: hr.Index) -> None:
    with pytest.raises(hr.OptionError, match="expected Around among the stages, got none"):
        index.recall(**asked(shaping=hr.Linear({"thread": 1.0})))
    with pytest.raises(hr.OptionError, match="expected Around among the stages, got none"):
        index.recall(**asked(shaping=hr.Linear({"text_after_1": 1.0})))
    with pytest.raises(hr.OptionError, match="prior, provenance, linear, rerank"):
        index.recall(**asked(shaping=(hr.Linear({"fused": 1.0}), hr.Provenance("role", {}))))


def test_evidence_on_an_index_without_threads_is_refused_for_its_schema() -> None:
    index = hr.Index.build(table(), hr.Schema(key="id", cell=("user",), text="text"))
    recipe = hr.recipes.conversation.replace(shaping=(AROUND, hr.Linear({"thread": 1.0})))
    wish = r"Linear.weights\['thread'\]: expected a schema with thread=, got one without"
    with pytest.raises(hr.OptionError, match=wish):
        index.recall_one(text="tea", scope="ann", recipe=recipe)


@pytest.mark.parametrize(
    "stage", [hr.Prior("role", {"user": 1}), hr.Provenance("role", {"user": 0.5})], ids=repr
)
def test_a_stage_that_would_be_ignored_is_refused(index: hr.Index, stage: Any) -> None:
    name = type(stage).__name__
    wish = f"{name}: expected a weight for '{name.lower()}' in Linear, which replaces the score"
    with pytest.raises(hr.OptionError, match=wish):
        index.recall(**asked(shaping=(stage, hr.Linear({"fused": 1.0}))))
    assert index.recall(**asked(shaping=(stage, hr.Linear({name.lower(): 1.0}))))


def test_rows_without_a_thread_or_tags_have_nobody_beside_them() -> None:
    rows = {"id": [1, 2, 3], "chat": [None] * 3, "tags": [[], None, ["x"]], "text": ["tea"] * 3}
    given = pa.table(rows, pa.schema([
        ("id", "int64"), ("chat", "string"), ("tags", pa.list_(pa.string())), ("text", "string"),
    ]))  # fmt: skip
    schema = hr.Schema(key="id", cell=None, text="text", thread="chat", attributes=("tags",))
    names = ("fused", "text_before_1", "text_after_1", "shared(tags)")
    found = hr.Index.build(given, schema).recall(
        text=["tea", "rust"], shaping=(AROUND, hr.Linear(dict.fromkeys(names, 1.0)))
    )
    for hit in found[0]:
        assert [hit.explain().steps[1].factors[name] for name in names[1:]] == [0.0] * 3
    assert not found[1]


def test_values_of_float16_are_compared_and_ordered() -> None:
    half = pa.array(np.array([0.5, 0.1, 1.0], np.float16))
    rows = pa.table({"id": [1, 2, 3], "half": half, "text": ["tea"] * 3})
    schema = hr.Schema(key="id", cell=None, text="text", attributes=("half",))
    made = hr.Index.build(rows, schema)

    def scores(**options: Any) -> dict[object, float]:
        return {hit.key: hit.score for hit in made.recall_one(text="tea", **options)}

    assert scores(shaping=hr.Linear({"half=0.1": 2.0})) == {1: 0.0, 2: 2.0, 3: 0.0}
    alike = scores()[1]
    weighed = scores(shaping=hr.Provenance("half", {0.5: 0.5, 1.0: 3.0}))
    assert weighed == {1: alike * 0.5, 2: alike, 3: alike * 3.0}
    by_half, first = hr.recipe.TieBreak("half"), hr.recipe.TieBreak("half", prefer=(1.0,))
    for tie, order in ((by_half, [2, 1, 3]), (first, [3, 1, 2])):
        recipe = hr.recipes.default.replace(tie_break=(tie,))
        assert list(scores(recipe=recipe)) == order
