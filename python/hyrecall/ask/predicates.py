"""Predicates: the tests of one column in a filter, as the caller writes them."""

import datetime as dt
from inspect import Signature
from typing import Any, NoReturn

import numpy as np

from hyrecall.base.arguments import as_list, check_keywords, python_scalar, set_fields
from hyrecall.errors import OptionError, error

_SCALARS = (str, bool, int, float, dt.date, dt.time, dt.timedelta, np.generic)


class Predicate:
    """A test of one column. Immutable; equal only if the constants also have equal types."""

    __slots__ = ("values",)
    values: tuple[Any, ...]

    def __init__(self, *values: object) -> None:
        """Keep the constants, which are checked when a filter is made."""
        set_fields(self, values=values)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Raise AttributeError: predicates are immutable."""
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __delattr__(self, name: str) -> NoReturn:
        """Raise AttributeError: predicates are immutable."""
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the class and the constants."""
        return (type(self), self.values)

    def _identity(self) -> tuple[object, ...]:
        # 1, 1.0 and True are equal in Python, but test a column differently.
        return (type(self), tuple((type(value), value) for value in self.values))

    def __eq__(self, other: object) -> bool:
        """Compare the class and the constants with their types."""
        return isinstance(other, Predicate) and self._identity() == other._identity()

    def __hash__(self) -> int:
        """Return a hash that is the same for equal predicates."""
        return hash(self._identity())

    def __repr__(self) -> str:
        """Show code that makes the predicate."""
        return f"{type(self).__name__}({', '.join(map(repr, self.values))})"


def _spread(values: tuple[object, ...]) -> tuple[object, ...]:
    """Return the values of a call with one list of them, which no column holds as a value."""
    if len(values) != 1:
        return values
    items = values[0] if isinstance(values[0], tuple) else _items(values[0])
    return values if items is None else tuple(items)


def _items(value: Any) -> list[Any] | None:
    """Return the values of a list, set, range, series or array; None for any other value."""
    value = as_list(value)
    if isinstance(value, set | frozenset):
        # Sorted, so that repr and equality do not depend on the hash seed.
        return sorted(value, key=lambda one: (type(one).__name__, repr(one)))
    is_array = isinstance(value, np.ndarray) and value.ndim == 1
    return list(value) if is_array or isinstance(value, list | range) else None


class Equal(Predicate):
    """Match one value; written as the plain value."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Show the value."""
        return repr(self.values[0])


class AnyOf(Predicate):
    """Match any of the values; written as a list."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Show a list."""
        return repr(list(self.values))


@check_keywords
class Between(Predicate):
    """Match values from a start to an end, both included: ``name=Between("a", "f")``.

    The same as a pair, ``year=(2020, 2023)``, and the only way to write a range between two
    strings: a pair of strings is refused, since ``kind=("note", "doc")`` looks like two values.
    None is an open end.

    Parameters
    ----------
    start, end : str, int, float, bool, date, datetime, time, timedelta or None
        ``Between(b, a)`` with ``a < b`` matches nothing, ``Between(None, None)`` every value.

    Examples
    --------
    >>> import hyrecall as hr
    >>> hr.Filter(name=hr.Between("a", "f"), year=hr.Between(2020, None))
    Filter(name=Between('a', 'f'), year=(2020, None))
    """

    __slots__ = ()

    def __init__(self, start: object, end: object = ...) -> None:
        """Keep the two ends, which are checked when a filter is made."""
        if end is ...:
            pair = start if isinstance(start, list | tuple) and len(start) == 2 else ()
            remedy = f"hr.Between({', '.join(map(repr, pair))})" if pair else ""
            wish = "two ends, start and end (None: open)"
            raise error(OptionError, "Between", wish, repr(start), remedy)
        super().__init__(start, end)

    def __repr__(self) -> str:
        """Show a pair if a pair means the same."""
        return super().__repr__() if _are_texts(self.values) else repr(self.values)


