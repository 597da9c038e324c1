"""Every law of an arm of sparse vectors, against its definition."""

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
    tied_mix,
)
from laws.effort import Effort
from laws.engine import EngineSubject
from laws.planted import mutant, mutations
from laws.registry import Entry
from laws.subject import Make
from oracle.corpus import Draw, Mix, draw_mix, draw_shape
from oracle.documents import Shape
from oracle.recall import Oracle


def sparse_shape(draw: Draw) -> Shape:
    """A shape with an arm of sparse vectors; the other dense arm, if any, is sparse or not."""
    shape = draw_shape(draw)
    dims = {arm: draw.choice((3, 12, 40)) for arm in shape.dense}
    arms = list(dims)
    return replace(shape, dense=dims, sparse=frozenset(arms if draw.chance(0.5) else arms[:1]))


BUGS = mutations(
    {
        "a cosine": {
            "sparse": lambda self, was, rows, query: (
                was(rows, query) / np.float32(np.linalg.norm(query))
            ),
        },
        "half precision": {
            "sparse": lambda self, was, rows, query: was(
                rows.astype(np.float16).astype(np.float32), query
            ),
        },
        "terms in the order of their numbers": {
            "terms": lambda self, was, query: sorted(was(query)),
        },
        "a sum in float32": {
            "sparse": lambda self, was, rows, query: np.where(
                np.isnan(was(rows, query)),
                was(rows, query),
                sum(
                    (np.float32(query[term]) * rows[:, term] for term in self.terms(query)),
                    np.zeros(len(rows), np.float32),
                ),
            ),
        },
        "the greatest product": {
            "sparse": lambda self, was, rows, query: np.where(
                np.isnan(was(rows, query)), was(rows, query), (rows * query).max(axis=1, initial=0)
            ),
        },
        "rows that share no term are listed": {
            "listed": lambda self, was, arm, scores: ~np.isnan(scores),
        },
        "a row without a term has score 0": {
            "sparse": lambda self, was, rows, query: np.nan_to_num(was(rows, query)),
        },
    }
)
ENTRY = Entry("sparse", lambda draw, shape, call: call, BUGS, shape=sparse_shape)


def mixed(draw: Draw) -> Mix:
    return draw.choice((draw_mix, draw_mix, tied_mix, large_mix))(draw)


@pytest.fixture
def device() -> str:
    """The only one that these arms are searched on."""
    return "cpu"


def test_replies_are_those_of_the_definition(make: Make, effort: Effort) -> None:
    tables = effort.cases(quick=12, full=400)
    seen = compare_with(Oracle, make, range(tables), mixed, ENTRY)
    assert seen == tables * CALLS_PER_TABLE * QUERIES_PER_CALL


@pytest.mark.plain_cases(7)
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
