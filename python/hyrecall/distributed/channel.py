"""Sends questions to the process of a shard through its pipes; several threads may ask at once.

A question is sent without waiting for the answers of earlier questions, so the process always has
its next question at hand, whatever the asking threads do. It answers in the order of the questions.
One of the waiting threads reads: it gives each answer to its question until it has its own answer;
then another waiting thread reads. No thread is started, and a thread that waits alone hands nothing
over.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import struct
import subprocess
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import IO, Any

from hyrecall import errors
from hyrecall.errors import HyrecallError, InternalError, error

# ---- Encodes messages and errors for the pipes between a sharded index and its shard processes

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


# ---- Sends questions to the process of a shard through its pipes; several threads may ask at once

START_SECONDS = 60.0
"""Added to the time limit of the first answer: the process starts and opens the index first."""

SMALL_BYTES = 1 << 15
"""Questions up to this size are sent without waiting, after those before: a pipe holds several."""

_READ_BYTES = 1 << 16
_NOTHING = memoryview(b"")
_of_parents: list[subprocess.Popen[bytes]] = []  # in a forked child: never used nor collected


class Ended(Exception):  # noqa: N818
    """The process ended before it answered. Raised inside the package only."""

    # ``was_at_work``: the process was answering this question, which may be the reason. Other
    # questions were only waiting.

    def __init__(self, *, was_at_work: bool) -> None:
        """Take whether the process may have ended because of the question."""
        super().__init__(was_at_work)
        self.was_at_work = was_at_work


class Late(Exception):  # noqa: N818
    """The process did not answer in time, and was ended. Raised inside the package only."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Pending:
    """A question that was sent; the caller may read its answer later or never."""

    __slots__ = ("answer", "fault", "is_small", "rest", "woken")

    def __init__(self, data: bytes) -> None:
        self.rest = memoryview(data)  # the bytes that are not sent yet
        self.is_small = len(data) <= SMALL_BYTES
        self.answer: list[bytes] | None = None
        self.fault: Exception | None = None
        self.woken: threading.Lock | None = None  # held while another thread reads for this one

    @property
    def is_sent(self) -> bool:
        """Whether all bytes were sent to the process."""
        return not self.rest

    @property
    def is_under_way(self) -> bool:
        """Whether the process gets the question, whatever its thread does before waiting."""
        # A small question that is not sent yet is behind others, whose threads send it.
        return self.is_small or self.is_sent

    @property
    def is_over(self) -> bool:
        """Whether the question has an answer or a fault."""
        return self.answer is not None or self.fault is not None

    def wake(self) -> None:
        """Wake the thread of this question, if it waits while another thread reads."""
        if self.woken is not None:
            with contextlib.suppress(RuntimeError):  # already woken, after an interrupt in between
                self.woken.release()
            self.woken = None


