"""Ad-hoc filters: predicates on attribute columns that narrow a reply.

A filter never changes statistics and never widens a scope. Logic is two-valued: a null has no
value to match, and ``~`` and :class:`NoneOf` are plain complements, so they *do* match nulls.
"""

import datetime as dt
from typing import Any, Final, Literal, NoReturn

import numpy as np

from hyrecall.arguments import listed
from hyrecall.errors import OptionError, error

__all__ = ["AllOf", "Filter", "IsNull", "NoneOf", "NotNull"]

# Filters are walked by recursion, here and in the engine.
_MAX_DEPTH: Final = 100

_SCALARS = (str, bool, int, float, dt.date, dt.time, dt.timedelta, np.generic)


class Predicate:
    """What one column is asked. Frozen; equal to another only when the constants agree in type."""

    __slots__ = ("values",)
    values: tuple[Any, ...]

    def __init__(self, *values: object) -> None:
        """Take the constants; they are checked when a filter takes the predicate."""
        object.__setattr__(self, "values", values)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Refuse: predicates are frozen."""
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __delattr__(self, name: str) -> NoReturn:
        """Refuse: predicates are frozen."""
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as what it was made of."""
        return (type(self), self.values)

    def _identity(self) -> tuple[object, ...]:
        # 1, 1.0 and True are equal to Python, but ask different things of a column.
        return (type(self), tuple((type(value), value) for value in self.values))

    def __eq__(self, other: object) -> bool:
        """Compare what was written, not what it means."""
        return isinstance(other, Predicate) and self._identity() == other._identity()

    def __hash__(self) -> int:
        """Agree with equality."""
        return hash(self._identity())

    def __repr__(self) -> str:
        """Show the predicate as it is written."""
        return f"{type(self).__name__}({', '.join(map(repr, self.values))})"


class Equal(Predicate):
    """One value: written as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Show the value."""
        return repr(self.values[0])


class AnyOf(Predicate):
    """One of the values: written as a list."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Show a list."""
        return repr(list(self.values))


class Range(Predicate):
    """From a first to a last value, both included, None for an open end: written as a pair."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Show a pair."""
        return repr(self.values)


class NoneOf(Predicate):
    """Match rows that hold none of the values: ``lang=NoneOf("de", "fr")``.

    The complement of any-of: it matches null rows too, and ``NoneOf()`` matches every row. On a
    list column no element may be one of the values.

    Examples
    --------
    >>> Filter(lang=NoneOf("de", "fr"))
    Filter(lang=NoneOf('de', 'fr'))
    """

    __slots__ = ()


class AllOf(Predicate):
    """Match rows of a list column that hold each of the values: ``labels=AllOf("x", "y")``.

    ``AllOf()`` matches every list, also an empty one, and no null.

    Examples
    --------
    >>> Filter(labels=AllOf("x", "y"))
    Filter(labels=AllOf('x', 'y'))
    """

    __slots__ = ()


class IsNull(Predicate):
    """Match rows without a value. An empty list and a NaN are values.

    Examples
    --------
    >>> Filter(kind=IsNull())
    Filter(kind=IsNull())
    """

    __slots__ = ()

    def __init__(self) -> None:
        """Take nothing."""
        super().__init__()


class NotNull(Predicate):
    """Match rows with a value. An empty list and a NaN are values.

    Examples
    --------
    >>> Filter(kind=NotNull())
    Filter(kind=NotNull())
    """

    __slots__ = ()

    def __init__(self) -> None:
        """Take nothing."""
        super().__init__()


_Op = Literal["test", "and", "or", "not"]


