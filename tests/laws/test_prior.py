"""The laws with a prior: what a row's value in a column adds to its score."""

from collections.abc import Callable
from functools import partial

import pytest

from laws.checks import (
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
from laws.planted_prior import PLANTED
from laws.prior import NumberPriorSubject, PriorAroundSubject, PriorSubject
from laws.subject import Make
from oracle.corpus import Draw, Mix, draw_call, draw_mix, draw_rows, draw_shape
from oracle.prior import NumberPrior, PriorAround, PriorOracle
from oracle.recall import Oracle

KINDS = {
    "alone": (PriorOracle, PriorSubject),
    "with Around": (PriorAround, PriorAroundSubject),
    "of numbers": (NumberPrior, NumberPriorSubject),
}


@pytest.fixture
def make_prior(request: pytest.FixtureRequest, device: str) -> Callable[..., PriorSubject]:
    """Makes an engine whose every recall has both stages."""
    if request.config.getoption("--subject") == "oracle":
        pytest.skip("needs the engine: run without --subject=oracle")
    return partial(PriorAroundSubject, device=device)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mix", [draw_mix, tied_mix, large_mix], ids=lambda mix: mix.__name__)
def test_replies_with_a_prior_are_those_of_the_definition(
    kind: str, mix: Callable[[Draw], Mix], make_prior: Make, device: str, effort: Effort
) -> None:
    oracle, subject = KINDS[kind]
    quick = 1 if mix is large_mix else 8
    tables = effort.cases(quick=quick, full=40 * quick)
    seen = compare_with(oracle, partial(subject, device=device), range(tables), mix)
    assert seen == tables * 6 * QUERIES_PER_CALL


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.__name__)
def test_a_planted_bug_of_the_prior_is_caught(bug: type[PriorAround], make_prior: Make) -> None:
    with pytest.raises(LawBroken):
        compare_with(bug, make_prior, range(40))


def test_worlds_that_share_the_authorised_rows_have_the_same_priors(
    make_prior: Make, effort: Effort
) -> None:
    pairs = effort.cases(quick=10, full=1000)
    assert non_interference(make_prior, range(pairs)) == pairs


def test_history_leaves_no_trace_in_priors(make_prior: Make, effort: Effort) -> None:
    sequences = effort.cases(quick=4, full=300)
    assert no_history(make_prior, range(sequences)) == 10 * sequences


def test_a_batch_of_any_size_has_the_same_priors(make_prior: Make, effort: Effort) -> None:
    tables, sizes = effort.cases(quick=1, full=20), (1, 2, 31, 64)
    assert same_in_every_batch(make_prior, range(tables), sizes) > tables * len(sizes)


def test_a_smaller_limit_gives_a_prefix_with_priors(make_prior: Make, effort: Effort) -> None:
    tables = effort.cases(quick=10, full=500)
    assert limit_is_a_prefix(make_prior, range(tables)) == tables * 6 * 4


def test_threads_and_segments_change_no_byte_of_priors(
    make_prior: Callable[..., PriorSubject],
) -> None:
    shape, rows, calls = table_of(1200)
    whole = make_prior(shape, rows, threads=1)
    grown = make_prior(shape, rows[:1150], threads=3)
    for first in range(1150, len(rows), 10):
        grown.add(rows[first : first + 10])
    drop = slice(100, 200)
    for subject in (whole, grown):
        subject.delete(
            [row.key for row in rows[drop]], [frozenset({row.cell}) for row in rows[drop]]
        )
    assert grown.index.stats()["n_segments"] > whole.index.stats()["n_segments"] == 1
    for call in calls:
        assert whole.recall_bytes(call) == grown.recall_bytes(call)


def test_explanations_with_a_prior_give_the_score_to_the_last_bit(
    make_prior: Callable[..., PriorSubject],
) -> None:
    seen = weighed = 0
    for seed in range(25):
        draw = Draw(seed)
        shape = draw_shape(draw)
        rows = draw_rows(draw, shape, draw_mix(draw))
        call = draw_call(draw, Oracle(shape, rows), QUERIES_PER_CALL)
        for hits in make_prior(shape, rows).hits(call):
            for hit in hits:
                made = hit.explain()
                assert made.score == hit.score
                assert [step.stage for step in made.steps] == ["Around and Prior"]
                seen, weighed = seen + 1, weighed + (made.steps[0].factors["prior"] != 0.0)
    assert seen > 100
    assert weighed > 30
