"""LlamaIndex's metadata filters as filters of an index: declared fields only, AND, OR and NOT."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_
from typing import Any, Final

import pyarrow as pa
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
)

from hyrecall.adapters import document_table
from hyrecall.adapters.documents import DocumentIndex
from hyrecall.ask.filters import AllOf, Between, Filter, IsNull, NoneOf
from hyrecall.errors import OptionError, error

__all__ = ["all_of", "filter_of", "one_of"]

_ORDERS: Final = {
    FilterOperator.GT: lambda value: Between(value, None),
    FilterOperator.GTE: lambda value: Between(value, None),
    FilterOperator.LT: lambda value: Between(None, value),
    FilterOperator.LTE: lambda value: Between(None, value),
}
_STRICT: Final = (FilterOperator.GT, FilterOperator.LT)
_OF_LISTS: Final = (FilterOperator.CONTAINS, FilterOperator.ANY, FilterOperator.ALL)


def all_of(*filters: Filter | None) -> Filter | None:
    """Return a filter that passes what passes each; None for none."""
    given = [one for one in filters if one is not None]
    return reduce(and_, given) if given else None


def one_of(name: str, ids: list[str] | None) -> Filter | None:
    """Return a filter that passes what has one of some ids; None for no ids asked."""
    return None if ids is None else Filter(**{name: ids})


def filter_of(given: MetadataFilters | None, documents: DocumentIndex) -> Filter | None:
    """Return the filter that LlamaIndex's filters mean; None for none.

    Raises
    ------
    OptionError, DTypeError
        An undeclared field, a value of another type, or an operator that no index answers.
    """
    if given is None or not given.filters:
        return None
    parts = [
        filter_of(one, documents) if isinstance(one, MetadataFilters) else _read(one, documents)
        for one in given.filters
    ]
    known = [one for one in parts if one is not None]
    if not known:
        return None
    if given.condition == FilterCondition.NOT:  # none of them holds
        return ~reduce(or_, known)
    return reduce(or_ if given.condition == FilterCondition.OR else and_, known)


def _read(given: MetadataFilter, documents: DocumentIndex) -> Filter:
    name, operator = given.key, FilterOperator(given.operator)
    is_list = document_table.is_list(documents.attributes.get(name, pa.string()))
    if operator == FilterOperator.IS_EMPTY:
        documents.value(name, None)  # refuses a field that is not declared
        some = Between(None, None) if is_list else NoneOf("")
        is_text = str(documents.attributes.get(name, "string")).endswith("string")
        empty = Filter(**{name: IsNull()})
        return empty | ~Filter(**{name: some}) if is_list or is_text else empty
    if operator in _OF_LISTS and not is_list:
        wish = f"a field that is declared as a list, for {operator.value!r}"
        raise error(OptionError, "filter", wish, repr(name), "mode='text_search' searches texts")
    if is_list and operator in _STRICT:
        # Of two elements one may be in the range, and the other be the value that is excluded.
        wish = f"'{operator.value}=' for the list {name!r}"
        raise error(OptionError, "filter", wish, repr(operator.value))
    values = given.value if isinstance(given.value, list) else [given.value]
    read = [documents.value(name, one) for one in values]
    if operator in (FilterOperator.IN, FilterOperator.ANY):
        return Filter(**{name: read})
    if operator == FilterOperator.NIN:
        return Filter(**{name: NoneOf(*read)})
    if operator == FilterOperator.ALL:
        return Filter(**{name: AllOf(*read)})
    if isinstance(given.value, list):
        raise error(OptionError, "filter", f"one value for {operator.value!r}", repr(given.value))
    return _compare(name, operator, read[0])


def _compare(name: str, operator: FilterOperator, value: Any) -> Filter:
    nothing = Filter(**{name: []})
    if operator in (FilterOperator.EQ, FilterOperator.CONTAINS):  # null equals no value, nor null
        return nothing if value is None else Filter(**{name: value})
    if operator == FilterOperator.NE:
        return ~nothing if value is None else Filter(**{name: NoneOf(value)})
    if operator not in _ORDERS:
        wish = "an operator that compares whole values"
        remedy = "mode='text_search' searches texts"
        raise error(OptionError, "filter", wish, repr(operator.value), remedy)
    if value is None:
        raise error(OptionError, "filter", f"a value for {operator.value!r}", "None")
    # An end of a range is included, so that a strict comparison also excludes its value.
    found = Filter(**{name: _ORDERS[operator](value)})
    return found & Filter(**{name: NoneOf(value)}) if operator in _STRICT else found
