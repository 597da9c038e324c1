"""Casts columns that join an index to its types; a value that would change is an error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from hyrecall.errors import DTypeError, error
from hyrecall.table.arrow_checks import first_bad, is_list
from hyrecall.table.arrow_plain import plain_column
from hyrecall.table.arrow_values import python_values

__all__ = ["cast_line", "join_column", "type_nulls"]


def type_nulls(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Cast a column of only nulls or lists of nulls; return other columns unchanged."""
    if 0 < column.null_count == len(column):  # such as NaN of pandas where there is no text
        return pa.chunked_array([pa.nulls(len(column), kind)])
    if not _is_untyped(column.type):
        return column
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # such as a list to a number
        return column


def _is_untyped(kind: pa.DataType) -> bool:
    listed = is_list(kind) or kind.id == pa.lib.Type_FIXED_SIZE_LIST
    return _is_untyped(kind.value_type) if listed else kind.id == pa.lib.Type_NA


def _is_akin(found: pa.DataType, kind: pa.DataType) -> bool:
    """Return whether values mean the same in both types; the cell 1 is not the cell "1"."""
    types = pa.types
    if types.is_null(found) or found == kind:
        return True
    if types.is_struct(found) and types.is_struct(kind):
        names = {field.name for field in found}
        if len(names) < found.num_fields or names != {field.name for field in kind}:
            return False
        return all(_is_akin(found.field(name).type, kind.field(name).type) for name in names)
    if types.is_nested(found) or types.is_nested(kind):
        listed = all(types.is_list(one) or types.is_large_list(one) for one in (found, kind))
        if not (found.id == kind.id or listed) or found.num_fields != kind.num_fields:
            return False
        parts = range(kind.num_fields)
        return all(_is_akin(found.field(i).type, kind.field(i).type) for i in parts)
    families = (_is_number, types.is_date)
    return found.id == kind.id or any(family(found) and family(kind) for family in families)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _cast_exactly(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray | None:
    """Cast, or return None if a value would change; Arrow's own check lets floats be rounded."""
    try:
        chunks = [chunk.cast(kind) for chunk in column.chunks]
    except pa.ArrowInvalid:
        return None
    same = all(_is_same(*pair) for pair in zip(column.chunks, chunks, strict=True))
    return pa.chunked_array(chunks, kind) if same else None


def _is_same(before: pa.Array, after: pa.Array) -> bool:
    """Return whether a cast changed no value; NaN equals NaN."""
    kind = before.type
    if pa.types.is_null(kind):
        return bool(after.null_count == len(after))
    if not before.is_valid().equals(after.is_valid()):
        return False
    if pa.types.is_struct(kind):
        parts = zip(_fields(before), _fields(after), strict=True)
        return all(_is_same(*pair) for pair in parts)
    if pa.types.is_nested(kind):
        return _is_same(before.flatten(), after.flatten())
    if not pa.types.is_floating(kind):
        return bool(after.cast(kind).equals(before))
    old, new = (one.to_numpy(zero_copy_only=False) for one in (before, after))
    return bool(np.array_equal(old, new, equal_nan=True))


def _fields(array: pa.Array) -> list[pa.Array]:
    named = zip((field.name for field in array.type), array.flatten(), strict=True)
    return [part for _, part in sorted(named, key=lambda pair: pair[0])]


def join_column(
    column: pa.ChunkedArray,
    given: pa.ChunkedArray,
    kind: pa.DataType,
    name: str,
    where: Callable[[int], str],
    shown: str,
) -> pa.ChunkedArray:
    """Cast a column to the index's type for it; refuse a cast that would change a value."""
    # ``given`` is the column as the caller has it, and ``shown`` the code of its table in messages.
    found = column.type
    if found == kind:
        return column
    akin = _is_akin(found, kind)
    try:
        cast = _cast_exactly(column, kind) if akin else None
    except pa.ArrowNotImplementedError:
        akin, cast = False, None
    if cast is not None:
        return cast
    if not akin:
        wish = f"{kind}, the index's type"
        raise error(DTypeError, name, wish, found, cast_line(given, kind, name, shown))
    row = first_bad(len(column), lambda at, n: _cast_exactly(column.slice(at, n), kind) is not None)
    wish = f"values that {kind}, the index's type, holds exactly"
    value, remedy = python_values(column.slice(row, 1))[0], ""
    code = _decode(f"{shown}[{name!r}]", given.type)
    if pa.types.is_floating(kind):
        remedy = f"round it: pc.cast({code}, {_spell(kind)}, safe=False)"
    elif value != value:  # noqa: PLR0124  NaN
        remedy = f"make it null: pc.if_else(pc.is_nan({code}), None, {code})"
    raise error(DTypeError, name, wish, f"{value} {where(row)}", remedy)


_PYTHON_NAMES = {"double": "float64", "float": "float32", "halffloat": "float16", "bool": "bool_"}


def cast_line(column: pa.ChunkedArray, kind: pa.DataType, name: str, shown: str = "table") -> str:
    """Return code that turns a column into a type; empty if it would fail."""
    made = _spell(kind)
    if not made:
        return ""
    code = f"{shown}[{name!r}]"
    try:
        column.cast(kind)
        return f"cast it: pc.cast({code}, {made})"
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if (decoded := _decode(code, column.type)) != code:
            line = cast_line(plain_column(column), kind, name, shown)
            return line.replace(code, decoded)
        value = kind.value_type if is_list(kind) else kind
    if pa.types.is_timestamp(kind) and kind.tz is not None:  # of text without a zone
        naive = cast_line(column, pa.timestamp(kind.unit), name, shown).removeprefix("cast it: ")
        return f"read it: pc.assume_timezone({naive}, {kind.tz!r})" if naive else ""
    is_text = pa.types.is_string(value) or pa.types.is_large_string(value)
    if not is_text or (is_list(kind) and not is_list(column.type)):
        return ""
    one = _as_text(column.type, "row")
    if is_list(kind):
        part = _as_text(column.type.value_type, "part")
        one = f"[None if part is None else {part} for part in row]"
    rows = f"[None if row is None else {one} for row in {code}.to_pylist()]"
    return f"write it as text: pa.array({rows}, {made})"


def _decode(code: str, kind: pa.DataType) -> str:
    """Return code for the plain column of one whose form few functions of Arrow take."""
    if pa.types.is_run_end_encoded(kind):
        return f"pc.run_end_decode({code})"
    if kind == pa.string_view():  # as polars has
        return f"pc.cast({code}, pa.string())"
    made = _spell(kind.value_type) if pa.types.is_dictionary(kind) else ""
    return f"pc.cast({code}, {made})" if made else code


def _as_text(kind: pa.DataType, name: str) -> str:
    """Return code that writes a value of a type as text."""
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return f"{name}.hex()"
    if pa.types.is_fixed_size_binary(kind) and not isinstance(kind, pa.BaseExtensionType):
        return f"{name}.hex()"
    if is_list(kind) and not pa.types.is_nested(kind.value_type):
        return f"' '.join(str(one) for one in {name} if one is not None)"
    return f"str({name})"


def _spell(kind: pa.DataType) -> str:
    if is_list(kind):
        inner = _spell(kind.value_type)
        return f"pa.list_({inner})" if inner else ""
    if pa.types.is_string(kind):
        return "pa.string()"
    if not (pa.types.is_primitive(kind) or pa.types.is_large_string(kind)):
        return ""
    name, _, options = str(kind).rstrip("]").partition("[")
    if pa.types.is_date(kind):
        options = ""  # the unit is in the name
    shown = ", ".join(map(repr, options.split(", tz="))) if options else ""
    return f"pa.{_PYTHON_NAMES.get(name, name)}({shown})"
