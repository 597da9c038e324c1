"""Reads scopes, the cells that each query may see, and encodes them for the engine."""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.base.arguments import (
    as_items,
    as_list,
    check_keywords,
    python_scalar,
    set_field,
    set_fields,
)
from hyrecall.errors import OptionError, ScopeError, ShapeError, error


class _Any(Enum):
    ANY = "ANY"

    def __repr__(self) -> str:
        return "hyrecall.ANY"


ANY: Final = _Any.ANY
"""In :meth:`Scope.matching`: every value of this cell column."""

CellTypes: TypeAlias = "dict[str, pa.DataType]"


def encode_part(value: object, name: str, kind: pa.DataType, argument: str = "scope") -> bytes:
    """Encode one value of a cell in the engine's format: a tag byte and the value."""
    value = python_scalar(value)
    if value is None:
        return b"\0"
    if pa.types.is_boolean(kind) and isinstance(value, bool):
        return b"\1" + bytes([value])
    if pa.types.is_int64(kind) and isinstance(value, int) and not isinstance(value, bool):
        if not -(2**63) <= value < 2**63:
            raise error(ScopeError, argument, f"an int64 for {name}", value)
        return b"\2" + struct.pack("<q", value)
    if pa.types.is_large_string(kind) and isinstance(value, str):
        raw = value.encode("utf-8", "surrogatepass")
        return b"\3" + struct.pack("<I", len(raw)) + raw
    wish = {"large_string": "a str", "int64": "an int", "bool": "a bool"}[str(kind)]
    got = f"{type(value).__name__} {value!r}"
    raise error(ScopeError, argument, f"{wish} or None for {name}", got)


@check_keywords
@dataclass(frozen=True, init=False)
class Scope:
    """The set of cells that a query may see.

    Parameters
    ----------
    cells : iterable
        Each cell is a value if the index has one cell column, otherwise a tuple with a value per
        cell column. An empty iterable sees nothing; ``Scope([None])`` is the null cell. An unknown
        cell counts as empty.

    Raises
    ------
    ScopeError
        Not an iterable. At recall: a cell that does not fit the cell columns in width or type.

    Examples
    --------
    >>> Scope([("alice", "private"), ("acme", "shared")]).cells
    (('alice', 'private'), ('acme', 'shared'))
    """

    cells: tuple[tuple[object, ...], ...]

    def __init__(self, cells: Iterable[object]) -> None:
        """Convert each cell to a tuple."""
        given = None if isinstance(cells, str | bytes) else as_items(cells)
        if given is None:
            raise error(ScopeError, "scope", "an iterable of cells", repr(cells))
        made = tuple(cell if isinstance(cell, tuple) else (cell,) for cell in given)
        set_fields(self, cells=made)

    @staticmethod
    def matching(**parts: object) -> ScopePattern:
        """Return a pattern for the cells with these values; :data:`ANY` matches every value.

        Every cell column must be named. The pattern is resolved on the snapshot that the call
        reads, so it never matches cells that are added later.

        Parameters
        ----------
        **parts : str or int or bool or None or ANY
            The value of each cell column.

        Examples
        --------
        >>> Scope.matching(tenant="acme", agent=ANY)
        ScopePattern(parts=(('agent', hyrecall.ANY), ('tenant', 'acme')))
        """
        return ScopePattern(tuple(sorted(parts.items())))


def scope_of_cells(cells: tuple[tuple[object, ...], ...]) -> Scope:
    """Return the scope of cells that need no check: tuples that an index knows."""
    made = object.__new__(Scope)
    set_field(made, "cells", cells)
    return made


@dataclass(frozen=True)
class ScopePattern:
    """The result of :meth:`Scope.matching`, allowed wherever a scope is."""

    parts: tuple[tuple[str, object], ...]


_NO_COLUMN: Final = (list, tuple, str, int, Scope, ScopePattern)


