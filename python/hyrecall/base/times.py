"""Reads the times that callers write as ISO 8601; a date alone means the whole day."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.errors import DTypeError, OptionError, error


def as_moment(text: str) -> date:
    """Return a date of a date alone, and a datetime of what names a time too."""
    if text.isdecimal():
        raise ValueError("digits alone")
    with suppress(ValueError):
        return date.fromisoformat(text)
    return datetime.fromisoformat(text)


def read_moment(argument: str, value: str | None) -> date | None:
    """Read an end of a range of times."""
    if value is None:
        return None
    try:
        return as_moment(value)
    except ValueError:
        raise error(OptionError, argument, "an ISO 8601 time", repr(value[:80])) from None


def read_time(argument: str, value: str | None) -> datetime | None:
    """Read a time; a date alone is its midnight, and without a zone it is UTC."""
    found = read_moment(argument, value)
    if found is None or isinstance(found, datetime):
        return found
    return datetime(found.year, found.month, found.day)


# ---- Computes ages of documents at the time of a call, and importances from ratings ----

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def age_seconds(times: pa.Array, now: datetime) -> npt.NDArray[np.float64]:
    """Return ``now - time`` in seconds, NaN for a null. Naive times are UTC."""
    kind = times.type
    missing = times.is_null().to_numpy(zero_copy_only=False)
    count = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    ticks = times.view(count).cast(pa.int64()).fill_null(0).to_numpy()
    ages = _core.shaping.age_seconds(ticks, tick_of(kind), microseconds(now))
    return np.where(missing, np.nan, ages)


def microseconds(now: datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (now - _EPOCH) // _MICROSECOND


def tick_of(kind: pa.DataType) -> int:
    """Return how many nanoseconds the unit of a type of times or dates has."""
    if pa.types.is_date32(kind):
        return 86_400 * 10**9
    return _NANOSECONDS["ms" if pa.types.is_date64(kind) else str(kind.unit)]


def importances(ratings: pa.Array, default: float, scale: float) -> npt.NDArray[np.float64]:
    """Return ``rating / scale`` clipped to [0, 1]; null and NaN count as `default`."""
    given = ratings.cast(pa.float64()).fill_null(default).to_numpy()
    worth = np.where(np.isnan(given), default, given) / scale
    return np.asarray(np.clip(worth, 0.0, 1.0), np.float64)


def utc(argument: str, time: object) -> datetime:
    """Check a datetime and return it with a time zone; a naive one is UTC."""
    if not isinstance(time, datetime):
        raise error(DTypeError, argument, "a datetime", type(time).__name__)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time


def call_time(now: datetime | None) -> datetime:
    """Return the given time of a call, by default the current time."""
    return datetime.now(UTC) if now is None else utc("now", now)
