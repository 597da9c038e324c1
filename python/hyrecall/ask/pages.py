"""Reads ``sort=`` and ``facets=``: the order of a page of results, and what is counted of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from hyrecall.ask.filter_program import place_of
from hyrecall.base.arguments import as_items, check_keywords, python_scalar, set_fields
from hyrecall.errors import OptionError, error
from hyrecall.table.attributes import MAX_CODE, MIN_CODE, attribute_type

Types: TypeAlias = Mapping[str, pa.DataType]
"""The types of the attribute columns, in their order."""

_DIRECTIONS = {"asc": False, "desc": True}


def read_sort(given: object, types: Types) -> tuple[tuple[int, bool], ...]:
    """Return the columns of ``sort=`` by number, each with whether it descends."""
    keys: list[Any] = given if isinstance(given, list) else [given]
    named = [one if _is_pair(one) else (one, "asc") for one in keys if one != ()]
    for name, _ in named:
        if not isinstance(name, str):
            wish = 'a column, (column, "asc" or "desc"), or a list of those'
            raise error(OptionError, "sort", wish, repr(name))
    numbers = [_attribute("sort", name, types) for name, _ in named]
    _check_once("sort", [name for name, _ in named])
    return tuple((at, _DIRECTIONS[way]) for at, (_, way) in zip(numbers, named, strict=True))


def _is_pair(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and given[1] in ("asc", "desc")


def columns_of_one_value(types: Types, *, lists: bool = False) -> list[str]:
    """Return the attribute columns with one value a row, or also those with lists."""
    return [
        one
        for one, arrow in types.items()
        if (kind := attribute_type(arrow)) is not None and (lists or not kind.is_list)
    ]


def _attribute(argument: str, name: object, types: Types, *, lists: bool = False) -> int:
    known = columns_of_one_value(types, lists=lists)
    if not isinstance(name, str) or name not in known:
        wish = "attribute columns" if lists else "attribute columns without lists"
        near = [one for one in known if argument == "sort" and one in str(name)]  # "-price"
        remedy = f"sort=({near[0]!r}, 'desc') puts the largest first" if near else ""
        raise error(OptionError, argument, f"{wish} of {known}", repr(name), remedy)
    return list(types).index(name)


def _check_once(argument: str, names: Sequence[str]) -> None:
    for at, name in enumerate(names):
        if name in names[:at]:
            raise error(OptionError, argument, "each column once", f"{name!r} twice")


@check_keywords
@dataclass(frozen=True, init=False)
class Buckets:
    """Counts the rows of ``facets=`` by ranges of an attribute column.

    Parameters
    ----------
    column : str
        An attribute column of numbers, dates or times, without lists.
    edges : sequence of int, float, date, datetime, time, timedelta or str
        At least two, rising. Each two that follow each other are a range with its start and without
        its end. None as the first or last edge is an open end; without it, rows below the first
        edge, or from the last one on, are not counted.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import hyrecall as hr
    >>> table = pa.table({"id": [1, 2, 3], "text": ["tea"] * 3, "price": [4.0, 10.0, 80.0]})
    >>> schema = hr.Schema(key="id", cell=None, text="text", attributes="price")
    >>> index = hr.Index.build(table, schema)
    >>> index.recall_one(facets=[hr.Buckets("price", [0, 10, 50, None])]).facets
    {'price': [((0, 10), 1), ((10, 50), 1), ((50, None), 1)]}
    """

    column: str
    edges: tuple[Any, ...]

    def __init__(self, column: str, edges: Sequence[Any]) -> None:
        """Check that the edges rise."""
        if not isinstance(column, str):
            raise error(OptionError, "column", "the name of an attribute column", repr(column))
        items = None if isinstance(edges, str | bytes | Mapping) else as_items(edges)
        made = None if items is None else tuple(map(python_scalar, items))
        wish = "two edges or more, rising; None first or last is an open end"
        if made is None or len(made) < 2:
            raise error(OptionError, "edges", wish, repr(edges))
        inner = made[made[0] is None : len(made) - (made[-1] is None)]
        try:
            rises = bool(inner) and all(a < b for a, b in pairwise(inner))
        except TypeError:
            rises = False
        if not rises:
            raise error(OptionError, "edges", wish, repr(edges))
        set_fields(self, column=column, edges=made)


Sort: TypeAlias = str | tuple[str, str] | list[str | tuple[str, str]]
Facets: TypeAlias = str | Buckets | Sequence[str | Buckets]


class Facet(NamedTuple):
    """An attribute column whose values are counted, or its ranges."""

    name: str
    number: int
    arrow: pa.DataType
    ranges: tuple[tuple[Any, Any], ...] = ()  # with edges
    edges: tuple[int, ...] = ()  # codes; an open end has none
    first: int = 0  # which count is that of the first range


def read_facets(given: object, types: Types) -> tuple[Facet, ...]:
    """Return what ``facets=`` asks for."""
    is_one = isinstance(given, str | Buckets)
    items = (given,) if is_one else as_items(given)
    if items is None or isinstance(given, Mapping):
        wish = "a column, hr.Buckets, or a list of those"
        raise error(OptionError, "facets", wish, repr(given))
    made = [
        _buckets(one, types) if isinstance(one, Buckets) else _values(one, types) for one in items
    ]
    _check_once("facets", [one.name for one in made])
    return tuple(made)


def _values(name: Any, types: Types) -> Facet:
    number = _attribute("facets", name, types, lists=True)
    arrow = types[name]
    return Facet(name, number, arrow.value_type if pa.types.is_large_list(arrow) else arrow)


def _buckets(one: Buckets, types: Types) -> Facet:
    number = _attribute("facets", one.column, types)
    kind = attribute_type(types[one.column])
    assert kind is not None
    if kind.place is None or not kind.has_order:
        wish = "hr.Buckets of a column of numbers, dates or times"
        raise error(OptionError, "facets", wish, f"a column of type {kind.arrow}")
    is_open = one.edges[0] is None, one.edges[-1] is None
    inner = one.edges[is_open[0] : len(one.edges) - is_open[1]]
    # A value is at or above an edge if its code is at or above the least code of such a value.
    lows = [place_of(one.column, kind, edge)[0] for edge in inner]
    if sorted(lows) != lows:
        raise error(OptionError, "edges", "rising edges", repr(one.edges))
    codes = tuple(max(low, MIN_CODE) for low in lows if low <= MAX_CODE)
    ranges = tuple(pairwise(one.edges))
    return Facet(one.column, number, kind.arrow, ranges, codes, first=0 if is_open[0] else 1)