class Channel:
    """A process that answers questions, and its unanswered questions."""

    def __init__(self, command: Sequence[str], seconds: float | None) -> None:
        """Start a process; ``seconds`` is the time limit of an answer, None: no limit."""
        self._seconds = seconds
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        # subprocess keeps processes that were not ended, and the pipes whose ends these wait for.
        self._ending = weakref.finalize(self, _end, self._process)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._questions = self._process.stdin.fileno()
        self._answers = self._process.stdout.fileno()
        os.set_blocking(self._questions, False)
        os.set_blocking(self._answers, False)
        self._lock = threading.Lock()  # for the fields below; never held while waiting for a pipe
        self._pending: deque[Pending] = deque()  # without an answer, in the order of sending
        self._parked: deque[Pending] = deque()  # their threads wait for the thread that reads
        self._is_read = False  # by a thread, which alone uses the fields at the end
        self._is_over = False
        self._has_answered = False
        self._is_broken = False  # it takes no more questions
        self._since = 0.0  # when the process started its question, or last sent bytes of its answer
        self._poll = select.poll()
        self._poll.register(self._questions, 0)
        self._poll.register(self._answers, select.POLLIN)
        self._messages = Messages()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def is_over(self) -> bool:
        """Whether a question or :meth:`end` has found that the process ended."""
        return self._is_over

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended while it had no question."""
        return not self._pending and self._process.poll() is not None

    @property
    def is_busy(self) -> bool:
        """Whether the process runs and has a question to answer."""
        return bool(self._pending) and self._process.poll() is None

    def send(self, *frames: bytes) -> Pending:
        """Send as much of a question as the pipe takes at once; :meth:`receive` sends the rest."""
        own = Pending(message(*frames))
        with self._lock:
            if self._is_over:
                raise Ended(was_at_work=False)
            try:
                self._pending.append(own)
                if len(self._pending) == 1:
                    self._since = time.monotonic()
                # After BrokenPipeError the thread that reads finds the last answers.
                with contextlib.suppress(BrokenPipeError):
                    self._write()
            except BaseException:  # an interrupt: half a question may be sent
                self._lose(Ended(was_at_work=False))
                raise
        return own

    def receive(self, own: Pending) -> list[bytes]:
        """Return the answer to a question that was sent."""
        try:
            while not own.is_over:
                if self._may_read(own):
                    self._read_for(own)
                elif (woken := own.woken) is not None:
                    woken.acquire()
        except BaseException:  # an interrupt: half an answer may be read
            self.end()
            raise
        if own.fault is not None:
            raise own.fault
        assert own.answer is not None
        return own.answer

    def end(self) -> None:
        """End the process, even while it answers; unanswered questions fail."""
        with self._lock:
            self._lose(Ended(was_at_work=False))
        self._process.wait()

    def forget(self) -> None:
        """Forget the process in a forked child: it answers the parent, and ends with the parent."""
        self._is_over = True
        if self._ending.detach() is None:
            return
        _of_parents.append(self._process)
        nothing = os.open(os.devnull, os.O_RDWR)
        for pipe in (self._questions, self._answers):
            with contextlib.suppress(OSError):
                os.dup2(nothing, pipe, inheritable=False)
        os.close(nothing)

    # ---- called with the lock held ----

    def _write(self) -> None:
        """Send as many bytes as the pipe takes."""
        for one in self._pending:
            if one.is_sent:
                continue
            while one.rest:
                try:
                    n = os.write(self._questions, one.rest)
                except BlockingIOError:
                    return
                one.rest = one.rest[n:] if n < len(one.rest) else _NOTHING  # frees the bytes
            if one is self._pending[0]:
                self._since = time.monotonic()

    def _ended(self) -> Ended:
        """Return why the first question has no answer if the process has ended."""
        # A process that ended before it could read a whole question did not end because of it.
        return Ended(was_at_work=self._pending[0].is_sent or not self._has_answered)

    def _lose(self, fault: Ended | Late) -> None:
        """End the process; ``fault`` says why the first question has no answer."""
        if self._is_over and not self._pending:
            return
        self._is_over = True
        self._process.kill()
        while self._pending:  # continues after an interrupt of an earlier call
            one = self._pending[0]
            if not one.is_over:
                one.fault, fault = fault, Ended(was_at_work=False)
            one.wake()
            self._pending.popleft()
        self._parked.clear()
        if not self._is_read:  # otherwise the thread that reads closes the pipes
            self._ending()

    # ---- called by the thread that reads ----

    def _may_read(self, own: Pending) -> bool:
        """Say whether the thread of a question reads now; otherwise the reading thread wakes it."""
        with self._lock:
            if own.is_over:
                return False
            if self._is_read:
                own.woken = threading.Lock()
                own.woken.acquire()
                self._parked.append(own)
                return False
            self._is_read = True
            if self._pending and not self._pending[0].is_sent:  # no thread was here to send it
                self._since = time.monotonic()
            return True

    def _read_for(self, own: Pending) -> None:
        """Read until a question has its answer, then let another thread read."""
        try:
            while not own.is_over:
                self._step()
        finally:
            with self._lock:
                self._is_read = False
                if self._is_over:
                    self._ending()
                while self._parked:
                    next_one = self._parked.popleft()
                    if not next_one.is_over:
                        next_one.wake()
                        break

    def _step(self) -> None:
        """Wait until a pipe is ready, and read or write it."""
        with self._lock:
            is_sent = all(one.is_sent for one in self._pending)
        self._poll.modify(self._questions, 0 if is_sent else select.POLLOUT)
        events = dict(self._poll.poll(self._wait_ms()))
        data = None
        if self._answers in events:
            with contextlib.suppress(BlockingIOError):
                data = os.read(self._answers, _READ_BYTES)
        with self._lock:
            if self._is_over:
                self._lose(Ended(was_at_work=False))
                return
            try:
                self._take(data)
                self._write()
            except PipeClosed:
                self._lose(self._ended())
            except BrokenPipeError:  # if it has ended, read its last answers first
                if self._is_broken and data is None:
                    self._lose(self._ended())
                self._is_broken = True
        if not events and not self._wait_ms():
            with self._lock:
                self._lose(Late(self._limit))

    def _take(self, data: bytes | None) -> None:
        """Give complete answers to their questions."""
        if data is None:
            return
        if not data:
            raise PipeClosed("between two messages")
        self._since = time.monotonic()
        self._messages.add(data)
        while self._pending and (answer := self._messages.take()) is not None:
            self._has_answered = True
            one = self._pending[0]
            one.answer = answer
            one.wake()
            self._pending.popleft()

    @property
    def _limit(self) -> float:
        """Seconds that the process may take for the next answer."""
        assert self._seconds is not None
        return self._seconds if self._has_answered else self._seconds + START_SECONDS

    def _wait_ms(self) -> int | None:
        """Return the milliseconds until the time limit; None: no limit."""
        if self._seconds is None:
            return None
        return max(0, math.ceil((self._since + self._limit - time.monotonic()) * 1e3))


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()
