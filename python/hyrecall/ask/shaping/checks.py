"""How the options of stages are checked."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeAlias

import numpy as np

from hyrecall.base.arguments import plain, whole
from hyrecall.errors import DTypeError, OptionError, error

__all__ = [
    "Duration",
    "arm_name",
    "boolean",
    "column_name",
    "integer",
    "names",
    "plain_duration",
    "plain_pairs",
    "plain_values",
    "read_duration",
    "text",
]

Duration: TypeAlias = "str | float | timedelta"

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def read_duration(argument: str, value: object) -> float:
    """Return a duration > 0 in seconds: a number of seconds, a timedelta, or text such as "30d"."""
    wish = "a duration above 0: seconds, a timedelta, or a number with ms, s, m, h, d or w"
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, str):
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d|w)", value.strip())
        if match is None:
            raise error(OptionError, argument, wish, repr(value))
        seconds = float(match[1]) * _UNITS[match[2]]
    elif isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        try:
            seconds = float(value)
        except OverflowError:
            seconds = math.inf
    else:
        raise error(DTypeError, argument, wish, type(value).__name__)
    if not (math.isfinite(seconds) and seconds > 0):
        raise error(OptionError, argument, wish, repr(value))
    return seconds


def plain_duration(argument: str, value: object) -> str | float:
    """Check a duration and give it as JSON has it: text as it is, anything else in seconds."""
    seconds = read_duration(argument, value)
    return value if isinstance(value, str) else seconds


def column_name(argument: str, value: object) -> str:
    """Check the name of a column."""
    if not isinstance(value, str):
        raise error(DTypeError, argument, "the name of a column", type(value).__name__)
    return value


def arm_name(value: object) -> None:
    """Check the name of a vector arm, or None."""
    if value is not None and not isinstance(value, str):
        raise error(DTypeError, "vector", "the name of a vector arm", type(value).__name__)


def integer(argument: str, value: object, low: int, high: int = 2**31 - 1) -> int:
    """Return an integer of any library within [low, high] as an int."""
    given = whole(value)
    if given is None or not low <= given <= high:
        end = "2^31)" if high == 2**31 - 1 else f"{high}]"
        raise error(OptionError, argument, f"an int in [{low}, {end}", repr(value))
    return given


def boolean(argument: str, value: object) -> bool:
    """Check a bool, or NumPy's."""
    given = plain(value)
    if not isinstance(given, bool):
        raise error(DTypeError, argument, "a bool", repr(value))
    return given


def text(argument: str, value: object) -> str:
    """Check a str."""
    if not isinstance(value, str):
        raise error(DTypeError, argument, "a str", repr(value))
    return value


def names(argument: str, value: object, wish: str = "a tuple of names") -> tuple[str, ...]:
    """Return strings as a tuple; one string alone is none: it would fall into letters."""
    given = value if isinstance(value, Iterable) and not isinstance(value, str | bytes) else (None,)
    found = tuple(given)
    if not all(isinstance(one, str) for one in found):
        raise error(DTypeError, argument, wish, repr(value))
    return found


def plain_values(argument: str, value: object) -> tuple[Any, ...]:
    """Return the values of a column as a tuple, NumPy's scalars as Python's own."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise error(DTypeError, argument, "a tuple of values", repr(value))
    return tuple(_plain_value(one) for one in value)


def plain_pairs(argument: str, value: object) -> tuple[tuple[Any, Any], ...]:
    """Return a mapping of a column's values, or its pairs, as pairs; the last duplicate wins."""
    try:
        return tuple({_plain_value(one): to for one, to in dict(value).items()}.items())  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise error(DTypeError, argument, "a mapping of values", repr(value)) from None


def _plain_value(value: Any) -> Any:
    # NumPy's times count in units that Python's do not have.
    return value if isinstance(value, np.datetime64 | np.timedelta64) else plain(value)
