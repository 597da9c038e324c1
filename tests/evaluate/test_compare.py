"""Paired tests against full enumeration, and against scipy's own."""

from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from hyrecall.errors import OptionError
from hyrecall.evaluate import Scores, compare, difference_table
from seams import bootstrap_interval, randomisation_p

pytest.importorskip("scipy", reason="the extra [evaluate] is not installed")


def drawn(n: int, *, shift: float = 0.05, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(shift, 0.2, n)


def enumerated(differences: np.ndarray) -> float:
    """p by its definition, over every assignment of signs, in exact fractions of the count."""
    observed = abs(sum(differences))
    sums = [
        abs(sum(sign * d for sign, d in zip(signs, differences, strict=True)))
        for signs in product((-1, 1), repeat=len(differences))
    ]
    return sum(one >= observed - 1e-12 for one in sums) / len(sums)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 10])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_p_is_that_of_full_enumeration_where_there_are_few_queries(n, seed):
    differences = drawn(n, seed=seed)
    assert randomisation_p(differences) == enumerated(differences)


def test_p_of_equal_sums_is_not_lost_to_rounding():
    differences = np.array([0.1, 0.2, 0.3, -0.1, 0.7, 0.1, 0.2])
    assert randomisation_p(differences) == enumerated(differences)
    assert randomisation_p(differences[::-1]) == randomisation_p(differences)


@pytest.mark.parametrize("seed", range(4))
def test_drawn_flips_come_near_the_full_enumeration(seed):
    differences = drawn(14, seed=seed)  # 16,384 flips: more than are drawn
    exact = enumerated(differences)
    assert randomisation_p(differences) == pytest.approx(exact, abs=0.02)
    assert randomisation_p(differences, n_resamples=20_000) == exact


def test_p_is_the_same_every_time_and_agrees_with_the_t_test_on_many_queries():
    stats = pytest.importorskip("scipy.stats")  # takes a second, of each worker if it stood above
    differences = drawn(400, shift=0.02)
    first = randomisation_p(differences)
    assert randomisation_p(differences) == first
    assert randomisation_p(-differences) == first
    assert first == pytest.approx(stats.ttest_1samp(differences, 0.0).pvalue, abs=0.02)


def test_p_under_no_difference_is_spread_evenly():
    stats = pytest.importorskip("scipy.stats")
    ps = [randomisation_p(drawn(30, shift=0, seed=s), n_resamples=500) for s in range(200)]
    assert stats.kstest(ps, "uniform").pvalue > 0.001
    assert np.mean(np.array(ps) < 0.05) < 0.12


def test_p_of_a_clear_difference_is_small_and_never_0():
    assert randomisation_p(np.full(100, 0.1)) == 1 / 10_001
    assert randomisation_p(np.zeros(5)) == 1.0
    assert randomisation_p(np.zeros(0)) == 1.0


def test_queries_without_a_difference_have_no_say():
    differences = drawn(9)
    padded = np.concatenate([differences, np.zeros(500)])
    assert randomisation_p(padded) == randomisation_p(differences)


def test_the_interval_holds_the_mean_and_narrows_with_the_queries():
    widths = []
    for n in (20, 200, 2000):
        differences = drawn(n)
        low, high = bootstrap_interval(differences)
        assert low < differences.mean() < high
        widths.append(high - low)
    assert widths[0] > widths[1] > widths[2]
    # For a mean of many, the percentiles are those of the normal distribution.
    half = 1.96 * differences.std() / np.sqrt(len(differences))
    assert widths[2] == pytest.approx(2 * half, rel=0.05)
    assert bootstrap_interval(np.zeros(0)) == (0.0, 0.0)


def scores(name: str, **values: list[float]) -> Scores:
    n = len(next(iter(values.values())))
    made = {measure: np.array(given) for measure, given in values.items()}
    return Scores(name, tuple(f"q{at}" for at in range(n)), made)


def test_a_comparison_says_what_changed():
    before = scores("old", AP=[0.5, 0.5, 0.5], RR=[1.0, 1.0, 1.0])
    after = scores("new", AP=[1.0, 0.5, 0.25])
    (one,) = compare(before, after)
    assert (one.measure, one.before, one.n_queries) == ("AP", 0.5, 3)
    assert one.after == pytest.approx(1.75 / 3)
    assert one.difference == pytest.approx(0.25 / 3)
    assert (one.better, one.worse) == (1, 1)
    assert one.interval[0] <= one.difference <= one.interval[1]
    assert one.p_value == 1.0  # of four flips, two are farther from 0, two as far


def test_runs_over_other_queries_or_measures_are_refused():
    with pytest.raises(OptionError, match="run 'b': expected the 2 queries of 'a'"):
        compare(scores("a", AP=[1, 0]), scores("b", AP=[1, 0, 1]))
    with pytest.raises(OptionError, match="run 'b': expected measures with RR"):
        compare(scores("a", RR=[1, 0]), scores("b", AP=[1, 0]), measures=["RR"])


def test_the_table_of_differences_begins_with_the_most_moved():
    before, after = scores("a", AP=[0.5, 0.5, 0.5, 0.5]), scores("b", AP=[0.5, 0.4, 0.6, 0.0])
    queries = pa.table({"id": ["q3", "q1", "q0"], "text": ["three", "one", "zero"]})
    table = difference_table(before, after, "AP", queries)
    assert table["query"].to_pylist() == ["q3", "q1", "q2", "q0"]
    assert table["text"].to_pylist() == ["three", "one", None, "zero"]
    assert table["difference"].to_pylist() == pytest.approx([-0.5, -0.1, 0.1, 0.0])
    with pytest.raises(OptionError, match="measure: expected two runs"):
        difference_table(before, after, "RR")
