"""Every refusal of recall and recall_one: its class, its words, and the argument it names."""

from typing import Any

import numpy as np
import pytest

import hyrecall as hr
from small_index import BOTH, ONE, TEXT, refused

RECALL: list[tuple[dict[str, Any], type[hr.HyrecallError], str]] = [
    # what is asked
    ({"scope": "ana"}, hr.OptionError, "text: expected text= or vectors=, or both, got neither"),
    (
        {"text": "tea", "scope": "ana"},
        hr.OptionError,
        "text: expected a list with one entry per query, got str (recall_one takes one query)",
    ),
    (
        {"text": b"tea", "scope": "ana"},
        hr.OptionError,
        "text: expected a list with one entry per query, got bytes (recall_one takes one query)",
    ),
    (
        {"text": hr.Phrase("tea"), "scope": "ana"},
        hr.OptionError,
        "text: expected a list with one entry per query, got Phrase (recall_one takes one query)",
    ),
    (
        {"text": np.array("tea"), "scope": "ana"},
        hr.OptionError,
        "text: expected a list with one entry per query, got ndarray (recall_one takes one query)",
    ),
    (
        {"text": {"text": "tea"}, "scope": "ana"},
        hr.OptionError,
        "text['text']: expected a list with one entry per query, "
        "got str (recall_one takes one query)",
    ),
    (
        {"text": ["tea", 5], "scope": "ana"},
        hr.DTypeError,
        "text[1]: expected a str, hr.Phrase, hr.Prefix, hr.All, hr.Any or hr.Boost, got int 5",
    ),
    (
        {"text": {"title": ["tea"]}, "scope": "ana"},
        hr.OptionError,
        "text: expected arms of ['text'], got 'title'",
    ),
    (
        {"vectors": {"near": ONE}, "scope": "ana"},
        hr.OptionError,
        "vectors: expected arms of ['embedding'], got 'near'",
    ),
    (
        {"text": ["tea", "milk"], "vectors": ONE, "scope": "ana"},
        hr.ShapeError,
        "vectors['embedding']: expected 2 queries as text['text'] has, got 1",
    ),
    # scope
    (
        {"text": ["tea"]},
        hr.ScopeError,
        "scope: expected a scope: a cell, hr.Scope([...]), or a list with one entry per query, "
        "got None (the null cell is hr.Scope([None]))",
    ),
    (
        {"text": ["tea"], "scope": ["ana", "bob"]},
        hr.ShapeError,
        "scope: expected 1 entries, one per query, got 2",
    ),
    (
        {"text": ["tea"], "scope": []},
        hr.ShapeError,
        "scope: expected 1 entries, one per query, got 0",
    ),
    (
        {"text": ["tea"], "scope": [None]},
        hr.ScopeError,
        "scope[0]: expected a cell (str, int, bool or tuple) or hr.Scope, "
        "got None (the null cell is hr.Scope([None]))",
    ),
    (
        {"text": ["tea"], "scope": {"ana"}},
        hr.ScopeError,
        "scope: expected a cell (str, int, bool or tuple) or hr.Scope, got {'ana'}",
    ),
    (
        {"text": ["tea"], "scope": [["ana", "bob"]]},
        hr.ScopeError,
        "scope[0]: expected a cell (str, int, bool or tuple) or hr.Scope, got ['ana', 'bob']; "
        "several cells are hr.Scope(['ana', 'bob'])",
    ),
    (
        {"text": ["tea", "tea"], "scope": ["ana", 7]},
        hr.ScopeError,
        "scope[1]: expected a str or None for user, got int 7",
    ),
    # filter
    (
        {**TEXT, "filter": "kind"},
        hr.OptionError,
        "filter: expected an hr.Filter, a pyarrow.compute.Expression or None, got 'kind'",
    ),
    (
        {**TEXT, "filter": [None, None]},
        hr.ShapeError,
        "filter: expected 1 entries, one per query, got 2",
    ),
    # limit, offset, depth
    ({**TEXT, "limit": -1}, hr.OptionError, "limit: expected an int in [0, 2^31), got -1"),
    (
        {**TEXT, "limit": 2**31},
        hr.OptionError,
        "limit: expected an int in [0, 2^31), got 2147483648",
    ),
    ({**TEXT, "limit": True}, hr.OptionError, "limit: expected an int >= 0, got True"),
    ({**TEXT, "limit": 1.0}, hr.OptionError, "limit: expected an int >= 0, got 1.0"),
    ({**TEXT, "limit": "1"}, hr.OptionError, "limit: expected an int >= 0, got '1'"),
    ({**TEXT, "limit": None}, hr.OptionError, "limit: expected an int >= 0, got None"),
    ({**TEXT, "offset": -1}, hr.OptionError, "offset: expected an int in [0, 2^31), got -1"),
    (
        {**TEXT, "offset": 2**40},
        hr.OptionError,
        f"offset: expected an int in [0, 2^31), got {2**40}",
    ),
    ({**TEXT, "depth": 0}, hr.OptionError, "depth: expected an int in [1, 2^31), got 0"),
    ({**TEXT, "depth": False}, hr.OptionError, "depth: expected an int >= 1, got False"),
    (
        {**BOTH, "limit": 500},
        hr.OptionError,
        "limit: expected <= 100 (depth), got 500; pass depth=",
    ),
    (
        {**BOTH, "limit": 10, "offset": 91},
        hr.OptionError,
        "offset + limit: expected <= 100 (depth), got 101; pass depth=",
    ),
    (
        {**BOTH, "limit": 6, "depth": 5},
        hr.OptionError,
        "limit: expected <= 5 (depth), got 6; pass depth=",
    ),
    # fusion
    (
        {**BOTH, "fusion": "rrf"},
        hr.OptionError,
        "fusion: expected hr.RRF, hr.WeightedSum, hr.Max or hr.DBSF, got 'rrf'",
    ),
    (
        {**BOTH, "fusion": hr.RRF({"title": 1.0})},
        hr.OptionError,
        "weights: expected arms of ['text', 'embedding'], got 'title'",
    ),
    (
        {**TEXT, "fusion": hr.WeightedSum({"embedding": 1.0})},
        hr.OptionError,
        "weights: expected no weight for an arm that does not run (['text'] do), got 'embedding'",
    ),
    (
        {
            **BOTH,
            "fusion": hr.WeightedSum({"text": 0.0, "embedding": 1.0}),
            "min_score": {"text": 1},
        },
        hr.OptionError,
        "min_score: expected arms of ['embedding'], got 'text'",
    ),
    # floors
    (
        {**BOTH, "min_score": 0.5},
        hr.OptionError,
        "min_score: expected {arm: floor} for arms of ['text', 'embedding'], got 0.5",
    ),
    (
        {**TEXT, "min_score": {"embedding": 0.5}},
        hr.OptionError,
        "min_score: expected arms of ['text'], got 'embedding'",
    ),
    (
        {**TEXT, "min_score": {"text": float("nan")}},
        hr.OptionError,
        "min_score['text']: expected a finite number or hr.Above(number), got nan",
    ),
    (
        {**TEXT, "min_score": 10**400},
        hr.OptionError,
        f"min_score['text']: expected a finite number or hr.Above(number), got {10**400}",
    ),
    (
        {**TEXT, "min_score": True},
        hr.DTypeError,
        "min_score['text']: expected a finite number or hr.Above(number), got bool True",
    ),
    (
        {**TEXT, "min_fused": 0.5},
        hr.OptionError,
        "min_fused: expected a fusion to act after (with one arm, min_score), got one arm",
    ),
    (
        {**BOTH, "min_fused": "x"},
        hr.DTypeError,
        "min_fused: expected a finite number or hr.Above(number), got str 'x'",
    ),
    # bm25, normalize, columns, now
    (
        {"vectors": ONE, "scope": "ana", "bm25": hr.BM25()},
        hr.OptionError,
        "bm25: expected None where no text arm runs, got BM25(variant='lucene', k1=1.2, b=0.75)",
    ),
    (
        {**TEXT, "bm25": "okapi"},
        hr.OptionError,
        "bm25: expected an hr.BM25 or {arm: hr.BM25}, got 'okapi'",
    ),
    (
        {**TEXT, "bm25": {"title": hr.BM25()}},
        hr.OptionError,
        "bm25: expected arms of ['text'], got 'title'",
    ),
    ({**BOTH, "normalize": 1}, hr.OptionError, "normalize: expected a bool, got 1"),
    (
        {**TEXT, "columns": "text"},
        hr.OptionError,
        "columns: expected a sequence of columns of ['id', 'user', 'kind', 'text'], got 'text'",
    ),
    (
        {**TEXT, "columns": ("text", "price")},
        hr.OptionError,
        "columns: expected a sequence of columns of ['id', 'user', 'kind', 'text'], "
        "got ('text', 'price')",
    ),
    (
        {**TEXT, "columns": None},
        hr.OptionError,
        "columns: expected a sequence of columns of ['id', 'user', 'kind', 'text'], got None",
    ),
    ({**TEXT, "now": 12.5}, hr.DTypeError, "now: expected a datetime, got float"),
]


