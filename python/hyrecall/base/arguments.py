"""Checks and converts arguments: NumPy scalars, series, numbers, names and paths."""

from __future__ import annotations

import contextlib
import math
import operator
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVarTuple

import numpy as np

from hyrecall import _core
from hyrecall.errors import DTypeError, OptionError, error

__all__ = [
    "MOST_ALIKE",
    "as_int",
    "as_items",
    "as_list",
    "check_hashes",
    "check_unicode",
    "convert_field",
    "is_one_of",
    "number",
    "one_of",
    "position_in",
    "python_scalar",
    "read_path",
    "set_fields",
]

Args = TypeVarTuple("Args")
_set = object.__setattr__

NAME_BYTES = 255
"""The longest name of a file or folder on Linux."""

MOST_ALIKE = 64
"""Values of one hash; of floats and of int64, some 30 have the same."""

PATH_BYTES = 4000
"""Linux allows 4,095; the rest is for the names of files in a folder."""


def set_fields(instance: object, /, **values: object) -> None:
    """Set fields of a frozen instance; only for use by its own class."""
    for name, value in values.items():
        _set(instance, name, value)


def convert_field(
    instance: object,
    name: str,
    read: Callable[[str, Any, *Args], object],
    /,
    *args: *Args,
) -> None:
    """Replace a field of a frozen dataclass by the result of ``read(name, value, ...)``."""
    _set(instance, name, read(name, getattr(instance, name), *args))


def python_scalar(value: Any) -> Any:
    """Convert a NumPy scalar to a Python scalar; return any other value unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def as_int(value: Any) -> int | None:
    """Convert an integer of any library to int; return None for a bool or a non-integer."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def number(argument: str, value: object, low: float, high: float, wish: str) -> float:
    """Return a number as float; refuse one that is not finite or is outside [low, high]."""
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
    """Return whether a value is a str among `known`; False for an array, which == would compare."""
    return isinstance(value, str) and value in known


def one_of(argument: str, value: object, known: tuple[str, ...]) -> None:
    """Refuse a value that is not one of some names."""
    if not is_one_of(value, known):
        raise error(OptionError, argument, f"one of {known}", repr(value))


def check_hashes(values: Sequence[Any]) -> None:
    """Refuse values of another process that were chosen to collide, as multiples of 2^61 - 1."""
    # A set or a dict of them takes quadratic time. Values without a hash are not counted.
    with contextlib.suppress(TypeError):  # one has no hash, such as a list
        if max(Counter(map(hash, values)).values(), default=0) <= MOST_ALIKE:
            return
    firsts: dict[int, Any] = {}
    alike = Counter[int]()
    for value in values:
        with contextlib.suppress(TypeError):
            alike[hash(value)] += firsts.setdefault(hash(value), value) != value
    if max(alike.values(), default=0) > MOST_ALIKE:
        raise ValueError("values with equal hashes")


def check_unicode(argument: str, text: str) -> None:
    """Refuse a lone surrogate, which neither a file nor an Arrow column can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise error(OptionError, argument, "valid Unicode", repr(text)) from None


def as_items(value: object) -> tuple[Any, ...] | None:
    """Return the items of an iterable, or None for a value that cannot be iterated."""
    # Those of an Arrow array are Python's, as :func:`as_list` converts them.
    if hasattr(value, "to_pylist"):
        value = as_list(value)
    try:
        return tuple(value)  # type: ignore[arg-type]
    except TypeError:
        return None


_SEQUENCES: Final = (list, tuple)


def as_list(value: Any) -> Any:
    """Convert an Arrow array or a series to a list with None for missing values."""
    # Any other value is returned unchanged.
    if isinstance(value, _SEQUENCES):
        return value
    if hasattr(value, "to_pylist"):  # Arrow
        for chunk in getattr(value, "chunks", (value,)):
            _core.check_layout(chunk, "values")
        return value.to_pylist()
    if hasattr(value, "isna") and hasattr(value, "tolist"):  # pandas: NaN, NaT and NA are missing
        missing = value.isna().tolist()
        return [None if gone else one for one, gone in zip(value.tolist(), missing, strict=True)]
    return value.to_list() if hasattr(value, "to_list") else value  # polars


def position_in(n: int, index: Any, what: str) -> int:
    """Return the position in [0, n) of an index; a negative index counts from the end."""
    at = as_int(index)
    if at is None:
        got = f"{type(index).__name__} {index!r}"
        raise error(DTypeError, "index", f"the number of a {what}, or a slice", got)
    if not -n <= at < n:
        raise IndexError(f"{what} {at} of {n}")
    return at % n


def home_path(argument: str, path: str) -> str:
    """Return a path with the home folder in place of a leading ``~`` or ``~user``, as shells do."""
    found = os.path.expanduser(path)
    if found.startswith("~") and found.split("/", 1)[0] == "~":
        wish = "a path, since this user has no home folder (HOME) that ~ stands for"
        raise error(OptionError, argument, wish, repr(path))
    return found


_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/")  # a Path has one slash where a URL has two


def read_path(value: str | os.PathLike[str]) -> Path:
    """Convert a path and refuse one that the system cannot store; ``~`` is the home folder."""
    try:
        path = Path(home_path("path", os.fspath(Path(value))))
        if not os.fspath(value):
            raise error(OptionError, "path", "a path", repr(value))
        if url := _URL.match(os.fspath(value)):  # else a folder of that name would be made here
            got = f"a URL, {url[1]}://; hyrecall push and pull copy a folder to and from one"
            raise error(OptionError, "path", "a path of this machine", got)
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
        got = f"a name of {max(lengths)} bytes"
        raise error(OptionError, "path", f"names of at most {NAME_BYTES} bytes", got)
    if sum(lengths) + len(lengths) > PATH_BYTES:
        got = f"{sum(lengths) + len(lengths)} bytes"
        raise error(OptionError, "path", f"at most {PATH_BYTES} bytes", got)
    return path
