"""Filters on JSON values, as frameworks write them: ``{"kind": "note", "year": {"$gte": 2024}}``.

A store narrows its search with what an index can compare (:func:`narrowing`), which may let too
much through, and then checks each value that was found (:func:`passes`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from hyrecall import Between
from hyrecall.errors import DTypeError, OptionError, error

__all__ = ["JsonFilter", "check_filter", "narrowing", "passes"]

JsonFilter: TypeAlias = Mapping[str, Any]

_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_OPERATORS: Final = ("$eq", "$ne", *_ORDER)


def check_filter(wish: object, name: str = "filter") -> None:
    """Check the form of a filter.

    Parameters
    ----------
    wish : mapping of str to object
    name : str
        Of the argument, for errors.

    Raises
    ------
    DTypeError
        Not a mapping with names as keys; or a bound that is no number and no string.
    OptionError
        An unknown operator, or operators beside names.
    """
    if not isinstance(wish, Mapping) or not all(isinstance(key, str) for key in wish):
        raise error(DTypeError, name, "a mapping with names as keys", type(wish).__name__)
    for key, value in wish.items():
        place = f"{name}[{key!r}]"
        if key.startswith("$"):
            raise error(OptionError, place, "the name of a field", "an operator without a field")
        if isinstance(value, Mapping):
            _check_object(value, place)


def _check_object(value: Mapping[Any, Any], place: str) -> None:
    if not _has_operators(value):
        check_filter(value, place)
        return
    for key, bound in value.items():
        if key not in _OPERATORS:
            raise error(OptionError, place, f"operators ({', '.join(_OPERATORS)})", repr(key))
        if key in _ORDER and _order_kind(bound) is None:
            wish = "a number or a string"
            raise error(DTypeError, f"{place}[{key!r}]", wish, type(bound).__name__)


def narrowing(wish: JsonFilter, path: str) -> dict[str, Any]:
    """Return what an index can ask of metadata: every value that passes the filter passes this.

    Parameters
    ----------
    wish : mapping
        A checked filter.
    path : str
        Key of the metadata under which the values lie.

    Returns
    -------
    dict
        For ``metadata=`` of :meth:`hyrecall.memory.MemorySync.search`.

    Examples
    --------
    >>> narrowing({"kind": "note", "year": {"$gte": 2024}, "tags": ["a"]}, "value")
    {'value.kind': 'note', 'value.year': (2024, None)}
    """
    return dict(_narrow(wish, path))


def _narrow(wish: JsonFilter, path: str) -> Iterator[tuple[str, Any]]:
    for key, value in wish.items():
        place = f"{path}.{key}"
        if isinstance(value, Mapping):
            if not _has_operators(value):
                yield from _narrow(value, place)
                continue
            low = next((value[one] for one in ("$gt", "$gte") if one in value), None)
            high = next((value[one] for one in ("$lt", "$lte") if one in value), None)
            kinds = {_order_kind(one) for one in (low, high) if one is not None}
            if _is_scalar(value.get("$eq")):
                yield place, value["$eq"]
            elif len(kinds) == 1:  # a number and a string have no value between them
                yield place, Between(low, high)
        elif _is_scalar(value):
            yield place, value


def passes(value: object, wish: object) -> bool:
    """Return whether a JSON value is what a filter asks for.

    Parameters
    ----------
    value : object
    wish : object
        A checked filter, or one of its values: an object asks for its own fields, with or without
        others beside them; a list asks for a list of the same length; a missing field is null.

    Returns
    -------
    bool
        JSON's values compare: true is not 1, and a string that looks like a number is none.

    Examples
    --------
    >>> passes({"kind": "note", "at": {"year": 2024}}, {"at": {"year": {"$lt": 2025}}})
    True
    """
    if isinstance(wish, Mapping):
        if _has_operators(wish):
            return all(_compares(value, name, bound) for name, bound in wish.items())
        if not isinstance(value, Mapping):
            return False
        return all(passes(value.get(key), one) for key, one in wish.items())
    if isinstance(wish, list | tuple):
        return (
            isinstance(value, list | tuple)
            and len(value) == len(wish)
            and all(passes(one, want) for one, want in zip(value, wish, strict=True))
        )
    return _equal(value, wish)


def _compares(value: object, name: str, bound: object) -> bool:
    if name in ("$eq", "$ne"):
        return _equal(value, bound) == (name == "$eq")
    kind = _order_kind(value)
    return kind is not None and kind is _order_kind(bound) and _ORDER[name](value, bound)


def _equal(value: object, other: object) -> bool:
    """Compare JSON values; Python takes True for 1."""
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        return value.keys() == other.keys() and all(_equal(value[k], other[k]) for k in value)
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        pairs = zip(value, other, strict=False)
        return len(value) == len(other) and all(_equal(one, two) for one, two in pairs)
    return isinstance(value, bool) == isinstance(other, bool) and value == other


def _has_operators(value: Mapping[Any, Any]) -> bool:
    return any(isinstance(key, str) and key.startswith("$") for key in value)


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | bool | int | float)


def _order_kind(value: object) -> type | None:
    """Return str or float for a value that has an order, else None."""
    if isinstance(value, str):
        return str
    return float if isinstance(value, int | float) and not isinstance(value, bool) else None
