"""Reads times that callers write, at every door: ISO 8601, and a date alone is a whole day."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime

from hyrecall.errors import OptionError, error

__all__ = ["as_moment", "read_moment", "read_time"]


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
