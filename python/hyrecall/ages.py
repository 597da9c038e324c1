"""Ages of documents at the time of a call, and what ratings are worth."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.errors import DTypeError, error

__all__ = ["age_seconds", "importances", "utc"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def age_seconds(times: pa.Array, now: datetime) -> npt.NDArray[np.float64]:
    """Give now - time in seconds; NaN where there is no time. Naive times are UTC.

    The difference is taken in integers of the finer unit of the column's and now's microseconds,
    and rounded once.
    """
    if pa.types.is_date(times.type):
        times = times.cast(pa.timestamp("s"))
    unit: str = times.type.unit
    missing = times.is_null().to_numpy(zero_copy_only=False)
    ticks = times.cast(pa.int64()).fill_null(0).to_numpy()
    micros = (now - _EPOCH) // timedelta(microseconds=1)
    if unit == "ns":
        difference = micros * 1_000 - ticks
    else:
        difference = micros - ticks * (1_000_000 // _PER_SECOND[unit])
    per_second = _PER_SECOND["ns" if unit == "ns" else "us"]
    seconds = difference.astype(np.float64) / per_second
    return np.where(missing, np.nan, seconds)


def importances(ratings: pa.Array, default: float, scale: float) -> npt.NDArray[np.float64]:
    """Give rating / scale within [0, 1]; a missing rating, null or NaN, is the default."""
    given = ratings.cast(pa.float64()).fill_null(default).to_numpy()
    worth = np.where(np.isnan(given), default, given) / scale
    return np.asarray(np.clip(worth, 0.0, 1.0), np.float64)


def utc(argument: str, time: object) -> datetime:
    """Take a time; one without a zone is UTC."""
    if not isinstance(time, datetime):
        raise error(DTypeError, argument, "a datetime", type(time).__name__)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time
