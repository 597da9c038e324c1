"""An embedding endpoint on the loopback that behaves well or badly, as the first path part says.

``/ok/v1/embeddings`` replies as it should with vectors of 4 numbers; the other modes are the
methods of :class:`StubServer` whose names begin with ``do_``.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

DRIP_SECONDS = 0.02


@dataclass(frozen=True)
class Request:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def texts(self) -> list[str]:
        given = self.json["input"]
        return [given] if isinstance(given, str) else given


def vector_of(text: str) -> list[float]:
    return [float(len(text)), float(text.count("a")), 1.0, 0.5]


def reply_of(rows: list[list[float]]) -> bytes:
    return json.dumps({"data": [{"embedding": row} for row in rows]}).encode()


class StubServer:
    """Serves until it is closed; ``requests`` holds what came."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.requests: list[Request] = []
        self.n_connections = 0
        self.failures_left = 0  # of mode "flaky"
        self.seconds = 0.2  # of mode "slow"
        self.custom = b""  # of modes "custom" and "status"
        self.status = 400  # of mode "status"
        self.longest = 100  # characters of a text that mode "picky" takes
        self._met: set[socket.socket] = set()  # by mode "once"
        self._closing = threading.Event()
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._start(self._accept)

    def url(self, mode: str) -> str:
        scheme, host = ("http", "127.0.0.1") if self._tls is None else ("https", "localhost")
        return f"{scheme}://{host}:{self.port}/{mode}/v1"

    def close(self) -> None:
        self._closing.set()
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(10)

    def _start(self, target: Any, *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.n_connections += 1
            self._open.append(connection)
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        if self._tls is not None:
            try:
                connection = self._tls.wrap_socket(connection, server_side=True)
            except OSError:  # it does not trust us
                return
            self._open.append(connection)
        no_http = (ValueError, IndexError)  # somebody speaks TLS
        with contextlib.suppress(OSError, *no_http), connection, connection.makefile("rb") as file:
            while (request := _read(file)) is not None:
                self.requests.append(request)
                mode = request.path.split("/")[1]
                if not getattr(self, f"do_{mode}")(connection, request):
                    return

    # ---- the modes: each says whether the connection is kept ----

    def do_ok(self, connection: socket.socket, request: Request) -> bool:
        return _send(connection, reply_of([vector_of(text) for text in request.texts]))

    def do_custom(self, connection: socket.socket, request: Request) -> bool:
        return _send(connection, self.custom)

    def do_status(self, connection: socket.socket, request: Request) -> bool:
        return _send(connection, self.custom, status=self.status)

    def do_picky(self, connection: socket.socket, request: Request) -> bool:
        """Refuse every text of a request in which one is too long, and quote that one."""
        for text in request.texts:
            if len(text) > self.longest:
                told = f"no more than {self.longest} characters, got: {text[:60]}"
                return _send(
                    connection, json.dumps({"error": {"message": told}}).encode(), status=400
                )
        return self.do_ok(connection, request)

    def do_shuffled(self, connection: socket.socket, request: Request) -> bool:
        data = [{"index": at, "embedding": vector_of(t)} for at, t in enumerate(request.texts)]
        return _send(connection, json.dumps({"data": data[::-1]}).encode())

    def do_flaky(self, connection: socket.socket, request: Request) -> bool:
        if self.failures_left > 0:
            self.failures_left -= 1
            return _send(connection, b"", status=503)
        return self.do_ok(connection, request)

    def do_busy(self, connection: socket.socket, request: Request) -> bool:
        return _send(connection, b"", status=429)

    def do_status500(self, connection: socket.socket, request: Request) -> bool:
        return _send(connection, b"SECRET of the server", status=500)

    def do_unauthorized(self, connection: socket.socket, request: Request) -> bool:
        return _send(connection, request.headers.get("authorization", "").encode(), status=401)

    def do_redirect(self, connection: socket.socket, request: Request) -> bool:
        return _send(connection, b"", status=302, extra=f"Location: {self.url('ok')}\r\n")

    def do_junk(self, connection: socket.socket, request: Request) -> bool:
        return _send(connection, b"{junk")

    def do_nothttp(self, connection: socket.socket, request: Request) -> bool:
        connection.sendall(b"SSH-2.0-something\r\n")
        return False

    def do_wrongsize(self, connection: socket.socket, request: Request) -> bool:
        return _send(connection, reply_of([[1.0] * 3 for _ in request.texts]))

    def do_nan(self, connection: socket.socket, request: Request) -> bool:
        return _send(connection, reply_of([[float("nan")] * 4 for _ in request.texts]))

    def do_hang(self, connection: socket.socket, request: Request) -> bool:
        self._closing.wait(30)
        return False

    def do_slow(self, connection: socket.socket, request: Request) -> bool:
        self._closing.wait(self.seconds)
        return self.do_ok(connection, request)

    def do_huge(self, connection: socket.socket, request: Request) -> bool:
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        while not self._closing.is_set():
            connection.sendall(b" " * 65_536)
        return False

    def do_dripbody(self, connection: socket.socket, request: Request) -> bool:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n")
        return self._drip(connection)

    def do_driphead(self, connection: socket.socket, request: Request) -> bool:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
        return self._drip(connection)

    def do_cut(self, connection: socket.socket, request: Request) -> bool:
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n{"data": [')
        return False

    def do_cutchunk(self, connection: socket.socket, request: Request) -> bool:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head + b'40\r\n{"data": [')
        return False

    def do_badchunk(self, connection: socket.socket, request: Request) -> bool:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head + b"no number\r\n")
        return False

    def do_cuthead(self, connection: socket.socket, request: Request) -> bool:
        connection.sendall(b"HTTP/1.1 20")
        return False

    def do_reset(self, connection: socket.socket, request: Request) -> bool:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return False

    def do_leave(self, connection: socket.socket, request: Request) -> bool:
        """Reply well and close the connection without having said so."""
        self.do_ok(connection, request)
        return False

    def do_once(self, connection: socket.socket, request: Request) -> bool:
        """Reply to the first request of a connection, and close it at the second."""
        if connection in self._met:
            return False
        self._met.add(connection)
        return self.do_ok(connection, request)

    def _drip(self, connection: socket.socket) -> bool:
        while not self._closing.is_set():
            connection.sendall(b"x")
            time.sleep(DRIP_SECONDS)
        return False


def _read(file: Any) -> Request | None:
    first = file.readline()
    if not first:
        return None
    headers = {}
    while line := file.readline().strip():
        name, _, value = line.decode().partition(":")
        headers[name.lower()] = value.strip()
    body = file.read(int(headers.get("content-length", 0)))
    return Request(first.split()[1].decode(), headers, body)


def _send(connection: socket.socket, body: bytes, *, status: int = 200, extra: str = "") -> bool:
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
    connection.sendall(head.encode() + body)
    return True


@contextlib.contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[StubServer]:
    server = StubServer(tls)
    try:
        yield server
    finally:
        server.close()
