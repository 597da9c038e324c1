"""Reads an Arrow IPC file from an untrusted source into a checked record batch.

Checksums find damage, but a forged file can have correct ones. So every offset and buffer is
checked here before Arrow or the engine follows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from hyrecall.errors import CorruptIndexError, error

_ALIGNMENT = 8  # of buffers in an Arrow IPC file


@contextmanager
def damage_of(path: Path, wish: str) -> Iterator[None]:
    """Turn errors that the content of a file causes into a CorruptIndexError that names the
    file.
    """
    try:
        yield
    except (pa.ArrowException, TypeError, ValueError, LookupError, OverflowError, OSError) as fault:
        if isinstance(fault, CorruptIndexError) and str(fault).startswith(str(path)):
            raise
        raise error(CorruptIndexError, str(path), wish, fault) from fault


def read_batch(path: Path, buffer: pa.Buffer, *, is_late: bool = False) -> pa.RecordBatch:
    """Read the one batch of an Arrow IPC file, without a copy; ``path`` is for messages."""
    # The result needs no further checks: every offset points into its own buffer, and every buffer
    # is inside the file and aligned for its type. With ``is_late`` the sizes of the buffers are
    # checked, but not what they hold: :func:`check_column` does that.
    with damage_of(path, "an Arrow IPC file"):
        reader = pa.ipc.open_file(buffer)
        if reader.num_record_batches != 1:
            raise error(CorruptIndexError, str(path), "one batch", reader.num_record_batches)
        batch = reader.get_batch(0)
        for column in batch.columns:
            if is_late:
                column.validate()
            else:
                _check_array(column)
            for part in column.buffers():
                _check_inside(path, part, buffer)
    return batch


def check_column(path: Path, array: pa.Array) -> None:
    """Check the offsets of a column that was read late."""
    with damage_of(path, "an Arrow IPC file"):
        _check_array(array)


def _check_array(array: pa.Array) -> None:
    """Check all offsets, but not texts, dates and times: input is checked, and replies show any."""
    kind = _any_value(array.type)
    (array if kind == array.type else array.view(kind)).validate(full=True)


def _any_value(kind: pa.DataType) -> pa.DataType:
    """Return a type of the same layout that allows any value: bytes for text, ints for times."""
    types = pa.types
    if types.is_date64(kind) or types.is_time64(kind):
        return pa.int64()
    if types.is_time32(kind):
        return pa.int32()
    if types.is_string(kind) or types.is_large_string(kind):
        return pa.binary() if types.is_string(kind) else pa.large_binary()
    if types.is_list(kind) or types.is_large_list(kind):
        item = kind.value_field.with_type(_any_value(kind.value_type))
        return pa.list_(item) if types.is_list(kind) else pa.large_list(item)
    if types.is_struct(kind):
        return pa.struct([field.with_type(_any_value(field.type)) for field in kind])
    return kind


def _check_inside(path: Path, part: pa.Buffer | None, file: pa.Buffer) -> None:
    """Refuse a buffer that is not aligned, or is not in the file because it was compressed."""
    if part is None or part.size == 0:
        return
    at = part.address - file.address
    if at % _ALIGNMENT or not 0 <= at <= file.size - part.size:
        wish = f"plain buffers at multiples of {_ALIGNMENT} bytes"
        raise error(CorruptIndexError, str(path), wish, f"one of {part.size} bytes elsewhere")
