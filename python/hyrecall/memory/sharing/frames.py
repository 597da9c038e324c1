"""Sends and receives whole frames over a connection: four bytes of length, then as many bytes."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
import time

from hyrecall.base.forks import renew_in_children
from hyrecall.errors import error
from hyrecall.memory.sharing.wire import WireError

__all__ = ["MOST_BYTES", "MOST_BYTES_OF_HELLO", "ConnectionLost", "Frames"]

MOST_BYTES = 2**30
"""Bytes of a frame at most: a batch of some 250,000 memories with vectors of 768 numbers."""

MOST_BYTES_OF_HELLO = 2**16
"""Bytes of the first frame, before it is known who speaks."""

_LENGTH = struct.Struct("<I")
_PIECE = 2**18  # bytes received at a time: memory grows with what has come, not with a claim


class ConnectionLost(Exception):  # noqa: N818
    """The other side is gone. Raised inside the package only."""


class Frames:
    """A connection that carries frames. One thread receives at a time; any thread may send."""

    def __init__(self, connection: socket.socket) -> None:
        """Take over the connection."""
        connection.setblocking(False)
        self._connection = connection
        self._sending = threading.Lock()
        self._received = bytearray()
        renew_in_children(self)

    def send(self, payload: bytes, *, patience: float | None = None) -> None:
        """Send a frame. After any error the connection is of no use: half a frame may be sent."""
        if len(payload) > MOST_BYTES:
            raise error(WireError, "message", f"at most {MOST_BYTES} bytes", len(payload))
        head = _LENGTH.pack(len(payload))
        with self._sending:
            try:
                if len(payload) < _PIECE:
                    self._send(head + payload, patience)
                else:
                    self._send(head, patience)
                    self._send(payload, patience)
            except BaseException as fault:
                self.end()
                if isinstance(fault, OSError) and not isinstance(fault, TimeoutError):
                    raise ConnectionLost(str(fault)) from None
                raise

    def _send(self, data: bytes, patience: float | None) -> None:
        left = memoryview(data)
        while left:
            try:
                left = left[self._connection.send(left, socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                self._wait(select.POLLOUT, patience)

    def receive(self, *, most: int = MOST_BYTES, timeout: float | None = None) -> bytes:
        """Return the next frame."""
        until = None if timeout is None else time.monotonic() + timeout
        try:
            self._fill(_LENGTH.size, until)
            (length,) = _LENGTH.unpack_from(self._received)
            if length > most:
                raise error(WireError, "message", f"at most {most} bytes", length)
            self._fill(_LENGTH.size + length, until)
        except TimeoutError:
            raise
        except OSError as fault:
            raise ConnectionLost(str(fault)) from None
        payload = bytes(memoryview(self._received)[_LENGTH.size : _LENGTH.size + length])
        del self._received[: _LENGTH.size + length]
        return payload

    def _fill(self, n_bytes: int, until: float | None) -> None:
        while (missing := n_bytes - len(self._received)) > 0:
            try:
                piece = self._connection.recv(min(missing, _PIECE))
            except BlockingIOError:
                left = None if until is None else max(until - time.monotonic(), 0.0)
                self._wait(select.POLLIN, left)
                continue
            if not piece:
                raise ConnectionLost("closed")
            self._received += piece

    def _wait(self, event: int, seconds: float | None) -> None:
        poll = select.poll()
        try:
            poll.register(self._connection, event)
        except ValueError:
            raise ConnectionLost("closed") from None
        if not poll.poll(None if seconds is None else seconds * 1000):
            raise TimeoutError

    def has_ended(self) -> bool:
        """Return whether the other side has closed the connection; does not wait."""
        try:
            return not self._connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def end(self) -> None:
        """Let every thread that receives or sends find the connection lost; for another thread."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection. Closing twice is fine."""
        self.end()
        self._connection.close()

    def renew(self) -> None:
        """Close the connection in a forked child; left open, it would not end with the parent."""
        self._connection.close()  # not shut down: the parent goes on
