"""Arguments in the forms that callers have at hand: scalars of NumPy, series, paths."""

from __future__ import annotations

import math
import operator
import os
from pathlib import Path
from typing import Any

import numpy as np

from hyrecall.errors import DTypeError, OptionError, error

__all__ = ["listed", "number", "place_in", "plain", "read_path", "whole"]


def plain(value: Any) -> Any:
    """Give a NumPy scalar as Python's own; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def whole(value: Any) -> int | None:
    """Give an integer of any library as an int; None for a bool and for what is no integer."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def number(argument: str, value: object, low: float, high: float, wish: str) -> float:
    """Check a finite number within a range."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise error(DTypeError, argument, wish, f"{type(value).__name__} {value!r}")
    try:
        given = float(value)
    except OverflowError:
        given = math.inf
    if not (math.isfinite(given) and low <= given <= high):
        raise error(OptionError, argument, wish, value)
    return given


def listed(value: Any) -> Any:
    """Give an Arrow array or a series as a list, with None where it has no value.

    Examples
    --------
    >>> listed(np.arange(2)), listed(("a", "b"))
    (array([0, 1]), ('a', 'b'))
    """
    if isinstance(value, list | tuple):
        return value
    if hasattr(value, "to_pylist"):  # Arrow
        return value.to_pylist()
    if hasattr(value, "isna") and hasattr(value, "tolist"):  # pandas: NaN, NaT and NA are missing
        missing = value.isna().tolist()
        return [None if gone else one for one, gone in zip(value.tolist(), missing, strict=True)]
    return value.to_list() if hasattr(value, "to_list") else value  # polars


def place_in(n: int, index: Any, what: str) -> int:
    """Give the place of one of n things; a negative index counts from the end.

    Raises
    ------
    IndexError
        As a sequence does, so that Python can iterate.
    DTypeError
        Neither an integer nor a slice.
    """
    at = whole(index)
    if at is None:
        got = f"{type(index).__name__} {index!r}"
        raise error(DTypeError, "index", f"the number of a {what}, or a slice", got)
    if not -n <= at < n:
        raise IndexError(f"{what} {at} of {n}")
    return at % n


def read_path(value: str | os.PathLike[str]) -> Path:
    """Take a path.

    Raises
    ------
    DTypeError
        Neither a str nor an ``os.PathLike`` of one.
    """
    try:
        return Path(value)
    except TypeError:
        wish = "a path (str or os.PathLike)"
        raise error(DTypeError, "path", wish, f"{type(value).__name__} {value!r}") from None
