"""Matrices of floats: conversions round once; checks name the row and need little memory."""

import itertools
import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from hyrecall.errors import OptionError
from seams import check_rows, native, widen_bfloat16
from small_index import said

Array = np.ndarray[Any, Any]


def check(rows: Array, source: Any, target: Any, **options: Any) -> Array:
    names = {"argument": "v", "row_name": "row"}
    return check_rows(native(rows), source, target, **names, **options)


def nearest(values: Any, target: str) -> Any:
    """Round float64 by the definition: the multiple of the last place nearest, ties to even."""
    bits, lowest = {"float32": (24, -149), "float16": (11, -24), "bfloat16": (8, -133)}[target]
    _, exponent = np.frexp(values)
    place = np.maximum(exponent - bits, lowest)
    return np.ldexp(np.rint(np.ldexp(values, -place)), place)


def taken(rows: Array, source: Any, target: Any) -> Array:
    """Convert, and read the result as float64."""
    out = check(rows, source, target)
    return (out.view(ml_dtypes.bfloat16) if target == "bfloat16" else out).astype(np.float64)


def test_conversions_round_once_to_nearest_even() -> None:
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 2**64, 40_000, np.uint64).view(np.float64)
    near = rng.standard_normal(40_000) * np.exp2(rng.integers(-30, 15, 40_000))
    # Just beside the ties of bfloat16: by way of float32 these would land on the tie and go astray.
    ties = (np.float32(1) + np.arange(1, 128, 2) * np.float32(2.0**-8)).astype(np.float64)
    for values in (
        near,
        ties,
        ties * (1 + 2.0**-40),
        ties * (1 - 2.0**-40),
        -ties - 2.0**-45,
        bits,
    ):
        usable = values[np.isfinite(values) & (np.abs(values) < 2.0**15)]
        usable = np.stack([usable, np.ones(len(usable))], axis=1)  # no row becomes zero
        for source, target in itertools.product(
            ("float64", "float32", "float16", "bfloat16"), ("float32", "float16", "bfloat16")
        ):
            kind = ml_dtypes.bfloat16 if source == "bfloat16" else source
            given_rows = usable.astype(kind)
            exact = given_rows.astype(np.float64)
            assert np.array_equal(taken(given_rows, source, target), nearest(exact, target))


@pytest.mark.parametrize(
    ("value", "target", "held"),
    [
        (65504.0, "float16", True),
        (65519.9, "float16", True),
        (65520.0, "float16", False),
        (-70000.0, "float16", False),
        (3.5e38, "float32", False),
        (-1e300, "bfloat16", False),
        (3.4e38, "float32", True),
        (3.38e38, "bfloat16", True),
        (3.4e38, "bfloat16", False),
    ],
)
def test_a_value_that_overflows_the_target_is_refused(
    value: float, target: str, held: bool
) -> None:
    rows = np.array([[1.0, 2.0], [0.0, value]])
    if held:
        assert np.isfinite(taken(rows, "float64", target)).all()
        return
    with pytest.raises(OptionError) as caught:
        check(rows, "float64", target, first_row=3)
    assert said(caught.value) == f"v: expected values that fit {target}, got {value} in row 4"


def test_subnormal_values_of_every_type_are_kept() -> None:
    tiny = np.array([[2.0**-24, -(2.0**-24)]], np.float16)
    assert check(tiny, "float16", "float16").tolist() == tiny.tolist()
    assert taken(tiny, "float16", "float32").tolist() == tiny.tolist()
    least = np.array([[2.0**-149, 2.0**-133]], np.float32)
    assert taken(least, "float32", "float32").tolist() == least.tolist()
    assert taken(least, "float32", "bfloat16").tolist() == [[0.0, 2.0**-133]]
    assert np.signbit(taken(-least, "float32", "bfloat16")).tolist() == [[True, True]]


def test_every_bfloat16_widens_exactly_and_every_bad_one_is_found() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    wide = bits.view(ml_dtypes.bfloat16).astype(np.float32)
    assert np.array_equal(widen_bfloat16(bits), wide, equal_nan=True)
    finite = np.isfinite(wide)
    check(bits[finite][:, None], "bfloat16", "bfloat16")
    for pattern in bits[~finite]:
        with pytest.raises(OptionError, match=r"expected finite values, got -?(nan|inf) in row 0"):
            check(pattern.reshape(1, 1), "bfloat16", "bfloat16")


def test_every_nan_of_float32_stays_one_until_it_is_refused() -> None:
    for bits in (0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF, 0xFF800001):
        rows = np.array([[bits]], np.uint32).view(np.float32)
        for source, target in itertools.product(("float32", "float64"), ("float16", "bfloat16")):
            with np.errstate(invalid="ignore"):  # a signalling NaN
                given_rows = rows.astype(source)
            with pytest.raises(OptionError, match="expected finite values, got nan in row 0"):
                check(given_rows, source, target)


def test_the_row_is_named_past_the_first_block() -> None:
    rows = np.zeros((3 << 10, 1024), np.float32)
    rows[2500, 1023] = np.nan
    with pytest.raises(OptionError, match="got nan in row 2507"):
        check(rows, "float32", "float32", first_row=7)


def test_checking_a_matrix_needs_a_few_megabytes_only() -> None:
    rows = np.ones((1 << 18, 64), np.float32)
    tracemalloc.start()
    out = check(rows, "float32", "float32")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < rows.nbytes // 8
    assert np.shares_memory(out, rows)
