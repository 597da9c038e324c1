"""The two ends of an Arrow IPC file, which say where its columns lie, and their checksums.

A reader that compares these two checksums may follow what Arrow reads, and leave the columns for
later. The layout is in docs/format.md.
"""

from __future__ import annotations

import io
import struct
from typing import Any, BinaryIO

import xxhash

from hyrecall.base.file_entry import FileEnd

__all__ = ["MOST_BYTES", "EndsSink"]

MOST_BYTES = 4 * 2**20
"""The longest end that is kept: a file with longer ones has no checksums of them."""

_MAGIC_BYTES = 8  # before the first message
_MESSAGES = 2  # before the columns: the schema, and where the columns of the batch lie
_CONTINUED = 0xFFFFFFFF  # what each message begins with
_LAST_BYTES = 10  # the length of the footer, and six letters
_STOP_BYTES = 8  # before the footer: that no message follows
_PADDING = 64  # at most, behind the last column


class EndsSink(io.RawIOBase):
    """Passes a file on as it is written, and keeps both of its ends."""

    def __init__(self, to: BinaryIO) -> None:
        """Keep where the file goes."""
        self._to = to
        self._first, self._last = bytearray(), bytearray()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Pass bytes on."""
        view = memoryview(data).cast("B")
        self._first += view[: MOST_BYTES - len(self._first)]
        self._last += view[-MOST_BYTES:]
        if len(self._last) > 2 * MOST_BYTES:
            del self._last[:-MOST_BYTES]
        self._to.write(view)
        return len(view)

    def ends(self) -> tuple[FileEnd, ...]:
        """Return the first and the last bytes of the file that was written; () if they are long."""
        first, last = _first_bytes(self._first), _last_bytes(self._last)
        if max(first, last) > MOST_BYTES:
            return ()
        head, tail = bytes(self._first[:first]), bytes(self._last[-last:])
        return tuple(FileEnd(len(end), xxhash.xxh3_64_hexdigest(end)) for end in (head, tail))


def _first_bytes(first: bytearray) -> int:
    """Return how many bytes of a file lie before its columns."""
    at = _MAGIC_BYTES
    for _ in range(_MESSAGES):
        if at + 8 > len(first):
            return MOST_BYTES + 1
        mark, size = struct.unpack_from("<Ii", first, at)
        assert mark == _CONTINUED, "an Arrow message"
        at += 8 + size
    return at


def _last_bytes(last: bytearray) -> int:
    """Return how many bytes of a file lie behind its columns, or a few more."""
    (footer,) = struct.unpack_from("<i", last, len(last) - _LAST_BYTES)
    return int(footer) + _LAST_BYTES + _STOP_BYTES + _PADDING
