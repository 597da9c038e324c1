"""Runs an app under uvicorn, with deadlines for connections that uvicorn itself does not have.

uvicorn waits for ever for the headers of a request, and for a client that takes no more of a reply.
:class:`Protocol` ends such connections.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.lifespan.on import LifespanOn
from uvicorn.protocols.http.h11_impl import H11Protocol

from hyrecall.errors import OptionError, error
from hyrecall.serve.options import ServiceOptions

__all__ = ["Protocol", "QuietLifespan", "listen", "run", "settings_of", "url_of"]

_log = logging.getLogger("hyrecall.serve")

MAX_HEADERS = 64 << 10
"""Bytes of a request's headers, its path and query string among them."""


class Protocol(H11Protocol):
    """A connection that is closed when a request's headers, or a client's reading, take too
    long.
    """

    # The seconds are those of the app's options.

    _for_headers: asyncio.TimerHandle | None = None
    _for_room: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request's headers."""
        super().connection_made(transport)
        self._watch_headers()

    def data_received(self, data: bytes) -> None:
        """Read more of a request."""
        super().data_received(data)
        self._watch_headers()

    def pause_writing(self) -> None:
        """Wait for the client to take what was sent."""
        super().pause_writing()
        if self._for_room is None:
            self._for_room = self.loop.call_later(self._slow(), self._give_up)

    def resume_writing(self) -> None:
        """Go on sending."""
        super().resume_writing()
        _stop(self._for_room)
        self._for_room = None

    def connection_lost(self, exc: Exception | None) -> None:
        """End the watches."""
        _stop(self._for_headers)
        self._for_headers = None
        super().connection_lost(exc)
        _stop(self._for_room)
        self._for_room = None

    def _slow(self) -> float:
        state = getattr(self.config.loaded_app, "state", None)
        seconds: float = getattr(state, "options", ServiceOptions()).slow
        return seconds

    def _watch_headers(self) -> None:
        """Run the watch from the first byte of a request, or the connection, to its last header."""
        is_at_work = self.cycle is not None and not self.cycle.response_complete
        is_idle = self.timeout_keep_alive_task is not None
        if is_at_work or is_idle:
            _stop(self._for_headers)
            self._for_headers = None
        elif self._for_headers is None:
            self._for_headers = self.loop.call_later(self._slow(), self._give_up)

    def _give_up(self) -> None:
        _log.info("closed a connection that was slower than %g seconds", self._slow())
        self.transport.abort()


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def settings_of(options: ServiceOptions) -> dict[str, Any]:
    """Return uvicorn's settings: no log of paths, and no header that tells versions."""
    return {
        "http": Protocol,
        "ws": "none",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "proxy_headers": False,
        "server_header": False,
        "timeout_keep_alive": options.keep_alive,
        "timeout_graceful_shutdown": max(1, round(options.drain)),
        "h11_max_incomplete_event_size": MAX_HEADERS,
    }


def listen(options: ServiceOptions) -> socket.socket:
    """Return a socket that listens at the options' address."""
    address, family = (options.host, options.port), _family(options)
    try:
        return socket.create_server(address, family=family, backlog=1024)
    except OSError as fault:
        wish = "an address that is free on this machine"
        raise error(OptionError, "host, port", wish, fault.strerror or "none") from None


def _family(options: ServiceOptions) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in options.host else socket.AF_INET


def url_of(sock: socket.socket) -> str:
    """Return the URL of a service that listens on a socket."""
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class QuietLifespan(LifespanOn):
    """Prints no traceback of an app that does not start: :func:`run` raises its fault."""

    async def send(self, message: Any) -> None:
        """Take what the app says about its start and its end."""
        if message["type"] == "lifespan.startup.failed":
            message = {**message, "message": ""}
        await super().send(message)


class _Server(uvicorn.Server):
    """Says when it answers."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Open the store, then answer."""
        await super().startup(sockets)
        if self.started:
            self._tell()


def run(app: FastAPI, *, started: Callable[[str], None] | None = None) -> None:
    """Serve an app until SIGTERM or SIGINT, then let requests under way end.

    Parameters
    ----------
    app : FastAPI
        Of :func:`hyrecall.serve.create_app`, whose options say where it listens.
    started : callable, optional
        Called with the URL once the service answers.

    Raises
    ------
    OptionError
        Nothing can listen at the address.
    HyrecallError
        The store cannot be opened.

    Notes
    -----
    Blocks. After the signal nothing more is accepted; requests under way have ``drain`` seconds.
    What was acknowledged is on the disk whatever happens.

    Examples
    --------
    >>> from hyrecall.memory import Memory
    >>> from hyrecall.serve import ServiceOptions, create_app, run
    >>> from hyrecall.recipes import loom
    >>> memory = Memory.open("agent.mem", recipe=loom)
    >>> app = create_app(memory, ServiceOptions(port=8765))  # doctest: +SKIP
    >>> run(app, started=print)  # doctest: +SKIP
    http://127.0.0.1:8765
    """
    options: ServiceOptions = app.state.options
    sock = listen(options)
    url = url_of(sock)
    config = uvicorn.Config(app, **settings_of(options))
    config.load()
    config.lifespan_class = QuietLifespan
    server = _Server(config, lambda: started(url) if started else None)
    try:
        server.run(sockets=[sock])
    except SystemExit:  # uvicorn ends so if the app does not start
        fault: Exception | None = getattr(app.state, "fault", None)
        if fault is None:
            raise
        raise fault from None
    finally:
        sock.close()
