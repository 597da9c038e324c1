"""The laws with stages, groups and recipes: each entry of the registry is under all of them.

So is what a page says beside its hits: totals, columns as the order, and facets.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, get_args

import numpy as np
import pytest

import hyrecall as hr
from hyrecall import arms
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
from laws.digest import table_of
from laws.effort import Effort
from laws.engine import EngineSubject
from laws.isa import NEEDED_FLAGS, skip_without
from laws.planted import SCORING, Mutation, everything, mutant, mutations
from laws.planted_life import ThreadGhosts
from laws.planted_stages import HITS_STAND_NOWHERE
from laws.registry import BY_NAME, ELSEWHERE, ENTRIES, PLAIN, Entry
from laws.subject import Make, planted
from oracle.corpus import Draw, Mix, draw_mix, draw_rows, draw_shape
from oracle.documents import Call, Page, Row, Shape
from oracle.pages import PagePart
from oracle.recall import Oracle
from oracle.recipe import RecipeOracle

Engine = Callable[..., EngineSubject]
LARGE = ("Feedback", "Around", "Prior", "Dedup", "MMR")  # also on tables of several tiles

# ---- what a page says beside its hits ----

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


PAGES = (
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

# ---- the laws ----

of_each = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
with_pages = pytest.mark.parametrize("entry", [*ENTRIES, *PAGES], ids=lambda entry: entry.name)


@pytest.fixture
def make_engine(make_engine: partial[EngineSubject]) -> Engine:
    """Makes an engine whose rows are in threads."""
    return partial(make_engine, threaded=True)


@pytest.fixture
def make(request: pytest.FixtureRequest, device: str) -> Make:
    """Makes the subject under test, whose rows are in threads."""
    if request.config.getoption("--subject") == "oracle":
        return planted(RecipeOracle)
    return partial(EngineSubject, device=device, threaded=True)


def mixed(draw: Draw) -> Mix:
    """A small table, now and then full of ties."""
    return draw.choice((draw_mix, draw_mix, tied_mix))(draw)


@of_each
def test_replies_are_those_of_the_definition(entry: Entry, make: Make, effort: Effort) -> None:
    tables, large = effort.cases(quick=3, full=200), effort.cases(quick=entry.name in LARGE, full=8)
    seen = compare_with(RecipeOracle, make, range(tables), mixed, entry)
    large_of = large_mix if effort.full else three_tiles
    seen += compare_with(RecipeOracle, make, range(large), large_of, entry)
    assert seen == (tables + large) * CALLS_PER_TABLE * QUERIES_PER_CALL


@pytest.mark.parametrize("entry", PAGES, ids=lambda entry: entry.name)
def test_pages_are_those_of_the_definition(entry: Entry, make: Make, effort: Effort) -> None:
    def any_mix(draw: Draw) -> Mix:
        return draw.choice((draw_mix, draw_mix, tied_mix, large_mix))(draw)

    tables = effort.cases(quick=8, full=300)
    seen = compare_with(RecipeOracle, make, range(tables), any_mix, entry)
    assert seen == tables * CALLS_PER_TABLE * QUERIES_PER_CALL


PLAIN_BUGS = [  # those of formulas, which tests/oracle knows too, are slow
    pytest.param(bug, id=name, marks=[pytest.mark.slow] if name[3:] in SCORING else [])
    for name, bug in PLAIN.planted.items()
]
RARE = {"only rows that were looked up lead"}  # seconds until a table shows it
BUGS = [  # from the fifth of an entry on they are slow
    pytest.param(
        entry,
        bug,
        id=f"{entry.name}-{name}",
        marks=[pytest.mark.slow] if at > 3 or name in RARE else [],
    )
    for entry in ENTRIES
    for at, (name, bug) in enumerate(entry.planted.items())
]
BUGS_OF_PAGES = [
    pytest.param(entry, bug, id=f"{entry.name}-{name}")
    for entry in PAGES
    for name, bug in entry.planted.items()
]


@pytest.mark.plain_cases(6)
@pytest.mark.parametrize("bug", PLAIN_BUGS)
def test_a_planted_bug_of_plain_recall_is_caught(bug: Mutation, make: Make) -> None:
    with pytest.raises(LawBroken):
        compare_with(mutant(Oracle, bug), make, range(200))


@pytest.mark.plain_cases(6)
@pytest.mark.parametrize(("entry", "bug"), BUGS)
def test_a_planted_bug_is_caught(entry: Entry, bug: Mutation) -> None:
    make = partial(EngineSubject, threaded=True)  # on a device the bits are the same
    with pytest.raises(LawBroken):
        compare_with(mutant(RecipeOracle, bug), make, range(200), draw_mix, entry)


@pytest.mark.plain_cases(6)
@pytest.mark.parametrize(("entry", "bug"), BUGS_OF_PAGES)
def test_a_planted_bug_of_pages_is_caught(entry: Entry, bug: Mutation) -> None:
    with pytest.raises(LawBroken):
        compare_with(mutant(RecipeOracle, bug), EngineSubject, range(100), draw_mix, entry)


@with_pages
def test_worlds_that_share_the_authorised_rows_reply_with_the_same_bytes(
    entry: Entry, make: Make, effort: Effort
) -> None:
    pairs = effort.cases(quick=3, full=300)
    assert non_interference(make, range(pairs), entry) == pairs


@with_pages
def test_history_leaves_no_trace(entry: Entry, make: Make, effort: Effort) -> None:
    sequences = effort.cases(quick=1, full=60)
    assert no_history(make, range(sequences), entry=entry) == 10 * sequences


def test_a_gap_after_a_delete_is_caught() -> None:
    with pytest.raises(LawBroken):
        no_history(ThreadGhosts, range(60), entry=BY_NAME["Around"])


@with_pages
def test_a_batch_of_any_size_and_order_replies_as_its_queries_alone(
    entry: Entry, make: Make, effort: Effort
) -> None:
    tables, sizes = effort.cases(quick=1, full=8), (1, 2, 31, 64)
    assert same_in_every_batch(make, range(tables), sizes, entry) > tables * len(sizes)


@of_each
def test_a_smaller_limit_gives_a_prefix_and_an_offset_a_slice(
    entry: Entry, make: Make, effort: Effort
) -> None:
    tables = effort.cases(quick=4, full=150)
    assert limit_is_a_prefix(make, range(tables), entry) == tables * 6 * 4


def test_a_smaller_limit_gives_a_prefix_of_rows_in_the_order_of_columns(
    make: Make, effort: Effort
) -> None:
    tables = effort.cases(quick=4, full=150)
    assert limit_is_a_prefix(make, range(tables), PAGES[1]) == tables * 6 * 4


def test_rows_that_depend_on_the_page_are_caught() -> None:
    oracle = mutant(RecipeOracle, HITS_STAND_NOWHERE)
    with pytest.raises(LawBroken):
        limit_is_a_prefix(planted(oracle), range(60), BY_NAME["grouping"])


@cache
def built_and_grown(device: str) -> tuple[EngineSubject, EngineSubject]:
    """The same rows in one segment for one thread, and in several for three."""
    shape, rows, _ = table_of(1200)
    rows = doubled(rows)
    make = partial(EngineSubject, shape, device=device, threaded=True)
    whole, grown = make(rows, threads=1), make(rows[:1150], threads=3)
    for first in range(1150, len(rows), 10):
        grown.add(rows[first : first + 10])
    drop = rows[100:200]
    for subject in (whole, grown):
        subject.delete([row.key for row in drop], [frozenset({row.cell}) for row in drop])
    assert grown.index.stats()["n_segments"] > whole.index.stats()["n_segments"] == 1
    return whole, grown


@with_pages
def test_threads_and_segments_change_no_byte(entry: Entry, device: str) -> None:
    whole, grown = built_and_grown(device)
    for call in table_of(1200, entry, n_calls=6)[2]:
        assert whole.recall_bytes(call) == grown.recall_bytes(call)


@of_each
def test_the_order_of_rows_in_memory_changes_no_byte(entry: Entry, make_engine: Engine) -> None:
    for seed in range(2):
        draw = Draw(seed)
        shape = draw_shape(draw)
        rows = entry.rows(draw_rows(draw, shape, tied_mix(draw)))
        orders = [make_engine(shape, rows, cluster=column) for column in (None, "number", "at")]
        call = entry.call(draw, Oracle(shape, rows), QUERIES_PER_CALL)
        first, second, third = (subject.recall_bytes(call) for subject in orders)
        assert first == second == third, f"seed {seed}"


@pytest.mark.parametrize("isa", NEEDED_FLAGS)
def test_every_instruction_set_gives_the_same_bytes(
    isa: str, make_engine: Engine, digests_of: Callable[[str], dict[str, str]]
) -> None:
    skip_without(isa)
    assert digests_of(isa)["recipes"] == digests_of("scalar")["recipes"]


@of_each
def test_explanations_give_the_score_to_the_last_bit(entry: Entry, make_engine: Engine) -> None:
    seen = 0
    for seed in range(4):
        draw = Draw(seed)
        shape = draw_shape(draw)
        rows = entry.rows(draw_rows(draw, shape, replace(draw_mix(draw), n_rows=60)))
        call = entry.call(draw, Oracle(shape, rows), QUERIES_PER_CALL)
        for hits in make_engine(shape, rows).hits(replace(call, limit=10, offset=0).deep()):
            for hit in hits:
                assert hit.explain().score == hit.score
                seen += 1
    assert seen > 10


def test_a_schema_with_a_thread_replies_as_one_without(device: str) -> None:
    shape, rows, calls = table_of(300, PLAIN, n_calls=6)
    plain, threaded = (EngineSubject(shape, rows, device=device, threaded=t) for t in (False, True))
    for call in calls:
        assert plain.recall_bytes(call) == threaded.recall_bytes(call)


def missing(entries: dict[str, Entry]) -> set[str]:
    """Public stages and arms without an entry, and without a reason for it."""
    stages = {n for n in hr.__all__ if isinstance(getattr(getattr(hr, n), "phase", None), int)}
    kinds = {kind.__name__ for kind in get_args(arms.Arm)}
    return {*stages, *kinds} - entries.keys() - ELSEWHERE.keys()


def test_every_public_stage_and_arm_is_under_the_laws() -> None:
    assert missing(BY_NAME) == set()
    assert missing({name: e for name, e in BY_NAME.items() if name != "MMR"}) == {"MMR"}
    assert not BY_NAME.keys() & ELSEWHERE.keys()
