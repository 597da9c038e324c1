"""Serves from several processes: starts them, looks after them, and ends when none can serve.

A worker that ends is known at once, by its sentinel. One that lives answers a question a second,
and is killed and replaced if it does not.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing import connection, get_context
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.config import STARTUP_FAILURE
from uvicorn.importer import import_from_string
from uvicorn.lifespan.on import LifespanOn
from uvicorn.protocols.http.h11_impl import H11Protocol

from hyrecall.base import threads
from hyrecall.errors import OptionError, StoreError, error
from hyrecall.serve.options import ServiceOptions

# ---- Runs an app under uvicorn, with deadlines for connections that uvicorn itself does not have
# uvicorn waits for ever for the headers of a request, and for a client that takes no more of a
# reply. :class:`Protocol` ends such connections.

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
    """Prints no traceback if the app fails to start: :func:`run` raises the error."""

    async def send(self, message: Any) -> None:
        """Take what the app says about its start and its end."""
        if message["type"] == "lifespan.startup.failed":
            message = {**message, "message": ""}
        await super().send(message)


class _Server(uvicorn.Server):
    """A uvicorn server that reports when it is ready."""

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


# ---- Serves from several processes: starts them, looks after them, and ends when none can serve

STARTUP = 60.0
"""Seconds that a worker may be silent before it serves: it imports packages, beside many others."""

HEALTH = 10.0
"""Seconds that a worker that serves may be silent: no call holds the interpreter so long."""

ASK_AGAIN = 1.0
MOST_WAVES = 2
"""Failed starts of all workers after which none is started again, if none serves."""

_spawn = get_context("spawn")


def run_workers(
    factory: str,
    options: ServiceOptions,
    workers: int,
    *,
    started: Callable[[str], None] | None = None,
) -> None:
    """Serve from several processes, each of which makes its app; one that ends is started again."""
    # This process first makes the app once, opens the store and closes it: a store that no worker
    # can open is an error here, and nothing is started. It ends too if later no worker can start.
    with listen(options) as sock:
        asyncio.run(_try_out(import_from_string(factory)()))
        if started is not None:
            started(url_of(sock))
        supervisor = Supervisor(_work, (factory, options, sock), workers, options.drain)
        if supervisor.run():
            return
        asyncio.run(_try_out(import_from_string(factory)()))  # which says why
        wish = "workers that start"
        raise error(StoreError, "workers", wish, "none; the log of the service says more")


async def _try_out(app: FastAPI) -> None:
    """Start an app and end it."""
    async with app.router.lifespan_context(app):
        pass


# ---- a worker ----


def _work(link: Any, factory: str, options: ServiceOptions, sock: socket.socket) -> None:
    """Serve in a process of its own."""
    config = uvicorn.Config(factory, factory=True, **settings_of(options))
    server = uvicorn.Server(config)
    over = threading.Event()
    threads.start(lambda: _answer(link, server, over), name="hyrecall-worker", stop=over.set)
    try:
        config.load()
        config.lifespan_class = QuietLifespan
        server.run(sockets=[sock])
    except KeyboardInterrupt:
        pass
    except (Exception, SystemExit) as end:
        state = getattr(getattr(config, "loaded_app", None), "state", None)
        fault = getattr(state, "fault", None) or end
        _log.error("a worker did not start: %s", type(fault).__name__)
        raise SystemExit(STARTUP_FAILURE) from None


def _answer(link: Any, server: uvicorn.Server, over: threading.Event) -> None:
    """Say whether the server has started whenever it is asked; end it if nobody can ask again."""
    try:
        while not over.is_set():
            if link.poll(0.5):
                link.recv()
                link.send(server.started)
    except (EOFError, OSError):
        os.kill(os.getpid(), signal.SIGTERM)


class _Worker:
    """A serving process and its state."""

    def __init__(self, work: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.link, theirs = _spawn.Pipe()
        self.process = _spawn.Process(target=work, args=(theirs, *args))
        self.process.start()
        theirs.close()
        self.is_ready = self._is_asked = False
        self._heard = time.monotonic()

    def is_well(self) -> bool:
        """Ask how it is, take its answers, and say whether it is to be left alone."""
        if not self.process.is_alive():
            return False
        now = time.monotonic()
        try:
            while self.link.poll():
                self.is_ready |= self.link.recv()
                self._heard, self._is_asked = now, False
            if not self._is_asked and (not self.is_ready or now >= self._heard + ASK_AGAIN):
                self.link.send(None)
                self._is_asked = True
        except (EOFError, OSError):
            return False
        return not self.is_silent()

    def is_silent(self) -> bool:
        """Whether it has not answered for too long."""
        return time.monotonic() > self._heard + (HEALTH if self.is_ready else STARTUP)

    def end(self, kind: int) -> None:
        """Send a signal, also to a process that is stopped."""
        if self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, kind)
            os.kill(self.process.pid, signal.SIGCONT)


# ---- the supervisor ----


class Supervisor:
    """Keeps a fixed number of serving processes running."""

    def __init__(
        self, work: Callable[..., None], args: tuple[Any, ...], n_workers: int, drain: float
    ) -> None:
        self._work, self._args = work, args
        self._n_workers, self._drain = n_workers, drain
        self._workers: list[_Worker] = []
        self._n_failed = 0
        self._not_before = 0.0
        self._is_stopped = False

    def run(self) -> bool:
        """Start the workers and replace those that end, until a signal comes."""
        kinds = (signal.SIGINT, signal.SIGTERM)
        before = [signal.signal(kind, self._stop) for kind in kinds]
        try:
            while not self._is_stopped:
                self._replace()
                if self._n_failed >= MOST_WAVES * self._n_workers and not self._workers:
                    return False
                sentinels = [one.process.sentinel for one in self._workers]
                connection.wait([*sentinels, *(one.link for one in self._workers)], 0.2)
            return True
        finally:
            self._end()
            for kind, handler in zip(kinds, before, strict=True):
                signal.signal(kind, handler)

    def _stop(self, *_: object) -> None:
        self._is_stopped = True

    def _replace(self) -> None:
        """Drop the workers that are not well, and start others in their place."""
        for one in list(self._workers):
            was_ready = one.is_ready
            if one.is_well():
                if one.is_ready and not was_ready:
                    self._n_failed = 0
                continue
            one.process.join(0 if one.is_silent() else 5)  # it may be ending by itself
            one.end(signal.SIGKILL)
            one.process.join()
            one.link.close()
            self._workers.remove(one)
            _log.error("worker %s ended (%s)", one.process.pid, one.process.exitcode)
            if not one.is_ready:
                self._n_failed += 1
                self._not_before = time.monotonic() + min(0.1 * 2**self._n_failed, 10.0)
        is_over = self._n_failed >= MOST_WAVES * self._n_workers
        if is_over and not any(one.is_ready for one in self._workers):
            for one in self._workers:
                one.end(signal.SIGKILL)
            self._workers = []
        elif time.monotonic() >= self._not_before:
            while len(self._workers) < self._n_workers and not self._is_stopped:
                self._workers.append(_Worker(self._work, self._args))

    def _end(self) -> None:
        """Ask the workers to end, and kill those that do not in time."""
        for one in self._workers:
            one.end(signal.SIGTERM)
        until = time.monotonic() + self._drain + 3
        for one in self._workers:
            one.process.join(max(until - time.monotonic(), 0))
            one.end(signal.SIGKILL)
            one.process.join()