class Filter:
    """Predicates on attribute columns, all of which must hold; none at all matches every row.

    Parameters
    ----------
    **predicates
        Per column, one of

        - ``x=v``: equality; on a list column, an element equals v. For nulls use
          :class:`IsNull`.
        - ``x=(a, b)``: ``a <= x <= b``, both ends inclusive, None for an open end; on a list
          column, an element lies in the range. ``a > b`` matches nothing, ``(None, None)`` every
          value.
        - ``x=[a, b]`` (list, set, frozenset, series, NumPy or Arrow array): any of them; an empty
          one matches nothing.
        - :class:`NoneOf`, :class:`AllOf` (list columns), :class:`IsNull`, :class:`NotNull`.

    Raises
    ------
    OptionError
        A predicate that no column could answer, such as None or a tuple of three.

    Notes
    -----
    Filters join with ``&``, ``|`` and ``~``; they are immutable and hashable. Comparisons are
    exact: ints against floats, times of any unit against a column's own; a float32 column holds
    what its float32 values are, not what they were rounded from. Naive datetimes are UTC. Strings
    compare by their UTF-8 bytes. NaN equals nothing and lies in no range that has an end.

    Examples
    --------
    >>> recent = Filter(year=(2023, None), kind="episodic")
    >>> recent & ~Filter(lang=["de", "fr"])
    Filter(year=(2023, None), kind='episodic') & ~Filter(lang=['de', 'fr'])
    """

    __slots__ = ("_depth", "op", "parts", "predicates")
    op: _Op
    predicates: tuple[tuple[str, Predicate], ...]  # of "test"
    parts: "tuple[Filter, ...]"  # of "and", "or", "not"
    _depth: int

    def __init__(self, /, **predicates: object) -> None:
        """Take the predicates; whether a column can answer them shows when it is known."""
        tests = tuple((column, _predicate(column, value)) for column, value in predicates.items())
        self._set("test", tests, ())

    @staticmethod
    def expression(expression: Any) -> "Filter":
        """Make a filter of an Arrow compute expression over attribute columns.

        Parameters
        ----------
        expression : pyarrow.compute.Expression
            Made of ``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=`` between a column and a constant (on
            either side), ``isin``, ``is_null``, ``is_valid``, ``is_nan``, columns of booleans,
            ``True`` and ``False``, joined by ``&``, ``|`` and ``~``. Columns are named, not
            numbered.

        Returns
        -------
        Filter
            It matches the rows for which the expression is true: those that
            ``pyarrow.Table.filter`` keeps.

        Raises
        ------
        OptionError
            Something else stands in it (arithmetic, casts, two columns compared, functions); the
            message shows the piece.

        Notes
        -----
        Arrow's logic has three values and a filter's has two. The translation keeps Arrow's inside
        the expression: a comparison with null is null, so a null is matched neither by ``x != 3``
        nor by ``~(x == 3)``. A ``~`` *outside*, on the filter, is a plain complement and matches
        whatever the filter does not, nulls included. Comparisons are exact where Arrow would first
        cast (an int64 column against 3.5), and ``isin`` compares as ``==`` does. Arrow compares no
        lists: for a list column use the forms of :class:`Filter`.

        Examples
        --------
        >>> import pyarrow.compute as pc
        >>> Filter.expression((pc.field("year") >= 2023) & pc.field("lang").isin(["de", "fr"]))
        Filter(year=(2023, None)) & Filter(lang=['de', 'fr'])
        """
        from hyrecall.filter_expression import to_filter

        return to_filter(expression)

    def _set(
        self, op: _Op, predicates: tuple[tuple[str, Predicate], ...], parts: "tuple[Filter, ...]"
    ) -> None:
        depth = 1 + max((part._depth for part in parts), default=0)
        if depth > _MAX_DEPTH:
            raise error(OptionError, "filter", f"at most {_MAX_DEPTH} levels of & | ~", depth)
        freeze = object.__setattr__
        freeze(self, "op", op)
        freeze(self, "predicates", predicates)
        freeze(self, "parts", parts)
        freeze(self, "_depth", depth)

    def _flat(self, op: _Op) -> "tuple[Filter, ...]":
        return self.parts if self.op == op else (self,)

    def __and__(self, other: "Filter") -> "Filter":
        """Match rows that both match."""
        return self._join("and", other) if isinstance(other, Filter) else NotImplemented

    def __or__(self, other: "Filter") -> "Filter":
        """Match rows that one of the two matches."""
        return self._join("or", other) if isinstance(other, Filter) else NotImplemented

    def _join(self, op: _Op, other: "Filter") -> "Filter":
        return _restore_filter(op, (), self._flat(op) + other._flat(op))

    def __invert__(self) -> "Filter":
        """Match the rows that this filter does not, nulls included."""
        return self.parts[0] if self.op == "not" else _restore_filter("not", (), (self,))

    def __bool__(self) -> NoReturn:
        """Refuse `and`, `or` and `not`, which Python does not let a filter define."""
        raise error(
            OptionError, "filter", "&, | and ~ between filters", "and, or, not, or a truth test"
        )

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Refuse: filters are frozen."""
        raise AttributeError("Filter is frozen")

    def __delattr__(self, name: str) -> NoReturn:
        """Refuse: filters are frozen."""
        raise AttributeError("Filter is frozen")

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as what it was made of."""
        return (_restore_filter, self._identity())

    def _identity(self) -> tuple[object, ...]:
        return (self.op, self.predicates, self.parts)

    def __eq__(self, other: object) -> bool:
        """Compare what was written, not what it means."""
        return isinstance(other, Filter) and self._identity() == other._identity()

    def __hash__(self) -> int:
        """Agree with equality."""
        return hash(self._identity())

    def __repr__(self) -> str:
        """Show the filter as it could be written."""
        if self.op == "test":
            if all(column.isidentifier() for column, _ in self.predicates):
                return f"Filter({', '.join(f'{name}={test!r}' for name, test in self.predicates)})"
            return f"Filter(**{dict(self.predicates)!r})"
        shown = [f"({part!r})" if part.op in {"and", "or"} else repr(part) for part in self.parts]
        if self.op == "not":
            return f"~{shown[0]}"
        return (" & " if self.op == "and" else " | ").join(shown)


def _restore_filter(
    op: _Op, predicates: tuple[tuple[str, Predicate], ...], parts: tuple[Filter, ...]
) -> Filter:
    made = Filter.__new__(Filter)
    made._set(op, predicates, parts)
    return made


# --- From what the caller wrote to predicates -----------------------------------------------------


def _predicate(column: str, value: Any) -> Predicate:
    if isinstance(value, Predicate):
        for constant in value.values:
            _check_scalar(column, constant)
        return value
    if isinstance(value, tuple):
        if len(value) != 2:
            expected = "a range (start, end), or a list for any of its values"
            raise error(OptionError, column, expected, f"a tuple of {len(value)}")
        for end in value:
            if end is not None:
                _check_scalar(column, end)
        return Range(*value)
    value = listed(value)
    if isinstance(value, (set, frozenset)):
        # An order of its own, so that repr and equality do not hang on the hash seed.
        value = sorted(value, key=lambda one: (type(one).__name__, repr(one)))
    if isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim == 1):
        constants = tuple(value)
        for constant in constants:
            _check_scalar(column, constant)
        return AnyOf(*constants)
    _check_scalar(column, value)
    return Equal(value)


def _check_scalar(column: str, value: object) -> None:
    if value is None:
        remedy = "for rows without a value use hr.IsNull()"
        raise error(OptionError, column, "a value", None, remedy)
    if not isinstance(value, _SCALARS):
        expected = "a str, bool, int, float, date, datetime, time or timedelta"
        raise error(OptionError, column, expected, type(value).__name__)