def scope_entries(types: CellTypes, scope: object, per: str = "query") -> Any:
    """Convert a column of scopes to a list, one per query; return any other scope unchanged."""
    # A column is a NumPy array, an Arrow array or a series. A struct value is a cell, with a field
    # for each cell column, in any order.
    values = _column_values(scope, per)
    if values is None:
        return scope
    return [
        _cell_of_struct(types, value, place) if isinstance(value, dict) else value
        for place, value in enumerate(values)
    ]


def _column_values(scope: Any, per: str) -> list[Any] | None:
    """Return the values of a column, or None for a scope that is not a column."""
    if scope is None or isinstance(scope, _NO_COLUMN):
        return None
    if isinstance(scope, pa.Table | pa.RecordBatch):
        remedy = "scope=table.to_struct_array()"
        raise error(ShapeError, "scope", f"one column, an entry per {per}", "a table", remedy)
    if hasattr(scope, "columns"):  # a data frame
        raise error(ShapeError, "scope", f"one column, an entry per {per}", "a data frame")
    values = as_list(scope)
    if isinstance(values, np.ndarray) and values.ndim:
        if values.ndim > 1:
            wish = f"one dimension, an entry per {per}"
            raise error(ShapeError, "scope", wish, f"shape {values.shape}")
        values = values.tolist()
    return values if isinstance(values, list) else None


def _cell_of_struct(types: CellTypes, value: dict[str, object], place: int) -> tuple[object, ...]:
    if value.keys() != types.keys():
        wish = f"a struct with the fields ({', '.join(types)})"
        raise error(ScopeError, f"scope[{place}]", wish, f"({', '.join(value)})")
    return tuple(value[name] for name in types)


def read_scopes(
    types: CellTypes, snapshot: _core.Snapshot, scope: object, n: int, per: str = "query"
) -> _core.Scopes:
    """Read ``scope=``: one scope for all n queries (or keys), or a list with one for each."""
    # `types` are the index's cell columns; patterns are resolved on the snapshot. Convert columns
    # with :func:`scope_entries` first.
    kinds = [str(kind) for kind in types.values()]
    scopes = _core.Scopes(kinds, Scope, _CellReader(types, snapshot))
    if not types:
        if scope is not None:
            wish = "no scope (the index was built with cell=None: one audience)"
            raise error(ScopeError, "scope", wish, repr(scope))
        scopes.add((), n)  # the only cell
    elif scope is None:
        wish = f"a scope: a cell, hr.Scope([...]), or a list with one entry per {per}"
        raise error(ScopeError, "scope", wish, "None (the null cell is hr.Scope([None]))")
    elif isinstance(scope, list):
        if len(scope) != n:
            raise error(ShapeError, "scope", f"{n} entries, one per {per}", len(scope))
        scopes.add_each(scope)
    else:
        scopes.add(scope, n)
    return scopes


