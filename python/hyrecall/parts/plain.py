"""The arguments of a call as plain data for JSON, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import date, datetime, time, timedelta
from typing import Any

import numpy as np

from hyrecall.ask import queries
from hyrecall.ask.filters import Filter, restore_filter
from hyrecall.ask.predicates import AllOf, AnyOf, Between, Equal, IsNull, NoneOf, NotNull, Predicate
from hyrecall.ask.recipe import known_parts
from hyrecall.ask.recipe_data import from_data, to_data
from hyrecall.ask.scope import ANY, Scope, ScopePattern
from hyrecall.ask.scoring import DBSF, RRF, Max, WeightedSum
from hyrecall.ask.session import Session
from hyrecall.base.arguments import as_list, check_hashes, python_scalar
from hyrecall.errors import DTypeError, OptionError, error

__all__ = ["decode", "encode"]

_PLAIN = (bool, int, float, str)
_SCALARS = frozenset((*_PLAIN, type(None)))
_QUERIES = (queries.Phrase, queries.Prefix, queries.Boost)
_GROUPS = (queries.All, queries.Any)
_PREDICATES: tuple[Any, ...] = (AllOf, AnyOf, Between, Equal, IsNull, NoneOf, NotNull)
_FUSIONS = (RRF, WeightedSum, Max, DBSF)
_TIMES = (datetime, date, time)


def _made_of(kind: Any) -> Callable[[Any], Any]:
    return lambda parts: kind(*parts)


def _made_with(kind: Any) -> Callable[[Any], Any]:
    return lambda settings: kind(**settings)


def _settings(fusion: Any) -> dict[str, Any]:
    """Return the arguments that recreate a fusion, which stores mappings as pairs."""
    out = {}
    for one in fields(fusion):
        value = getattr(fusion, one.name)
        if one.init and value != one.default:
            out[one.name] = dict(value) if isinstance(value, tuple) else value
    return out


def _dict(pairs: Any) -> dict[Any, Any]:
    check_hashes([key for key, _ in pairs])
    return dict(pairs)


# The contents of a value by its class: encode() encodes them, and decode() recreates the value.
_CONTENTS: dict[type, Callable[[Any], Any]] = {
    tuple: list,
    dict: lambda value: [list(pair) for pair in value.items()],
    Scope: lambda value: list(value.cells),
    ScopePattern: lambda value: list(value.parts),
    Session: lambda value: [dict(value.accessed), value.n_recalls],
    timedelta: lambda value: [value.days, value.seconds, value.microseconds],
    **dict.fromkeys(_FUSIONS, _settings),
    Filter: lambda value: [value.op, list(value.predicates), list(value.parts)],
    **dict.fromkeys(_TIMES, lambda value: value.isoformat()),
    **dict.fromkeys(_PREDICATES, lambda value: list(value.values)),
    **dict.fromkeys(_GROUPS, lambda value: list(value.queries)),
    **dict.fromkeys(_QUERIES, lambda value: [getattr(value, one.name) for one in fields(value)]),
}
_MADE: dict[str, Callable[[Any], Any]] = {
    "tuple": tuple,
    "dict": _dict,
    "Scope": Scope,
    "ScopePattern": lambda parts: ScopePattern(tuple(parts)),
    "Session": lambda parts: Session(*parts),
    "timedelta": lambda parts: timedelta(*parts),
    "Filter": lambda parts: _filter(*parts),
    **{one.__name__: _made_with(one) for one in _FUSIONS},
    **{one.__name__: one.fromisoformat for one in _TIMES},
    **{one.__name__: _made_of(one) for one in (*_PREDICATES, *_QUERIES, *_GROUPS)},
}
# hr.Any is a query, the engine's AnyOf a predicate: no two classes here share a name.
_CONTAINERS = frozenset((list, dict))
_KIND, _OF, _PART, _EVERY = "kind", "of", "part", "ANY"


def encode(argument: str, value: Any) -> Any:
    """Return an argument of a call as plain data."""
    value = python_scalar(as_list(value))
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, list):
        if _SCALARS.issuperset(map(type, value)):
            return value
        return [encode(argument, one) for one in value]
    if value is ANY:
        return {_KIND: _EVERY}
    kind = dict if isinstance(value, Mapping) else type(value)
    if kind in _CONTENTS:
        return {_KIND: kind.__name__, _OF: encode(argument, _CONTENTS[kind](value))}
    if kind in known_parts().values():
        return {_KIND: _PART, _OF: to_data(value)}
    wish = "plain data that another process can read (no function, no graph)"
    raise error(DTypeError, argument, wish, repr(value)[:80])


def decode(argument: str, data: Any) -> Any:
    """Return the argument that :func:`encode` encoded."""
    try:
        return _decode(argument, data)
    except OptionError:
        raise
    except (
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
        OverflowError,
        RecursionError,
    ) as fault:
        raise error(OptionError, argument, "the data of a request", repr(data)[:80]) from fault


def _decode(argument: str, data: Any) -> Any:
    if isinstance(data, list):
        if _CONTAINERS.isdisjoint(map(type, data)):  # texts or scopes of a batch
            return data
        return [_decode(argument, one) for one in data]
    if not isinstance(data, dict):
        return data
    if data[_KIND] == _EVERY:
        return ANY
    if data[_KIND] == _PART:
        return from_data(data[_OF], argument, known_parts())
    return _MADE[data[_KIND]](_decode(argument, data[_OF]))


def _filter(op: Any, tests: Any, parts: Any) -> Filter:
    """Make a filter from its contents, checked."""
    is_sound = op in ("test", "and", "or", "not") and (op == "test") == (not parts)
    is_sound &= all(isinstance(test, Predicate) for _, test in tests)
    is_sound &= all(isinstance(one, Filter) for one in parts) and (op != "not" or len(parts) == 1)
    if not is_sound:
        raise ValueError("parts that make no filter")
    return restore_filter(op, tuple((str(name), test) for name, test in tests), tuple(parts))
