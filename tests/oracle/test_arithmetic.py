"""The oracle's arithmetic against libm, against hand-computed values, and against wrong forms of
itself.
"""

import ctypes

import numpy as np
import pytest

from oracle import arithmetic
from oracle.arithmetic import (
    cosines,
    dots,
    fma,
    inverse_norms,
    plain_cosine,
    plain_dot,
    sums_of_squares,
)


def libm_fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    triples = zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    return np.array([arithmetic._libm.fmaf(x, y, z) for x, y, z in triples], np.float32)


def hard_triples(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random bits of all magnitudes, cancellations, and sums that lie next to a rounding tie."""
    rng = np.random.default_rng(20260101)
    exponents = rng.integers(-60, 61, (3, n))
    a, b, c = (np.ldexp(rng.uniform(-2, 2, n), e).astype(np.float32) for e in exponents)
    product = (a.astype(np.float64) * b).astype(np.float32)
    c = np.where(np.arange(n) % 3 == 0, -product, c)
    # c has an odd last bit and a * b is half of it less a hair that float64 cannot hold: there it
    # is a tie, and rounds up.
    near_tie = np.arange(n) % 3 == 1
    odd = (1 + (2 * rng.integers(0, 1000, n) + 1) * 2.0**-23).astype(np.float32)
    hair = 2.0 ** -rng.integers(15, 21, n)
    a = np.where(near_tie, 2.0**-24 * (1 + hair), a).astype(np.float32)
    b = np.where(near_tie, 1 - hair, b).astype(np.float32)
    return a, b, np.where(near_tie, odd, c).astype(np.float32)


def test_array_fma_equals_libm_bit_for_bit() -> None:
    a, b, c = hard_triples(150_000)
    np.testing.assert_array_equal(fma(a, b, c).view(np.int32), libm_fma(a, b, c).view(np.int32))


def test_fma_by_float64_alone_is_told_apart() -> None:
    a, b, c = hard_triples(150_000)
    rounded_twice = (a.astype(np.float64) * b + c).astype(np.float32)
    assert (rounded_twice != libm_fma(a, b, c)).sum() > 10_000


def test_libm_is_called_with_floats() -> None:
    assert arithmetic._libm.fmaf.restype is ctypes.c_float
    assert arithmetic._libm.fmaf(3.0, 4.0, 5.0) == 17.0


@pytest.mark.slow
def test_array_dots_and_norms_equal_the_plain_ones_on_10_000_rows() -> None:
    rng = np.random.default_rng(7)
    for dim in (1, 2, 5, 31, 32, 33, 64, 70, 100, 384):
        rows = rng.standard_normal((1000 if dim < 100 else 500, dim)).astype(np.float32)
        query = rng.standard_normal(dim).astype(np.float32)
        assert dots(rows, query).tolist() == [float(plain_dot(row, query)) for row in rows]
        assert sums_of_squares(rows[:50]).tolist() == [
            arithmetic.plain_sum_of_squares(row) for row in rows[:50]
        ]
        assert cosines(rows[:50], query).tolist() == [
            float(plain_cosine(row, query)) for row in rows[:50]
        ]


def test_lanes_matter_for_the_last_bits() -> None:
    rng = np.random.default_rng(8)
    rows, query = (
        rng.standard_normal((1000, 96)).astype(np.float32),
        rng.standard_normal(96).astype(np.float32),
    )
    in_one_lane = np.zeros(1000, np.float32)
    for i in range(96):
        in_one_lane = fma(rows[:, i], np.full(1000, query[i]), in_one_lane)
    assert (in_one_lane != dots(rows, query)).sum() > 500


def test_dot_of_integers_is_exact() -> None:
    rows = np.arange(80, dtype=np.float32).reshape(2, 40)
    assert dots(rows, np.ones(40, np.float32)).tolist() == [780.0, 2380.0]


def test_inverse_norm_of_3_4_is_a_fifth_and_of_zero_is_none() -> None:
    rows = np.array([[3, 4], [0, 0]], np.float32)
    assert inverse_norms(rows).tolist() == [float(np.float32(0.2)), 0.0]


def test_cosine_of_parallel_opposite_and_orthogonal_vectors() -> None:
    rows = np.array([[1, 0], [-2, 0], [0, 3], [-0.0, -1], [0, 0]], np.float32)
    found = cosines(rows, np.array([5, 0], np.float32))
    assert found[:4].tolist() == [1.0, -1.0, 0.0, 0.0]
    assert not np.signbit(found[2:4]).any()  # -0 became +0
    assert np.isnan(found[4])
    assert plain_cosine(rows[4], rows[0]) is None


def test_cosine_is_clamped_where_roundings_exceed_one() -> None:
    rng = np.random.default_rng(9)
    rows = rng.standard_normal((2000, 5)).astype(np.float32)
    inverse = inverse_norms(rows)
    own = np.array([dots(row[None, :], row)[0] for row in rows])
    assert ((own * inverse) * inverse > 1).any()
    assert max(cosines(row[None, :], row)[0] for row in rows) == 1.0
