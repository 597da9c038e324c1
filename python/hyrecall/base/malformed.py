"""The exceptions that malformed bytes can cause in a reader, to be caught together."""

from __future__ import annotations

import struct

import pyarrow as pa

MALFORMED = (
    ArithmeticError, AttributeError, LookupError, RecursionError, StopIteration, TypeError,
    ValueError, pa.ArrowException, struct.error,
)  # fmt: skip
"""The errors by which Python, numpy and Arrow end where bytes are not what a reader expects."""


# ---- Finds compressed messages in an Arrow IPC stream, before pyarrow makes many bytes of few ----


def is_compressed(message: pa.ipc.Message) -> bool:
    """Return whether a record batch or dictionary is compressed, which pyarrow undoes as it
    reads.
    """
    # The metadata is a flatbuffer that pyarrow has verified: tables that point to their fields.
    if message.type not in ("record batch", "dictionary"):
        return False
    data = memoryview(message.metadata)
    (root,) = struct.unpack_from("<I", data)
    batch = _table(data, _field(data, root, 2))  # Message.header
    if message.type == "dictionary":
        batch = _table(data, _field(data, batch, 1))  # DictionaryBatch.data
    return _field(data, batch, 3) != 0  # RecordBatch.compression


def _table(data: memoryview, field: int) -> int:
    """Return where the table of a field lies."""
    (offset,) = struct.unpack_from("<I", data, field)
    return field + int(offset)


def _field(data: memoryview, table: int, at: int) -> int:
    """Return where a field of a table lies; 0 if it is not given."""
    (back,) = struct.unpack_from("<i", data, table)
    (size,) = struct.unpack_from("<H", data, table - back)
    if 4 + 2 * at + 2 > size:
        return 0
    (offset,) = struct.unpack_from("<H", data, table - back + 4 + 2 * at)
    return table + int(offset) if offset else 0
