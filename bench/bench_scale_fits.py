"""The fits of the simulation of many shards, each found again from what it made."""

from __future__ import annotations

import numpy as np
import pytest

from bench.scale.fitting import GRID, Noise, Tail, between


@pytest.mark.parametrize(("scale", "shape"), [(4.0, 0.3), (2.0, 0.0), (6.0, -0.4)])
def test_a_tail_is_found_again_from_its_own_lengths(scale: float, shape: float) -> None:
    drawn = np.random.default_rng(11).random(40_000)
    lengths = Tail(scale, shape).lengths(drawn)
    found = Tail.fitted(lengths)
    assert found.scale == pytest.approx(scale, rel=0.05)
    assert found.shape == pytest.approx(shape, abs=0.05)
    assert found.mean == pytest.approx(lengths.mean(), rel=0.01)
    beyond = (1 - drawn) ** -2.0  # no variance at all: held to the heaviest that has one
    assert Tail.fitted(beyond).shape < 0.5
    assert Tail.fitted([3.0]).mean == 0.5


def test_noise_is_found_again_from_times_that_it_made() -> None:
    """Work of 3 to 6 ms: an interruption of more than half of it is always told from jitter."""
    rng = np.random.default_rng(12)
    truth = Noise(1 + 0.2 * (GRID - 0.5), 0.02, Tail(20.0, 0.2))
    work = rng.uniform(3.0, 6.0, (40, 1)) * np.ones((1, 500))
    found = Noise.fitted([truth.vary(work, rng)], [work])
    assert found.rate == pytest.approx(truth.rate, rel=0.25)  # 1 in 8 is too short to be told
    assert found.rate < truth.rate
    assert found.mean(4.0) == pytest.approx(truth.mean(4.0), rel=0.05)
    assert found.jitter[5:-5] == pytest.approx(truth.jitter[5:-5], abs=0.02)
    made = found.vary(np.full(100_000, 2.0), rng)
    assert made.mean() == pytest.approx(found.mean(2.0), rel=0.02)
    assert found.of_idle_machine().vary(np.full(1_000, 2.0), rng).max() <= 2 * found.jitter[-1]


def test_a_late_answer_of_a_short_step_does_not_make_long_steps_late() -> None:
    short, long = np.full((20, 50), 0.4), np.full((20, 50), 6.0)
    late = short.copy()
    late[:, 0] = 4.4  # ten times as long, but it is four milliseconds that count
    found = Noise.fitted([late, long], [short, long])
    assert found.jitter.max() == 1.0
    assert found.rate == pytest.approx(20 / (short.sum() + long.sum()))
    assert found.tail.mean == pytest.approx(4.0)


def test_values_between_points_and_beyond_them() -> None:
    assert between([10, 20, 40], [1, 2, 5], [0, 15, 30, 70]).tolist() == [1, 1.5, 3.5, 9]
    assert between([10, 20], [3, 2], 40).tolist() == 2  # less work for more rows: not less for ever
