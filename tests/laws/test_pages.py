"""The laws with totals, columns as the order and facets: what is counted is under all of them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

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
from laws.digest import table_of
from laws.effort import Effort
from laws.engine import EngineSubject
from laws.planted import everything, mutant, mutations
from laws.registry import Entry
from laws.subject import Make, planted
from oracle.corpus import Draw, Mix, draw_mix
from oracle.documents import Call, Page, Row, Shape
from oracle.pages import PagePart
from oracle.recipe import RecipeOracle

COLUMNS = ("kind", "number", "price", "at")


def total(draw: Draw, shape: Shape, call: Call) -> Call:
    return replace(call, page=Page(), limit=draw.choice((1, call.limit)), offset=0)


def by_columns(draw: Draw, shape: Shape, call: Call) -> Call:
    """The call without what ranks; of each second one all that passes the filter."""
    # Without a cell column nothing but queries says how many replies there are.
    sort = tuple((name, draw.chance(0.5)) for name in draw.sample(COLUMNS, draw.randint(1, 3)))
    asked = {"texts": {}, "vectors": {}} if shape.cell and draw.chance(0.5) else {}
    bare = {"fusion": None, "min_score": {}, "min_fused": None, "bm25": None, "depth": None}
    sort = () if asked and draw.chance(0.2) else sort
    return replace(call, page=Page(sort), **bare, **asked)


def facets(draw: Draw, shape: Shape, call: Call) -> Call:
    call = by_columns(draw, shape, call) if draw.chance(0.5) else call
    names = tuple(draw.sample(("kind", "number", "at", "tags"), 2))
    edges = draw.choice(((), (0, 1.5, 3), (None, 1, 2.5, None), (-1, 2, None)))
    sort = None if call.page is None else call.page.sort
    return replace(call, page=Page(sort, names, edges))


def doubled(rows: Sequence[Row]) -> list[Row]:
    """The same rows, whose lists have their first value twice."""
    tags = [(row.attributes.get("tags") or []) for row in rows]
    return [
        replace(row, attributes={**row.attributes, "tags": [*own, own[0]]}) if own else row
        for row, own in zip(rows, tags, strict=True)
    ]


def nulls_first(oracle: PagePart, was: Any, docs: Any, sort: Any) -> list[int]:
    """Rows without a value of the first column, then the others."""
    out = was(docs, sort)
    missing = [doc for doc in out if sort and oracle.value(doc, sort[0][0]) is None]
    return [*missing, *(doc for doc in out if doc not in missing)]


def listed_only(oracle: PagePart, was: Any, call: Call, query: int) -> Any:
    """The rows of the arms' lists: what the depth or a floor cuts is not counted."""
    found = was(call, query)
    if call.arms:
        found &= np.isin(np.arange(len(found)), oracle.search(call, query).union)
    return found


ENTRIES = (
    Entry(
        "total",
        total,
        mutations(
            {
                "the filter is not asked": {
                    "visible": lambda self, was, allowed, predicate: allowed
                },
                "rows of other cells are counted": {
                    "matching": lambda self, was, call, query: was(
                        replace(call, scopes=(frozenset(r.cell for r in self.rows),) * (query + 1)),
                        query,
                    )
                },
                "the floor is asked": {"matching": listed_only},
                "one row too many": {
                    "told": lambda self, was, page, docs: (len(docs) + 1, was(page, docs)[1])
                },
            }
        ),
    ),
    Entry(
        "sort",
        by_columns,
        mutations(
            {
                "null comes first": {"ordered": nulls_first},
                "every column rises": {
                    "ordered": lambda self, was, docs, sort: was(
                        docs, [(n, False) for n, _ in sort]
                    )
                },
                "the first column alone decides": {
                    "ordered": lambda self, was, docs, sort: was(docs, sort[:1])
                },
                "all rows of the scope are seen, whatever the arms match": {
                    "matching": lambda self, was, call, query: was(
                        replace(call, texts={}, vectors={}), query
                    )
                },
            }
        ),
    ),
    Entry(
        "facets",
        facets,
        mutations(
            {
                "a range has its end": {
                    "is_between": lambda self, was, value, low, high: (
                        was(value, low, high) or value == high
                    )
                },
                "a value twice in a list counts twice": {
                    "elements": lambda self, was, doc, column: (
                        value
                        if isinstance(value := self.value(doc, column), list)
                        else was(doc, column)
                    )
                },
                "equal counts by falling value": {
                    "facet": lambda self, was, docs, column: sorted(
                        sorted(was(docs, column), reverse=True), key=lambda item: -item[1]
                    )
                },
                "rows of all cells are counted": {
                    "facet": lambda self, was, docs, column: was(
                        np.flatnonzero(everything(self)), column
                    )
                },
            }
        ),
        rows=doubled,
    ),
)
of_each = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
BUGS = [
    pytest.param(entry, bug, id=f"{entry.name}-{name}")
    for entry in ENTRIES
    for name, bug in entry.planted.items()
]


