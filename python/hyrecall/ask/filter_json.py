"""Reads a filter from JSON, in which column names map to values, lists, ranges and tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, time
from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow._compute import Expression  # pyarrow.compute makes a function of each kernel

from hyrecall.ask.filters import AllOf, Between, Filter, IsNull, NoneOf, NotNull
from hyrecall.base.times import as_moment
from hyrecall.errors import OptionError, error

FilterLike: TypeAlias = Filter | Expression
"""The types of ``filter=``."""


FILTER_FORM = 'a JSON object, as {"kind": "note", "day": {"from": "2024-05-01"}}'
"""What an error expects in place of a value that is no object."""

_RANGE = {"from", "to"}


def filter_from_json(asked: object, types: Mapping[str, pa.DataType], argument: str) -> Filter:
    """Read a filter from decoded JSON: an object from columns to predicates; all must hold."""
    # A value means equality, a list any of its values, ``{"from": a, "to": b}`` a range including
    # both ends, ``{"not": [...]}`` none of the values, ``{"all": [...]}`` all of them (list
    # columns), null a row without a value, ``{"null": false}`` a row with a value. Dates and times
    # are ISO 8601, and a date on a column of times is the whole day; durations only have tests for
    # null.
    if not isinstance(asked, dict):
        raise error(OptionError, argument, FILTER_FORM, json.dumps(asked))
    return Filter(
        **{name: _predicate(argument, name, one, types.get(name)) for name, one in asked.items()}
    )


def _predicate(argument: str, column: str, asked: Any, kind: pa.DataType | None) -> object:
    argument = f"{argument} {column}"

    def constants(given: Any) -> list[Any]:
        return [_constant(argument, one, kind) for one in given]

    if asked is None:
        return IsNull()
    if isinstance(asked, list):
        return constants(asked)
    if not isinstance(asked, dict):
        return _constant(argument, asked, kind)
    if asked and set(asked) <= _RANGE:
        ends = (asked.get("from"), asked.get("to"))
        return Between(*(None if end is None else _constant(argument, end, kind) for end in ends))
    if len(asked) == 1:
        (word, given), *_ = asked.items()
        if word in ("not", "all") and isinstance(given, list):
            return (NoneOf if word == "not" else AllOf)(*constants(given))
        if word == "null" and isinstance(given, bool):
            return IsNull() if given else NotNull()
    wish = "a value, a list, null, or an object with from/to, not, all or null"
    raise error(OptionError, argument, wish, json.dumps(asked))


def _constant(argument: str, value: Any, kind: pa.DataType | None) -> Any:
    """Convert a str to a date or time for a column of these, because JSON has neither."""
    if kind is not None and (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        kind = kind.value_type
    if kind is not None and pa.types.is_duration(kind):
        wish = 'null or {"null": false} (a duration has no form in JSON)'
        raise error(OptionError, argument, wish, json.dumps(value))
    if not isinstance(value, str) or kind is None:
        return value
    try:
        if pa.types.is_timestamp(kind):
            return as_moment(value)
        if pa.types.is_date(kind):
            return date.fromisoformat(value)
        if pa.types.is_time(kind):
            return time.fromisoformat(value)
    except ValueError:
        raise error(OptionError, argument, "an ISO 8601 time", repr(value)) from None
    return value