class _CellReader:
    """Handles scopes that ``_core.Scopes`` cannot read: patterns, scalars of libraries, errors."""

    def __init__(self, types: CellTypes, snapshot: _core.Snapshot) -> None:
        self._types, self._snapshot = types, snapshot

    def __call__(self, scope: object, argument: str) -> list[bytes]:
        """Return the encoded cells of a scope, or raise the error that names its fault."""
        scope = python_scalar(scope)
        if isinstance(scope, Scope):
            return [self._encode(cell, argument) for cell in scope.cells]
        if isinstance(scope, ScopePattern):
            return self._match(scope, argument)
        if isinstance(scope, str | int | tuple):
            return [self._encode(scope if isinstance(scope, tuple) else (scope,), argument)]
        got = "None (the null cell is hr.Scope([None]))" if scope is None else repr(scope)
        wish = "a cell (str, int, bool or tuple) or hr.Scope"
        remedy = self._matching([ANY] * len(self._types)) if scope is ANY else ""
        if isinstance(scope, list):
            remedy = f"several cells are hr.Scope({scope!r})"
        raise error(ScopeError, argument, wish, got, remedy)

    def _encode(self, cell: Sequence[object], argument: str) -> bytes:
        if any(part is ANY for part in cell):
            wish = "values of cell columns: hr.ANY is for hr.Scope.matching"
            raise error(ScopeError, argument, wish, repr(tuple(cell)), self._matching(cell))
        if len(cell) != len(self._types):
            wish = f"a value for each of ({', '.join(self._types)})"
            raise error(ScopeError, argument, wish, repr(tuple(cell)))
        return b"".join(
            encode_part(value, name, kind, argument)
            for value, (name, kind) in zip(cell, self._types.items(), strict=True)
        )

    def _matching(self, cell: Sequence[object]) -> str:
        """Return code of the pattern for a cell with ANY; a cell of wrong width gives all ANY."""
        parts = cell if len(cell) == len(self._types) else [ANY] * len(self._types)
        given = {
            name: "hr.ANY" if part is ANY else repr(python_scalar(part))
            for name, part in zip(self._types, parts, strict=True)
        }
        if all(name.isidentifier() for name in given):
            return f"hr.Scope.matching({', '.join(f'{k}={v}' for k, v in given.items())})"
        return f"hr.Scope.matching(**{{{', '.join(f'{k!r}: {v}' for k, v in given.items())}}})"

    def _match(self, pattern: ScopePattern, argument: str) -> list[bytes]:
        named = dict(pattern.parts)
        if set(named) != set(self._types):
            wish = f"every cell column named: {sorted(self._types)}"
            raise error(ScopeError, argument, wish, sorted(named))
        parts = [
            None if named[name] is ANY else encode_part(named[name], name, kind, argument)
            for name, kind in self._types.items()
        ]
        return self._snapshot.matching(parts)


def scope_of(scope: object, begin: int, end: int) -> object:
    """Return ``scope=`` for the queries [begin, end) of a batch."""
    return scope[begin:end] if isinstance(scope, list) else scope


def distinct_scopes(scope: object, n_queries: int) -> npt.NDArray[np.int64]:
    """Number the scopes of a batch, equal ones alike: a pattern differs from its cells."""
    if not isinstance(scope, list):
        return np.zeros(n_queries, np.int64)
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(scope_key(one), len(numbers)) for one in scope], np.int64)


def scope_key(scope: object) -> Hashable:
    """Return a key that two scopes of a call share only if they name the same cells alike."""
    # It tells 1 from True, which are equal in Python, and does not ask the object how it looks: a
    # string may hide its value. A value of an unknown type is like itself only.
    match scope:
        case Scope():
            return ("cells", *map(scope_key, scope.cells))
        case ScopePattern():
            return ("pattern", *((name, scope_key(part)) for name, part in scope.parts))
        case tuple():
            return ("cell", *map(scope_key, scope))
        case str():
            return ("str", str.__str__(scope))
        case None | bool() | int() if type(scope) in (type(None), bool, int):
            return (type(scope), scope)
        case _:
            return ("object", id(scope))


_ATOMS: Final = {str, int, bool, type(None)}


def key_of(scope: object) -> Hashable:
    """Return a key of a scope made of Python's own types, whose equality holds; None: of others."""
    if type(scope) in _ATOMS:
        return ((scope,),)
    if type(scope) is ScopePattern:
        is_plain = {type(part) for _, part in scope.parts} <= {*_ATOMS, _Any}
        return ("pattern", scope.parts) if is_plain else None
    cells = (scope,) if type(scope) is tuple else scope.cells if type(scope) is Scope else None
    for cell in cells or ():
        if not _ATOMS.issuperset(map(type, cell)):
            return None
    return cells


def check_no_list(scope: object) -> None:
    """Refuse a list or a column where a single scope is required."""
    if isinstance(scope, list) or _column_values(scope, "query") is not None:
        got = "a list" if isinstance(scope, list) else f"a column ({type(scope).__name__})"
        raise error(OptionError, "scope", "one scope (several cells are hr.Scope([...]))", got)