@pytest.mark.parametrize(("options", "kind", "message"), RECALL)
def test_recall_refuses_by_name(
    index: hr.Index, options: dict[str, Any], kind: type[hr.HyrecallError], message: str
) -> None:
    refused(lambda: index.recall(**options), kind, message, None)


def test_an_error_is_ours_and_the_built_in_one(index: hr.Index) -> None:
    for options, kind, _ in RECALL:
        with pytest.raises((ValueError, TypeError, LookupError)) as caught:
            index.recall(**options)
        assert isinstance(caught.value, kind)


ONES = [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("vectors", "kind", "message"),
    [
        ([ONES[:2]], hr.ShapeError, "vectors: expected 3 values in every query, got 2 in query 0"),
        (ONES, hr.ShapeError, "vectors: expected shape (n_queries, 3), got (3,)"),
        (np.ones(3, "f"), hr.ShapeError, "vectors: expected shape (n_queries, 3), got (3,)"),
        (
            np.ones((1, 3, 1), "f"),
            hr.ShapeError,
            "vectors: expected shape (n_queries, 3), got (1, 3, 1)",
        ),
        (
            np.array([[1.0, np.nan, 1.0]]),
            hr.OptionError,
            "vectors: expected finite values, got nan in query 0",
        ),
        (
            np.array([ONES, [1.0, 1e30, 1.0]]),
            hr.OptionError,
            "vectors: expected a norm in [2^-60, 2^60] or a zero vector, got 1e+30 in query 1",
        ),
        ("tea", hr.DTypeError, "vectors: expected a NumPy, torch, DLPack or Arrow array, got str"),
        (7, hr.DTypeError, "vectors: expected a NumPy, torch, DLPack or Arrow array, got int"),
    ],
)
def test_recall_refuses_vectors_by_name(
    index: hr.Index, vectors: object, kind: type[hr.HyrecallError], message: str
) -> None:
    refused(lambda: index.recall(vectors=vectors, scope="ana"), kind, message, None)


