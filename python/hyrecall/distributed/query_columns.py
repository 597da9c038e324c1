"""Turns a table of queries into the arguments of a recall, by the roles of its columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from hyrecall.ask.filters import Filter
from hyrecall.ask.scope import Scope
from hyrecall.embed import StaticEmbedder
from hyrecall.embed.protocol import composed
from hyrecall.errors import DTypeError, OptionError, error

__all__ = ["Named", "QueryColumns", "renumbered", "with_keys"]

QUERY_KEY = "query_key"

Named = Callable[[str], str]
"""Maps the name of an argument here to the caller's name for it, for errors."""


@dataclass(frozen=True)
class QueryColumns:
    """The roles of columns in a table of queries; a str applies to all arms."""

    text: str | dict[str, str] | None = None
    vectors: str | dict[str, str] | None = None
    scope: tuple[str, ...] = ()
    key: str | None = None
    equals: Mapping[str, str] = field(default_factory=dict)

    def wanted(self, named: Named = str) -> dict[str, str]:
        """Return the columns to read, each with the first argument that names it."""
        wanted: dict[str, str] = {}
        for role, given in (("text", self.text), ("vectors", self.vectors)):
            for column in given.values() if isinstance(given, dict) else [given]:
                if column is not None:
                    wanted.setdefault(column, named(role))
        for column in self.scope:
            wanted.setdefault(column, named("scope"))
        if self.key is not None:
            wanted.setdefault(self.key, named("key"))
        for column in self.equals.values():
            wanted.setdefault(column, named("equals"))
        return wanted

    def arguments(
        self,
        queries: pa.Table,
        *,
        has_texts: bool,
        scope: Scope | None,
        embed: tuple[str, StaticEmbedder] | None = None,
        named: Named = str,
    ) -> dict[str, Any]:
        """Return the texts, vectors and scopes of a recall."""
        made: dict[str, Any] = {"scope": self._scopes(queries, named) if self.scope else scope}
        text, vectors = self.text, self.vectors
        if isinstance(text, dict):
            made["text"] = {arm: _strings(queries, one, named) for arm, one in text.items()}
        elif text is not None and (has_texts or embed is None):
            made["text"] = _strings(queries, text, named)
        if embed is not None and isinstance(text, str):
            arm, embedder = embed
            texts = [composed(one or "") for one in _strings(queries, text, named)]
            made["vectors"] = {arm: embedder.embed(texts)}
        elif isinstance(vectors, dict):
            made["vectors"] = {arm: queries.column(column) for arm, column in vectors.items()}
        elif vectors is not None:
            made["vectors"] = queries.column(vectors)
        return made

    def filters(
        self, queries: pa.Table, every: Any, *, named: Named = str
    ) -> list[Filter | None] | None:
        """Return a filter for each query, joined with ``every``; None: no column is a filter."""
        # A null in a column lets every document pass; a list lets any of its values pass.
        if not self.equals:
            return None
        columns = {of: _values(queries, name, named("equals")) for of, name in self.equals.items()}
        given = []
        for values in zip(*columns.values(), strict=True):
            tests = {of: one for of, one in zip(columns, values, strict=True) if one is not None}
            own = Filter(**tests) if tests else None
            given.append(own if every is None else every if own is None else own & every)
        return given

    def _scopes(self, queries: pa.Table, named: Named) -> list[Any]:
        columns = [_values(queries, name, named("scope")) for name in self.scope]
        if len(columns) > 1:
            return [tuple(parts) for parts in zip(*columns, strict=True)]
        return [_scope(value) for value in columns[0]]


def with_keys(
    hits: pa.Table, queries: pa.Table, key: str, *, argument: str, columns: str
) -> pa.Table:
    """Add the column ``query_key`` after ``query``, which is a row number of ``queries``."""
    # ``argument`` and ``columns`` are the caller's names for the key and the documents' columns.
    if QUERY_KEY in hits.column_names:
        raise error(OptionError, columns, f"no column named {QUERY_KEY}", "one")
    keys = queries.column(key).combine_chunks()
    keys = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid as fault:
        raise error(DTypeError, argument, f"UTF-8 in column {key!r}", fault) from None
    return hits.add_column(1, QUERY_KEY, keys.take(hits.column("query").combine_chunks()))


def _scope(value: Any) -> Any:
    """Convert a list to a Scope of cells, each a value, or a list or struct for several columns."""
    if not isinstance(value, list):
        return value
    return Scope([_parts(cell) for cell in value])


def _parts(cell: Any) -> Any:
    if isinstance(cell, dict):
        return tuple(cell.values())
    return tuple(cell) if isinstance(cell, list) else cell


def _strings(queries: pa.Table, name: str, named: Named) -> list[str | None]:
    column = queries.column(name)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_null(kind)
    ):
        raise error(DTypeError, named("text"), f"strings in column {name!r}", column.type)
    return _values(queries, name, named("text"))


def _values(queries: pa.Table, name: str, argument: str) -> list[Any]:
    try:
        values: list[Any] = queries.column(name).to_pylist()
    except UnicodeDecodeError as fault:
        raise error(DTypeError, argument, f"UTF-8 in column {name!r}", fault) from None
    return values


def renumbered(hits: pa.Table, first: int) -> pa.Table:
    """Return hits whose first query has the number ``first``."""
    numbers = hits.column("query").to_numpy() + np.int32(first)
    return hits.set_column(0, "query", pa.array(numbers))
