"""Columns give back what was put in them, bit for bit; bytes that are no vector are refused."""

import array
import struct
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest

from hyrecall.errors import OptionError, ShapeError
from memory.rows_of_tests import any_episode
from seams import (
    cell_of,
    decode_vector,
    encode_vector,
    episode_of,
    from_micros,
    to_columns,
    to_micros,
)


@pytest.mark.parametrize(
    "time",
    [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2026, 6, 1, 12, 30, 0, 1, tzinfo=timezone(timedelta(hours=-9, minutes=-30))),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ],
)
def test_a_time_comes_back_to_the_microsecond(time: datetime) -> None:
    assert from_micros(to_micros(time)) == time
    assert from_micros(to_micros(time)).tzinfo is UTC


def test_a_vector_is_little_endian_float32_without_a_header() -> None:
    row = np.array([1.5, -0.0, 3.4e38, 1e-45], np.float32)
    blob = encode_vector(row)
    assert blob == struct.pack(f"<{len(row)}f", *row.tolist())
    assert array.array("f", blob).tolist() == row.tolist()
    assert decode_vector(blob).tobytes() == row.tobytes()
    assert encode_vector(row.astype(">f4")) == blob
    assert encode_vector(np.array([0.1])) == encode_vector(np.array([0.1], np.float32))


@pytest.mark.parametrize("bad", [[], [[1.0]], 1.0])
def test_what_is_no_row_is_refused(bad: object) -> None:
    with pytest.raises(ShapeError, match="vector: expected one row of numbers"):
        encode_vector(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf"), 1e300])
def test_what_is_not_finite_is_not_written_and_not_read(bad: float) -> None:
    with pytest.raises(OptionError, match="vector: expected finite numbers"):
        encode_vector([1.0, bad])
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="blob: expected finite"):
        decode_vector(np.array([1.0, bad]).astype("<f4").tobytes())


@pytest.mark.parametrize("size", [0, 1, 3, 5, 4095])
def test_bytes_of_a_wrong_size_are_no_vector(size: int) -> None:
    with pytest.raises(ValueError, match="blob: expected a multiple of 4 bytes"):
        decode_vector(bytes(size))


def test_an_episode_comes_back_field_by_field() -> None:
    for seed in range(200):
        episode = any_episode(seed)
        back = episode_of(cell_of(episode), episode.id, episode.pinned, to_columns(episode))
        assert back == episode
        assert repr(back) == repr(episode)  # -0.0 and 0.0, 1 and True are equal
        assert back.model_dump_json() == episode.model_dump_json()
