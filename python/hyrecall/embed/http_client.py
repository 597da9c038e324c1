"""Posts to one endpoint over connections that are kept, each call within its own deadline.

A socket's timeout bounds a single read or write: a server that sends a byte at a time would hold a
call for ever. So requests and replies go through a :class:`_TimedConnection`, which gives each read
and write what the call has left.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import random
import select
import socket
import ssl
import time
import weakref
from collections.abc import Sequence
from typing import Any

from hyrecall.base.forks import Birth
from hyrecall.embed.openai_wire import Endpoint, said
from hyrecall.embed.protocol import EmbedError, EmbedFault, embed_error, fault_of_status

_PAUSE = (0.05, 0.2)  # seconds before another try
_MOST_IDLE = 4
_MOST_OF_ERROR = 65_536  # bytes of a reply that is an error
_AT_ONCE = 65_536  # bytes of a reply
_FAULTS = (OSError, ValueError, http.client.HTTPException)  # of a connection, or of a reply


class HttpClient:
    """Posts to one endpoint; threads may share a client. The first request connects."""

    def __init__(
        self, endpoint: Endpoint, key: str | None, context: ssl.SSLContext | None, retries: int
    ) -> None:
        self._endpoint, self._key, self._retries = endpoint, key, retries
        self._context = (context or ssl.create_default_context()) if endpoint.is_tls else None
        lines = [
            f"POST {endpoint.target} HTTP/1.1",
            f"Host: {endpoint.name.partition('/')[0]}",
            "Accept: application/json",
            "Accept-Encoding: identity",
            "Content-Type: application/json",
            *([] if key is None else [f"Authorization: Bearer {key}"]),
        ]
        self._head = "".join(f"{one}\r\n" for one in lines)
        # Each use is one step of the interpreter, so it needs no lock.
        self._idle: list[_TimedConnection] = []
        weakref.finalize(self, _close, self._idle)
        self._birth = Birth()

    def post(self, body: bytes, most: int, until: float, texts: Sequence[str] = ()) -> bytes:
        """Post JSON and return the reply, of ``most`` bytes; no error repeats a text of it."""
        # All tries end by ``until``, in ``time.monotonic``; looking up the host's name is up to the
        # system and may take longer.
        for tries_left in range(self._retries, -1, -1):
            try:
                return self._try(body, most, until, texts)
            except _PassingError as fault:
                pause = random.uniform(*_PAUSE)
                if not tries_left or time.monotonic() + pause >= until:
                    raise fault.named from None
            time.sleep(pause)
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Close the connections that no call uses; a later call makes new ones."""
        _close(self._idle)

    def _try(self, body: bytes, most: int, until: float, texts: Sequence[str]) -> bytes:
        """Post once. A connection that the endpoint closed while it was idle does not count."""
        if not self._birth.is_here:  # replies on those connections are for the parent process
            _close(self._idle)
            self._birth = Birth()
        request = f"{self._head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        while True:
            connection = self._kept()
            is_reused = connection is not None
            try:
                connection = connection or _connect(self._endpoint, until)
            except OSError as fault:
                raise _named(fault, None) from None
            is_whole = False
            try:
                if not is_reused and self._context is not None:
                    connection.socket = self._context.wrap_socket(
                        connection.bound(), server_hostname=self._endpoint.host
                    )
                connection.begin(until)
                connection.write(request)
                status, reply, is_whole = _read(connection, most)
            except _FAULTS as fault:
                if is_reused and not connection.has_read and not isinstance(fault, TimeoutError):
                    continue
                raise _named(fault, connection) from None
            finally:
                if is_whole and len(self._idle) < _MOST_IDLE:
                    self._idle.append(connection)
                else:
                    connection.close()
            if status == 200:
                return reply
            secrets = texts if self._key is None else (*texts, self._key)
            raise _refusal(status, reply, secrets)

    def _kept(self) -> _TimedConnection | None:
        """Return a connection of an earlier call that is still open."""
        with contextlib.suppress(IndexError):  # no other is left
            while True:
                connection = self._idle.pop()
                if connection.is_open:
                    return connection
                connection.close()
        return None


def _close(idle: list[_TimedConnection]) -> None:
    with contextlib.suppress(IndexError):  # no other is left
        while True:
            idle.pop().close()


