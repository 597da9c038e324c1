"""Haystack's filters as filters of an index: comparisons of declared fields, AND, OR and NOT.

A filter that Haystack could not answer either, or that names an undeclared field, is Haystack's
``FilterError``; its message names the field and the line that declares it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from functools import reduce
from operator import and_, or_
from typing import Any, Final

import pyarrow as pa
from haystack.errors import FilterError

from hyrecall.adapters.document_table import is_list
from hyrecall.adapters.documents import DocumentIndex
from hyrecall.ask.filters import Filter, IsNull, NoneOf
from hyrecall.ask.predicates import Predicate
from hyrecall.errors import DTypeError, OptionError

__all__ = ["field_name", "filter_of"]

_NOTHING: Final[list[object]] = []  # a list of no values matches no row
_LOGIC: Final[dict[str, Callable[[list[Filter]], Filter]]] = {
    "AND": lambda parts: reduce(and_, parts),
    "OR": lambda parts: reduce(or_, parts),
    "NOT": lambda parts: ~reduce(and_, parts),
}


def filter_of(given: dict[str, Any] | None, documents: DocumentIndex) -> Filter | None:
    """Return the filter that a Haystack filter means; None for none.

    Raises
    ------
    FilterError
        A key that is missing, an unknown operator, an undeclared field, a value of another type.
    """
    if not given:
        return None
    try:
        return _read(given, documents)
    except (OptionError, DTypeError) as fault:
        raise FilterError(str(fault)) from fault


def field_name(field: str) -> str:
    """Return the attribute of a field: ``meta.`` before it may be left out."""
    return field.removeprefix("meta.")


def _read(given: object, documents: DocumentIndex) -> Filter:
    if not isinstance(given, dict):
        raise FilterError(f"filters: expected a dict, got {given!r}")
    is_comparison = "field" in given
    for key in ("operator", "value") if is_comparison else ("operator", "conditions"):
        if key not in given:
            raise FilterError(f"filters: expected the key {key!r}, got {given}")
    operator = given["operator"]
    for key in ("field", "operator"):
        if not isinstance(given.get(key, ""), str):
            raise FilterError(f"filters: expected a str as {key!r}, got {given[key]!r}")
    if is_comparison:
        return _compare(field_name(given["field"]), operator, given["value"], documents)
    conditions = given["conditions"]
    if operator not in _LOGIC or not isinstance(conditions, list) or not conditions:
        wish = f"one of {list(_LOGIC)} with a list of conditions"
        raise FilterError(f"filters: expected {wish}, got {operator!r} with {conditions!r}")
    return _LOGIC[operator]([_read(one, documents) for one in conditions])


def _compare(name: str, operator: str, value: object, documents: DocumentIndex) -> Filter:
    if operator not in _COMPARISONS:
        known = list(_COMPARISONS)
        raise FilterError(f"filters: expected one of {known}, got {operator!r}")
    test = _COMPARISONS[operator]
    if operator in ("in", "not in"):
        if not isinstance(value, list):
            raise FilterError(f"filters: expected a list for {operator!r}, got {value!r}")
        read = [documents.value(name, one) for one in value]
        has_null = any(one is None for one in read)
        found = Filter(**{name: [one for one in read if one is not None]})
        found = found | Filter(**{name: IsNull()}) if has_null else found
        return ~found if operator == "not in" else found
    read_value = documents.value(name, value)
    if operator in ("==", "!="):
        equal = Filter(**{name: IsNull() if read_value is None else read_value})
        return ~equal if operator == "!=" else equal
    if read_value is None:
        return Filter(**{name: _NOTHING})
    if isinstance(read_value, bool) or not isinstance(read_value, int | float | datetime | date):
        wish = "a number, or a time in a field that is declared as datetime"
        raise FilterError(f"filters: expected {wish} for {operator!r}, got {value!r} for {name!r}")
    if operator in (">", "<") and is_list(documents.attributes.get(name, pa.string())):
        # Of two elements one may be in the range, and the other be the value that is excluded.
        raise FilterError(
            f"filters: expected '{operator}=' for the list {name!r}, got {operator!r}"
        )
    return reduce(and_, [Filter(**{name: one}) for one in test(read_value)])


# An end of a range is included, so that a strict comparison also excludes its value.
_COMPARISONS: Final[dict[str, Callable[[Any], list[tuple[Any, Any] | Predicate]]]] = {
    ">": lambda value: [(value, None), NoneOf(value)],
    ">=": lambda value: [(value, None)],
    "<": lambda value: [(None, value), NoneOf(value)],
    "<=": lambda value: [(None, value)],
    **dict.fromkeys(("==", "!=", "in", "not in"), lambda _: []),
}
