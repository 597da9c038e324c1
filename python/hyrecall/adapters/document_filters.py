"""Filters of documents: on declared attributes only, and what an undeclared one is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from hyrecall.adapters.document_table import ROW_COLUMNS, is_list, read_value
from hyrecall.ask import filter_expression
from hyrecall.ask.filter_like import FilterLike
from hyrecall.ask.filters import Filter
from hyrecall.errors import OptionError, error

__all__ = ["check_names", "filter_value", "read_filter"]


def read_filter(
    filter: FilterLike | None,  # noqa: A002
    attributes: Mapping[str, pa.DataType],
) -> Filter | None:
    """Return a filter whose columns are all declared attributes, or ``id``."""
    made = filter_expression.read_filter("filter", filter)
    for name in _columns(made) if made is not None else ():
        _check_declared(name, attributes)
    return made


def _columns(filter: Filter) -> Iterator[str]:  # noqa: A002
    yield from (name for name, _ in filter.predicates)
    for part in filter.parts:
        yield from _columns(part)


def filter_value(name: str, value: object, attributes: Mapping[str, pa.DataType]) -> Any:
    """Convert a value of a framework's filter to the type of an attribute."""
    _check_declared(name, attributes, type(value))
    kind = attributes.get(name, pa.string())  # string: of the id
    return read_value(f"filter: {name}", value, kind.value_type if is_list(kind) else kind)


def _check_declared(
    name: str, attributes: Mapping[str, pa.DataType], kind: type[object] = str
) -> None:
    if name != "id" and name not in attributes:
        wish = f"a declared attribute ({', '.join(['id', *attributes])})"
        shown = kind.__name__ if kind in (int, float, bool, datetime, date) else "str"
        remedy = f"declare it: attributes={{{name!r}: {shown}}}"
        raise error(OptionError, "filter", wish, repr(name), remedy)


def check_names(cell_columns: Sequence[str], attributes: Iterable[str]) -> None:
    """Refuse names that the index's own columns have, and attributes that name a cell column.

    Such an attribute would let a document's metadata say in which cell the document lies.
    """
    own = ", ".join(ROW_COLUMNS)
    for argument, names in (("cell_columns", cell_columns), ("attributes", attributes)):
        for name in names:
            if name in ROW_COLUMNS:
                wish = f"no name of the index's own columns ({own})"
                raise error(OptionError, argument, wish, repr(name))
            if argument == "attributes" and name in cell_columns:
                wish = f"no name of a cell column ({', '.join(cell_columns)})"
                remedy = "cell_columns= takes other names"
                raise error(OptionError, argument, wish, repr(name), remedy)
