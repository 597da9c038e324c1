"""How the lists of two arms are joined, and what stages do to the joined list."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import numpy as np
import pytest

import hyrecall as hr
from conformance.faces import refused
from conformance.index_faces import Index, World, reference
from conformance.index_worlds import DAY, DRAWN, ONE_ARM, TEAS, ask, cells, keys, row, same
from oracle.fusion import Dbsf, Fusion, Rrf, Weighted

FUSIONS: dict[str, Fusion] = {
    "rrf": Rrf(),
    "rrf 5": Rrf(rank_constant=5),
    "weighted rrf": Rrf(weights={"text": 2.0, "embedding": 0.5}),
    "alpha 0": Rrf(alpha=0.0),
    "alpha .5": Rrf(alpha=0.5),
    "alpha .8": Rrf(alpha=0.8),
    "alpha 1": Rrf(alpha=1.0),
    "sum": Weighted(),
    "weighted sum": Weighted({"text": 0.7, "embedding": 0.3}),
    "largest": Weighted(largest=True),
    "dbsf": Dbsf(),
}


@pytest.mark.parametrize("name", FUSIONS)
def test_B09_B10_B11_a_fusion_equals_its_definition(
    make_index: Callable[..., Index], name: str
) -> None:
    index = make_index(DRAWN)
    calls = [
        ask("grow ash", [1, 0, 2], cells(tenant), fusion=FUSIONS[name], limit=12)
        for tenant in ("ana", "bob")
    ]
    same(index, DRAWN, *calls)


def test_B09_reciprocal_ranks_count_from_one(index: Index) -> None:
    (found,) = index.recall(ask("hot tea", [1, 0, 0], fusion=Rrf()))
    assert (found[0].key, found[0].score) == ("hot", 1 / 61 + 1 / 61)
    assert found[0].arm_ranks == (1, 1)
    bean = next(hit for hit in found if hit.key == "bean")
    assert bean.arm_ranks[0] is None  # in one list alone
    assert bean.score == 1 / (60 + bean.arm_ranks[1])


def test_two_second_places_beat_one_first(make_index: Callable[..., Index]) -> None:
    rows = (
        row("words", "ana", "tea tea tea", None), row("near", "ana", None, [1, 0, 0]),
        row("both", "ana", "tea cake plate", [0.9, 0.1, 0]),
    )  # fmt: skip
    (found,) = make_index(World(ONE_ARM, rows)).recall(ask("tea", [1, 0, 0], fusion=Rrf()))
    assert [hit.key for hit in found] == ["both", "words", "near"]
    assert [hit.score for hit in found] == [1 / 62 + 1 / 62, 1 / 61, 1 / 61]


def test_scales_of_vectors_do_not_reach_the_ranks(make_index: Callable[..., Index]) -> None:
    scaled = tuple(
        row(str(one.key), one.cell[0], one.texts["text"],
            None if one.vectors["embedding"] is None else (one.vectors["embedding"] * 4).tolist())
        for one in TEAS.rows
    )  # fmt: skip
    call = ask("tea", [1, 2, 0], fusion=Rrf())
    assert make_index(World(ONE_ARM, scaled)).recall(call) == reference(TEAS).recall(call)


def test_B10_an_arm_of_weight_0_is_left_out(index: Index) -> None:
    weights = {"text": 1.0, "embedding": 0.0}
    (found,) = index.recall(ask("hot tea", [0, 0, 1], fusion=Rrf(weights=weights)))
    assert [hit.key for hit in found] == ["hot", "cold", "green"]
    assert all(hit.arm_scores[1] is None for hit in found)


def test_a_floor_on_the_fused_score(index: Index) -> None:
    call = ask("hot tea", [1, 0, 0], fusion=Rrf(), min_fused=0.03)
    same(index, TEAS, call)
    assert keys(index.recall(call)) == [["hot", "cold", "green"]]


def test_alpha_outside_0_and_1_is_refused(index: Index) -> None:
    for alpha in (-0.1, 1.5):
        with refused("value", "alpha"):
            index.recall(ask("tea", [1, 0, 0], fusion=Rrf(alpha=alpha)))


# ---- stages: a reply is that of the plain index, whose stages the laws check ----

CLONES = World(
    ONE_ARM,
    (
        row("one", "ana", "tea", [1, 0, 0], number=1, kind="session"),
        row("two", "ana", "tea", [1, 0.02, 0], number=2, kind="memory"),
        row("three", "ana", "tea tea", [1, 0, 0.02], number=3, kind="memory"),
        row("odd", "ana", "tea cake", [0, 1, 0], number=4, kind="summary"),
    ),
    is_fixed=True,
)  # by cosine to (1, 0.9, 0): two, one, three, odd
STAGES: dict[str, tuple[tuple[object, ...], list[str]]] = {
    "dedup": ((hr.Dedup(0.9),), ["two", "odd"]),
    "dedup that prefers": ((hr.Dedup(0.9, keep="kind", prefer=("session",)),), ["one", "odd"]),
    "mmr": ((hr.MMR(0.5),), ["two", "odd", "three", "one"]),
    "provenance": ((hr.Provenance("kind", {"summary": 9.0}),), ["odd", "two", "one", "three"]),
    "budget": ((hr.Budget(2),), ["two", "one"]),
    "dedup, then budget": ((hr.Dedup(0.9), hr.Budget(3)), ["two", "odd"]),
}


@pytest.mark.parametrize("name", STAGES)
def test_stages_rank_alike(make_index: Callable[..., Index], name: str) -> None:
    stages, order = STAGES[name]
    call = ask(vector=[1, 0.9, 0])
    found = make_index(CLONES).recall(call, shaping=stages)
    assert keys(found) == [order]
    assert found == reference(CLONES).recall(call, shaping=stages)


def test_a_rerank_by_cosine_keeps_the_scores_of_the_places(
    make_index: Callable[..., Index],
) -> None:
    index, call = make_index(CLONES), ask("tea cake", [1, 0, 0], fusion=Rrf(weights={"text": 9.0}))
    (plain,), (found,) = index.recall(call), index.recall(call, shaping=(hr.Rerank(10),))
    assert [hit.key for hit in plain] == ["odd", "three", "one", "two"]
    assert [hit.key for hit in found] == ["one", "three", "two", "odd"]
    assert [hit.score for hit in found] == [hit.score for hit in plain]


def test_recency_halves_a_score_at_its_half_life(make_index: Callable[..., Index]) -> None:
    rows = (row("new", "ana", "tea", None, at=DAY), row("none", "ana", "tea", None))
    index = make_index(World(ONE_ARM, rows))
    stage = hr.Recency("at", half_life="30d")
    (plain,) = index.recall(ask("tea"))
    (found,) = index.recall(ask("tea"), shaping=(stage,), now=DAY + timedelta(days=30))
    assert [(hit.key, hit.score) for hit in found] == [
        ("none", plain[1].score), ("new", plain[0].score / 2),
    ]  # fmt: skip


def test_stages_are_explained_to_the_last_bit(make_index: Callable[..., Index]) -> None:
    index = make_index(CLONES)
    (found,) = index.explained(ask("tea", [1, 0, 0]), shaping=(hr.Dedup(0.9999), hr.MMR(0.5)))
    assert len(found) == 4
    assert all(score == told for score, told in found)


def test_the_newest_as_an_arm(make_index: Callable[..., Index]) -> None:
    index = make_index(CLONES)
    arms = (hr.arms.Newest("number"),)
    call = ask("cake", fusion=Rrf())
    found = index.recall(call, arms=arms)
    assert found == reference(CLONES).recall(call, arms=arms)
    assert keys(found)[0][0] == "odd"
    assert np.isfinite([hit.score for hit in found[0]]).all()
