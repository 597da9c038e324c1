"""Arguments in the forms that callers have at hand: scalars of NumPy, series, paths."""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVarTuple

import numpy as np

from hyrecall.errors import DTypeError, OptionError, error

__all__ = [
    "check_unicode",
    "convert_field",
    "is_one_of",
    "items_of",
    "listed",
    "number",
    "one_of",
    "place_in",
    "plain",
    "read_path",
    "set_fields",
    "whole",
]

Args = TypeVarTuple("Args")
_set = object.__setattr__

NAME_BYTES = 255
"""Of a file or folder, as Linux has them."""

PATH_BYTES = 4000
"""Linux takes 4,095; what is left is for the names of files in a folder."""


def set_fields(instance: object, /, **values: object) -> None:
    """Set fields of a frozen instance; only its own class may do so."""
    for name, value in values.items():
        _set(instance, name, value)


def convert_field(
    instance: object,
    name: str,
    read: Callable[[str, Any, *Args], object],
    /,
    *args: *Args,
) -> None:
    """Replace a field of a frozen dataclass by what ``read(name, value, ...)`` makes of it."""
    _set(instance, name, read(name, getattr(instance, name), *args))


def plain(value: Any) -> Any:
    """Return a NumPy scalar as Python's own; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def whole(value: Any) -> int | None:
    """Return an integer of any library as an int; None for a bool and for what is no integer."""
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


def is_one_of(value: object, known: Iterable[str]) -> bool:
    """Return whether a value is one of some names; an array is none, whatever it holds."""
    return isinstance(value, str) and value in known


def one_of(argument: str, value: object, known: tuple[str, ...]) -> None:
    """Check a choice among names."""
    if not is_one_of(value, known):
        raise error(OptionError, argument, f"one of {known}", repr(value))


def check_unicode(argument: str, text: str) -> None:
    """Refuse a lone surrogate, which no file and no Arrow column can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise error(OptionError, argument, "valid Unicode", repr(text)) from None


def items_of(value: object) -> tuple[Any, ...] | None:
    """Return the items of an iterable; None: it has none (also an array without axes)."""
    try:
        return tuple(value)  # type: ignore[arg-type]
    except TypeError:
        return None


_SEQUENCES: Final = (list, tuple)


def listed(value: Any) -> Any:
    """Return an Arrow array or a series as a list, with None where it has no value.

    Examples
    --------
    >>> listed(np.arange(2)), listed(("a", "b"))
    (array([0, 1]), ('a', 'b'))
    """
    if isinstance(value, _SEQUENCES):
        return value
    if hasattr(value, "to_pylist"):  # Arrow
        return value.to_pylist()
    if hasattr(value, "isna") and hasattr(value, "tolist"):  # pandas: NaN, NaT and NA are missing
        missing = value.isna().tolist()
        return [None if gone else one for one, gone in zip(value.tolist(), missing, strict=True)]
    return value.to_list() if hasattr(value, "to_list") else value  # polars


def place_in(n: int, index: Any, what: str) -> int:
    """Return the place of one of n things; a negative index counts from the end.

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
    """Take a path that the system can have a file at.

    Raises
    ------
    DTypeError
        Neither a str nor an ``os.PathLike`` of one.
    OptionError
        It has a NUL, a character that is no Unicode, or a name of more than 255 bytes.
    """
    try:
        path = Path(value)
    except TypeError:
        wish = "a path (str or os.PathLike)"
        raise error(DTypeError, "path", wish, f"{type(value).__name__} {value!r}") from None
    try:
        lengths = [len(os.fsencode(name)) for name in path.parts]
    except UnicodeEncodeError:
        raise error(OptionError, "path", "a path of valid Unicode", ascii(str(path))) from None
    if "\0" in str(path):
        raise error(OptionError, "path", "a path without NUL", ascii(str(path)))
    if max(lengths, default=0) > NAME_BYTES:
        got = f"one of {max(lengths)} bytes"
        raise error(OptionError, "path", f"names of at most {NAME_BYTES} bytes", got)
    if sum(lengths) + len(lengths) > PATH_BYTES:
        got = f"{sum(lengths) + len(lengths)} bytes"
        raise error(OptionError, "path", f"at most {PATH_BYTES} bytes", got)
    return path
