"""Shaping stages against their definitions, and what they promise."""

import asyncio
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from laws.effort import Effort
from oracle import shaping as oracle
from shaped_corpus import HALF, NOW, WEIGHTS, age, corpus, preference, signals, tokens

Expect = Callable[[oracle.Ranked], oracle.Ranked]
ALONE: list[tuple[str, Any, Expect]] = [
    (
        "provenance",
        hr.Provenance("source", WEIGHTS, default=0.7),
        lambda r: oracle.provenance(r, lambda doc: WEIGHTS.get(doc["source"], 0.7)),
    ),
    (
        "dedup raw",
        hr.Dedup(0.8),
        lambda r: oracle.dedup(r, 0.8, unit=False, preference=lambda doc: 0),
    ),
    (
        "dedup unit with preference",
        hr.Dedup(0.9, scale="unit", keep="source", prefer=("session", "memory")),
        lambda r: oracle.dedup(r, 0.9, unit=True, preference=preference),
    ),
    ("recency", hr.Recency("at", half_life="30d"), lambda r: oracle.recency(r, age, 2592000.0, 1)),
    (
        "recency with exponent",
        hr.Recency("at", half_life=timedelta(hours=10), exponent=0.5),
        lambda r: oracle.recency(r, age, 36000.0, 0.5),
    ),
    (
        "composite",
        hr.Composite(time="at", half_life="10h", rating="rating", recency=3, relevance=0.5),
        lambda r: oracle.composite(r, signals, (3.0, 1.0, 0.5)),
    ),
    (
        "budget",
        hr.Budget(40),
        lambda r: oracle.choose(r, 40, budget=40, tokens=tokens, use_vectors=False),
    ),
    *(
        (
            f"mmr {relevance} {weight}",
            hr.MMR(weight, relevance=relevance),
            lambda r, w=weight, s=relevance: oracle.choose(r, 40, weight=w, relevance=s),
        )
        for relevance in ("raw", "max", "minmax")
        for weight in (0.0, 0.3, 0.7, 1.0)
    ),
    (
        "budget and mmr",
        (hr.Budget(60), hr.MMR(0.7)),
        lambda r: oracle.choose(r, 40, weight=0.7, relevance="max", budget=60, tokens=tokens),
    ),
    ("gate", hr.Gate(0.02), lambda r: [pair for pair in r if pair[1] >= 0.02]),
]


def check(hits: hr.QueryHits, expected: oracle.Ranked) -> None:
    assert hits.keys == [doc["id"] for doc, _ in expected]
    scores = [hit.score for hit in hits]
    assert scores == pytest.approx([score for _, score in expected], rel=1e-12, abs=1e-15)
    assert scores == sorted(scores, reverse=True)
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))


@pytest.mark.parametrize(("stage", "expect"), [c[1:] for c in ALONE], ids=[c[0] for c in ALONE])
def test_a_stage_does_what_its_definition_says(stage: Any, expect: Expect, effort: Effort) -> None:
    changed = 0
    for seed in range(effort.cases(quick=2, full=25)):
        case = corpus(seed)
        for query, hits in enumerate(case.ask(stage)):
            before = case.before(query)
            check(hits, expect(before)[:40])
            changed += hits.keys != [doc["id"] for doc, _ in before]
    assert changed or stage == hr.MMR(1.0, relevance=getattr(stage, "relevance", "max"))


def test_all_stages_together_run_in_their_order(effort: Effort) -> None:
    stages = (
        hr.Provenance("source", WEIGHTS),
        hr.Rerank(20),
        hr.Dedup(0.9),
        hr.Recency("at", half_life="5d"),
        hr.Budget(200),
        hr.MMR(0.7),
        hr.Gate(-0.5),
    )
    for seed in range(effort.cases(quick=3, full=25)):
        case = corpus(seed)
        plain = case.ask((), limit=60)
        reply = case.ask(stages)
        for query, hits in enumerate(reply):
            cosine = {hit.key: hit.vector_score for hit in plain[query]}
            r = oracle.provenance(case.before(query), lambda doc: WEIGHTS.get(doc["source"], 1.0))
            r = oracle.rerank(r, lambda doc, c=cosine: c[doc["id"]], 20)
            r = oracle.dedup(r, 0.9, unit=False, preference=lambda doc: 0)
            r = oracle.recency(r, age, 432000.0, 1, by_place=True)
            r = oracle.choose(r, 40, weight=0.7, relevance="max", budget=200, tokens=tokens)
            check(hits, [pair for pair in r if pair[1] >= -0.5])
        traced = [trace.stage for trace in reply.trace.stages]
        assert traced == [type(stage).__name__ for stage in stages]
        counts = [(trace.n_in, trace.n_out) for trace in reply.trace.stages]
        assert all(out == n_in for (_, out), (n_in, _) in pairwise(counts))
        assert counts[-1][1] == reply.n_hits


