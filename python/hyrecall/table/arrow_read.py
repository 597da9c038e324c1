"""Reading an Arrow IPC file that nothing vouches for.

Checksums tell damage, not intent: whoever forges a file can make them fit. So what Arrow and the
engine follow in a file is checked here before anything follows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from hyrecall.errors import CorruptIndexError, error

__all__ = ["damage_of", "read_batch"]

_ALIGNMENT = 8  # of buffers in an Arrow IPC file


@contextmanager
def damage_of(path: Path, wish: str) -> Iterator[None]:
    """Report what a file makes libraries and our own checks say as damage of that file.

    Raises
    ------
    CorruptIndexError
        In place of any error that wrong content can cause.
    """
    try:
        yield
    except (pa.ArrowException, TypeError, ValueError, LookupError, OverflowError, OSError) as fault:
        if isinstance(fault, CorruptIndexError) and str(fault).startswith(str(path)):
            raise
        raise error(CorruptIndexError, str(path), wish, fault) from fault


def read_batch(path: Path, buffer: pa.Buffer) -> pa.RecordBatch:
    """Read the one batch of an Arrow IPC file, without a copy; ``path`` is for messages.

    What is in it can be read without further checks: every offset leads into its own buffer, and
    every buffer lies within the file, at an address that suits its type.
    """
    with damage_of(path, "an Arrow IPC file"):
        reader = pa.ipc.open_file(buffer)
        if reader.num_record_batches != 1:
            raise error(CorruptIndexError, str(path), "one batch", reader.num_record_batches)
        batch = reader.get_batch(0)
        for column in batch.columns:
            _check_array(column)
            for part in column.buffers():
                _check_inside(path, part, buffer)
    return batch


def _check_array(array: pa.Array) -> None:
    """Check what memory is read by. Values that a type forbids are taken, as replies bear them.

    Earlier versions saved text that is not UTF-8 and a date64 that is not a whole day.
    """
    kind = _any_value(array.type)
    (array if kind == array.type else array.view(kind)).validate(full=True)


def _any_value(kind: pa.DataType) -> pa.DataType:
    """Return the type of the same memory with bytes for text and numbers for dates and times."""
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
    """Refuse a buffer that is not aligned, or that Arrow made from a compressed one."""
    if part is None or part.size == 0:
        return
    at = part.address - file.address
    if at % _ALIGNMENT or not 0 <= at <= file.size - part.size:
        wish = f"plain buffers at multiples of {_ALIGNMENT} bytes"
        raise error(CorruptIndexError, str(path), wish, f"one of {part.size} bytes elsewhere")
