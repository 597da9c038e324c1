"""Reads the filters of a call, and applies them to rows of the database without an index.

An index answers a filter by its columns. Where none is asked, the same columns are made of the rows
in question, so that the same memories pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import compress, islice
from operator import and_, or_

import apsw
import pyarrow as pa

from hyrecall.ask.filter_program import compile_filter, read_filter
from hyrecall.ask.filters import Filter
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.memory.data.metadata import COLUMN, PREFIX, filter_on_key, metadata_tokens, paths_of
from hyrecall.memory.data.types import Episode
from hyrecall.memory.derived.layout import FILTERED, IndexColumn
from hyrecall.memory.sql.codec import CHECKED, is_sound, rows, to_json
from hyrecall.memory.sql.reading import episodes_of_rows, newest_rows
from hyrecall.memory.sql.schema import LISTED
from hyrecall.table.attributes import attribute_column

AT_A_TIME = 4_096
"""Rows that are read together."""

_JOIN = {"and": and_, "or": or_}
_ROWS = """documents d JOIN versions v ON (v.cell, v.id, v.version) = (d.cell, d.id, d.version)
  LEFT JOIN facts f ON f.row = v.row"""


def read_narrowing(filter: object, metadata: object = None) -> Filter | None:  # noqa: A002
    """Read ``filter=`` and ``metadata=`` of a call as one filter on columns of an index."""
    parts = [read_filter("filter", filter)]
    if metadata is not None:
        if not isinstance(metadata, Mapping) or not all(isinstance(key, str) for key in metadata):
            raise error(DTypeError, "metadata", "a mapping of key to value", repr(metadata))
        if metadata:
            parts.append(Filter(**{f"{PREFIX}{key}": test for key, test in metadata.items()}))
    given = [part for part in parts if part is not None]
    return _on_columns(reduce(and_, given)) if given else None


def _on_columns(asked: Filter) -> Filter:
    """Replace tests of keys of the metadata by tests of the column of tokens."""
    if asked.op == "test":
        tests = [
            filter_on_key(name, test) if name.startswith(PREFIX) else Filter(**{_known(name): test})
            for name, test in asked.predicates
        ]
        return reduce(and_, tests) if tests else asked
    parts = [_on_columns(part) for part in asked.parts]
    return ~parts[0] if asked.op == "not" else reduce(_JOIN[asked.op], parts)


def _known(name: str) -> str:
    if name == COLUMN or name not in FILTERED:
        names = ", ".join(one for one in FILTERED if one != COLUMN)
        got = "no key of it" if name == COLUMN else "an unknown column"
        raise error(OptionError, name, f"an attribute column ({names}, {PREFIX}KEY)", got)
    return name


def passing_in_order(
    connection: apsw.Connection, numbers: Sequence[int], wanted: Filter | None
) -> Iterator[int]:
    """Yield the version rows that pass a filter, in the order given; None passes all."""
    # A damaged row passes, so that whoever reads it next tells of it.
    for begin in range(0, len(numbers), AT_A_TIME):
        part = numbers[begin : begin + AT_A_TIME]
        kept = set(part) if wanted is None else _passing_rows(connection, part, wanted)
        yield from (row for row in part if row in kept)


def newest_passing(
    connection: apsw.Connection,
    cells: Collection[int],
    wanted: Filter,
    *,
    kind: str | None = None,
    pinned: bool | None = None,
    limit: int,
    offset: int = 0,
) -> list[Episode]:
    """Return the live episodes of cells that pass a filter, newest first."""
    # The other parameters are those of :func:`hyrecall.memory.sql.reading.newest`.
    found = newest_rows(connection, cells, kind=kind, pinned=pinned)
    kept = passing_in_order(connection, [row for row, _ in found], wanted)
    page = list(islice(kept, offset, offset + limit))
    episodes = episodes_of_rows(connection, page, cells, shown=True)
    return [episodes[row] for row in page if row in episodes]


def _passing_rows(connection: apsw.Connection, numbers: Sequence[int], wanted: Filter) -> set[int]:
    """Return the version rows that pass a filter; a damaged row passes."""
    names = sorted(columns_of(wanted)) or ["kind"]  # any column tells how many rows there are
    columns = ", ".join(FILTERED[name].sql for name in names)
    select = f"SELECT v.row, {columns} FROM {_ROWS} WHERE v.row IN {LISTED} ORDER BY v.row"
    found = list(rows(connection, select, (to_json(tuple(numbers)),)))
    try:
        return _passing(found, names, wanted)
    except (ValueError, TypeError, OverflowError, AttributeError):  # pyarrow's own are among them
        damaged = _damaged(connection, numbers)
        if not damaged:
            raise
        sound = [row for row in found if row[0] not in damaged]
        return _passing(sound, names, wanted) | damaged


def _passing(found: Sequence[tuple[object, ...]], names: Sequence[str], wanted: Filter) -> set[int]:
    held = list(zip(*found, strict=True)) or [()] * (len(names) + 1)
    arrays = {
        name: _filterable(_column(name, wanted).array(values))
        for name, values in zip(names, held[1:], strict=True)
    }
    program = compile_filter(wanted, {name: array.type for name, array in arrays.items()})
    mask = program.evaluate([attribute_column(array) for array in arrays.values()])
    return set(compress(held[0], mask.tolist()))


def _column(name: str, wanted: Filter) -> IndexColumn:
    """Return a column; of the metadata, one with only the keys that a filter asks."""
    column = FILTERED[name]
    if name != COLUMN:
        return column
    paths = paths_of(_constants(wanted))
    return replace(column, read=lambda kept: metadata_tokens(kept, paths))


def _constants(asked: Filter) -> Iterator[str]:
    """Yield the tokens that a filter names."""
    for name, test in asked.predicates:
        if name == COLUMN:
            yield from test.values
    for part in asked.parts:
        yield from _constants(part)


def _filterable(array: pa.Array) -> pa.Array:
    is_list = pa.types.is_list(array.type)
    return array.cast(pa.large_list(array.type.value_type)) if is_list else array


def columns_of(asked: Filter) -> set[str]:
    """Return the columns that a filter tests."""
    if asked.op == "test":
        return {name for name, _ in asked.predicates}
    return set().union(*map(columns_of, asked.parts))


def _damaged(connection: apsw.Connection, numbers: Sequence[int]) -> set[int]:
    select = f"SELECT v.row, {CHECKED} FROM versions v WHERE v.row IN {LISTED} ORDER BY v.row"
    found = rows(connection, select, (to_json(tuple(numbers)),))
    return {row for row, *checked in found if not is_sound(checked)}
