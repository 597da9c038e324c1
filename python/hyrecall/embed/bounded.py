"""A connection on which nothing takes longer than until a set time.

The timeout of a socket bounds one read; a server that drips a byte at a time would hold a call for
ever. Here each operation waits for what is left of the whole.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from typing import Any

__all__ = ["BoundedConnection"]


class _Bounded:
    """Mixed into a socket: waits no longer than ``until``, in ``time.monotonic``, if it is set."""

    until: float | None = None

    def _set_left(self) -> None:
        if self.until is None:
            return
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.settimeout(left)  # type: ignore[attr-defined]

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self._set_left()
        return super().recv_into(*args, **kwargs)  # type: ignore[misc, no-any-return]

    def send(self, *args: Any, **kwargs: Any) -> int:
        self._set_left()
        return super().send(*args, **kwargs)  # type: ignore[misc, no-any-return]

    def sendall(self, *args: Any, **kwargs: Any) -> None:
        self._set_left()
        super().sendall(*args, **kwargs)  # type: ignore[misc]


class _PlainSocket(_Bounded, socket.socket):
    pass


class _TlsSocket(_Bounded, ssl.SSLSocket):
    pass


class BoundedConnection(http.client.HTTPConnection):
    """An HTTP connection, with TLS or without, that keeps to :attr:`until`.

    Looking up a host's name is the system's own affair and is not bounded.

    Parameters
    ----------
    host : str
    port : int
    context : ssl.SSLContext or None
        None: no TLS.

    Attributes
    ----------
    until : float
        In ``time.monotonic``; to be set before each request.
    """

    sock: Any

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        """Connect with the first request."""
        super().__init__(host, port)
        self._tls = context
        if context is not None:
            self.default_port = 443  # what the Host header leaves out
            context.sslsocket_class = _TlsSocket
        self.until = 0.0

    def set_until(self, until: float) -> None:
        """Bound what follows."""
        self.until = until
        if self.sock is not None:
            self.sock.until = until

    def connect(self) -> None:
        """Try the host's addresses one after the other, as long as there is time."""
        refusal: OSError = OSError("no address")
        for family, kind, protocol, _, address in socket.getaddrinfo(
            self.host, self.port, type=socket.SOCK_STREAM
        ):
            plain = _PlainSocket(family, kind, protocol)
            try:
                plain.until = self.until
                plain._set_left()
                plain.connect(address)
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.sock = plain if self._tls is None else self._in_tls(plain)
            except OSError as fault:
                plain.close()
                if isinstance(fault, TimeoutError | ssl.SSLError):
                    raise
                refusal = fault
                continue
            return
        raise refusal

    def _in_tls(self, plain: _PlainSocket) -> _TlsSocket:
        assert self._tls is not None
        made = self._tls.wrap_socket(
            plain, server_hostname=self.host, do_handshake_on_connect=False
        )
        assert isinstance(made, _TlsSocket)
        try:
            made.until = self.until
            made._set_left()
            made.do_handshake()
        except BaseException:
            made.close()
            raise
        return made
