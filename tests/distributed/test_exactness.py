"""An index in shards replies as one index does, bit for bit, wherever the documents lie (L4)."""

from __future__ import annotations

import pytest

from distributed.planted import PLANTED, Lengths, Moments, Planted, Ranks, Scaled
from distributed.subjects import (
    AroundSubject,
    ExactSubject,
    ThreadsAsHits,
    WithThreadsSubject,
)
from distributed.worlds import CALLS, same_replies
from laws.checks import LawBroken, large_mix, tied_mix
from laws.effort import Effort
from laws.engine import EngineSubject


@pytest.mark.slow
def test_random_tables_and_calls(effort: Effort) -> None:
    n = effort.cases(quick=24, full=400)
    assert same_replies(range(n)) == n * CALLS


def test_after_deletes(effort: Effort) -> None:
    n = effort.cases(quick=12, full=200)
    assert same_replies(range(1000, 1000 + n), deletes=True) == n * CALLS


@pytest.mark.slow
def test_where_nearly_everything_ties(effort: Effort) -> None:
    n = effort.cases(quick=12, full=200)
    assert same_replies(range(2000, 2000 + n), mix=tied_mix) == n * CALLS


def test_tables_of_several_tiles(effort: Effort) -> None:
    n = effort.cases(quick=2, full=40)
    assert same_replies(range(3000, 3000 + n), mix=large_mix) == n * CALLS


@pytest.mark.slow
def test_what_stands_around_a_hit_in_its_thread(effort: Effort) -> None:
    n = effort.cases(quick=12, full=200)
    assert same_replies(range(4000, 4000 + n), AroundSubject, deletes=True) == n * CALLS


@pytest.mark.slow
def test_recipes_with_a_form_for_threads(effort: Effort) -> None:
    n = effort.cases(quick=12, full=200)
    assert same_replies(range(5000, 5000 + n), WithThreadsSubject, deletes=True) == n * CALLS


@pytest.mark.slow
def test_threads_as_hits(effort: Effort) -> None:
    n = effort.cases(quick=8, full=100)
    assert same_replies(range(6000, 6000 + n), ThreadsAsHits, deletes=True) == n * CALLS


@pytest.mark.slow
def test_rows_that_hold_a_query_whole(effort: Effort) -> None:
    n = effort.cases(quick=12, full=200)
    assert same_replies(range(7000, 7000 + n), ExactSubject, deletes=True) == n * CALLS


@pytest.mark.plain_cases(4)
@pytest.mark.parametrize(
    ("bug", "subject"), PLANTED, ids=[f"{bug.__name__}-{by.__name__}" for bug, by in PLANTED]
)
def test_a_planted_bug_is_seen(bug: type[Planted], subject: type[EngineSubject]) -> None:
    with pytest.raises(LawBroken, match="against"):
        same_replies(range(40), subject, bug=bug)


def test_without_a_bug_the_planted_index_is_right(effort: Effort) -> None:
    n = effort.cases(quick=1, full=8)  # otherwise a bug might be caught because all of it fails
    for subject in (EngineSubject, Ranks, Scaled, Moments, Lengths, AroundSubject):
        assert same_replies(range(n), subject, bug=Planted) == n * CALLS
