"""Filters as plain Python predicates over one document's attributes.

They are two-valued: a null satisfies no comparison, and ``Not`` and ``NoneOf`` are plain
complements.
"""

from collections.abc import Mapping
from dataclasses import dataclass

Value = str | int | float | bool | None | object
Attributes = Mapping[str, Value]
Cell = tuple[Value, ...]


@dataclass(frozen=True)
class Equal:
    """Column == value."""

    column: str
    value: Value


@dataclass(frozen=True)
class Range:
    """low <= column <= high; None is open."""

    column: str
    low: Value
    high: Value


@dataclass(frozen=True)
class AnyOf:
    """The value, or one element of a list column, is among these."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class NoneOf:
    """Not AnyOf."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class AllOf:
    """A list column holds every one of these."""

    column: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class IsNull:
    """The column is null."""

    column: str


@dataclass(frozen=True)
class NotNull:
    """The column is not null."""

    column: str


@dataclass(frozen=True)
class And:
    """Both."""

    left: "Predicate"
    right: "Predicate"


@dataclass(frozen=True)
class Or:
    """One or both."""

    left: "Predicate"
    right: "Predicate"


@dataclass(frozen=True)
class Not:
    """Plain complement."""

    inner: "Predicate"


Predicate = Equal | Range | AnyOf | NoneOf | AllOf | IsNull | NotNull | And | Or | Not


def _elements(value: Value) -> tuple[Value, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def passes(predicate: Predicate | None, attributes: Attributes) -> bool:  # noqa: PLR0911 - a case each
    """Whether a document satisfies a filter."""
    match predicate:
        case None:
            return True
        case And(left, right):
            return passes(left, attributes) and passes(right, attributes)
        case Or(left, right):
            return passes(left, attributes) or passes(right, attributes)
        case Not(inner):
            return not passes(inner, attributes)
        case Equal(column, wanted):
            return attributes[column] is not None and attributes[column] == wanted
        case Range(column, low, high):
            value = attributes[column]
            return (
                value is not None
                and (low is None or low <= value)
                and (high is None or value <= high)
            )
        case AnyOf(column, values):
            return any(element in values for element in _elements(attributes[column]))
        case NoneOf(column, values):
            return not any(element in values for element in _elements(attributes[column]))
        case AllOf(column, values):
            return attributes[column] is not None and set(values) <= set(
                _elements(attributes[column])
            )
        case IsNull(column):
            return attributes[column] is None
        case NotNull(column):
            return attributes[column] is not None
    raise TypeError(f"no such predicate: {predicate!r}")
