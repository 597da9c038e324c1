"""What recall refuses because of the arms that an index has, and recall_one as a batch of one."""

import numpy as np
import pytest

import hyrecall as hr
from small_index import ONE, refused

ONES = [1.0, 1.0, 1.0]


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
