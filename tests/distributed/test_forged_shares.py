"""Statistics and parts of other queries than a shard was asked are refused, whatever is in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.distributed import Part, Request, Statistics, merge
from seams import Share, sum_shares, widest_runs

SCHEMA = hr.Schema(key="id", cell="user", text="text")
REQUEST = Request(text=["oak", "ash"], scope=["ann", "bob"])


@pytest.fixture(scope="module")
def index() -> hr.Index:
    rows = {"id": [1, 2, 3], "user": ["ann", "bob", "ann"], "text": ["oak", "ash oak", "elm"]}
    return hr.Index.build(pa.table(rows), SCHEMA, device="cpu")


@pytest.fixture(scope="module")
def counted(index: hr.Index) -> Statistics:
    return index.statistics(REQUEST)


@pytest.fixture(scope="module")
def part(index: hr.Index, counted: Statistics) -> Part:
    return index.candidates(REQUEST, counted)


def share(*queries: int, of: int = 5) -> Share:
    return Share(np.array(queries, np.int64), of, [0])


def with_run(whole: Any, **arrays: Any) -> Any:
    (run,) = whole.runs.values()
    return replace(whole, runs={"0": run._replace(arrays={**run.arrays, **arrays})})


@pytest.mark.parametrize(
    "change",
    [
        lambda one: replace(one, runs={"x": one.runs["0"]}),
        lambda one: replace(one, runs={"1": one.runs["0"]}),
        lambda one: replace(one, runs={"0": one.runs["0"]._replace(queries=np.array([0, 7]))}),
        lambda one: replace(one, runs={"0": one.runs["0"]._replace(queries=np.array([-1, 0]))}),
        lambda one: replace(one, sees_threads=np.zeros(4, np.bool_)),
    ],
)
def test_statistics_of_others(counted: Statistics, change: Callable[[Any], Any]) -> None:
    with pytest.raises(hr.HyrecallError):
        sum_shares([(change(counted), share(1, 4))])


def test_statistics_of_several_requests_or_of_other_sizes(
    index: hr.Index, counted: Statistics
) -> None:
    other = index.statistics(Request(text=["oak ash", "ash"], scope=["ann", "bob"]))
    for second in (other, replace(other, request=counted.request)):
        with pytest.raises(hr.HyrecallError):
            sum_shares([(counted, share(1, 4)), (second, share(1, 4))])


@pytest.mark.parametrize(
    "change",
    [
        lambda one: with_run(one, doc_ends=np.array([0, 1, 2, 2], np.int64)),
        lambda one: with_run(one, found=np.zeros(3, np.int64)),
        lambda one: with_run(one, length_shares=np.zeros(3, np.float64)),
        lambda one: with_run(one, refused=np.zeros(3, np.uint8)),
        lambda one: replace(one, runs={"": one.runs["0"]}),
    ],
)
def test_parts_of_others(part: Part, change: Callable[[Any], Any]) -> None:
    with pytest.raises(hr.HyrecallError):
        widest_runs([(change(part), share(1, 4))])


@pytest.mark.parametrize("n_reasons", [0, 4])
def test_a_part_with_reasons_of_another_number_of_arms_is_refused(
    part: Part, n_reasons: int
) -> None:
    sound = with_run(part, refused=np.array([0, 2], np.uint8))
    assert merge(REQUEST, [sound]).trace.degraded[0].startswith("text[1] was not searched")
    forged = with_run(part, refused=np.zeros(n_reasons, np.uint8))
    forged = Part.from_bytes(forged.to_bytes())
    with pytest.raises(hr.OptionError, match=r"^parts: expected those of this request"):
        merge(REQUEST, [forged])
