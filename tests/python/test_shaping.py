"""Shaping stages as a caller meets them; tests/laws/test_recipes.py has their definitions."""

import math
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from explained import check_equations
from shaped_corpus import NOW, WEIGHTS, corpus

# ---- the stages ----

STAGES: list[Any] = [
    hr.Provenance("source", WEIGHTS, default=0.7),
    hr.Dedup(0.9, scale="unit", keep="source", prefer=("session", "memory")),
    hr.Recency("at", half_life="30d"),
    hr.Composite(time="at", half_life="10h", rating="rating", recency=3, relevance=0.5),
    hr.Budget(40),
    hr.MMR(0.7),
    (hr.Budget(60), hr.MMR(0.7)),
    hr.Gate(0.02),
]
ALL: tuple[Any, ...] = (
    hr.Provenance("source", WEIGHTS), hr.Rerank(20), hr.Dedup(0.9),
    hr.Recency("at", half_life="5d"), hr.Budget(200), hr.MMR(0.7), hr.Gate(-0.5),
)  # fmt: skip


@pytest.mark.parametrize("stage", [hr.Dedup(0.8), hr.Dedup(0.9, scale="unit")], ids=repr)
def test_a_cosine_that_equals_the_threshold_is_not_above_it(stage: hr.Dedup) -> None:
    table = pa.table({"id": ["a", "equal", "above"], "text": ["x"] * 3})
    schema = hr.Schema(key="id", cell=None, text="text", vector="v")
    rows = np.array([[5, 0], [4, 3], [4, -2.999]], np.float32)
    index = hr.Index.build(table, schema, vectors={"v": rows})
    hits = index.recall_one(text="x", vector=rows[0], shaping=stage)
    cosines = {hit.key: hit.vector_score for hit in index.recall_one(vector=rows[0])}
    assert cosines["equal"] == float(np.float32(0.8)) < cosines["above"]
    assert hits.keys == ["a", "equal"]


# ---- rerankers that are functions ----


def longest(query: str, texts: list[str]) -> list[float]:
    assert isinstance(query, str)
    return [float(len(text)) for text in texts]


def fails(query: str, texts: list[str]) -> list[float]:
    raise RuntimeError("no model")


def hangs(query: str, texts: list[str]) -> list[float]:
    time.sleep(1.0)
    return longest(query, texts)


BAD: list[tuple[Any, str]] = [
    (fails, "RuntimeError for 2"),
    (hangs, "out of time for 2"),
    (lambda query, texts: [1.0], "ValueError for 2"),
    (lambda query, texts: [float("nan")] * len(texts), "ValueError for 2"),
    (lambda query, texts: "no", "ValueError for 2"),
]


@pytest.mark.parametrize(("function", "note"), BAD, ids=[note for _, note in BAD])
def test_a_reranker_that_fails_or_hangs_keeps_the_order(function: Any, note: str) -> None:
    case = corpus(8)
    hits = case.ask(hr.RerankBy(function, timeout="100ms"))
    assert [one.keys for one in hits] == [one.keys for one in case.ask(())]
    (trace,) = hits.trace.stages
    told = ", ".join(sorted([note, "no text for 1"]))  # the third query is a vector alone
    assert trace.notes == (f"RerankBy kept the order: {told}",)
    assert hits.degraded
    assert hits.trace.degraded == trace.notes


# ---- what is refused ----

REFUSED: list[tuple[Any, str]] = [
    ("dedup", "shaping: expected a sequence of stages"),
    ((hr.MMR(0.5), hr.Dedup(0.9)), "shaping: expected at most one of each stage, in the order"),
    ((hr.Dedup(0.9), hr.Dedup(0.8)), "shaping: expected at most one of each stage, in the order"),
    (hr.Recency("nope"), "Recency.column: expected a column of"),
    (hr.Recency("rating"), "Recency.column: expected a timestamp or date column, got 'rating' of"),
    (hr.Composite(time="at", half_life="1d", rating="source"),
     "Composite.rating: expected a numeric column, got 'source' of"),
    (hr.Dedup(0.9, vector="other"), "Dedup.vector: expected one of"),
    (hr.Budget(10, column="source"), None),
    (hr.Budget(10, column="at"), "Budget.column: expected a text column"),
    (hr.Provenance("rating", {"x": 1.0}), "shaping: expected values of int64 as in 'rating'"),
]  # fmt: skip


@pytest.mark.parametrize(("stages", "message"), REFUSED, ids=lambda value: repr(value)[:50])
def test_what_an_index_cannot_answer_is_refused(stages: Any, message: str | None) -> None:
    case = corpus(2)
    if message is None:
        case.ask(stages)
        return
    with pytest.raises(hr.HyrecallError) as caught:
        case.ask(stages)
    assert str(caught.value).startswith(message)


def test_depth_bounds_limit_where_a_stage_runs_even_with_one_arm() -> None:
    case = corpus(2)
    with pytest.raises(hr.OptionError, match=r"limit: expected <= 5 \(depth\)"):
        case.index.recall(text=["ash"], scope="ana", limit=6, depth=5, shaping=hr.Gate(0))
    with pytest.raises(hr.OptionError, match=r"Rerank\.vector: expected an arm that runs"):
        case.index.recall(text=["ash"], scope="ana", shaping=hr.Rerank())


EACH: list[Any] = [*STAGES, hr.Rerank(), hr.RerankBy(longest)]


@pytest.mark.parametrize("stages", EACH, ids=lambda stages: type(stages).__name__)
def test_no_queries_and_an_empty_scope_give_nothing(stages: Any) -> None:
    case = corpus(3)
    none = case.index.recall(
        text=[], vectors=np.zeros((0, 8), np.float32), scope=[], shaping=stages, now=NOW
    )
    assert (len(none), none.to_arrow().num_rows) == (0, 0)
    nobody = case.index.recall(text=["ash"], scope=hr.Scope([]), vectors=case.vectors[:1],
                               shaping=stages, now=NOW)  # fmt: skip
    assert nobody.to_arrow().num_rows == 0