@pytest.mark.parametrize("bad", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("shares", [None, {"text": 1.0, "embedding": 0.0}])
def test_a_matrix_of_float32_is_searched_for_values_that_are_not_finite(
    index: hr.Index, bad: str, shares: dict[str, float] | None
) -> None:
    matrix = np.array([ONES, [1.0, float(bad), 1.0]], np.float32)
    fusion = None if shares is None else hr.RRF(weights=shares)
    refused(
        lambda: index.recall(text=["tea", "tea"], vectors=matrix, scope="ana", fusion=fusion),
        hr.OptionError,
        f"vectors: expected finite values, got {bad} in query 1",
        None,
    )


def test_an_index_without_the_arm_says_so(only_text: hr.Index, only_vector: hr.Index) -> None:
    refused(
        lambda: only_text.recall(vectors=ONE),
        hr.OptionError,
        "vectors: expected None (the index has no vector arm), got ndarray",
        None,
    )
    refused(
        lambda: only_vector.recall(text=["tea"], scope="ana"),
        hr.OptionError,
        "text: expected None (the index has no text arm), got list",
        None,
    )
    refused(
        lambda: only_text.recall(text=["tea"], scope="ana"),
        hr.ScopeError,
        "scope: expected no scope (the index was built with cell=None: one audience), got 'ana'",
        None,
    )
    assert len(only_text.recall(text=["tea"])[0]) == 4


def test_alpha_needs_one_arm_of_each_kind(many: hr.Index, only_text: hr.Index) -> None:
    wish = "alpha: expected an index with one text and one vector arm (else weights=), got "
    fusion = hr.RRF(alpha=0.5)
    for index, options, got in (
        (many, {"scope": "ana"}, "2 and 2"),
        (only_text, {}, "1 and 0"),
    ):
        refused(
            lambda index=index, options=options: index.recall(
                text=["tea"], fusion=fusion, **options
            ),
            hr.OptionError,
            wish + got,
            None,
        )


def test_several_vector_arms_are_named_and_texts_go_to_every_arm(many: hr.Index) -> None:
    refused(
        lambda: many.recall(vectors=ONE, scope="ana"),
        hr.OptionError,
        "vectors: expected {arm: array} for arms of ['near', 'far'], got ndarray",
        None,
    )
    hits = many.recall(text=["tea"], vectors={"far": [[1, 2]]}, scope="ana")
    assert hits.trace.arms == ("title", "body", "far")
    assert many.recall(text={"body": ["tea"]}, scope="ana").trace.arms == ("body",)
    by_name = many.recall(text={"body": ["tea"], "title": ["tea"]}, scope="ana").to_arrow()
    assert by_name.equals(many.recall(text=["tea"], scope="ana").to_arrow())


ONE_QUERY: list[tuple[dict[str, Any], type[hr.HyrecallError], str]] = [
    ({"scope": "ana"}, hr.OptionError, "text: expected text= or vectors=, or both, got neither"),
    (
        {"text": "tea", "scope": ["ana"]},
        hr.OptionError,
        "scope: expected one scope (several cells are hr.Scope([...])), got a list",
    ),
    (
        {"text": ["tea"], "scope": "ana"},
        hr.DTypeError,
        "text[0]: expected a str, hr.Phrase, hr.Prefix, hr.All, hr.Any or hr.Boost, "
        "got list ['tea']",
    ),
    (
        {"vector": [1.0], "scope": "ana"},
        hr.ShapeError,
        "vectors: expected 3 values in every query, got 1 in query 0",
    ),
]


@pytest.mark.parametrize(("options", "kind", "message"), ONE_QUERY)
def test_recall_one_refuses_by_name(
    index: hr.Index, options: dict[str, Any], kind: type[hr.HyrecallError], message: str
) -> None:
    refused(lambda: index.recall_one(**options), kind, message, None)


def test_recall_one_takes_no_vectors_and_no_unknown_option(index: hr.Index) -> None:
    with pytest.raises(TypeError, match=r"did you mean vector=\?\), got 'vectors'"):
        index.recall_one(vectors=ONE, scope="ana")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"did you mean limit=\?\), got 'top_k'"):
        index.recall_one(text="tea", scope="ana", top_k=3)  # type: ignore[call-arg]


def test_recall_one_is_the_batch_of_one(index: hr.Index, many: hr.Index) -> None:
    one = index.recall_one(text="hot tea", vector=[1, 0, 0], scope="ana", limit=2)
    batch = index.recall(text=["hot tea"], vectors=[[1, 0, 0]], scope=["ana"], limit=2)
    assert [repr(hit) for hit in one] == [repr(hit) for hit in batch[0]]
    named = many.recall_one(text={"body": "tea"}, vector={"far": [1, 2]}, scope="ana")
    assert [hit.key for hit in named] == named.keys
