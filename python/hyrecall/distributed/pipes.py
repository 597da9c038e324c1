"""Encodes messages and errors for the pipes between a sharded index and its shard processes."""

from __future__ import annotations

import json
import struct
from itertools import accumulate, pairwise
from typing import IO, Any

from hyrecall import errors
from hyrecall.errors import HyrecallError, InternalError, error

__all__ = [
    "Messages",
    "PipeClosed",
    "message",
    "plain_error",
    "read_frames",
    "rebuild",
    "system_error",
    "write_frames",
]

_COUNT = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")
_MOST_FRAMES = 4
_JOINED_BYTES = 1 << 16
"""Messages up to this size are written at once, so the reader wakes once; others are not copied."""


class PipeClosed(Exception):  # noqa: N818
    """The other end is closed. Raised inside the package only."""


def _head(frames: tuple[bytes, ...]) -> bytes:
    return _COUNT.pack(len(frames)) + b"".join(_LENGTH.pack(len(one)) for one in frames)


def message(*frames: bytes) -> bytes:
    """Return the bytes of a message of frames."""
    return b"".join((_head(frames), *frames))


def write_frames(pipe: IO[bytes], *frames: bytes) -> None:
    """Send a message of frames."""
    is_small = sum(map(len, frames)) <= _JOINED_BYTES
    for piece in (message(*frames),) if is_small else (_head(frames), *frames):
        pipe.write(piece)
    pipe.flush()


def read_frames(pipe: IO[bytes]) -> list[bytes]:
    """Receive a message."""
    (count,) = _COUNT.unpack(_read(pipe, _COUNT.size))
    if count > _MOST_FRAMES:
        raise PipeClosed(f"a message of {count} frames")
    lengths = [_LENGTH.unpack(_read(pipe, _LENGTH.size))[0] for _ in range(count)]
    return [_read(pipe, length) for length in lengths]


def _read(pipe: IO[bytes], n_bytes: int) -> bytes:
    data = pipe.read(n_bytes)
    if len(data) < n_bytes:
        raise PipeClosed("in the middle of a message")
    return data


class Messages:
    """Reads messages from the bytes of a pipe, which arrive in pieces of any size."""

    def __init__(self) -> None:
        """Start without any bytes."""
        self._pieces: list[bytes] = []
        self._n_bytes = 0
        self._wanted = _COUNT.size  # bytes needed before the next message can be read further

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self._pieces.append(data)
        self._n_bytes += len(data)

    def take(self) -> list[bytes] | None:
        """Return the frames of the next message; None: it is not complete."""
        while self._n_bytes >= self._wanted:
            data = b"".join(self._pieces)
            self._pieces = [data]
            (count,) = _COUNT.unpack_from(data)
            if count > _MOST_FRAMES:
                raise PipeClosed(f"a message of {count} frames")
            head = _COUNT.size + count * _LENGTH.size
            if len(data) < head:
                self._wanted = head
                continue
            lengths = (one for (one,) in _LENGTH.iter_unpack(data[_COUNT.size : head]))
            ends = list(accumulate(lengths, initial=head))
            if len(data) < ends[-1]:
                self._wanted = ends[-1]
                continue
            self._pieces, self._n_bytes, self._wanted = [], 0, _COUNT.size
            if len(data) > ends[-1]:
                self.add(data[ends[-1] :])
            return [data[begin:end] for begin, end in pairwise(ends)]
        return None


def plain_error(fault: Exception) -> bytes:
    """Return an error as JSON: class, message, argument, remedy, and the code of a system error."""
    told: dict[str, Any] = {
        "kind": type(fault).__name__,
        "message": str(fault),
        "argument": getattr(fault, "argument", None),
        "remedy": getattr(fault, "remedy", ""),
    }
    if isinstance(fault, OSError) and fault.errno is not None:
        name = None if fault.filename is None else str(fault.filename)
        told["system"] = fault.errno, fault.strerror, name
    return json.dumps(told).encode()


def system_error(data: bytes) -> OSError | None:
    """Return the system error that :func:`plain_error` encoded, such as a full disk, or None."""
    told = json.loads(data)
    ours = hasattr(errors, str(told["kind"]))
    return OSError(*told["system"]) if "system" in told and not ours else None


def rebuild(data: bytes) -> HyrecallError:
    """Return the error that :func:`plain_error` encoded; InternalError for a class not ours."""
    told = json.loads(data)
    kind = getattr(errors, str(told["kind"]), None)
    if not (isinstance(kind, type) and issubclass(kind, HyrecallError)):
        got = f"{told['kind']}: {told['message']}"
        return error(InternalError, "shard", "no fault of its own", got)
    made: HyrecallError = kind(told["message"])
    made.argument = told["argument"]
    vars(made)["remedy"] = told["remedy"]
    return made
