"""Defines the schema of a table of edges, and converts its participants to a list column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from hyrecall.base.arguments import set_fields
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.table.arrow_checks import check_column
from hyrecall.table.schema import Schema, Text

__all__ = ["GraphSchema"]

MADE_COLUMN = "participants"
"""The list column that is made from two columns of ends."""


@check_keywords
@dataclass(frozen=True, kw_only=True)
class GraphSchema:
    """Assigns roles to the columns of a table of edges.

    Parameters
    ----------
    key : str
        The column of the edges' ids, unique within a cell.
    cell : str or sequence of str or None
        The cell columns of the edges, with the same names and types as those of the documents. None
        lets every query see every edge.
    text : str or sequence of str, default ("label", "description")
        The text columns of an edge, which form one lexical arm with a gap between them.
    participants : str or tuple of two str, default "participants"
        A list column of document keys (two keys form an edge, more a hyperedge), or the columns of
        the two ends, from which a list column ``participants`` is made.
    attributes, stored : str or sequence of str, default ()
        More columns of edges to filter by, or to return, such as kinds and roles.

    Raises
    ------
    OptionError
        A name that is empty or given twice.

    Examples
    --------
    >>> GraphSchema(key="id", cell="user", participants=("source", "target")).participants_column
    'participants'
    """

    key: str
    cell: str | Sequence[str] | None
    text: str | Sequence[str] = ("label", "description")
    participants: str | tuple[str, str] = "participants"
    attributes: str | Sequence[str] = ()
    stored: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check every name."""
        ends = self.participants
        if not isinstance(ends, str) and not (
            isinstance(ends, tuple) and len(ends) == 2 and all(isinstance(e, str) for e in ends)
        ):
            wish = "a list column, or a tuple of two columns"
            raise error(OptionError, "participants", wish, repr(ends))
        for name in ("text", "attributes", "stored"):
            value = getattr(self, name)
            set_fields(self, **{name: (value,) if isinstance(value, str) else tuple(value)})
        _ = self.index_schema

    @property
    def participants_column(self) -> str:
        """The list column of participants."""
        return self.participants if isinstance(self.participants, str) else MADE_COLUMN

    @property
    def index_schema(self) -> Schema:
        """The schema of the index of edges."""
        ends = () if isinstance(self.participants, str) else self.participants
        attributes = (self.participants_column, *self.attributes)
        stored = (*self.text, *ends, *self.stored)
        return Schema(
            key=self.key,
            cell=self.cell,
            text={"text": Text(*self.text)},
            attributes=attributes,
            stored=tuple(dict.fromkeys(name for name in stored if name not in attributes)),
        )

    def with_participants(self, table: object, kind: pa.DataType) -> pa.Table:
        """Return the table with a list column of participants of the nodes' key type."""
        try:
            edges = pa.table(table)
        except (TypeError, ValueError) as fault:
            wish = "an Arrow table (anything with __arrow_c_stream__)"
            raise error(DTypeError, "table", wish, type(table).__name__) from fault
        name = self.participants_column
        if isinstance(self.participants, str):
            column = _column(edges, name)
            found = column.type
            if not (pa.types.is_list(found) or pa.types.is_large_list(found)):
                raise error(DTypeError, name, f"a list column of {kind}", found)
        else:
            if name in edges.column_names:
                wish = f"no column {name!r} in addition to {self.participants}"
                raise error(OptionError, "participants", wish, "one")
            ends = [_column(edges, end) for end in self.participants]
            column = _pairs(*ends)
        try:
            _check_akin(name, column.type.value_type, kind)
            made = column.cast(pa.list_(kind))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as fault:
            wish = f"keys of the nodes' type {kind}"
            raise error(DTypeError, name, wish, f"{column.type} ({fault})") from None
        if name in edges.column_names:
            return edges.set_column(edges.column_names.index(name), name, made)
        return edges.append_column(name, made)


def _column(edges: pa.Table, name: str) -> pa.ChunkedArray:
    if edges.column_names.count(name) != 1:
        raise error(OptionError, "table", f"one column {name!r}", edges.column_names)
    column = edges.column(name)
    check_column(column, name, lambda row: f"in row {row}")
    return column


def _pairs(first: pa.ChunkedArray, second: pa.ChunkedArray) -> pa.ChunkedArray:
    """Make lists of two keys; the index ignores a null end."""
    if first.type != second.type:
        raise error(DTypeError, "participants", "two columns of one type", second.type)
    both = pa.chunked_array([*first.chunks, *second.chunks], first.type).combine_chunks()
    n = len(first)
    order = np.arange(2 * n).reshape(2, n).T.ravel()
    offsets = pa.array(np.arange(0, 2 * n + 1, 2), pa.int64())
    return pa.chunked_array([pa.LargeListArray.from_arrays(offsets, both.take(pa.array(order)))])


def _check_akin(name: str, found: pa.DataType, kind: pa.DataType) -> None:
    """Refuse participants of another kind than the nodes' keys: the key 1 is not the key "1"."""
    types = pa.types
    is_text = types.is_string(found) or types.is_large_string(found)
    fits = is_text if types.is_large_string(kind) else types.is_integer(found)
    if not fits and not types.is_null(found):
        raise error(DTypeError, name, f"keys of the nodes' type {kind}", found)
