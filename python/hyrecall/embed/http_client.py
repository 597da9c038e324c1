"""Posts to one endpoint over connections that are kept, each call within its own deadline.

The only module that imports httpcore2, the layer of httpx2 that sends requests and keeps
connections. Its timeouts bound a single read or write: a server that sends a byte at a time would
hold a call for ever. So a :class:`_TimedRequest` is passed in place of each timeout. httpcore2
hands it on to the network backend below, which waits no longer than the call has left.
"""

from __future__ import annotations

import contextlib
import random
import select
import socket
import ssl
import time
import weakref
from collections.abc import Sequence
from typing import Any

import httpcore2

from hyrecall.base.forks import Birth
from hyrecall.embed.openai_wire import Endpoint, said
from hyrecall.embed.protocol import EmbedError, EmbedFault, embed_error, fault_of_status

_PAUSE = (0.05, 0.2)  # seconds before another try
_MOST_IDLE = 4
_MOST_OF_ERROR = 65_536  # bytes of a reply that is an error


class HttpClient:
    """Posts to one endpoint; threads may share a client. The first request connects."""

    def __init__(
        self, endpoint: Endpoint, key: str | None, context: ssl.SSLContext | None, retries: int
    ) -> None:
        scheme = "https" if endpoint.is_tls else "http"
        self._url = httpcore2.URL(
            scheme=scheme, host=endpoint.host, port=endpoint.port, target=endpoint.target
        )
        self._headers: dict[bytes | str, bytes | str] = {
            "Host": endpoint.name.partition("/")[0],  # httpcore2's has no brackets around IPv6
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
        }
        if key is not None:
            self._headers["Authorization"] = f"Bearer {key}"
        is_default = endpoint.is_tls and context is None
        self._context = ssl.create_default_context() if is_default else context
        self._retries = retries
        self._key = key
        self._pool = self._make_pool()
        self._birth = Birth()

    def post(self, body: bytes, most: int, until: float, texts: Sequence[str] = ()) -> bytes:
        """Post JSON and return the reply, of ``most`` bytes at most; no error repeats a text of
        it.
        """
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
        _close_idle(self._pool)

    def _try(self, body: bytes, most: int, until: float, texts: Sequence[str]) -> bytes:
        """Post once. A connection that the endpoint closed while it was idle does not count."""
        if not self._birth.is_here:  # replies on those connections are for the parent process
            _close_idle(self._pool)
            self._pool = self._make_pool()
            self._birth = Birth()
        while True:
            call = _TimedRequest(until)
            timeouts = dict.fromkeys(("connect", "read", "write"), call)
            try:
                with self._pool.stream(
                    "POST",
                    self._url,
                    headers=self._headers,
                    content=body,
                    extensions={"timeout": timeouts},
                ) as response:
                    call.has_head = True
                    secrets = texts if self._key is None else (*texts, self._key)
                    return _read(response, most, secrets)
            except (OSError, httpcore2.ProtocolError) as fault:
                if not call.is_stale or isinstance(fault, TimeoutError):
                    raise _named(fault, call) from None

    def _make_pool(self) -> httpcore2.ConnectionPool:
        pool = httpcore2.ConnectionPool(
            ssl_context=self._context,
            max_connections=None,
            max_keepalive_connections=_MOST_IDLE,
            network_backend=_Backend(),
        )
        weakref.finalize(self, _close_idle, pool)
        return pool


def _close_idle(pool: httpcore2.ConnectionPool) -> None:
    """Close connections that no call uses, without the pool's lock: a child process may find it
    held by a thread of its parent.
    """
    for connection in pool.connections:
        if connection.is_idle():
            connection.close()


