"""Every law of arms of many vectors a row and of sparse ones, against their definitions."""

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
from oracle.documents import Call, Shape
from oracle.recall import Oracle


def shape_of_many(draw: Draw) -> Shape:
    """A shape with an arm of many vectors; the other dense arm, if any, has one or many."""
    shape = draw_shape(draw)
    arms = list(shape.dense)
    return replace(shape, many=frozenset(arms if draw.chance(0.5) else arms[:1]))


def by_sixteen(oracle: Oracle, was: Callable[..., float], found: np.ndarray) -> float:
    return was(found.astype(np.float16).astype(np.float32))


def sparse_shape(draw: Draw) -> Shape:
    """A shape with an arm of sparse vectors; the other dense arm, if any, is sparse or not."""
    shape = draw_shape(draw)
    dims = {arm: draw.choice((3, 12, 40)) for arm in shape.dense}
    arms = list(dims)
    return replace(shape, dense=dims, sparse=frozenset(arms if draw.chance(0.5) else arms[:1]))


OF_MANY = mutations(
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
OF_SPARSE = mutations(
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


def as_drawn(draw: Draw, shape: Shape, call: Call) -> Call:
    return call


ENTRIES = (
    Entry("max_sim", as_drawn, OF_MANY, shape=shape_of_many),
    Entry("sparse", as_drawn, OF_SPARSE, shape=sparse_shape),
)
QUICK = {"max_sim": (8, three_tiles), "sparse": (12, large_mix)}
"""Tables of the plain run, and the largest of them."""

each = pytest.mark.parametrize("entry", ENTRIES, ids=lambda one: one.name)


@each
def test_replies_are_those_of_the_definition(make: Make, effort: Effort, entry: Entry) -> None:
    n_quick, largest = QUICK[entry.name]
    mixes = (draw_mix, draw_mix, tied_mix, large_mix if effort.full else largest)
    tables = effort.cases(quick=n_quick, full=400)
    seen = compare_with(Oracle, make, range(tables), lambda draw: draw.choice(mixes)(draw), entry)
    assert seen == tables * CALLS_PER_TABLE * QUERIES_PER_CALL


@pytest.mark.parametrize(
    ("entry", "name"),
    [(entry, name) for entry in ENTRIES for name in entry.planted],
    ids=lambda one: getattr(one, "name", one),
)
def test_a_planted_bug_is_caught(entry: Entry, name: str) -> None:
    with pytest.raises(LawBroken):
        compare_with(
            mutant(Oracle, entry.planted[name]), EngineSubject, range(100), draw_mix, entry
        )


@each
def test_worlds_that_share_the_authorised_rows_reply_with_the_same_bytes(
    make: Make, effort: Effort, entry: Entry
) -> None:
    pairs = effort.cases(quick=4, full=300)
    assert non_interference(make, range(pairs), entry) == pairs


@each
def test_history_leaves_no_trace(make: Make, effort: Effort, entry: Entry) -> None:
    sequences = effort.cases(quick=3, full=60)
    assert no_history(make, range(sequences), entry=entry) == 10 * sequences


@each
def test_a_batch_of_any_size_and_order_replies_as_its_queries_alone(
    make: Make, effort: Effort, entry: Entry
) -> None:
    tables, sizes = effort.cases(quick=2, full=8), (1, 2, 31, 64)
    assert same_in_every_batch(make, range(tables), sizes, entry) > tables * len(sizes)


@each
def test_a_smaller_limit_gives_a_prefix_and_an_offset_a_slice(
    make: Make, effort: Effort, entry: Entry
) -> None:
    tables = effort.cases(quick=4, full=150)
    assert limit_is_a_prefix(make, range(tables), entry) == tables * 6 * 4