# ---- values that a stage and its explanation read alike ----


NINTH = datetime(2026, 1, 9, tzinfo=UTC)
AT = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 3, 5, 7)]


def asked(stage: Any, **columns: pa.Array) -> hr.Hits:
    table = pa.table(
        {"id": ["a", "b", "c", "d"], "text": ["tea", "tea leaf", "tea cup", "tea tea"],
         "at": pa.array(AT, pa.timestamp("us", "UTC")), **columns},
    )  # fmt: skip
    schema = hr.Schema(key="id", cell=None, text="text", attributes=("at", *columns))
    return hr.Index.build(table, schema).recall(text=["tea"], shaping=stage, now=NINTH)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
@pytest.mark.parametrize("default", [0.0, 5.0])
def test_a_rating_that_is_nan_is_missing(kind: pa.DataType, default: float) -> None:
    stage = hr.Composite(time="at", half_life="2d", rating="rating", default=default)
    numbers = [math.nan, 10.0, None, math.inf]
    hits = asked(stage, rating=pa.array(numbers, kind, from_pandas=False))[0]
    rated = {hit.key: hit.explain().steps[-1].factors["importance"] for hit in hits}
    assert rated == {"a": default / 10, "b": 1.0, "c": default / 10, "d": 1.0}
    given = ["default" if one is None or math.isnan(one) else one for one in numbers]
    plain = [default if one == "default" else 10.0 for one in given]
    same = asked(stage, rating=pa.array(plain, kind))[0]
    assert [(hit.key, hit.score) for hit in hits] == [(hit.key, hit.score) for hit in same]
    assert all(hit.explain().score == hit.score for hit in hits)


VALUES: list[tuple[pa.Array, list[Any]]] = [
    (pa.array([0.1, 0.2, None, 0.3], pa.float32()), [0.1, np.float32(0.2)]),
    (pa.array(AT, pa.timestamp("us", "UTC")), [AT[0].replace(tzinfo=None), AT[1]]),
    (pa.array([1, 2, 3, None], pa.int16()), [np.int64(1), 2]),
    (pa.array(["x", "y", None, "z"]), ["x", np.str_("y")]),
    (pa.array([True, False, None, None]), [True, np.False_]),
]


@pytest.mark.parametrize(("column", "named"), VALUES, ids=lambda one: str(getattr(one, "type", "")))
def test_a_value_is_the_same_to_a_stage_and_to_its_explanation(
    column: pa.Array, named: list[Any]
) -> None:
    weights = dict(zip(named, (0.5, 0.25), strict=True))
    half_lives = dict(zip(named, ("3d", "5d"), strict=True))
    stages = [
        (hr.Provenance("v", weights, default=0.75), "weight", (0.5, 0.25, 0.75)),
        (hr.Recency("at", half_life="7d", by="v", half_lives=half_lives), "half_life",
         (259200.0, 432000.0, 604800.0)),
    ]  # fmt: skip
    for stage, factor, (first, second, other) in stages:
        hits = asked(stage, v=column)[0]
        found = {hit.key: hit.explain().steps[-1].factors[factor] for hit in hits}
        assert found == {"a": first, "b": second, "c": other, "d": other}
        assert [hit.explain().score for hit in hits] == [hit.score for hit in hits]


# ---- what they did is told: by explain(), to the last bit, and in the table of hits ----


def explained_longest(query: str, texts: list[str]) -> list[float]:
    return [float(len(text)) for text in texts]


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize("normalize", [False, True])
def test_explain_recomputes_every_stage_to_the_last_bit(*, normalize: bool) -> None:
    stages = [
        hr.Provenance("source", WEIGHTS, default=0.7),
        hr.Dedup(0.9, scale="unit", keep="source", prefer=("session", "memory")),
        hr.Recency("at", half_life=timedelta(hours=10), exponent=0.5),
        hr.Composite(time="at", half_life="10h", rating="rating", recency=3, relevance=0.5),
        hr.Budget(40),
        *(hr.MMR(0.3, relevance=scale) for scale in ("raw", "max", "minmax")),
        hr.Rerank(7),
        hr.RerankBy(explained_longest, window=6, timeout="30s"),
        hr.Recency("at", half_life="30d", by="source", half_lives={"session": "10h"}),
        ALL,
    ]
    explained = 0
    for seed, stage in enumerate(stages):
        hits = corpus(seed).ask(stage, limit=8, offset=seed % 3, normalize=normalize)
        for hit in (hit for one in hits for hit in one):
            made = hit.explain()
            assert made.score == hit.score, (stage, hit, str(made))
            assert [step.stage for step in made.steps] == [t.stage for t in hits.trace.stages]
            assert f"{made.steps[-1].stage}: score {hit.score:.6g}" in str(made)
            check_equations(made)
            explained += 1
    assert explained > 150


def test_the_table_of_hits_shows_what_the_stages_found_out() -> None:
    case = corpus(4)
    table = case.ask((hr.Rerank(3), hr.Dedup(0.8), hr.Budget(60), hr.MMR(0.7))).to_arrow()
    assert table.column_names[-6:] == [
        *(
            "fused_score",
            "rerank_score",
            "n_duplicates",
            "token_estimate",
            "mmr_relevance",
            "mmr_similarity",
        )
    ]
    assert table["n_duplicates"].to_numpy().sum() > 0
    assert table["rerank_score"].null_count > 0
    assert "fused_score" not in case.ask(()).to_arrow().column_names
