"""Answers the clients of a store: a thread for each connection, a bounded number at work."""

from __future__ import annotations

import contextlib
import logging
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from hyrecall.base import threads
from hyrecall.base.asking import MOST_BYTES_OF_HELLO, answer_bytes, peer_of, read_question
from hyrecall.base.forks import Birth, renew_in_children
from hyrecall.base.threads import serving
from hyrecall.errors import HyrecallError, StoreBusyError, StoreMismatchError, error
from hyrecall.memory.sharing.wire import (
    FAULT,
    REPLY,
    REQUEST,
    STATUS,
    Callbacks,
    ClientState,
    Codec,
    ConnectionLost,
    Frames,
    Hello,
    OwnerState,
    Welcome,
    WireError,
    check_peer,
    lower_fault,
)

# ---- How many requests an owner has at work at a time, and how many wait for their turn ----


@dataclass(frozen=True)
class Limits:
    """How many requests an owner runs, and how many may wait."""

    at_work: int = 64
    waiting: int = 1_000
    seconds: float = 10.0
    connections: int | None = None


class RequestLimiter:
    """Lets a bounded number of requests run, and a bounded number wait."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._free = threading.Semaphore(limits.at_work)
        self._counting = threading.Lock()
        self.n_waiting = 0

    @contextmanager
    def turn(self, seconds: float | None) -> Iterator[None]:
        """Wait for a turn and keep it for the block."""
        if not self._free.acquire(blocking=False):
            self._wait(self._limits.seconds if seconds is None else seconds)
        try:
            yield
        finally:
            self._free.release()

    def _wait(self, seconds: float) -> None:
        with self._counting:
            is_full = self.n_waiting >= self._limits.waiting
            self.n_waiting += not is_full
        if is_full:
            raise self._busy(f"{self._limits.waiting} that wait")
        try:
            if not self._free.acquire(timeout=max(min(seconds, self._limits.seconds), 0.0)):
                raise self._busy(f"{self._limits.at_work} at work")
        finally:
            with self._counting:
                self.n_waiting -= 1

    def _busy(self, got: str) -> StoreBusyError:
        fault = error(StoreBusyError, "store", "an owner with a free turn", got, "try again")
        fault.retry_after = 1.0
        return fault


# ---- Answers the clients of a store: a thread for each connection, a bounded number at work ----

_log = logging.getLogger("hyrecall.memory")

HELLO_SECONDS = 10.0
"""So long a connection may take to say who it is."""

PATIENCE = 60.0
"""So long a client may take no byte of its reply; a stopped one must not keep a thread for ever."""

_OPENING_SECONDS = 0.5  # between two signs of life while the store is being opened
_PAUSE = 0.05  # seconds after an accept that failed, as without descriptors

About = Mapping[str, str | int | None]
AnswersPlainly = Callable[[dict[str, Any]], dict[str, Any]]


class _Peer:
    """One process with connections to this owner."""

    def __init__(self) -> None:
        self.since = datetime.now(UTC)
        self.n_connections = 0
        self.n_requests = 0


class Server:
    """The owner's end of the connections to a store."""

    def __init__(
        self,
        codec: Codec,
        answer: Callable[[Any], Any],
        admit: Callable[[About], About],
        limits: Limits | None = None,
    ) -> None:
        self._codec, self._answer, self._admit = codec, answer, admit
        self.answer_plainly: AnswersPlainly | None = None
        limits = Limits() if limits is None else limits
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        most = 1_000 if soft == resource.RLIM_INFINITY else min(1_000, soft // 2)
        self._most = most if limits.connections is None else limits.connections
        self._turns = RequestLimiter(limits)
        self._state = threading.Condition()
        self._since = datetime.now(UTC)
        self._peers: dict[int, _Peer] = {}
        self._open: set[Frames] = set()
        self._n_at_work = 0
        self._is_ready = False
        self._is_closing = False
        self.was_started = False
        self._listener: socket.socket | None = None
        self._birth = Birth()
        self._pid = self._birth.pid
        renew_in_children(self)

    # ---- its life ----

    def start(self, listener: socket.socket) -> None:
        """Accept connections of a listening socket; hellos are answered after :meth:`ready`."""
        threads.start(lambda: self._accept(listener), name="hyrecall-owner", stop=self.stop)
        self._listener, self.was_started = listener, True

    def ready(self) -> None:
        """Serve clients from now on: the store is open."""
        with self._state:
            self._is_ready = True
            self._state.notify_all()

    def stop(self) -> None:
        """Accept nothing more, and let all connections end; do not wait for requests at work."""
        with self._state:
            self._is_closing = True
            self._state.notify_all()
            listener, self._listener = self._listener, None
            ending = list(self._open)
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            listener.close()
        for frames in ending:
            frames.end()

    def close(self, *, wait: float = 10.0) -> None:
        """Accept nothing more, let requests at work be answered, and end all connections."""
        # A request that is not answered is lost for its client, which asks the next owner.
        if not self._birth.is_here:
            return  # the connections are the parent's
        with self._state:
            self._is_closing = True
            self._state.notify_all()
            self._state.wait_for(lambda: not self._n_at_work, timeout=wait)
        self.stop()

    def state(self) -> OwnerState:
        """Return who owns the store and who uses it through this owner."""
        with self._state:
            clients = tuple(
                ClientState(pid, peer.since, peer.n_requests)
                for pid, peer in sorted(self._peers.items())
            )
        return OwnerState(self._pid, self._since, clients)

    # ---- connections ----

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                if self._is_closing:
                    return
                time.sleep(_PAUSE)
                continue
            frames = Frames(connection)
            with self._state:
                is_refused = self._is_closing or len(self._open) >= self._most
                if not is_refused:
                    self._open.add(frames)
            if is_refused:
                self._refuse(frames)
                continue
            try:
                serve = partial(self._serve, frames, connection)
                threads.start(serve, name="hyrecall-client", stop=frames.end)
            except RuntimeError as fault:  # no more threads, or the interpreter is exiting
                _log.warning("a client of the store was turned away: %s", fault)
                self._let_go(frames)

    def _refuse(self, frames: Frames) -> None:
        if not self._is_closing:
            told = error(StoreBusyError, "store", f"at most {self._most} connections", "one more")
            welcome = Welcome(self._pid, refused=str(told), kind=StoreBusyError.__name__)
            with contextlib.suppress(ConnectionLost, TimeoutError, HyrecallError):
                frames.send(welcome.to_bytes(), patience=0.0)
        frames.close()

    def _let_go(self, frames: Frames) -> None:
        with self._state:
            self._open.discard(frames)
        frames.close()

    def _serve(self, frames: Frames, connection: socket.socket) -> None:
        try:
            pid, uid = peer_of(connection)
            check_peer(uid)
            hello = frames.receive(most=MOST_BYTES_OF_HELLO, timeout=HELLO_SECONDS)
            question = read_question(hello)
            if question is not None:
                frames.send(answer_bytes(self._answered(question, frames)), patience=PATIENCE)
                return
            is_observer = self._greet(frames, hello)
            if is_observer is None:
                return
            with self._counted(pid, is_observer=is_observer) as peer:
                while self._serve_one(frames, peer, is_observer=is_observer):
                    pass
        except (ConnectionLost, TimeoutError):
            pass
        except (HyrecallError, OSError) as fault:
            _log.warning("a connection to the store was ended: %s", type(fault).__name__)
        finally:
            self._let_go(frames)

    @contextmanager
    def _counted(self, pid: int, *, is_observer: bool) -> Iterator[_Peer]:
        if is_observer:
            yield _Peer()
            return
        with self._state:
            peer = self._peers.setdefault(pid, _Peer())
            peer.n_connections += 1
        try:
            yield peer
        finally:
            with self._state:
                peer.n_connections -= 1
                if not peer.n_connections:
                    del self._peers[pid]

    def _answered(self, question: dict[str, Any], frames: Frames) -> dict[str, Any]:
        """Answer a question in JSON; whoever asks answers by itself what is refused."""
        if not (question and self._is_ready and self.answer_plainly):
            return {"refused": "not now"}
        try:
            with self._turns.turn(None), self._at_work(), serving(None, frames.has_ended):
                return self.answer_plainly(question)
        except ConnectionLost:
            raise
        except Exception as fault:
            if not isinstance(fault, HyrecallError):
                _log.warning("a question was not answered: %s", type(fault).__name__)
            return {"refused": type(fault).__name__}

    def _greet(self, frames: Frames, data: bytes) -> bool | None:
        """Answer the hello; return whether the client only observes, or None if it is refused."""
        hello = Hello.of_bytes(data)
        while not self._is_ready:
            with self._state:
                self._state.wait_for(
                    lambda: self._is_ready or self._is_closing, timeout=_OPENING_SECONDS
                )
            if self._is_closing:
                raise ConnectionLost("closing")
            if not self._is_ready:
                frames.send(Welcome(self._pid, is_opening=True).to_bytes(), patience=PATIENCE)
        try:
            about = self._compared(hello)
        except HyrecallError as fault:
            told = Welcome(self._pid, refused=str(fault), kind=type(fault).__name__)
            frames.send(told.to_bytes(), patience=PATIENCE)
            return None
        frames.send(Welcome(self._pid, about=about).to_bytes(), patience=PATIENCE)
        return hello.is_observer

    def _compared(self, hello: Hello) -> About:
        mine = Hello(self._pid)
        for name in ("protocol", "version"):
            own, other = getattr(mine, name), getattr(hello, name)
            if own != other:
                wish = f"{name} {own}, as the owner of the store has (pid {self._pid})"
                raise error(StoreMismatchError, name, wish, other)
        return {} if hello.is_observer else self._admit(hello.about)

    # ---- requests ----

    def _serve_one(self, frames: Frames, peer: _Peer, *, is_observer: bool) -> bool:
        """Answer one request; return whether the connection may carry another."""
        data = frames.receive()
        callbacks = Callbacks(frames, self._codec)
        try:
            told = self._codec.decode(data, callbacks.function)
            if not isinstance(told, list) or len(told) != 4 or told[0] != REQUEST:
                raise error(WireError, "message", "a request", "another")
        except WireError:
            raise
        except Exception as fault:  # a class refused its values; the number is not known
            frames.send(self._codec.encode([FAULT, None, lower_fault(fault, self._codec)]))
            return False
        _, number, seconds, message = told
        with ExitStack() as working:
            try:
                reply = self._reply(
                    message, seconds, peer, working, frames.has_ended, is_observer=is_observer
                )
                data = self._codec.encode([REPLY, number, reply])
            except ConnectionLost:
                raise
            except BaseException as fault:
                if self._is_closing:  # the next owner answers
                    raise ConnectionLost("closing") from None
                if not isinstance(fault, Exception):
                    _log.warning("a request of a client ended in %s", type(fault).__name__)
                data = self._codec.encode([FAULT, number, lower_fault(fault, self._codec)])
            is_left_behind = callbacks.end()
            frames.send(data, patience=PATIENCE)
        return not is_left_behind

    def _reply(
        self,
        message: object,
        seconds: float | None,
        peer: _Peer,
        working: ExitStack,
        has_left: Callable[[], bool],
        *,
        is_observer: bool,
    ) -> object:
        """Answer a message; ``working`` ends when the reply has been sent."""
        if message == STATUS:
            return self.state()
        if is_observer:
            raise error(WireError, "message", "a question about the owner", "another")
        with self._state:
            peer.n_requests += 1
        with self._turns.turn(seconds):
            working.enter_context(self._at_work())
            with serving(None, has_left):
                return self._answer(message)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Let :meth:`close` wait for the end of the block."""
        with self._state:
            if self._is_closing:
                raise ConnectionLost("closing")
            self._n_at_work += 1
        try:
            yield
        finally:
            with self._state:
                self._n_at_work -= 1
                self._state.notify_all()

    def renew(self) -> None:
        """Close the socket in a forked child, which would seem to be an owner that hangs."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