@pytest.mark.parametrize(
    "stages", [hr.Dedup(0.8), (hr.Budget(80), hr.MMR(0.5)), hr.Rerank(7)], ids=repr
)
def test_a_shorter_limit_gives_a_prefix_and_an_offset_the_rest(stages: Any, effort: Effort) -> None:
    for seed in range(effort.cases(quick=2, full=10)):
        case = corpus(seed)
        whole = case.ask(stages)
        for query, hits in enumerate(case.ask(stages, limit=4, offset=3)):
            assert hits.keys == whole[query].keys[3:7]
            assert [hit.rank for hit in hits] == [4, 5, 6, 7][: len(hits)]
            assert [hit.score for hit in hits] == [hit.score for hit in whole[query][3:7]]


@pytest.mark.parametrize("stages", [c[1] for c in ALONE], ids=[c[0] for c in ALONE])
def test_a_batch_equals_single_calls_and_history_does_not_show(stages: Any, effort: Effort) -> None:
    for seed in range(effort.cases(quick=1, full=5)):
        case = corpus(seed)
        batch = case.ask(stages).to_arrow()
        compacted = corpus(seed)
        compacted.index.compact()
        assert compacted.ask(stages).to_arrow().equals(batch)
        for query in range(3):
            one = case.index.recall(
                text=[case.texts[query]],
                vectors=case.vectors[query : query + 1],
                scope="ana",
                shaping=stages,
                limit=40,
                depth=60,
                now=NOW,
            )[0]
            expected = batch.filter(pa.compute.equal(batch["query"], query))
            assert one.keys == expected["key"].to_pylist()
            assert [hit.score for hit in one] == expected["score"].to_pylist()


def test_neutral_stages_leave_the_list_to_the_last_bit() -> None:
    case = corpus(3)
    plain = case.ask(()).to_arrow()
    for stage in (
        hr.Recency("at", half_life="30d", exponent=0),
        hr.Budget(None),
        hr.Budget(0),
        hr.Budget(-5),
        hr.Provenance("source", {}),
        hr.Dedup(1.0),
        hr.Gate(0),
    ):
        assert case.ask(stage).to_arrow().select(plain.column_names).equals(plain), stage


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


def test_half_lives_by_class() -> None:
    case = corpus(5)
    stage = hr.Recency("at", half_life="30d", by="source", half_lives={"session": "10h"})
    for query, hits in enumerate(case.ask(stage)):

        def factor(doc: oracle.Doc) -> float:
            seconds = age(doc)
            half = HALF.get(doc["source"], 2592000.0)
            return 1.0 if seconds is None or seconds <= 0 else 0.5 ** (seconds / half)

        before = [(doc, score * factor(doc)) for doc, score in case.before(query)]
        check(hits, oracle.by_score(before)[:40])


# ---- rerankers that are functions ----


def longest(query: str, texts: list[str]) -> list[float]:
    assert isinstance(query, str)
    return [float(len(text)) for text in texts]


async def longest_later(query: str, texts: list[str]) -> list[float]:
    await asyncio.sleep(0)
    return longest(query, texts)


@pytest.mark.parametrize("function", [longest, longest_later])
def test_a_function_reranks_the_window(function: Any) -> None:
    case = corpus(7)
    for query, hits in enumerate(case.ask(hr.RerankBy(function, window=6, timeout="30s"))):
        before = case.before(query)
        if case.texts[query] is not None:
            before = oracle.rerank(before, lambda doc: float(len(doc["text"])), 6)
        check(hits, before[:40])


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


EACH: list[Any] = [*(c[1] for c in ALONE), hr.Rerank(), hr.RerankBy(longest)]


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
