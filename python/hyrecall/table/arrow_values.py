"""Converts Arrow columns to Python values, with the same results with and without pandas.

pyarrow needs pandas for nanoseconds, and fails on times outside datetime's range and on text that
is not UTF-8. A value never depends on others in its column, which may belong to other queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.errors import DTypeError, OptionError, error

# ---- Checks the values of an Arrow column against its type, before other code reads its memory
# Arrow arrays come from other programs, and pyarrow imports them without checking offsets, indices
# or text. An error names the row.

_LISTS = {
    pa.lib.Type_LIST,
    pa.lib.Type_LARGE_LIST,
    pa.lib.Type_LIST_VIEW,
    pa.lib.Type_LARGE_LIST_VIEW,
}


def is_list(kind: pa.DataType) -> bool:
    """Return whether the type is a list of variable length, in any layout."""
    return kind.id in _LISTS


def check_column(
    column: pa.ChunkedArray | pa.Array, argument: str, where: Callable[[int], str]
) -> None:
    """Refuse a column with values that its type does not allow."""
    # It checks the offsets of strings and lists in every layout, dictionary indices and run ends,
    # and that text is UTF-8, a date64 a whole day, a time within its day and a decimal within its
    # precision; also inside lists and structs. Arrow's own offsets and lengths, which other
    # programs set, must be at least 0.
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    first_row = 0
    for chunk in chunks:
        _core.check_layout(chunk, argument)  # before validate() reads by its offsets
        try:
            chunk.validate(full=True)
        except pa.ArrowException as fault:
            row = _first_bad_row(chunk)
            place = None if row is None else where(first_row + row)
            raise _refusal(chunk.type, fault, argument, place) from fault
        first_row += len(chunk)


def _refusal(kind: pa.DataType, fault: Exception, argument: str, place: str | None) -> OptionError:
    got = str(fault) if place is None else f"{fault} {place}"
    if "UTF8" not in str(fault):
        return error(OptionError, argument, f"valid {kind} values", got)
    remedy = ""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        decoded = "None if text is None else text.decode(errors='replace')"
        column = f"table[{argument!r}].cast(pa.binary()).to_pylist()"
        remedy = f"replace such bytes: pa.array([{decoded} for text in {column}])"
    return error(OptionError, argument, "valid UTF-8", got, remedy)


def first_bad(n_rows: int, is_good: Callable[[int, int], bool]) -> int:
    """Return the first bad row of `n_rows` by bisection; at least one must be bad."""
    # `is_good(start, n)` returns whether n rows from `start` are all good.
    low, high = 0, n_rows
    while high - low > 1:
        middle = (low + high) // 2
        if is_good(low, middle - low):
            low = middle
        else:
            high = middle
    return low


def _first_bad_row(array: pa.Array) -> int | None:
    """Return the first row with a value that is not allowed, or None if it cannot be found."""
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        array, kind = array.storage, array.storage.type
    if pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
        return _first_bad_nested(array) if _is_valid(array, full=False) else None
    if _is_valid(array, full=True):
        return None
    return _first_bad_slice(array)


def _first_bad_slice(array: pa.Array) -> int:
    return first_bad(len(array), lambda at, n: _is_valid(array.slice(at, n), full=True))


def _first_bad_nested(array: pa.Array) -> int | None:
    """Find the row through the inner values, because Arrow checks all of them for every slice."""
    kind, row = array.type, None
    if pa.types.is_struct(kind):
        rows = (_first_bad_row(array.field(at)) for at in range(kind.num_fields))
        row = min((row for row in rows if row is not None), default=None)
    elif is_list(kind) or pa.types.is_fixed_size_list(kind):
        row = _first_bad_list(array)
    elif pa.types.is_dictionary(kind):
        value = _first_bad_row(array.dictionary)
        if value is None:  # then an index is wrong
            return _first_bad_slice(array)
        import pyarrow.compute as pc

        at = pc.index(array.indices, pa.scalar(value, kind.index_type)).as_py()
        row = None if at < 0 else at
    return row  # None for maps, unions and run ends


def _first_bad_list(array: pa.Array) -> int | None:
    begins, ends = _bounds(array)
    values = array.values
    wrong = (begins < 0) | (ends < begins) | (ends > len(values))
    if wrong.any():
        return int(wrong.argmax())
    value = _first_bad_row(values)
    if value is None:
        return None
    holds = (begins <= value) & (value < ends)
    return int(holds.argmax()) if holds.any() else None


def _bounds(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the begin and end of each row's values, unchecked."""
    kind, n, first = array.type, len(array), array.offset
    if pa.types.is_fixed_size_list(kind):
        begins = (first + np.arange(n, dtype=np.int64)) * kind.list_size
        return begins, begins + kind.list_size
    is_large = pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind)
    dtype = np.dtype(np.int64 if is_large else np.int32)
    is_view = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
    offsets, sizes = (
        np.frombuffer(buffer, dtype, n + (not is_view), first * dtype.itemsize).astype(np.int64)
        for buffer in (array.buffers()[1], array.buffers()[2 if is_view else 1])
    )
    return (offsets, offsets + sizes) if is_view else (offsets[:-1], offsets[1:])


