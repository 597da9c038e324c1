"""What an arm's score is worth in a fusion: scales, votes, and the best score possible."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr


@pytest.mark.parametrize("fusion", [hr.RRF(), hr.WeightedSum(), hr.Max(), hr.DBSF()], ids=repr)
def test_the_best_score_possible_leaves_out_arms_that_found_nothing_for_the_query(
    fusion: hr.RRF,
) -> None:
    table = pa.table({"id": [1, 2], "text": ["hot tea", "cold milk"]})
    schema = hr.Schema(key="id", cell=None, text="text", vector="v")
    index = hr.Index.build(table, schema, vectors={"v": np.eye(2, dtype=np.float32)})
    hits = index.recall(
        text=[None, "hot", "absent"],
        vectors=np.eye(2, dtype=np.float32)[[0, 0, 0]],
        normalize=True,
        fusion=fusion,
    )
    assert [one[0].score for one in hits] == [1.0, 1.0, 1.0]


SCALES: dict[str, Any] = {
    "best": lambda s, low, high: s / high if s > 0 and high > 0 else 0.0,
    "clip": lambda s, low, high: min(max(s, 0.0), 1.0),
    "unit": lambda s, low, high: (1 + s) / 2,
    "none": lambda s, low, high: s,
    "minmax": lambda s, low, high: (s - low) / (high - low) if high > low else 1.0,
}


@pytest.mark.parametrize("dense", SCALES)
@pytest.mark.parametrize("lexical", SCALES)
@pytest.mark.parametrize("kind", [hr.WeightedSum, hr.Max])
def test_each_arm_may_have_a_scale_of_its_own(kind: Any, lexical: Any, dense: Any) -> None:
    rng = np.random.default_rng(5)
    table = pa.table({"id": range(12), "text": ["tea", "milk tea", "tea tea oat", "oat"] * 3})
    schema = hr.Schema(key="id", cell=None, text="text", vector="v")
    rows = rng.standard_normal((12, 3)).astype(np.float32)
    index = hr.Index.build(table, schema, vectors={"v": rows})
    fusion = kind({"text": 0.4}, normalize={"text": lexical, "v": dense})
    hits = index.recall_one(text="tea oat", vector=rng.standard_normal(3), fusion=fusion, limit=12)
    ends = {}
    for arm in ("text", "v"):
        scores = [score for hit in hits if (score := hit.arm_score(arm)) is not None]
        ends[arm] = (min(scores), max(scores))
    for hit in hits:
        parts = [
            0.4 * SCALES[lexical](hit.bm25_score, *ends["text"]),
            SCALES[dense](hit.vector_score, *ends["v"]),
        ]
        expected = max(parts) if kind is hr.Max else sum(sorted(parts, reverse=True))
        assert hit.score == pytest.approx(expected, rel=1e-12, abs=1e-15)
        assert hit.explain().score == hit.score
    # An arm that the mapping leaves out is scaled as by default.
    assert kind(normalize={"text": lexical}).scale_of("v") == "minmax"


VOTES = [
    (0.0, (2.0, 0.0)),
    (0.1, (4.0, 1.0)),
    (0.44, (2.0, 1.0)),
    (0.45, (1.0, 1.0)),
    (0.5, (1.0, 1.0)),
    (0.56, (1.0, 2.0)),
    (0.75, (1.0, 3.0)),
    (0.95, (1.0, 5.0)),
    (1.0, (0.0, 2.0)),
]


@pytest.mark.parametrize(("alpha", "shares"), VOTES)
def test_A16_votes_are_whole_lists(alpha: float, shares: tuple[float, float]) -> None:
    assert hr.RRF(alpha=alpha, alpha_mode="votes").shares == shares
    table = pa.table({"id": [1, 2, 3], "text": ["hot tea", "tea", "milk"]})
    schema = hr.Schema(key="id", cell=None, text="text", vector="v")
    index = hr.Index.build(table, schema, vectors={"v": np.eye(3, dtype=np.float32)})
    ask = {"text": "tea", "vector": np.array([0.1, 0.2, 0.9])}
    voted = index.recall_one(fusion=hr.RRF(alpha=alpha, alpha_mode="votes"), **ask)
    given = index.recall_one(fusion=hr.RRF({"text": shares[0], "v": shares[1]}), **ask)
    assert [(h.key, h.score) for h in voted] == [(h.key, h.score) for h in given]


def test_votes_need_alpha() -> None:
    with pytest.raises(hr.OptionError, match="alpha_mode: expected 'weights', or with alpha="):
        hr.RRF(alpha_mode="votes")
