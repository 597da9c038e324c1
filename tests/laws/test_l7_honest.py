"""L7: nothing in a reply looks like what it is not; what would be ignored is refused."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.errors import HyrecallError
from laws.engine import EngineSubject
from oracle.documents import Row, Shape

SHAPE = Shape(dense={"embedding": 2})
NOTHING = dict.fromkeys(("kind", "number", "price", "at", "tags"))
ROWS = [
    Row("both", ("ana",), {"text": "ash bay"}, {"embedding": np.array([1, 0], "f4")}, NOTHING),
    Row("text", ("ana",), {"text": "ash"}, {"embedding": None}, NOTHING),
    Row("vector", ("ana",), {"text": None}, {"embedding": np.array([0, 1], "f4")}, NOTHING),
    Row("zero", ("ana",), {"text": ""}, {"embedding": np.zeros(2, "f4")}, NOTHING),
    Row("other", ("ana",), {"text": "fog"}, {"embedding": np.array([-1, 0], "f4")}, NOTHING),
]
QUERY = [[1.0, 0.0]]


@pytest.fixture
def index(make_engine: Callable[..., EngineSubject]) -> hr.Index:
    return make_engine(SHAPE, ROWS).index


@pytest.fixture
def lexical(make_engine: Callable[..., EngineSubject]) -> hr.Index:
    rows = [Row(row.key, row.cell, row.texts, {}, NOTHING) for row in ROWS]
    return make_engine(Shape(dense={}), rows).index


def columns(hits: "hr.Hits", *names: str) -> list[tuple[object, ...]]:
    drawn = hits.to_arrow()
    return list(zip(*(drawn[name].to_pylist() for name in names), strict=True))


def test_a_component_that_was_not_computed_is_null(index: hr.Index) -> None:
    hits = index.recall(text=["ash"], vectors=QUERY, scope="ana")
    found = {row[0]: row[1:] for row in columns(hits, "key", "text_score", "embedding_score")}
    assert set(found) == {"both", "text", "vector", "other"}
    assert found["text"][1] is None
    assert found["vector"] == (None, 0.0)
    assert found["other"] == (0.0, -1.0)
    assert all(score is not None for score in found["both"])


def test_a_rank_is_null_outside_the_list_of_the_arm(index: hr.Index) -> None:
    hits = index.recall(text=["ash"], vectors=QUERY, scope="ana")
    ranks = {row[0]: row[1:] for row in columns(hits, "key", "text_rank", "embedding_rank")}
    assert ranks == {"both": (2, 1), "text": (1, None), "vector": (None, 2), "other": (None, 3)}


def test_a_query_that_is_missing_leaves_its_arm_null(index: hr.Index) -> None:
    hits = index.recall(text=[None, "ash"], vectors=[[1.0, 0.0], None], scope="ana")
    found = columns(hits, "query", "text_score", "embedding_score")
    assert {row[0] for row in found} == {0, 1}
    for query, text, vector in found:
        assert (text is None) == (query == 0)
        assert (vector is None) == (query == 1)


def test_a_zero_query_vector_is_a_missing_one(index: hr.Index) -> None:
    zero = index.recall(text=["ash"], vectors=[[0.0, 0.0]], scope="ana")
    none = index.recall(text=["ash"], vectors=[None], scope="ana")
    assert zero.to_arrow().equals(none.to_arrow())
    assert index.recall(vectors=[[0.0, 0.0]], scope="ana").to_arrow().num_rows == 0


def test_short_replies_are_short(index: hr.Index) -> None:
    hits = index.recall(text=["bay", "absent", "", "ash"], scope="ana", limit=50)
    assert [len(hits[query]) for query in range(4)] == [1, 0, 0, 2]
    assert columns(hits, "query", "rank") == [(0, 1), (3, 1), (3, 2)]


def test_zero_vectors_and_empty_texts_are_never_candidates(index: hr.Index) -> None:
    assert ("zero",) not in columns(index.recall(vectors=QUERY, scope="ana", limit=50), "key")
    assert ("zero",) not in columns(index.recall(text=["ash"], scope="ana", limit=50), "key")


def test_types_of_the_reply_are_those_of_the_contract(index: hr.Index) -> None:
    reply = index.recall(text=["ash"], vectors=QUERY, scope="ana").to_arrow()
    types = {field.name: field.type for field in reply.schema}
    assert types["query"] == types["rank"] == types["text_rank"] == pa.int32()
    assert types["score"] == pa.float64()
    assert types["text_score"] == types["embedding_score"] == pa.float32()
    assert types["embedding_rank"] == pa.int32()
    assert [field.name for field in reply.schema][:5] == ["query", "rank", "key", "tenant", "score"]


def test_a_reply_that_is_whole_is_not_degraded(index: hr.Index) -> None:
    assert not index.recall(text=["ash"], vectors=QUERY, scope="ana").degraded


def test_normalised_scores_keep_the_order_and_stay_within_one(index: hr.Index) -> None:
    plain = index.recall(text=["ash"], vectors=QUERY, scope="ana")
    scaled = index.recall(text=["ash"], vectors=QUERY, scope="ana", normalize=True)
    assert columns(plain, "key", "rank") == columns(scaled, "key", "rank")
    scores = [score for (score,) in columns(scaled, "score")]
    assert all(0.0 <= score <= 1.0 for score in scores)
    assert scores == sorted(scores, reverse=True)


REFUSED: dict[str, Callable[[], dict[str, object]]] = {
    "a depth without an arm": lambda: {"depth": 5},
    "no arm at all": lambda: {"vectors": {}},
    "a fusion where columns order": lambda: {
        "text": ["ash"], "sort": "number", "fusion": hr.RRF(),
    },
    "a weight of no arm": lambda: {
        "text": ["ash"], "vectors": QUERY, "fusion": hr.RRF(weights={"text": 1, "nowhere": 1}),
    },
    "alpha beside weights": lambda: {
        "text": ["ash"], "vectors": QUERY, "fusion": hr.RRF(alpha=0.5, weights={"text": 1}),
    },
    "a floor of no arm": lambda: {"text": ["ash"], "min_score": {"nowhere": 0.5}},
    "a floor of an arm not asked": lambda: {"text": ["ash"], "min_score": {"embedding": 0.5}},
    "a fused floor without fusion": lambda: {"text": ["ash"], "min_fused": 0.5},
    "a filter on no attribute": lambda: {"text": ["ash"], "filter": hr.Filter(nowhere=1)},
    "a column that is not stored": lambda: {"text": ["ash"], "columns": ("nowhere",)},
    "texts and vectors of two lengths": lambda: {"text": ["ash", "bay"], "vectors": QUERY},
    "bm25 without a lexical arm": lambda: {"vectors": QUERY, "bm25": hr.BM25("okapi")},
    "bm25 of an arm that alpha leaves out": lambda: {
        "text": ["ash"], "vectors": QUERY, "fusion": hr.RRF(alpha=1), "bm25": hr.BM25("okapi"),
    },
    "bm25 of an arm of weight 0": lambda: {
        "text": ["ash"], "vectors": QUERY, "fusion": hr.Max({"text": 0}),
        "bm25": {"text": hr.BM25("okapi")},
    },
    "an arm that is not there": lambda: {"text": {"nowhere": ["ash"]}},
    "a vector of another dimension": lambda: {"vectors": [[1.0, 0.0, 0.0]]},
    "a vector that is not finite": lambda: {"vectors": [[float("nan"), 0.0]]},
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_would_be_ignored_is_refused(what: str, index: hr.Index) -> None:
    with pytest.raises(HyrecallError, match=r"^\w+.*: expected .*, got "):
        index.recall(**REFUSED[what](), scope="ana")


def test_alpha_without_its_second_arm_changes_nothing(index: hr.Index) -> None:
    replies = [
        index.recall(text=["ash"], scope="ana", fusion=hr.RRF(alpha=alpha)).to_arrow()
        for alpha in (0.0, 0.5, 1.0)
    ]
    assert replies[0].num_rows == 2
    assert replies[0].equals(replies[1])
    assert replies[0].equals(replies[2])


def test_vectors_are_refused_where_there_is_no_dense_arm(lexical: hr.Index) -> None:
    with pytest.raises(HyrecallError, match="vectors"):
        lexical.recall(text=["ash"], vectors=QUERY, scope="ana")


def test_an_unknown_option_is_refused(index: hr.Index) -> None:
    with pytest.raises(TypeError):
        index.recall(text=["ash"], scope="ana", windo=3)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("verb", ["build", "add", "upsert"])
def test_numbers_that_are_not_finite_are_refused_with_their_row(
    bad: float, verb: str, make_engine: Callable[..., EngineSubject]
) -> None:
    spoiled = Row("x", ("ana",), {"text": "ash"}, {"embedding": np.array([bad, 0], "f4")}, NOTHING)
    rows = [Row("y", ("ana",), {"text": "ash"}, {"embedding": None}, NOTHING), spoiled]
    subject = make_engine(SHAPE, ROWS)
    before = subject.index.recall(text=["ash"], vectors=QUERY, scope="ana").to_arrow()
    write = partial(make_engine, SHAPE) if verb == "build" else getattr(subject, verb)
    with pytest.raises(HyrecallError, match=r"embedding.*row 1"):
        write(rows)
    after = subject.index.recall(text=["ash"], vectors=QUERY, scope="ana").to_arrow()
    assert before.equals(after)