def _is_valid(array: pa.Array, *, full: bool) -> bool:
    try:
        array.validate(full=full)
    except pa.ArrowException:
        return False
    return True


# ---- Converts Arrow columns to Python values, with the same results with and without pandas ----

NAT = -(2**63)  # NumPy's NaT
# Types without a time in them, which most columns have.
_TIMELESS = frozenset(
    one.id for one in (pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.large_string())
)


def python_values(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of a column, None for nulls."""
    # Bytes of text that are not UTF-8 become U+FFFD. Times become types of ``datetime`` if that
    # holds them exactly. Other times, also inside lists and structs, become ``numpy.datetime64``
    # (in UTC if the column has a time zone); durations and times of day become
    # ``numpy.timedelta64``.
    kind = array.type if array.type.id in _TIMELESS else _in_microseconds(array.type)
    try:
        values: list[Any] = (array if array.type == kind else array.cast(kind)).to_pylist()
        return values
    except (pa.ArrowNotImplementedError, ValueError, OverflowError):
        return [_value(scalar) for scalar in array]


def readable(array: pa.Array) -> pa.Array:
    """Replace bytes of text that are not UTF-8 by U+FFFD; return other arrays unchanged."""
    # Text is checked on input, but a forged file may hold any bytes.
    if not pa.types.is_large_string(array.type):
        return array
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array(python_values(array), array.type)
    return array


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    """Return the type with every nanosecond unit replaced by microseconds."""
    types, finer = pa.types, _in_microseconds
    if _unit(kind) == "ns":
        if types.is_timestamp(kind):
            return pa.timestamp("us", kind.tz)
        return pa.duration("us") if types.is_duration(kind) else pa.time64("us")
    if types.is_map(kind):
        kind = pa.map_(finer(kind.key_type), finer(kind.item_type))
    elif types.is_fixed_size_list(kind):
        kind = pa.list_(finer(kind.value_type), kind.list_size)
    elif types.is_large_list(kind):
        kind = pa.large_list(finer(kind.value_type))
    elif types.is_struct(kind):
        kind = pa.struct([field.with_type(finer(field.type)) for field in kind])
    return kind


def _unit(kind: pa.DataType) -> str:
    """Return NumPy's name for the unit of a time type; empty for other types."""
    if not pa.types.is_temporal(kind):
        return ""
    unit = str(kind).partition("[")[2].rstrip("]").partition(",")[0]
    return "D" if unit == "day" else unit


def _value(scalar: pa.Scalar) -> Any:  # noqa: PLR0911
    types, kind = pa.types, scalar.type
    if not scalar.is_valid:
        return None
    if _unit(kind):
        return _moment(scalar)
    if types.is_map(kind):
        return [(_value(one["key"]), _value(one["value"])) for one in scalar.values]
    if types.is_struct(kind):
        return {name: _value(part) for name, part in scalar.items()}
    if types.is_union(kind):
        return _value(scalar.value)
    if is_list(kind) or types.is_fixed_size_list(kind):
        return [_value(one) for one in scalar.values]
    if types.is_large_string(kind) or types.is_string(kind):
        return scalar.as_buffer().to_pybytes().decode(errors="replace")
    return scalar.as_py()


def _moment(scalar: pa.Scalar) -> Any:
    kind = scalar.type
    try:
        return scalar.cast(_in_microseconds(kind)).as_py()
    except (ValueError, OverflowError):
        is_moment = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
        count, unit = int(scalar.value), _unit(kind)
        if count == NAT:  # not NaT here: the same (even) count in units twice as long
            count, unit = count // 2, f"2{unit}"
        return np.int64(count).view(f"{'M8' if is_moment else 'm8'}[{unit}]")


# ---- Converts Arrow columns to one plain layout: no dictionaries, views, run ends or
# 32-bit offsets
# Later code then handles a single layout, and 64-bit offsets let a gather of any size succeed.

# Types with one layout. A commit of one row has twenty such columns, so they are told apart first.
_PLAIN = {
    getattr(pa.lib, f"Type_{name}")
    for name in (
        "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64",
        "HALF_FLOAT", "FLOAT", "DOUBLE", "DATE32", "DATE64", "TIME32", "TIME64", "TIMESTAMP",
        "DURATION", "LARGE_STRING", "LARGE_BINARY",
    )
}  # fmt: skip


def plain_column(column: pa.ChunkedArray, *, fixed_too: bool = False) -> pa.ChunkedArray:
    """Return the column in its plain layout, chunk by chunk; unchanged buffers are shared."""
    # Strings become large_string, binaries large_binary, lists (with `fixed_too` also fixed-size
    # lists) large_list, also inside lists and structs. Other types stay.
    if column.type.id in _PLAIN:
        return column
    chunks = [_plain(chunk, fixed_too) for chunk in column.chunks]
    kind = chunks[0].type if chunks else _plain(pa.nulls(0, column.type), fixed_too).type
    return pa.chunked_array(chunks, kind)


def _plain(array: pa.Array, fixed_too: bool = False) -> pa.Array:  # noqa: PLR0911
    types = pa.types
    kind = array.type
    if kind.id in _PLAIN:
        return array
    if types.is_dictionary(kind):
        # First the distinct values, then the rows: 32-bit offsets could overflow on the rows.
        values = _plain(array.dictionary)
        return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()
    if types.is_run_end_encoded(kind):
        import pyarrow.compute as pc

        return _plain(pc.run_end_decode(array))
    if types.is_string(kind) or types.is_string_view(kind):
        return array.cast(pa.large_string())
    if types.is_binary(kind) or types.is_binary_view(kind):
        return array.cast(pa.large_binary())
    if is_list(kind) or (fixed_too and types.is_fixed_size_list(kind)):
        return _large_list(array)
    if types.is_struct(kind) and kind.num_fields:
        return _plain_struct(array)
    return array


def _large_list(array: pa.Array) -> pa.Array:
    # Built by hand: pyarrow 26 casts list views wrongly beside nulls (their later rows come out
    # empty).
    import pyarrow.compute as pc

    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    values = _plain(array.flatten())  # without the rows that are null, whose length is 0 here
    mask = array.is_null() if array.null_count else None
    return pa.LargeListArray.from_arrays(pa.array(offsets), values, mask=mask)


def _plain_struct(array: pa.Array) -> pa.Array:
    parts = [_plain(part) for part in array.flatten()]
    named = [pa.field(f.name, part.type) for f, part in zip(array.type, parts, strict=True)]
    return pa.StructArray.from_arrays(parts, fields=named, mask=array.is_null())


# ---- Casts columns that join an index to its types; a value that would change is an error ----


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
    families = (_is_number, _is_moment)
    return found.id == kind.id or any(family(found) and family(kind) for family in families)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_moment(kind: pa.DataType) -> bool:
    """Return whether values are days or times; a day is its first moment, in UTC."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


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
    elif pa.types.is_date32(kind):
        remedy = f"drop its time: pc.cast({code}, pa.date32())"
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


# ---- The text of a lexical arm as people read it: its columns, joined ----

SEPARATOR = "\n"
"""Stands between the columns of an arm where hits, rerankers and budgets read its text."""


def join_texts(columns: Sequence[pa.Array]) -> pa.Array:
    """Join the text columns of an arm, row by row."""
    if len(columns) == 1:
        return columns[0]
    import pyarrow.compute as pc

    kind = columns[0].type
    blank = [pc.equal(pc.utf8_trim_whitespace(one), "") for one in columns]
    said = [
        pc.if_else(is_blank, pa.scalar(None, kind), one)
        for is_blank, one in zip(blank, columns, strict=True)
    ]
    joined = said[0]
    for one in said[1:]:
        both = pc.binary_join_element_wise(joined, one, pa.scalar(SEPARATOR, kind))
        joined = pc.coalesce(both, joined, one)  # both is null where one of them is
    return pc.coalesce(joined, *columns)
