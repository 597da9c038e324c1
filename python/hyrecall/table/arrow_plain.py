"""Converts Arrow columns to one plain layout: no dictionaries, views, run ends or 32-bit offsets.

Later code then handles a single layout, and 64-bit offsets let a gather of any size succeed.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from hyrecall.table.arrow_checks import is_list

__all__ = ["plain_column"]

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
