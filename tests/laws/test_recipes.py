"""The laws with stages, groups and recipes: each entry of the registry is under all of them."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import get_args

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
    tied_mix,
)
from laws.digest import table_of
from laws.effort import Effort
from laws.engine import EngineSubject
from laws.isa import NEEDED_FLAGS, skip_without
from laws.planted import SCORING, Mutation, mutant
from laws.planted_life import ThreadGhosts
from laws.planted_stages import HITS_STAND_NOWHERE
from laws.registry import BY_NAME, ELSEWHERE, ENTRIES, PLAIN, Entry
from laws.subject import Make, planted
from oracle.corpus import Draw, Mix, draw_mix, draw_rows, draw_shape
from oracle.recall import Oracle
from oracle.recipe import RecipeOracle

Engine = Callable[..., EngineSubject]
LARGE = ("Feedback", "Around", "Prior", "Dedup", "MMR")  # also on tables of several tiles
OF_PAIRS = ("Dedup", "MMR")  # the oracle compares every two rows of a list
of_each = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)


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


def three_tiles(draw: Draw) -> Mix:
    """A large table of three tiles, the last of which is not full."""
    return replace(large_mix(draw), n_rows=300)


@of_each
def test_replies_are_those_of_the_definition(entry: Entry, make: Make, effort: Effort) -> None:
    tables, large = effort.cases(quick=3, full=200), effort.cases(quick=entry.name in LARGE, full=8)
    seen = compare_with(RecipeOracle, make, range(tables), mixed, entry)
    large_of = three_tiles if entry.name in OF_PAIRS and not effort.full else large_mix
    seen += compare_with(RecipeOracle, make, range(large), large_of, entry)
    assert seen == (tables + large) * CALLS_PER_TABLE * QUERIES_PER_CALL


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


def test_a_gap_after_a_delete_is_caught() -> None:
    with pytest.raises(LawBroken):
        no_history(ThreadGhosts, range(60), entry=BY_NAME["Around"])


@of_each
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


def test_rows_that_depend_on_the_page_are_caught() -> None:
    oracle = mutant(RecipeOracle, HITS_STAND_NOWHERE)
    with pytest.raises(LawBroken):
        limit_is_a_prefix(planted(oracle), range(60), BY_NAME["grouping"])


@cache
def built_and_grown(device: str) -> tuple[EngineSubject, EngineSubject]:
    """The same rows in one segment for one thread, and in several for three."""
    shape, rows, _ = table_of(1200)
    make = partial(EngineSubject, shape, device=device, threaded=True)
    whole, grown = make(rows, threads=1), make(rows[:1150], threads=3)
    for first in range(1150, len(rows), 10):
        grown.add(rows[first : first + 10])
    drop = rows[100:200]
    for subject in (whole, grown):
        subject.delete([row.key for row in drop], [frozenset({row.cell}) for row in drop])
    assert grown.index.stats()["n_segments"] > whole.index.stats()["n_segments"] == 1
    return whole, grown


@of_each
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
