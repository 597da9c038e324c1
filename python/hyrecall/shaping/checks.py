"""How the options of stages are checked."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import TypeAlias

from hyrecall.errors import DTypeError, OptionError, error

__all__ = ["Duration", "arm_name", "column_name", "integer", "one_of", "read_duration"]

Duration: TypeAlias = "str | float | timedelta"

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def read_duration(argument: str, value: object) -> float:
    """Give a duration > 0 in seconds: a number of seconds, a timedelta, or text such as "30d"."""
    wish = "a duration above 0: seconds, a timedelta, or a number with ms, s, m, h, d or w"
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str):
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|w)", value.strip())
        if match is None:
            raise error(OptionError, argument, wish, repr(value))
        seconds = float(match[1]) * _UNITS[match[2]]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(value)
    else:
        raise error(DTypeError, argument, wish, type(value).__name__)
    if not (math.isfinite(seconds) and seconds > 0):
        raise error(OptionError, argument, wish, repr(value))
    return seconds


def column_name(argument: str, value: object) -> str:
    """Check the name of a column."""
    if not isinstance(value, str):
        raise error(DTypeError, argument, "the name of a column", type(value).__name__)
    return value


def arm_name(value: object) -> None:
    """Check the name of a vector arm, or None."""
    if value is not None and not isinstance(value, str):
        raise error(DTypeError, "vector", "the name of a vector arm", type(value).__name__)


def integer(argument: str, value: object, low: int) -> int:
    """Check an int of at least ``low``."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value < 2**31:
        raise error(OptionError, argument, f"an int in [{low}, 2^31)", repr(value))
    return value


def one_of(argument: str, value: object, known: tuple[str, ...]) -> None:
    """Check a choice."""
    if value not in known:
        raise error(OptionError, argument, f"one of {known}", repr(value))