@check_keywords
class NoneOf(Predicate):
    """Match rows that hold none of the values: ``lang=NoneOf("de", "fr")`` or ``NoneOf(values)``.

    The complement of a list of values: it also matches nulls, and ``NoneOf()`` matches every row.
    On a list column no element may be one of the values.

    Examples
    --------
    >>> import hyrecall as hr
    >>> hr.Filter(lang=hr.NoneOf("de", "fr"))
    Filter(lang=NoneOf('de', 'fr'))
    """

    __slots__ = ()

    def __init__(self, *values: object) -> None:
        """Keep the constants."""
        super().__init__(*_spread(values))


@check_keywords
class AllOf(Predicate):
    """Match rows of a list column that hold each of the values: ``labels=AllOf("x", "y")``.

    One list may hold the values. ``AllOf()`` matches every list, also an empty one, and no null.

    Examples
    --------
    >>> import hyrecall as hr
    >>> hr.Filter(labels=hr.AllOf("x", "y"))
    Filter(labels=AllOf('x', 'y'))
    """

    __slots__ = ()

    def __init__(self, *values: object) -> None:
        """Keep the constants."""
        super().__init__(*_spread(values))


@check_keywords
class IsNull(Predicate):
    """Match rows without a value. An empty list and a NaN are values.

    Examples
    --------
    >>> import hyrecall as hr
    >>> hr.Filter(kind=hr.IsNull())
    Filter(kind=IsNull())
    """

    __slots__ = ()

    def __init__(self, *given: object) -> None:
        """Make the predicate."""
        _refuse(self, given)
        super().__init__()

    __signature__ = Signature()  # what is given is only taken to be refused by name


@check_keywords
class NotNull(Predicate):
    """Match rows with a value. An empty list and a NaN are values.

    Examples
    --------
    >>> import hyrecall as hr
    >>> hr.Filter(kind=hr.NotNull())
    Filter(kind=NotNull())
    """

    __slots__ = ()

    def __init__(self, *given: object) -> None:
        """Make the predicate."""
        _refuse(self, given)
        super().__init__()

    __signature__ = Signature()  # what is given is only taken to be refused by name


def _refuse(predicate: Predicate, given: tuple[object, ...]) -> None:
    if given:
        name = type(predicate).__name__
        wish = f"no value, and the column before it (column=hr.{name}())"
        raise error(OptionError, name, wish, repr(given[0]))


def read_predicate(column: str, value: Any) -> Predicate:
    """Convert any form of a column's test that :class:`hyrecall.Filter` lists to a predicate."""
    if isinstance(value, tuple):
        if len(value) != 2:
            expected = "a range (start, end), or a list for any of its values"
            raise error(OptionError, column, expected, f"a tuple of {len(value)}")
        if _are_texts(value):
            pair = tuple(map(python_scalar, value))
            expected = (
                f"a list {list(pair)!r} for any of its values, or hr.Between{pair!r} for a range"
            )
            raise error(OptionError, column, expected, f"the pair of strings {pair!r}")
        value = Between(*value)
    if isinstance(value, Predicate):
        for constant in value.values:
            if constant is not None or not isinstance(value, Between):
                _check_scalar(column, constant)
        return value
    items = _items(value)
    if items is not None:
        for constant in items:
            _check_scalar(column, constant)
        return AnyOf(*items)
    _check_scalar(column, value)
    return Equal(value)


def _are_texts(values: tuple[Any, ...]) -> bool:
    return all(isinstance(one, str) for one in values)


def _check_scalar(column: str, value: object) -> None:
    if value is None:
        remedy = "for rows without a value use hr.IsNull()"
        raise error(OptionError, column, "a value", None, remedy)
    if not isinstance(value, _SCALARS):
        expected = "a str, bool, int, float, date, datetime, time or timedelta"
        raise error(OptionError, column, expected, type(value).__name__)