@pytest.fixture
def make(request: pytest.FixtureRequest, device: str) -> Make:
    """Makes the subject under test."""
    if request.config.getoption("--subject") == "oracle":
        return planted(RecipeOracle)
    return partial(EngineSubject, device=device)


def mixed(draw: Draw) -> Mix:
    return draw.choice((draw_mix, draw_mix, tied_mix, large_mix))(draw)


@of_each
def test_replies_are_those_of_the_definition(entry: Entry, make: Make, effort: Effort) -> None:
    tables = effort.cases(quick=8, full=300)
    seen = compare_with(RecipeOracle, make, range(tables), mixed, entry)
    assert seen == tables * CALLS_PER_TABLE * QUERIES_PER_CALL


@pytest.mark.plain_cases(6)
@pytest.mark.parametrize(("entry", "bug"), BUGS)
def test_a_planted_bug_is_caught(entry: Entry, bug: type) -> None:
    with pytest.raises(LawBroken):
        compare_with(mutant(RecipeOracle, bug), EngineSubject, range(100), draw_mix, entry)


@of_each
def test_worlds_that_share_the_authorised_rows_reply_with_the_same_bytes(
    entry: Entry, make: Make, effort: Effort
) -> None:
    pairs = effort.cases(quick=3, full=300)
    assert non_interference(make, range(pairs), entry) == pairs


@of_each
def test_history_leaves_no_trace(entry: Entry, make: Make, effort: Effort) -> None:
    sequences = effort.cases(quick=1, full=60)
    assert no_history(make, range(sequences), entry=entry) == 10 * sequences


@of_each
def test_a_batch_of_any_size_and_order_replies_as_its_queries_alone(
    entry: Entry, make: Make, effort: Effort
) -> None:
    tables, sizes = effort.cases(quick=1, full=8), (1, 2, 31, 64)
    assert same_in_every_batch(make, range(tables), sizes, entry) > tables * len(sizes)


def test_a_smaller_limit_gives_a_prefix_and_an_offset_a_slice(make: Make, effort: Effort) -> None:
    tables = effort.cases(quick=4, full=150)
    assert limit_is_a_prefix(make, range(tables), ENTRIES[1]) == tables * 6 * 4


@of_each
def test_threads_and_segments_change_no_byte(
    entry: Entry, make_engine: Callable[..., EngineSubject]
) -> None:
    shape, rows, calls = table_of(1200, entry, n_calls=6)
    whole, grown = make_engine(shape, rows, threads=1), make_engine(shape, rows[:1100], threads=3)
    for first in range(1100, len(rows), 20):
        grown.add(rows[first : first + 20])
    assert grown.index.stats()["n_segments"] > whole.index.stats()["n_segments"] == 1
    for call in calls:
        assert whole.recall_bytes(call) == grown.recall_bytes(call)