def _connect(endpoint: Endpoint, until: float) -> _TimedConnection:
    """Try the host's addresses one after the other, while there is time."""
    refusal = OSError("no address")
    for *kind, _name, address in socket.getaddrinfo(
        endpoint.host, endpoint.port, type=socket.SOCK_STREAM
    ):
        connection = _TimedConnection(socket.socket(*kind))
        connection.begin(until)
        try:
            connection.bound().connect(address)
            connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as fault:
            connection.close()
            refusal = fault
        else:
            return connection
    raise refusal


class _TimedConnection:
    """A connection on which no operation takes longer than its call has left."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection

    def begin(self, until: float) -> None:
        """Begin a call that ends at a time."""
        self._until = until
        self.has_read = False  # at least a byte of the reply
        self.has_head = False  # status and headers of the reply
        self.has_ended = False  # the endpoint sends no more

    def bound(self) -> socket.socket:
        """Let the next operation take as long as is left."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.socket.settimeout(left)
        return self.socket

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self.bound().send(rest) :]

    def makefile(self, mode: str) -> io.BufferedReader:
        """Give what ``http.client`` reads a reply from; to close it leaves the connection open."""
        assert mode == "rb"
        return io.BufferedReader(_TimedReader(self))

    @property
    def is_open(self) -> bool:
        """Whether the endpoint has neither closed an idle connection nor sent anything."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        self.socket.close()


class _TimedReader(io.RawIOBase):
    def __init__(self, connection: _TimedConnection) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n_bytes = self._connection.bound().recv_into(buffer)
        self._connection.has_read |= n_bytes > 0
        self._connection.has_ended |= n_bytes == 0
        return n_bytes


def _read(connection: _TimedConnection, most: int) -> tuple[int, bytes, bool]:
    """Return the status of a reply, its body, and whether the connection can be used again."""
    # Of a reply that is an error, the beginning is enough.
    given: Any = connection
    with http.client.HTTPResponse(given, method="POST") as reply:
        reply.begin()
        if connection.has_ended:
            raise http.client.IncompleteRead(b"")
        connection.has_head, is_right, body = True, reply.status == 200, bytearray()
        with contextlib.suppress(*() if is_right else _FAULTS):
            limit = most if is_right else _MOST_OF_ERROR
            while len(body) <= limit and (chunk := reply.read1(_AT_ONCE)):
                body += chunk
            if is_right and len(body) > most:
                raise embed_error(EmbedFault.MALFORMED, f"a reply of at most {most} bytes", "more")
            if is_right and reply.length:
                raise http.client.IncompleteRead(b"")
        is_whole = reply.length == 0 or reply.isclosed()
        return reply.status, bytes(body), is_whole and not reply.will_close


class _PassingError(Exception):
    """A failure that a retry may not have."""

    def __init__(self, named: EmbedError) -> None:
        super().__init__()
        self.named = named


def _refusal(status: int, reply: bytes, secrets: Sequence[str]) -> EmbedError | _PassingError:
    """Make the error for a status other than 200."""
    if 300 <= status < 400:
        return embed_error(EmbedFault.MALFORMED, "status 200, not a redirect", status)
    fault = fault_of_status(status)
    told = said(reply, secrets, plain=fault is not EmbedFault.UNREACHABLE)
    named = embed_error(fault, "status 200", f"status {status}", told)
    return _PassingError(named) if fault is EmbedFault.UNREACHABLE else named


def _named(fault: Exception, connection: _TimedConnection | None) -> EmbedError | _PassingError:
    """Name a fault of the connection; its own message is not shown, since it may hold anything."""
    if isinstance(fault, TimeoutError):
        return embed_error(EmbedFault.TIMEOUT, "a reply in time", "none")
    is_of_http = isinstance(fault, http.client.HTTPException) or not isinstance(fault, OSError)
    if is_of_http:
        is_cut = isinstance(fault, http.client.IncompleteRead)
        if (
            connection is not None
            and connection.has_read
            and not connection.has_head
            and not is_cut
        ):
            return embed_error(EmbedFault.MALFORMED, "an HTTP reply", "something else")
        got = "a connection closed before its end"
        return _PassingError(embed_error(EmbedFault.UNREACHABLE, "a whole reply", got))
    named = embed_error(EmbedFault.UNREACHABLE, "a connection", type(fault).__name__)
    is_refused = isinstance(fault, ConnectionRefusedError)
    return _PassingError(named) if isinstance(fault, ConnectionError) and not is_refused else named
