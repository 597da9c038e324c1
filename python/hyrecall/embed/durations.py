"""Reads durations in Go's notation: ``500ms``, ``1m30s``, ``1.5s``."""

from __future__ import annotations

import re
from fractions import Fraction

from hyrecall.errors import OptionError, error

__all__ = ["duration", "timeout_of"]

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # the micro sign
    "μs": 1_000,  # the Greek letter
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
# [0-9], because \d also matches digits that are not ASCII.
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE = re.compile(rf"[+-]?(?:{_PART.pattern})+")
_MOST = 2**63 - 1  # nanoseconds: 292 years


def duration(text: str) -> float:
    """Convert a duration to seconds."""
    wish = "a duration like 500ms, 3s or 1m30s"
    if text in ("0", "+0", "-0"):
        return 0.0
    if len(text) > 100 or not _WHOLE.fullmatch(text):
        raise error(OptionError, "duration", wish, repr(text[:40]))
    total = sum(int(_fraction(number) * _NANOSECONDS[unit]) for number, unit in _PART.findall(text))
    if total > _MOST:
        raise error(OptionError, "duration", wish, repr(text))
    return (-total if text.startswith("-") else total) / 1_000_000_000


def timeout_of(text: str | None, default: float = 5.0) -> float:
    """Return a variable's seconds; the default if it is not set or not a positive duration."""
    try:
        seconds = duration(text) if text else 0.0
    except OptionError:
        return default
    return seconds if seconds > 0 else default


def _fraction(number: str) -> Fraction:
    return Fraction(f"0{number}" if number.startswith(".") else number.removesuffix("."))
