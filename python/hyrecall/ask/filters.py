"""Filters: predicates on attribute columns that narrow a reply.

A filter never changes statistics and never widens a scope. Logic is two-valued: a null matches no
value, and ``~`` and :class:`NoneOf` are plain complements, so they *do* match nulls.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NoReturn

from hyrecall.ask.predicates import (
    AllOf,
    Between,
    IsNull,
    NoneOf,
    NotNull,
    Predicate,
    read_predicate,
)
from hyrecall.base.arguments import check_keywords, set_fields
from hyrecall.errors import OptionError, error

__all__ = [
    "AllOf",
    "Between",
    "Filter",
    "IsNull",
    "NoneOf",
    "NotNull",
]

# Filters are processed recursively, here and in the engine.
_MAX_DEPTH: Final = 100

_Op = Literal["test", "and", "or", "not"]


@check_keywords
class Filter:
    """Predicates on attribute columns that must all hold; without any, every row matches.

    Parameters
    ----------
    *given
        Nothing: a value without the name of its column is refused.
    **predicates
        Per column, one of

        - ``x=v``: equality; on a list column, an element equals v. For nulls use
          :class:`IsNull`.
        - ``x=(a, b)``: ``a <= x <= b``, both ends inclusive, None for an open end; on a list
          column, an element lies in the range. ``a > b`` matches nothing, ``(None, None)`` every
          value. Two strings in a tuple are refused: write ``[a, b]`` or :class:`Between`.
        - ``x=[a, b]`` (list, set, frozenset, range, series, NumPy or Arrow array): any of the
          values; an empty list matches nothing.
        - :class:`Between`, :class:`NoneOf`, :class:`AllOf` (list columns), :class:`IsNull`,
          :class:`NotNull`.

    Raises
    ------
    OptionError
        A predicate that is not valid for any column, such as None or a tuple of three. At recall: a
        missing column, or a column of a type that the predicate does not allow.

    Notes
    -----
    Filters join with ``&``, ``|`` and ``~``; they are immutable and hashable. Comparisons are
    exact, also between ints and floats and between times of different units; a float32 column is
    compared by its float32 values, not by the values before rounding. Naive datetimes are UTC. On a
    column of times a date is the whole day in UTC: ``at=(None, date(2026, 5, 1))`` includes it.
    Dates and times may be written as ISO 8601: ``at=("2026-05-01", None)``.
    Strings compare by their UTF-8 bytes. NaN equals nothing and is in no range that has an end.

    Examples
    --------
    >>> recent = Filter(year=(2023, None), kind="episodic")
    >>> recent & ~Filter(lang=["de", "fr"])
    Filter(year=(2023, None), kind='episodic') & ~Filter(lang=['de', 'fr'])
    """

    __slots__ = ("_depth", "_program", "op", "parts", "predicates")
    op: _Op
    predicates: tuple[tuple[str, Predicate], ...]  # of "test"
    parts: tuple[Filter, ...]  # of "and", "or", "not"
    _depth: int
    _program: tuple[object, Any] | None  # and the columns that it was compiled for

    def __init__(self, /, *given: object, **predicates: object) -> None:
        """Check the predicates; the columns' types are checked at recall."""
        if given:
            remedy = f"hr.Filter(**{given[0]!r})" if isinstance(given[0], dict) else ""
            raise error(OptionError, "filter", "column=value", repr(given[0]), remedy)
        tests = tuple(
            (column, read_predicate(column, value)) for column, value in predicates.items()
        )
        self._set("test", tests, ())

    @staticmethod
    def expression(expression: Any) -> Filter:
        """Make a filter from an Arrow compute expression over attribute columns.

        ``filter=`` also takes an expression directly; use this to join it with other filters.

        Parameters
        ----------
        expression : pyarrow.compute.Expression
            May contain ``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=`` between a column and a constant
            (on either side), ``isin``, ``is_null``, ``is_valid``, ``is_nan``, boolean columns,
            ``True`` and ``False``, joined by ``&``, ``|`` and ``~``. Columns are given by name, not
            by number.

        Returns
        -------
        Filter
            Matches the rows for which the expression is true, as ``pyarrow.Table.filter`` does.

        Raises
        ------
        OptionError
            The expression contains something else (arithmetic, a cast, a comparison of two columns,
            another function); the message shows that part.

        Notes
        -----
        On a column of times a date is the whole day, where Arrow means its first moment.
        Arrow's logic has three values, a filter's has two. Inside the expression Arrow's logic
        holds: a comparison with null is null, so neither ``x != 3`` nor ``~(x == 3)`` matches a
        null. A ``~`` *outside*, on the filter, is a plain complement and matches all rows that the
        filter does not, nulls included. Comparisons are exact even if Arrow would cast first (an
        int64 column with 3.5), and ``isin`` compares like ``==``. Arrow cannot compare lists: for
        list columns use the forms of :class:`Filter`.

        Examples
        --------
        >>> import pyarrow.compute as pc
        >>> Filter.expression((pc.field("year") >= 2023) & pc.field("lang").isin(["de", "fr"]))
        Filter(year=(2023, None)) & Filter(lang=['de', 'fr'])
        """
        from hyrecall.ask.arrow_conditions import translate

        return translate(expression, Filter)

    def _set(
        self, op: _Op, predicates: tuple[tuple[str, Predicate], ...], parts: tuple[Filter, ...]
    ) -> None:
        depth = 1 + max((part._depth for part in parts), default=0)
        if depth > _MAX_DEPTH:
            raise error(OptionError, "filter", f"at most {_MAX_DEPTH} levels of & | ~", depth)
        set_fields(self, op=op, predicates=predicates, parts=parts, _depth=depth, _program=None)

    def _flat(self, op: _Op) -> tuple[Filter, ...]:
        return self.parts if self.op == op else (self,)

    def __and__(self, other: Filter) -> Filter:
        """Match rows that both filters match."""
        return self._join("and", other) if isinstance(other, Filter) else NotImplemented

    def __or__(self, other: Filter) -> Filter:
        """Match rows that at least one of the filters matches."""
        return self._join("or", other) if isinstance(other, Filter) else NotImplemented

    def _join(self, op: _Op, other: Filter) -> Filter:
        return restore_filter(op, (), self._flat(op) + other._flat(op))

    def __invert__(self) -> Filter:
        """Match the rows that this filter does not match, nulls included."""
        return self.parts[0] if self.op == "not" else restore_filter("not", (), (self,))

    def __bool__(self) -> NoReturn:
        """Raise for `and`, `or` and `not`, which a class cannot define."""
        raise error(
            OptionError, "filter", "&, | and ~ between filters", "and, or, not, or a truth test"
        )

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Raise AttributeError: filters are immutable."""
        raise AttributeError("Filter is frozen")

    def __delattr__(self, name: str) -> NoReturn:
        """Raise AttributeError: filters are immutable."""
        raise AttributeError("Filter is frozen")

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the parts of the filter."""
        return (restore_filter, self._identity())

    def _identity(self) -> tuple[object, ...]:
        return (self.op, self.predicates, self.parts)

    def __eq__(self, other: object) -> bool:
        """Compare the written form, not the matched rows."""
        return isinstance(other, Filter) and self._identity() == other._identity()

    def __hash__(self) -> int:
        """Return a hash that is the same for equal filters."""
        return hash(self._identity())

    def __repr__(self) -> str:
        """Show code that makes the filter."""
        if self.op == "test":
            if all(column.isidentifier() for column, _ in self.predicates):
                return f"Filter({', '.join(f'{name}={test!r}' for name, test in self.predicates)})"
            return f"Filter(**{dict(self.predicates)!r})"
        shown = [f"({part!r})" if part.op in {"and", "or"} else repr(part) for part in self.parts]
        if self.op == "not":
            return f"~{shown[0]}"
        return (" & " if self.op == "and" else " | ").join(shown)


def restore_filter(
    op: _Op, predicates: tuple[tuple[str, Predicate], ...], parts: tuple[Filter, ...]
) -> Filter:
    made = Filter.__new__(Filter)
    made._set(op, predicates, parts)
    return made


def has_predicates(given: Filter) -> bool:
    """Say whether a filter tests a column; one that does not matches all rows, or none."""
    return bool(given.predicates) or any(map(has_predicates, given.parts))
