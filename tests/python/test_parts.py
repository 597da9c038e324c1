"""The parts of a recipe refuse by name what they cannot be, and keep the rest as plain data."""

from collections.abc import Callable
from dataclasses import MISSING, fields, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import arms
from seams import Dense, Fill, Lexical, Recipe, Tables, TieBreak, WithThreads

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
