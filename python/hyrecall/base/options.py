"""Checks and converts the options of arms, stages and recipes; what a graph among them is."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from hyrecall.base.arguments import as_int, python_scalar
from hyrecall.errors import DTypeError, OptionError, error

Duration: TypeAlias = "str | float | timedelta"

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}


def read_duration(argument: str, value: object) -> float:
    """Convert a positive duration (a number of seconds, a timedelta, or "30d") to seconds."""
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
    """Check a duration and return it as plain data: text unchanged, anything else in seconds."""
    seconds = read_duration(argument, value)
    return value if isinstance(value, str) else seconds


def column_name(argument: str, value: object) -> str:
    """Refuse a column name that is not a str."""
    if not isinstance(value, str):
        raise error(DTypeError, argument, "the name of a column", type(value).__name__)
    return value


def arm_name(value: object) -> None:
    """Refuse a name of a vector arm that is neither a str nor None."""
    if value is not None and not isinstance(value, str):
        raise error(DTypeError, "vector", "the name of a vector arm", type(value).__name__)


def integer(argument: str, value: object, low: int, high: int = 2**31 - 1) -> int:
    """Convert an integer of any library to int; refuse it outside [low, high]."""
    given = as_int(value)
    if given is None or not low <= given <= high:
        end = "2^31)" if high == 2**31 - 1 else f"{high}]"
        raise error(OptionError, argument, f"an int in [{low}, {end}", repr(value))
    return given


def boolean(argument: str, value: object) -> bool:
    """Convert a bool or NumPy's bool to bool; refuse other types."""
    given = python_scalar(value)
    if not isinstance(given, bool):
        raise error(DTypeError, argument, "a bool", repr(value))
    return given


def text(argument: str, value: object) -> str:
    """Refuse a value that is not a str."""
    if not isinstance(value, str):
        raise error(DTypeError, argument, "a str", repr(value))
    return value


def names(argument: str, value: object, wish: str = "a tuple of names") -> tuple[str, ...]:
    """Convert strings to a tuple; a str alone is refused, not split into letters."""
    given = value if isinstance(value, Iterable) and not isinstance(value, str | bytes) else (None,)
    found = tuple(given)
    if not all(isinstance(one, str) for one in found):
        raise error(DTypeError, argument, wish, repr(value))
    return found


def plain_values(argument: str, value: object) -> tuple[Any, ...]:
    """Convert values of a column to a tuple, with Python scalars for NumPy's."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise error(DTypeError, argument, "a tuple of values", repr(value))
    return tuple(_plain_value(one) for one in value)


def plain_pairs(argument: str, value: object) -> tuple[tuple[Any, Any], ...]:
    """Convert a mapping of a column's values, or pairs, to pairs; the last duplicate wins."""
    try:
        return tuple({_plain_value(one): to for one, to in dict(value).items()}.items())  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise error(DTypeError, argument, "a mapping of values", repr(value)) from None


def _plain_value(value: Any) -> Any:
    # NumPy's times have units that Python's do not have.
    return value if isinstance(value, np.datetime64 | np.timedelta64) else python_scalar(value)


@runtime_checkable
class GraphLike(Protocol):
    """A graph over the recalled index: :class:`hyrecall.Graph`."""

    def _bind(self, argument: str, facts: Any, nodes: Any) -> Any:
        """Return the graph's current state over one state of its nodes' index."""
        ...
