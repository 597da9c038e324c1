"""The laws with threads as hits (``group=``) and rows around hits (``surrounding=``)."""

from collections.abc import Callable, Sequence

import pytest

from laws.checks import (
    QUERIES_PER_CALL,
    LawBroken,
    compare_with,
    limit_is_a_prefix,
    no_history,
    non_interference,
    same_in_every_batch,
)
from laws.effort import Effort
from laws.grouping import PLANTED, GroupedSubject, PageHitsStandNowhere, deepened
from laws.subject import Make, planted
from oracle.documents import Row, Shape
from oracle.grouped import GroupedOracle

FORMS = [(True, 0), (False, 1), (True, 2), (False, 3)]


@pytest.fixture(params=FORMS, ids=lambda form: f"{'threads' if form[0] else 'rows'}-{form[1]}")
def form(request: pytest.FixtureRequest) -> tuple[bool, int]:
    """Whether a thread has one hit, and how many rows stand on either side."""
    found: tuple[bool, int] = request.param
    return found


@pytest.fixture
def make(
    request: pytest.FixtureRequest, device: str, form: tuple[bool, int]
) -> Callable[[Shape, Sequence[Row]], GroupedSubject]:
    """Makes an engine whose every recall groups and surrounds."""
    if request.config.getoption("--subject") == "oracle":
        pytest.skip("needs the engine: run without --subject=oracle")

    class Formed(GroupedSubject):
        by_thread, n_around = form

    return lambda shape, rows: Formed(shape, rows, device=device)


def formed(oracle: type[GroupedOracle], form: tuple[bool, int]) -> type[GroupedOracle]:
    """The definition of that form."""

    class Formed(deepened(oracle)):  # type: ignore[misc]
        by_thread, n_around = form

    return Formed


def test_grouped_replies_are_those_of_the_definition(
    make: Make, form: tuple[bool, int], effort: Effort
) -> None:
    tables = effort.cases(quick=6, full=200)
    seen = compare_with(formed(GroupedOracle, form), make, range(tables))
    assert seen == tables * 6 * QUERIES_PER_CALL


SILENT = {((True, 2), "Repeats"), ((False, 2), "NullsAreOneThread")}
"""Bugs that change no reply of a form: a thread with one hit shows no row twice, and a row without
a thread has no rows around it."""

CAUGHT = [
    pytest.param(form, bug, id=f"{bug.__name__}-{'threads' if form[0] else 'rows'}")
    for form in ((True, 2), (False, 2))
    for bug in PLANTED
    if (form, bug.__name__) not in SILENT
]


@pytest.mark.plain_cases(4)
@pytest.mark.parametrize(("form", "bug"), CAUGHT, indirect=["form"])
def test_a_planted_bug_of_grouping_is_caught(
    bug: type[GroupedOracle], make: Make, form: tuple[bool, int]
) -> None:
    with pytest.raises(LawBroken):
        compare_with(formed(bug, form), make, range(60))


def test_what_others_store_stands_around_no_hit(make: Make, effort: Effort) -> None:
    pairs = effort.cases(quick=6, full=300)
    assert non_interference(make, range(pairs)) == pairs


def test_history_leaves_no_trace_around_a_hit(make: Make, effort: Effort) -> None:
    sequences = effort.cases(quick=2, full=60)
    assert no_history(make, range(sequences)) == 10 * sequences


def test_a_batch_groups_as_its_queries_alone(make: Make, effort: Effort) -> None:
    tables, sizes = effort.cases(quick=1, full=10), (1, 3, 31)
    assert same_in_every_batch(make, range(tables), sizes) > tables * len(sizes)


def test_a_smaller_limit_gives_a_prefix_of_groups(make: Make, effort: Effort) -> None:
    tables = effort.cases(quick=6, full=200)
    assert limit_is_a_prefix(make, range(tables)) == tables * 6 * 4


def test_rows_that_depend_on_the_page_are_caught() -> None:
    with pytest.raises(LawBroken):
        limit_is_a_prefix(planted(formed(PageHitsStandNowhere, (False, 2))), range(60))


def test_grouping_is_a_prefix_by_definition(form: tuple[bool, int]) -> None:
    assert limit_is_a_prefix(planted(formed(GroupedOracle, form)), range(4)) == 4 * 6 * 4
