"""Rows of Arrow columns, gathered natively, against Arrow's own take."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

from hyrecall import _core
from hyrecall.errors import DTypeError, InternalError

COLUMNS = {
    "ints": pa.array([3, None, -7, 2**62, 0, None, 5, 6, 7, 8, 9], pa.int64()),
    "strings": pa.array(
        ["a", "", None, "däs", "x" * 99, "b", None, "", "c", "d"], pa.large_string()
    ),
    "bools": pa.array([True, False, None, True, True, False, None, True, False, True], pa.bool_()),
    "floats": pa.array([1.5, None, float("nan"), -0.0, 5.0], pa.float64()),
    "times": pa.array(
        [datetime(2026, 1, d, tzinfo=UTC) for d in (1, 2, 3)], pa.timestamp("us", "UTC")
    ),
    "no nulls": pa.array(np.arange(40, dtype=np.int64)),
    "no text": pa.array(["", "", ""], pa.large_string()),
}


def gathered(columns: list[pa.Array], source: np.ndarray, row: np.ndarray) -> pa.Array:
    plain = [_core.rows.Column(column) for column in columns]
    made = _core.rows.gather(plain, source.astype(np.uint32), row.astype(np.uint32))
    out = pa.array(made)
    out.validate(full=True)
    return out


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("skipped", [0, 1, 2])
def test_rows_of_a_slice_are_those_that_arrow_takes(name: str, skipped: int) -> None:
    column = COLUMNS[name].slice(skipped)
    rng = np.random.default_rng(skipped)
    for n in (0, 1, 7, 8, 9, 70):
        row = rng.integers(0, len(column), n)
        expected = column.take(pa.array(row))
        out = gathered([column], np.zeros(n), row)
        assert out.type == column.type
        assert repr(out.to_pylist()) == repr(expected.to_pylist())  # repr: NaN and -0.0 are told
        assert out.null_count == expected.null_count


def test_rows_of_several_segments_come_in_the_order_asked() -> None:
    parts = [COLUMNS["strings"].slice(0, 4), COLUMNS["strings"].slice(4, 3)]
    source, row = np.array([1, 0, 1, 0, 0]), np.array([2, 3, 0, 0, 2])
    expected = [parts[s][r].as_py() for s, r in zip(source.tolist(), row.tolist(), strict=True)]
    assert gathered(parts, source, row).to_pylist() == expected


def test_what_was_gathered_outlives_its_column() -> None:
    out = gathered([pa.array(["kept", "gone"], pa.large_string())], np.zeros(1), np.zeros(1))
    assert out.to_pylist() == ["kept"]


def test_an_array_that_nobody_takes_is_let_go_and_one_is_taken_once() -> None:
    rows = np.zeros(1, np.uint32)
    made = _core.rows.gather([_core.rows.Column(COLUMNS["ints"])], rows, rows)
    made.__arrow_c_array__()  # both capsules die with their arrays
    with pytest.raises(InternalError):
        made.__arrow_c_array__()


def test_rows_that_are_not_there_are_refused() -> None:
    for source, row in ((0, 11), (1, 0)):
        with pytest.raises(InternalError):
            gathered([COLUMNS["ints"]], np.array([source]), np.array([row]))
    with pytest.raises(InternalError):
        gathered([COLUMNS["ints"], COLUMNS["bools"]], np.zeros(1), np.zeros(1))


def test_other_types_are_arrows_own() -> None:
    with pytest.raises(DTypeError, match="column: expected"):
        _core.rows.Column(pa.array([[1]]))
