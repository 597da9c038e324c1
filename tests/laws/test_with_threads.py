"""The laws by a recipe that hears the rows around a hit where the scope holds threads."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from zlib import crc32

import pytest

from laws.checks import (
    QUERIES_PER_CALL,
    LawBroken,
    compare_with,
    no_history,
    non_interference,
    same_in_every_batch,
)
from laws.effort import Effort
from laws.subject import Make
from laws.with_threads import PLANTED, WithThreadsOracle, WithThreadsSubject
from oracle.documents import Row, Shape


def sparse(rows: Sequence[Row]) -> list[Row]:
    """The same rows, of which only some of every second cell keep their thread."""
    return [
        row
        if crc32(repr(row.cell).encode()) % 2 and not crc32(repr(row.key).encode()) % 5
        else replace(row, attributes={**row.attributes, "kind": None})
        for row in rows
    ]


@pytest.fixture
def make(request: pytest.FixtureRequest, device: str) -> Callable[..., WithThreadsSubject]:
    """Makes an engine whose every recall goes by the recipe."""
    if request.config.getoption("--subject") == "oracle":
        pytest.skip("needs the engine: run without --subject=oracle")
    return partial(WithThreadsSubject, device=device)


class SparseOracle(WithThreadsOracle):
    """The definition over rows of which few are in a thread."""

    def __init__(self, shape: Shape, rows: Sequence[Row]) -> None:
        super().__init__(shape, sparse(rows))


def test_replies_by_such_a_recipe_are_those_of_the_definition(make: Make, effort: Effort) -> None:
    tables = effort.cases(quick=8, full=300)
    seen = compare_with(SparseOracle, lambda shape, rows: make(shape, sparse(rows)), range(tables))
    assert seen == tables * 6 * QUERIES_PER_CALL


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.__name__)
def test_a_wrong_choice_of_the_form_is_caught(bug: type[WithThreadsOracle], make: Make) -> None:
    class Planted(bug):  # type: ignore[misc, valid-type]
        def __init__(self, shape: Shape, rows: Sequence[Row]) -> None:
            super().__init__(shape, sparse(rows))

    with pytest.raises(LawBroken):
        compare_with(Planted, lambda shape, rows: make(shape, sparse(rows)), range(40))


def test_others_threads_change_no_byte(make: Make, effort: Effort) -> None:
    pairs = effort.cases(quick=8, full=500)
    assert non_interference(lambda s, rows: make(s, sparse(rows)), range(pairs)) == pairs


def test_threads_that_were_deleted_leave_no_trace(make: Make, effort: Effort) -> None:
    sequences = effort.cases(quick=3, full=100)
    assert no_history(make, range(sequences)) == 10 * sequences


def test_a_batch_replies_as_its_queries_alone(make: Make, effort: Effort) -> None:
    tables, sizes = effort.cases(quick=1, full=10), (1, 2, 31)
    assert same_in_every_batch(make, range(tables), sizes) > tables * len(sizes)
