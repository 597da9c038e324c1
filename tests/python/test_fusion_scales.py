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


RNG = np.random.default_rng(5)
ROWS = RNG.standard_normal((12, 3)).astype(np.float32)
QUERY = RNG.standard_normal(3)


@pytest.fixture(scope="module")
def twelve() -> hr.Index:
    table = pa.table({"id": range(12), "text": ["tea", "milk tea", "tea tea oat", "oat"] * 3})
    schema = hr.Schema(key="id", cell=None, text="text", vector="v")
    return hr.Index.build(table, schema, vectors={"v": ROWS})


@pytest.mark.parametrize("dense", SCALES)
@pytest.mark.parametrize("lexical", SCALES)
@pytest.mark.parametrize("kind", [hr.WeightedSum, hr.Max])
def test_each_arm_may_have_a_scale_of_its_own(
    twelve: hr.Index, kind: Any, lexical: Any, dense: Any
) -> None:
    fusion = kind({"text": 0.4}, normalize={"text": lexical, "v": dense})
    hits = twelve.recall_one(text="tea oat", vector=QUERY, fusion=fusion, limit=12)
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


# ---- an arm that lists nothing, and documents that an arm does not tell apart

JOINED = [
    hr.WeightedSum(),
    hr.WeightedSum({"text": 0.3}, normalize="none"),
    hr.WeightedSum(balance=0.5),
    hr.WeightedSum(complete=False),
    hr.Max(),
    hr.Max({"text": 2.0}, normalize={"text": "unit", "v": "best"}),
    hr.DBSF(),
    hr.RRF(),
    None,
]
# What no document answers; the last one is no query at all.
NOTHING = [
    *("zzzz", "zzzz qqqq", "", " ", "?!", "\N{ROCKET}", "the and of"),
    *(hr.Phrase("caption a b c"), hr.All("caption", "zzzz"), None),
]


def captions(analyzer: hr.Analyzer | None = None) -> hr.Index:
    """Documents with a text, a vector or both: the nearest ones have no text."""
    texts = [None, "a caption", "another caption", "", "one more caption", None]
    table = pa.table({"id": list("abcdef"), "text": pa.array(texts, pa.string())})
    rows = np.array([[1, 0], [0.5, 0.5], [0, 1], [0.9, 0.1], [0, 0], [0.8, 0.2]], np.float32)
    schema = hr.Schema(key="id", cell=None, text="text", vector="v")
    stops = hr.Analyzer("unicode", stopwords="english") if analyzer is None else analyzer
    return hr.Index.build(table, schema, vectors={"v": rows}, analyzer=stops)


def scored(hits: hr.QueryHits) -> list[tuple[Any, float]]:
    return [(hit.key, hit.score) for hit in hits]


@pytest.mark.parametrize("fusion", JOINED, ids=repr)
@pytest.mark.parametrize("normalize", [False, True])
def test_a_text_that_nothing_matches_is_as_no_text(fusion: Any, *, normalize: bool) -> None:
    index = captions()
    options = {"fusion": fusion, "normalize": normalize, "limit": 6}
    # A query that matches stands among them, so that the arm runs.
    texts = [*NOTHING, "caption"]
    hits = index.recall(text=texts, vectors=[[1.0, 0.0]] * len(texts), **options)
    expected = scored(hits[len(NOTHING) - 1])
    assert [key for key, _ in expected] == ["a", "d", "f", "b", "c"]
    for one in list(hits)[: len(NOTHING)]:
        assert scored(one) == expected
        for hit in one:
            made = hit.explain()
            assert made.score == hit.score
            assert made.components[0].contribution == 0.0
    assert scored(hits[len(NOTHING)]) != expected


def test_a_vector_that_no_row_may_answer_is_as_no_vector() -> None:
    index = captions()
    index.delete(list("abcdf"))
    texts = {"text": "caption more", "fusion": hr.WeightedSum(), "limit": 6}
    assert scored(index.recall_one(vector=[1.0, 0.0], **texts)) == [("e", 1.0)]


def test_a_floor_on_fused_scores_cuts_what_no_arm_answers() -> None:
    asked = {"text": "zzzz", "vector": [1.0, 0.0], "fusion": hr.WeightedSum(), "min_fused": 0.95}
    assert captions().recall_one(**asked).keys == ["a", "d", "f"]


def test_a_text_that_nothing_matches_says_nothing_of_threads_and_lengths() -> None:
    table = pa.table(
        {
            "id": list("abcd"),
            "text": ["tea", None, "a longer text of tea", "milk"],
            "talk": ["x", "x", "y", "y"],
            "turn": [0, 1, 0, 1],
        }
    )
    schema = hr.Schema(key="id", cell=None, text="text", vector="v", thread="talk", place="turn")
    rows = np.array([[1, 0], [0.9, 0.1], [0.5, 0.5], [0, 1]], np.float32)
    index = hr.Index.build(table, schema, vectors={"v": rows})
    around = hr.Around(thread=0.25, length=0.4)
    for fusion in (hr.WeightedSum(), hr.RRF(), hr.DBSF()):
        asked = {"vectors": [[1.0, 0.0]] * 3, "fusion": fusion, "shaping": (around,), "limit": 4}
        hits = index.recall(text=["zzzz", None, "tea"], **asked)
        assert scored(hits[0]) == scored(hits[1]) != scored(hits[2])


def equal_rows(order: str) -> hr.Index:
    """Rows that differ in their key alone, and a better one, stored in this order."""
    rows = np.array([[1, 0] if key == "z" else [1, 1] for key in order], np.float32)
    texts = ["tea tea" if key == "z" else "tea" for key in order]
    schema = hr.Schema(key="id", cell=None, text="text", vector="v")
    table = pa.table({"id": list(order), "text": texts})
    return hr.Index.build(table, schema, vectors={"v": rows})


@pytest.mark.parametrize("order", ["zabc", "cbza", "bzca"])
def test_equal_scores_of_an_arm_share_a_rank_whatever_the_order_of_writing(order: str) -> None:
    index = equal_rows(order)
    hits = index.recall_one(text="tea", vector=[1.0, 0.0], fusion=hr.RRF())
    ranks = {hit.key: (hit.arm_rank("text"), hit.arm_rank("v"), hit.score) for hit in hits}
    assert ranks == {"z": (1, 1, 2 / 61)} | dict.fromkeys("abc", (2, 2, 2 / 62))
    assert hits.keys == ["z", *order.replace("z", "")]  # the order of equal sums is that of writing
    assert all(hit.explain().score == hit.score for hit in hits)
    for asked in ({"text": "tea"}, {"vector": [1.0, 0.0]}):
        (arm,) = index.recall(**{f"{name}s" if name == "vector" else name: [value]
                                 for name, value in asked.items()}).trace.arms  # fmt: skip
        assert [hit.arm_rank(arm) for hit in index.recall_one(**asked)] == [1, 2, 2, 2]
        later = index.recall_one(**asked, offset=2, limit=2)
        assert [(hit.rank, hit.arm_rank(arm)) for hit in later] == [(3, 2), (4, 2)]


def test_votes_have_ranks_by_place_as_loom_has() -> None:
    fusion = hr.RRF(alpha=0.5, alpha_mode="votes")
    hits = equal_rows("zabc").recall_one(text="tea", vector=[1.0, 0.0], fusion=fusion)
    assert [hit.arm_rank("text") for hit in hits] == [1, 2, 3, 4]
    assert [hit.score for hit in hits] == [2 / 61, 2 / 62, 2 / 63, 2 / 64]
