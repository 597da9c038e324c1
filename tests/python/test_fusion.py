"""What an arm's score is worth in a fusion, and how arms rank where a call names none."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import recipes
from laws.effort import Effort
from laws.engine import EngineSubject, arguments
from oracle.corpus import Draw, draw_call, draw_mix, draw_rows, draw_shape
from oracle.recall import Oracle
from seams import Newest

# ---- scales, votes, and the best score possible ----


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


# ---- several arms rank as recipes.default does where a call names no fusion ----

FUSION = hr.WeightedSum(normalize="minmax", balance=0.85)
BM25 = hr.BM25("lucene", k1=0.75, b=0.25)
WORDS = ("ash", "oak", "elm", "fir", "yew", "bay")
ASKED: dict[str, Any] = {"text": ["ash oak", None, "elm yew yew"], "scope": "ana"}
DEFAULT = recipes.default.replace(exact=False)


def built(texts: Any = "text", seed: int = 1, **options: Any) -> hr.Index:
    rng = np.random.default_rng(seed)
    n = 40
    table = pa.table({
        "id": list(range(n)),
        "user": ["ana" if one else "bob" for one in rng.random(n) < 0.9],
        "at": rng.permutation(n),
        "text": [" ".join(rng.choice(WORDS, rng.integers(1, 20))) for _ in range(n)],
        "title": [" ".join(rng.choice(WORDS, rng.integers(1, 4))) for _ in range(n)],
    })  # fmt: skip
    schema = hr.Schema(key="id", cell="user", text=texts, vector=("v", "w"), attributes="at")
    vectors = {arm: rng.standard_normal((n, 6)).astype(np.float32) for arm in ("v", "w")}
    return hr.Index.build(table, schema, vectors=vectors, **options)


def vectors(*arms: str) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {arm: rng.standard_normal((3, 6)).astype(np.float32) for arm in arms}


def table(hits: hr.Hits) -> pa.Table:
    assert hits.n_hits > 0
    return hits.to_arrow()


TEXTS: dict[str, Any] = {"one": "text", "two": {"words": "text", "title": "title"}}


@pytest.mark.parametrize("arms", [(), ("v",), ("v", "w")], ids=str)
@pytest.mark.parametrize("texts", TEXTS)
@pytest.mark.parametrize("beside", [(), Newest("at")], ids=["none", "newest"])
def test_the_default_has_the_bits_of_the_default_recipe(
    texts: str, arms: tuple[str, ...], beside: Any
) -> None:
    index = built(TEXTS[texts])
    asked = {**ASKED, "vectors": vectors(*arms) or None}
    plain = index.recall(**asked, arms=beside)
    n_arms = len(plain.trace.arms)
    more = () if beside == () else (beside,)
    if n_arms == 1:  # an arm alone has the constants of the index, in the recipe those it names
        assert table(plain).equals(table(index.recall(**asked, bm25=hr.BM25())))
        assert plain[0][0].explain().fusion == "the score of the only arm"
        return
    assert table(plain).equals(table(index.recall(**asked, recipe=DEFAULT.replace(more=more))))
    named = index.recall(**asked, arms=beside, fusion=FUSION, bm25=BM25)
    assert table(plain).equals(table(named))
    assert not table(plain).equals(table(index.recall(**asked, arms=beside, fusion=hr.RRF())))
    for one in plain:
        for hit in one:
            assert hit.explain().score == hit.score
            assert hit.explain().fusion == "weighted sum, balance 0.85"


def test_a_default_that_nobody_named_leaves_no_note() -> None:
    index = built(TEXTS["two"])
    assert index.recall(**ASKED).trace.notes == ()
    notes = index.recall(**ASKED, fusion=FUSION).trace.notes
    assert notes == ("balance has no effect: arms of one kind run",)


def test_constants_that_call_schema_or_build_name_are_kept() -> None:
    own = hr.BM25("okapi", k1=0.4, b=0.1)
    asked = {**ASKED, "vectors": vectors("v")}
    given = table(built().recall(**asked, bm25=own))
    by_schema = built(hr.Text("text", bm25=own))
    by_build = built(bm25=own)
    for index in (by_schema, by_build):
        assert table(index.recall(**asked)).equals(given)
        assert table(index.recall(**asked, bm25=BM25)).equals(table(built().recall(**asked)))
    field = built(hr.Text("text", bm25=hr.BM25()))  # named, though it is what others have unnamed
    assert table(field.recall(**asked)).equals(table(built().recall(**asked, bm25=hr.BM25())))
    # To build with the default by name says no more than to build without.
    assert table(built(bm25=hr.BM25()).recall(**asked)).equals(table(built().recall(**asked)))


def test_each_text_arm_has_its_own_constants_or_the_default() -> None:
    own = hr.BM25("okapi", k1=0.4, b=0.1)
    index = built({"words": "text", "title": hr.Text("title", bm25=own)})
    found = table(index.recall(**ASKED))
    assert found.equals(table(index.recall(**ASKED, bm25={"words": BM25, "title": own})))
    assert not found.equals(table(index.recall(**ASKED, bm25=BM25)))
    named = index.recall(**ASKED, bm25={"words": own})
    assert table(named).equals(table(index.recall(**ASKED, bm25=own)))


@pytest.mark.parametrize("named", ["nowhere", "schema", "build"])
def test_what_was_named_is_known_after_save_and_open(named: str, tmp_path: Path) -> None:
    own = hr.BM25(k1=0.9) if named == "build" else hr.BM25()
    index = {
        "nowhere": built,
        "schema": lambda: built(hr.Text("text", bm25=own)),
        "build": lambda: built(bm25=own),
    }[named]()
    asked = {**ASKED, "vectors": vectors("v")}
    before = table(index.recall(**asked))
    index.save(tmp_path / "index")
    again = hr.Index.open(tmp_path / "index")
    assert table(again.recall(**asked)).equals(before)
    expected = BM25 if named == "nowhere" else own
    assert before.equals(table(index.recall(**asked, bm25=expected)))


def test_a_named_fusion_leaves_the_constants_of_the_index() -> None:
    asked = {**ASKED, "vectors": vectors("v")}
    for fusion in (hr.RRF(), FUSION, hr.Max(), hr.DBSF()):
        found = table(built().recall(**asked, fusion=fusion))
        assert found.equals(table(built().recall(**asked, fusion=fusion, bm25=hr.BM25())))


# ---- BM25 options, fusions, floors and normalize: what each does to scores ----

F = np.float32


def index_of(texts: list[str | None], vectors: list[list[float]]) -> hr.Index:
    table = pa.table({"id": np.arange(len(texts)), "text": pa.array(texts, pa.string())})
    schema = hr.Schema(key="id", cell=None, text="text", vector="v")
    matrix = np.array(vectors, F).reshape(len(texts), -1)
    return hr.Index.build(table, schema, vectors={"v": matrix}, analyzer=hr.Analyzer("word"))


def test_options_are_frozen_and_equal_by_value() -> None:
    assert hr.RRF({"a": 1}) == hr.RRF({"a": 1.0})
    assert hr.RRF() != hr.RRF(rank_constant=1)
    assert hr.WeightedSum() != hr.Max()
    assert hr.DBSF() != hr.WeightedSum()
    assert hr.DBSF({"a": 2}) == hr.DBSF({"a": 2.0}, complete=True)
    assert hr.BM25("bm25+") == hr.BM25("bm25+", delta=1) != hr.BM25("bm25+", delta=0)
    assert hr.BM25("bm25l").delta == 0.5
    assert hr.BM25().delta is None
    assert hr.BM25(b=(0, 1)) == hr.BM25(b=[0.0, 1.0]) == hr.BM25(**hr.BM25(b=(0, 1)).to_dict())
    assert repr(hr.BM25(b=(0.25, 0.75))) == "BM25(variant='lucene', k1=1.2, b=(0.25, 0.75))"
    assert repr(hr.BM25()) == "BM25(variant='lucene', k1=1.2, b=0.75)"
    assert repr(hr.BM25("bm25l")) == "BM25(variant='bm25l', k1=1.2, b=0.75, delta=0.5)"
    assert hr.BM25("okapi") == hr.BM25("okapi", k1=1.5)
    assert len({hr.RRF(), hr.RRF(), hr.Max(), hr.BM25(), hr.Above(1)}) == 4
    for option in (hr.BM25(), hr.RRF(), hr.Max(), hr.DBSF(), hr.Above(0.5)):
        with pytest.raises(AttributeError):
            option.weights = None  # type: ignore[union-attr,misc]


def test_numpy_scalars_are_numbers() -> None:
    assert hr.BM25(k1=np.float64(0.5), b=np.float32(0.5)) == hr.BM25(k1=0.5, b=0.5)
    assert hr.RRF({"a": np.int64(2)}) == hr.RRF({"a": 2})
    assert hr.Above(np.float16(0.5)) == hr.Above(0.5)


def test_an_arm_that_is_not_named_has_weight_1_in_every_fusion() -> None:
    index = index_of(["hot tea", "tea", "milk"], [[1, 0], [1, 1], [0, 1]])
    for kind in (hr.RRF, hr.WeightedSum, hr.Max):
        short, full = kind({"text": 3}), kind({"text": 3, "v": 1})
        asked: dict[str, Any] = {"text": ["hot tea"], "vectors": [[0, 1]]}
        wanted = index.recall(**asked, fusion=full).to_arrow()
        assert index.recall(**asked, fusion=short).to_arrow().equals(wanted)
        assert index.recall(**asked, fusion=kind({"text": 0})).trace.arms == ("v",)


# ---- normalize ----


def test_normalize_keeps_the_order_and_brings_scores_to_0_1(effort: Effort) -> None:
    seen = set()
    for seed in range(effort.cases(quick=60, full=5000)):
        draw = Draw(f"normalize {seed}")
        shape = draw_shape(draw)
        rows = draw_rows(draw, shape, draw_mix(draw))
        call = draw_call(draw, Oracle(shape, rows), 8)
        asked = arguments(shape, call)
        index = EngineSubject(shape, rows).index
        plain = index.recall(**asked).to_arrow()
        scaled = index.recall(**asked, normalize=True).to_arrow()
        same = [name for name in plain.column_names if name != "score"]
        assert plain.select(same).equals(scaled.select(same))
        raw, new = (np.array(table.column("score")) for table in (plain, scaled))
        assert ((new >= 0) & (new <= 1)).all()
        queries = np.array(plain.column("query"))
        for query in np.unique(queries):
            here = new[queries == query]
            assert (np.diff(here) <= 0).all()
            positive = raw[queries == query] > 0
            assert (here[positive] > 0).all()
        seen.add(type(asked.get("fusion")).__name__)
    assert seen == {"NoneType", "RRF", "WeightedSum", "Max", "DBSF"}


def test_normalize_with_one_arm_divides_by_the_lists_best() -> None:
    index = index_of(["tea", "tea cup", "milk"], [[1, 0], [1, 1], [-1, 0]])
    raw = [hit.score for hit in index.recall_one(vector=[1, 0])]
    scaled = [hit.score for hit in index.recall_one(vector=[1, 0], normalize=True)]
    assert scaled == [max(score / raw[0], 0.0) for score in raw]
    assert scaled[0] == 1.0
    second = index.recall_one(vector=[1, 0], normalize=True, offset=1)
    assert [hit.score for hit in second] == scaled[1:]
    negative = index.recall_one(vector=[-1, -1e-3], normalize=True, min_score=-2, limit=3)
    assert [hit.key for hit in negative] == [2, 1, 0]
    worst = index.recall_one(vector=[-1, 0], min_score={"v": -2}, normalize=True, limit=3)
    assert [hit.score for hit in worst] == [1.0, 0.0, 0.0]


# ---- fusions in their corners ----


def test_dbsf_counts_standard_deviations_and_clips_nothing() -> None:
    cosines = [1.0] + [0.0] * 20  # one of 21: four and a half deviations above the mean
    index = index_of([None] * 21, [[c, math.sqrt(1 - c * c)] for c in cosines])
    hits = index.recall_one(vector=[1, 0], fusion=hr.DBSF({"v": 2}), limit=21)
    mean, deviation = 1 / 21, math.sqrt(20) / 21
    expected = [2 * (c - (mean - 3 * deviation)) / (6 * deviation) for c in cosines]
    assert [hit.score for hit in hits] == pytest.approx(expected, rel=1e-12)
    assert hits[0].score > 2.0
    scaled = index.recall_one(vector=[1, 0], fusion=hr.DBSF(), limit=21, normalize=True)
    assert [hit.score for hit in scaled] == pytest.approx([c / expected[0] for c in expected])
    assert scaled[0].score == 1.0
