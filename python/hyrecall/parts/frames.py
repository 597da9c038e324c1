"""Packs a header and arrays into the bytes of an Arrow stream, and back; no pickle.

The stream has one row. Each column is a list of numbers or a binary value; the header is JSON in
the metadata of its schema. A checksum follows the stream.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from hyrecall.base.arrow_messages import is_compressed
from hyrecall.base.malformed import MALFORMED
from hyrecall.errors import DTypeError, OptionError, UnknownOptionError, error

__all__ = ["VERSION", "pack", "pack_table", "reading", "unpack", "unpack_table"]

VERSION = 1
"""Increased by each change of the bytes; a reader refuses another one."""

_SEAL_BYTES = 8  # the checksum after the stream
_NOTHING = "none"  # the column of a batch without arrays
_KIND, _HEADER = b"hyrecall.kind", b"hyrecall.header"

Array = npt.NDArray[Any]


@contextmanager
def reading(wish: str) -> Iterator[None]:
    """Refuse what a peer sent with :class:`OptionError`, whatever its bytes break in a reader."""
    # ``wish`` says what the bytes should be. An :class:`OptionError` of the body passes as it is.
    try:
        yield
    except (*MALFORMED, OSError) as fault:
        if isinstance(fault, OptionError) and not isinstance(fault, UnknownOptionError):
            raise
        raise error(OptionError, "data", wish, "others") from fault


def pack(kind: str, header: Mapping[str, Any], arrays: Mapping[str, Array | bytes]) -> bytes:
    """Return the bytes of a header and named arrays, each bytes or 1-D numbers (not bools)."""
    columns = [_column(array) for array in arrays.values()]
    fields = [pa.field(name, one.type) for name, one in zip(arrays, columns, strict=True)]
    told = {_KIND: f"{kind} {VERSION}".encode(), _HEADER: json.dumps(header).encode()}
    if not columns:  # an Arrow batch without columns has no rows
        columns, fields = [pa.nulls(1)], [pa.field(_NOTHING, pa.null())]
    schema = pa.schema(fields, metadata=told)
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch)
    body = sink.getvalue()
    return b"".join((body, xxhash.xxh3_64_digest(body)))


def _column(array: Array | bytes) -> pa.Array:
    """Return numbers or bytes as a column of one row, without a copy."""
    # It is built from buffers: with Arrow constructors, packing an answer takes a third longer.
    ends = pa.py_buffer(np.array([0, len(array)], np.int64))
    if isinstance(array, bytes):
        return pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, pa.py_buffer(array)])
    kind = pa.from_numpy_dtype(array.dtype)
    buffers = [None, pa.py_buffer(np.ascontiguousarray(array))]
    values = pa.Array.from_buffers(kind, len(array), buffers)
    return pa.Array.from_buffers(pa.large_list(kind), 1, [None, ends], children=[values])


def unpack(kind: str, data: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the arrays that :func:`pack` packed, as views of the bytes."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise error(DTypeError, "data", "bytes", type(data).__name__)
    wish = f"the bytes of a {kind} of version {VERSION}"
    given = memoryview(data).toreadonly()
    body, seal = given[:-_SEAL_BYTES], given[-_SEAL_BYTES:]
    if xxhash.xxh3_64_digest(body) != seal:
        raise error(OptionError, "data", wish, "others, or damaged ones")
    with reading(wish):
        _check_plain(pa.py_buffer(body))
        with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
            told = reader.schema.metadata or {}
            found = told.get(_KIND, b"").decode()
            if found != f"{kind} {VERSION}":
                raise error(OptionError, "data", wish, found or "others")
            batch = reader.read_next_batch()
            batch.validate(full=True)
            if batch.num_rows != 1:
                raise error(OptionError, "data", wish, f"{batch.num_rows} rows")
            header = json.loads(told[_HEADER])
            names = [name for name in batch.schema.names if name != _NOTHING]
            arrays = {name: _value(batch.column(name)) for name in names}
    return header, arrays


def _check_plain(stream: pa.Buffer) -> None:
    """Refuse compressed messages: a few bytes could expand to very many."""
    for message in pa.ipc.MessageReader.open_stream(stream):
        if is_compressed(message):
            wish = "record batches without compression, as they are packed here"
            raise error(OptionError, "data", wish, "compressed ones")


def _value(column: pa.Array) -> Array | bytes:
    if column.null_count or not pa.types.is_large_binary(column.type):
        if column.null_count or not pa.types.is_large_list(column.type):
            raise ValueError("neither numbers nor bytes")
        return np.asarray(column[0].values.to_numpy(zero_copy_only=True))
    return bytes(column[0].as_buffer())


def pack_table(table: pa.Table) -> bytes:
    """Return a table as an Arrow stream of one batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def unpack_table(data: bytes) -> pa.Table:
    """Return the table that :func:`pack_table` packed, checked."""
    with reading("the bytes of a table"):
        _check_plain(pa.py_buffer(data))
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            table = reader.read_all()
        table.validate(full=True)
        return table.combine_chunks()
