"""Every law of an arm whose rows and queries have many vectors, against its definition."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from laws.checks import (
    CALLS_PER_TABLE,
    QUERIES_PER_CALL,
    LawBroken,
    compare_with,
    large_mix,
    limit_is_a_prefix,
    no_history,
    non_interference,
    same_in_every_batch,
    three_tiles,
    tied_mix,
)
from laws.effort import Effort
from laws.engine import EngineSubject
from laws.planted import mutant, mutations
from laws.registry import Entry
from laws.subject import Make
from oracle.corpus import Draw, draw_mix, draw_shape
from oracle.documents import Shape
from oracle.recall import Oracle


def shape_of_many(draw: Draw) -> Shape:
    """A shape with an arm of many vectors; the other dense arm, if any, has one or many."""
    shape = draw_shape(draw)
    arms = list(shape.dense)
    return replace(shape, many=frozenset(arms if draw.chance(0.5) else arms[:1]))


def by_sixteen(oracle: Oracle, was: Callable[..., float], found: np.ndarray) -> float:
    return was(found.astype(np.float16).astype(np.float32))


BUGS = mutations(
    {
        "the mean of the cosines": {
            "greatest": lambda self, was, found: float(np.nanmean(found)),
        },
        "a zero vector has cosine 0": {
            "greatest": lambda self, was, found: was(np.nan_to_num(found)),
        },
        "only what is above 0 counts": {
            "greatest": lambda self, was, found: max(was(found), 0.0),
        },
        "half precision": {"greatest": by_sixteen},
        "the first vector of the query alone": {
            "max_sim": lambda self, was, vectors, query: was(vectors, query[:1]),
        },
        "the mean over the query's vectors": {
            "max_sim": lambda self, was, vectors, query: was(vectors, query) / len(query),
        },
        "a row without a vector has score 0": {
            "max_sim": lambda self, was, vectors, query: float(np.nan_to_num(was(vectors, query))),
        },
        "the sum in float32": {
            "max_sim": lambda self, was, vectors, query: float(
                sum((np.float32(was(vectors, one[None])) for one in query), np.float32(0))
            ),
        },
    }
)
ENTRY = Entry("max_sim", lambda draw, shape, call: call, BUGS, shape=shape_of_many)


@pytest.fixture
def device() -> str:
    """The only one that these arms are searched on."""
    return "cpu"


def test_replies_are_those_of_the_definition(make: Make, effort: Effort) -> None:
    mixes = (draw_mix, draw_mix, tied_mix, large_mix if effort.full else three_tiles)
    tables = effort.cases(quick=8, full=400)
    seen = compare_with(Oracle, make, range(tables), lambda draw: draw.choice(mixes)(draw), ENTRY)
    assert seen == tables * CALLS_PER_TABLE * QUERIES_PER_CALL


@pytest.mark.plain_cases(8)
@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_a_planted_bug_is_caught(bug: type) -> None:
    with pytest.raises(LawBroken):
        compare_with(mutant(Oracle, bug), EngineSubject, range(100), draw_mix, ENTRY)


def test_worlds_that_share_the_authorised_rows_reply_with_the_same_bytes(
    make: Make, effort: Effort
) -> None:
    pairs = effort.cases(quick=4, full=300)
    assert non_interference(make, range(pairs), ENTRY) == pairs


def test_history_leaves_no_trace(make: Make, effort: Effort) -> None:
    sequences = effort.cases(quick=3, full=60)
    assert no_history(make, range(sequences), entry=ENTRY) == 10 * sequences


def test_a_batch_of_any_size_and_order_replies_as_its_queries_alone(
    make: Make, effort: Effort
) -> None:
    tables, sizes = effort.cases(quick=2, full=8), (1, 2, 31, 64)
    assert same_in_every_batch(make, range(tables), sizes, ENTRY) > tables * len(sizes)


def test_a_smaller_limit_gives_a_prefix_and_an_offset_a_slice(make: Make, effort: Effort) -> None:
    tables = effort.cases(quick=4, full=150)
    assert limit_is_a_prefix(make, range(tables), ENTRY) == tables * 6 * 4