class _TimedRequest:
    """One request on one connection, with its deadline and its progress."""

    def __init__(self, until: float) -> None:
        self._until = until
        self.is_reused = True  # a new connection says otherwise
        self.has_read = False  # at least a byte of the reply
        self.has_head = False  # status and headers of the reply

    @property
    def is_stale(self) -> bool:
        return self.is_reused and not self.has_read

    def bound(self, connection: socket.socket) -> socket.socket:
        """Let the next operation take as long as is left."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        return connection


class _Backend(httpcore2.NetworkBackend):
    """Opens connections; each ``timeout`` is a _TimedRequest. System errors pass through."""

    def connect_tcp(
        self, host: str, port: int, timeout: Any = None, *_: object, **__: object
    ) -> httpcore2.NetworkStream:
        """Try the host's addresses one after the other, while there is time."""
        timeout.is_reused = False
        refusal = OSError("no address")
        for *kind, _name, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            connection = socket.socket(*kind)
            try:
                timeout.bound(connection).connect(address)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError as fault:
                connection.close()
                refusal = fault
            else:
                return _Stream(connection)
        raise refusal


class _Stream(httpcore2.NetworkStream):
    """A connection on which no operation takes longer than its call has left."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def read(self, max_bytes: int, timeout: Any = None) -> bytes:
        data: bytes = timeout.bound(self._socket).recv(max_bytes)
        timeout.has_read |= bool(data)
        return data

    def write(self, buffer: bytes, timeout: Any = None) -> None:
        rest = memoryview(buffer)
        while rest:
            rest = rest[timeout.bound(self._socket).send(rest) :]

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: Any = None
    ) -> httpcore2.NetworkStream:
        try:
            plain = timeout.bound(self._socket)
            return _Stream(ssl_context.wrap_socket(plain, server_hostname=server_hostname))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def get_extra_info(self, info: str) -> Any:
        """Answer ``is_readable``, which of an idle connection means that it was closed."""
        if info != "is_readable":
            return None
        poll = select.poll()
        try:
            poll.register(self._socket, select.POLLIN)
        except ValueError:  # another thread has closed it
            return True
        return bool(poll.poll(0))


class _PassingError(Exception):
    """A failure that a retry may not have."""

    def __init__(self, named: EmbedError) -> None:
        super().__init__()
        self.named = named


def _read(response: httpcore2.Response, most: int, secrets: Sequence[str]) -> bytes:
    """Read a reply to its end."""
    status = response.status
    if status != 200:
        if 300 <= status < 400:
            raise embed_error(EmbedFault.MALFORMED, "status 200, not a redirect", status)
        fault = fault_of_status(status)
        told = said(_beginning(response), secrets, plain=fault is not EmbedFault.UNREACHABLE)
        named = embed_error(fault, "status 200", f"status {status}", told)
        raise _PassingError(named) if fault is EmbedFault.UNREACHABLE else named
    body = bytearray()
    for chunk in response.iter_stream():
        body += chunk
        if len(body) > most:
            raise embed_error(EmbedFault.MALFORMED, f"a reply of at most {most} bytes", "more")
    return bytes(body)


def _beginning(response: httpcore2.Response) -> bytes:
    """Return the beginning of a reply that is an error; nothing more if it breaks off."""
    body = bytearray()
    with contextlib.suppress(OSError, httpcore2.ProtocolError):
        for chunk in response.iter_stream():
            body += chunk
            if len(body) >= _MOST_OF_ERROR:
                break
    return bytes(body)


def _named(fault: Exception, call: _TimedRequest) -> EmbedError | _PassingError:
    """Name a fault of the connection; its own message is not shown, since it may hold anything."""
    if isinstance(fault, TimeoutError):
        return embed_error(EmbedFault.TIMEOUT, "a reply in time", "none")
    if isinstance(fault, httpcore2.ProtocolError):
        if call.has_read and not call.has_head:
            return embed_error(EmbedFault.MALFORMED, "an HTTP reply", "something else")
        got = "a connection closed before its end"
        return _PassingError(embed_error(EmbedFault.UNREACHABLE, "a whole reply", got))
    named = embed_error(EmbedFault.UNREACHABLE, "a connection", type(fault).__name__)
    is_refused = isinstance(fault, ConnectionRefusedError)
    return _PassingError(named) if isinstance(fault, ConnectionError) and not is_refused else named
