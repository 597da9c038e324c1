"""Fusion and recall by hand, with the published numbers of the systems that use them."""

import pytest

from oracle.fusion import Dbsf, Rrf, Weighted, alpha_weights, fuse

BOTH = {"a": 1.0, "b": 1.0}
RANKS = {"a": {1: 1, 2: 2, 3: 3}, "b": {2: 1, 1: 2}}
SCORES = {"a": {1: 9.0, 2: 5.0, 3: 1.0}, "b": {1: 0.25, 2: 0.75, 3: None}}


def test_rrf_gives_the_published_numbers() -> None:
    fused = fuse(Rrf(), SCORES, RANKS, BOTH)
    assert fused[1] == fused[2] == 1 / 61 + 1 / 62
    assert fused[1] == pytest.approx(0.032522, abs=5e-7)
    assert fused[3] == 1 / 63


def test_alpha_gives_the_dense_arm_twice_alpha() -> None:
    assert alpha_weights(0.25, "a", "b") == {"a": 1.5, "b": 0.5}
    assert fuse(Rrf(), SCORES, RANKS, {"a": 1.5, "b": 0.5})[3] == 1.5 / 63


def test_minmax_is_over_the_union_and_null_adds_nothing() -> None:
    fused = fuse(Weighted(), SCORES, RANKS, BOTH)
    assert fused == {1: 1.0 + 0.0, 2: 0.5 + 1.0, 3: 0.0}


def test_minmax_of_equal_scores_is_one() -> None:
    scores = {"a": {1: 3.0, 2: 3.0}}
    assert fuse(Weighted(), scores, {"a": {1: 1, 2: 2}}, {"a": 0.5}) == {1: 0.5, 2: 0.5}


@pytest.mark.parametrize("fusion", [Weighted(), Weighted(largest=True), Dbsf()])
def test_an_arm_that_lists_nothing_adds_nothing(fusion: Weighted) -> None:
    scores = {"a": {1: 0.0, 2: 0.0, 3: None}, "b": {1: 0.25, 2: 0.75, 3: 0.5}}
    ranks = {"a": {}, "b": {2: 1, 3: 2, 1: 3}}
    alone = fuse(fusion, {"b": scores["b"]}, {"b": ranks["b"]}, BOTH)
    assert fuse(fusion, scores, ranks, BOTH) == alone
    heard = fuse(fusion, scores, ranks | {"a": {1: 1}}, BOTH)  # control: with one hit it counts
    assert heard[1] == alone[1] + 1.0 if not fusion.largest else heard[1] == 1.0


def test_without_completion_what_is_not_listed_is_zero() -> None:
    scores = {"a": {1: 8.0, 2: 4.0, 3: 0.0}, "b": {1: 0.5, 2: 0.25, 3: 0.75}}
    ranks = {"a": {1: 1, 2: 2}, "b": {3: 1}}
    assert fuse(Weighted(complete=False), scores, ranks, BOTH) == {1: 1.0, 2: 0.0, 3: 1.0}
    assert fuse(Weighted(), scores, ranks, BOTH) == {1: 1.5, 2: 0.5, 3: 1.0}


def test_maximum_takes_the_larger_weighted_score() -> None:
    fused = fuse(Weighted(largest=True, normalize="none"), SCORES, RANKS, {"a": 0.1, "b": 2.0})
    assert fused == {1: 9.0 * 0.1, 2: 1.5, 3: 0.1}


def test_contributions_are_added_largest_first() -> None:
    tiny = 2.0**-53
    scores = {"a": {1: tiny}, "b": {1: tiny}, "c": {1: 1.0}}
    fused = fuse(
        Weighted(normalize="none"),
        scores,
        {arm: {1: 1} for arm in scores},
        dict.fromkeys(scores, 1.0),
    )
    assert fused[1] == 1.0  # smallest first would give 1 + 2^-52
