"""Starts the library's background threads and ends them before the interpreter finalizes.

During finalization, CPython unwinds the stack of a daemon thread that asks for the GIL. If that
stack has frames of C++ or Rust, the process aborts. So every background thread of the library is
started here. At exit, after all other threads of the program have ended, these threads are told to
stop, and the exit waits for them for at most :data:`EXIT_SECONDS` in total.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import functools
import os
import sys
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from hyrecall.base.forks import renew_in_children
from hyrecall.errors import TooManyScansError, WriterBusyError, error

if TYPE_CHECKING:
    from concurrent.futures import Executor, ThreadPoolExecutor


EXIT_SECONDS = 10.0
"""The longest that the exit waits for threads that do not stop, such as one in a hanging call."""


class _Running:
    """The running threads, each with the function that stops it."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Forget all threads: a forked child has none of them."""
        self.lock = threading.RLock()  # reentrant: a finalizer may start a thread while it is held
        self.stops: dict[threading.Thread, Callable[[], object] | None] = {}
        self.is_exiting = False

    def end(self) -> None:
        """Stop all threads and wait for them."""
        with self.lock:
            self.is_exiting = True
            stops = dict(self.stops)
        for stop in stops.values():
            if stop is not None:
                with contextlib.suppress(Exception):
                    stop()
        until = time.monotonic() + EXIT_SECONDS
        for thread in stops:
            if thread.is_alive():
                thread.join(max(until - time.monotonic(), 0.0))


_running = _Running()
# Not before the program's own threads end: they may still use these.
atexit.register(_running.end)
renew_in_children(_running)


class OneWriter:
    """Lets one thread write at a time; others wait. A thread that writes already is refused."""

    def __init__(self, argument: str) -> None:
        self._argument = argument
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Forget the writer at work: its thread is not in a forked child."""
        self._lock = threading.Lock()
        self._owner: int | None = None

    def __enter__(self) -> None:
        if self._owner == threading.get_ident():
            wish = "no write during another of the same thread"
            raise error(WriterBusyError, self._argument, wish, "one")
        self._lock.acquire()
        self._owner = threading.get_ident()

    def __exit__(self, *fault: object) -> None:
        """Let the next writer begin; in a child that was forked meanwhile, any may."""
        if self._owner == threading.get_ident():
            self._owner = None
            self._lock.release()


def start(
    run: Callable[[], object], *, name: str, stop: Callable[[], object] | None = None
) -> threading.Thread:
    """Start a daemon thread."""

    def work() -> None:
        try:
            run()
        finally:
            with _running.lock:
                _running.stops.pop(thread, None)

    thread = threading.Thread(target=work, name=name, daemon=True)
    with _running.lock:
        if _running.is_exiting:
            raise RuntimeError("the interpreter is exiting")
        _running.stops[thread] = stop
        try:
            thread.start()
        except RuntimeError:
            del _running.stops[thread]
            raise
    return thread


# ---- Warns at the line of the program that called the library, however many calls lie between ----

_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_OURS = (_HOME, contextlib.__file__)  # which stands between calls of the package


class _Caller(NamedTuple):
    path: str
    line: int
    namespace: dict[str, Any]


_awaited: contextvars.ContextVar[_Caller | None] = contextvars.ContextVar("awaited", default=None)


def awaited_call() -> contextvars.Context:
    """Return a copy of the context for a call on a thread, which knows the line that awaits it."""
    context, place = contextvars.copy_context(), _outside(sys._getframe(1))
    context.run(_awaited.set, place)
    return context


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the nearest line outside of the package."""
    place = _awaited.get() or _outside(sys._getframe(1))
    if place is None:
        warnings.warn(message, category, stacklevel=2)
        return
    module = place.namespace.get("__name__", "<unknown>")
    registry = place.namespace.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, place.path, place.line, module, registry)


def _outside(frame: FrameType | None) -> _Caller | None:
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    if frame is None:
        return None
    return _Caller(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)


# ---- Bounds calls that read many texts: they stop when nobody waits, and one caller has only a few
# A call runs on a thread with a :class:`Call`. Before each part of a scan it says what the part
# costs (:func:`spend`); there it ends if its caller has left.

T_ = TypeVar("T_")

CALLER: ContextVar[str | None] = ContextVar("hyrecall_caller", default=None)
"""Name of the token whose request runs; None: the call is the program's own and is not bounded."""

MOST_SCANS = 2
"""Long scans of one caller at a time."""

FREE_STEPS = 1 << 24
"""Steps of a scan that is not long: bytes of text, times the states that a pattern holds open."""


class CallStopped(Exception):  # noqa: N818 - nobody gets it: the caller has left
    """Raised in a scan whose caller no longer waits."""


class Call:
    """A running call: whether its caller still waits, and how many steps it has made."""

    def __init__(self, caller: str | None, has_left: Callable[[], bool] | None = None) -> None:
        self.caller, self.has_left = caller, has_left
        self.is_stopped = False
        self._spent = 0
        self._is_counted = False

    def check(self) -> None:
        """Raise CallStopped if the caller no longer waits."""
        if self.is_stopped or (self.has_left is not None and self.has_left()):
            raise CallStopped

    def spend(self, steps: int) -> None:
        """Count steps; from :data:`FREE_STEPS` on, the call is one of its caller's long scans."""
        self.check()
        self._spent += steps
        if self.caller is None or self._is_counted or self._spent <= FREE_STEPS:
            return
        with _counting:
            self._is_counted = _long[self.caller] < MOST_SCANS
            _long[self.caller] += self._is_counted
        if not self._is_counted:
            wish = f"at most {MOST_SCANS} long searches of texts of one caller at a time"
            raise error(TooManyScansError, "search", wish, "one more", "try again")

    def end(self) -> None:
        """Let another long scan of the caller begin."""
        if self._is_counted:
            with _counting:
                _long.subtract([self.caller or ""])
            self._is_counted = False


_long: Counter[str] = Counter()
_counting = threading.Lock()
_call: ContextVar[Call | None] = ContextVar("hyrecall_call", default=None)


def spend(steps: int) -> None:
    """Count what the next part of a scan costs."""
    call = _call.get()
    if call is not None:
        call.spend(steps)


def check_waiting() -> None:
    """Raise CallStopped if the caller of this thread's call no longer waits."""
    call = _call.get()
    if call is not None:
        call.check()


def caller_of() -> str | None:
    """Return whose call runs on this thread."""
    call = _call.get()
    return CALLER.get() if call is None else call.caller


@contextlib.contextmanager
def serving(caller: str | None, has_left: Callable[[], bool] | None = None) -> Iterator[Call]:
    """Run the block as a call of a caller; ``has_left`` says whether it has left, as of a block
    around this one where it is not given.
    """
    outer = _call.get()
    call = Call(caller, outer.has_left if has_left is None and outer is not None else has_left)
    token = _call.set(call)
    try:
        yield call
    finally:
        _call.reset(token)
        call.end()


async def off_thread(executor: Executor, function: Callable[[], T_]) -> T_:
    """Run a function on a thread with the context of the caller; if cancelled, stop its scans."""
    import asyncio  # here, since it is a tenth of the time that `import hyrecall` would take

    call = Call(CALLER.get())

    def work() -> T_:
        _call.set(call)
        try:
            call.check()
            return function()
        finally:
            call.end()

    job = functools.partial(awaited_call().run, work)
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, job)
    except asyncio.CancelledError:
        call.is_stopped = True
        raise


# ---- Runs blocking calls in threads, so that an event loop stays free ----

T = TypeVar("T")


class Workers:
    """A thread pool, made again in a forked child, which has none of its parent's threads."""

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Forget the threads."""
        self._making = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    @property
    def executor(self) -> ThreadPoolExecutor:
        """The pool, made when it is first asked for."""
        from concurrent.futures import ThreadPoolExecutor

        with self._making:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._most, self._name)
            return self._executor


_workers = Workers(8, "hyrecall")


async def off_loop(call: Callable[..., T], options: Mapping[str, Any]) -> T:
    """Run a blocking call in a thread and await its result."""
    return await off_thread(_workers.executor, partial(call, **options))


# ---- Runs calls that may never return on a limited number of threads ----

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

_IDLE_SECONDS = 60.0  # after which an unused thread ends
# Seconds to wait for a call that has just been abandoned: many return right after the deadline.
_GRACE = 0.02
_FIRST_REPLACED = float("-inf")


class LateError(Exception):
    """The call has not returned in time."""


class AllHungError(Exception):
    """All threads are blocked by abandoned calls; the argument is their number."""


class PoolClosedError(Exception):
    """The pool is closed."""


class _Job(Generic[_Given, _Made]):
    def __init__(self, given: _Given, until: float) -> None:
        self.given = given
        self.until = until
        self.done = threading.Event()
        self.made: _Made | None = None
        self.has_begun = False
        self.is_left = False


class Pool(Generic[_Given, _Made]):
    """Runs calls on its own threads; a caller waits no longer than the time it has given."""

    # A call that does not return blocks its thread. If all threads are blocked, another thread is
    # started, at most one every ``patience`` seconds and ``most`` in total. If none can be started,
    # calls are refused after 20 ms.

    def __init__(
        self,
        work: Callable[[_Given, float], _Made],
        *,
        workers: int,
        most: int = 8,
        patience: float = 10.0,
        name: str = "hyrecall-embed",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make a pool without threads; the first calls start them."""
        self._work = work
        self._workers = workers
        self._most = most
        self._patience = patience
        self._name = name
        self._clock = clock
        self._change = threading.Condition()
        self._jobs: deque[_Job[_Given, _Made]] = deque()
        self._at_work: set[_Job[_Given, _Made]] = set()
        self._live = 0
        self._idle = 0
        self._held = 0
        self._replaced = _FIRST_REPLACED
        self.is_closed = False

    def run(self, given: _Given, seconds: float) -> _Made:
        """Run one call and return its result."""
        seconds = min(seconds, threading.TIMEOUT_MAX)
        job: _Job[_Given, _Made] = _Job(given, time.monotonic() + seconds)
        with self._change:
            self._place(job)
            is_any_free = self._live > self._held
        try:
            if not is_any_free:
                self._await_one(job, min(seconds, _GRACE))
            job.done.wait(max(0.0, job.until - time.monotonic()))
        finally:  # also if a signal ends the wait
            with self._change:
                made = job.made  # it may be set after the wait has ended
                if made is None:
                    self._leave(job)
        if made is not None:
            return made
        raise PoolClosedError if self.is_closed else LateError

    def counts(self) -> dict[str, int]:
        """Return the number of threads, and of those blocked by abandoned calls."""
        with self._change:
            return {"workers": self._live, "hung": self._held}

    def close(self) -> None:
        """Refuse further calls and wake all waiting callers; running calls are not stopped."""
        with self._change:
            self.is_closed = True
            for job in (*self._jobs, *self._at_work):
                job.done.set()
            self._jobs.clear()
            self._change.notify_all()

    def _place(self, job: _Job[_Given, _Made]) -> None:
        if self.is_closed:
            raise PoolClosedError
        if self._idle <= len(self._jobs) and self._may_start():
            self._live += 1
            self._idle += 1
            try:
                start(self._serve, name=self._name, stop=self.close)
            except RuntimeError:  # the system has no more threads
                self._live -= 1
                self._idle -= 1
        self._jobs.append(job)
        self._change.notify()

    def _await_one(self, job: _Job[_Given, _Made], seconds: float) -> None:
        """Wait for a thread to become free; refuse the job if none does."""
        job.done.wait(seconds)
        with self._change:
            if job in self._jobs and self._live == self._held:
                self._jobs.remove(job)
                raise AllHungError(self._held)

    def _leave(self, job: _Job[_Given, _Made]) -> None:
        job.is_left = True
        if job.has_begun:
            self._held += 1
        elif job in self._jobs:
            self._jobs.remove(job)

    def _may_start(self) -> bool:
        if self._live < self._workers:
            return True
        now = self._clock()
        is_due = self._live == self._held and self._live < self._most
        if not is_due or now - self._replaced < self._patience:
            return False
        self._replaced = now
        return True

    def _serve(self) -> None:
        """Run jobs on a thread of the pool."""
        while (job := self._next()) is not None:
            made = self._work(job.given, job.until)
            with self._change:
                self._at_work.discard(job)
                job.made = made
                self._idle += 1
                if job.is_left:
                    self._held -= 1
            job.done.set()
            del job, made  # a waiting thread must not keep texts in memory

    def _next(self) -> _Job[_Given, _Made] | None:
        """Wait for a job; return None if the thread should end."""
        with self._change:
            while (
                not self._jobs and not self.is_closed and self._live - self._held <= self._workers
            ):
                if not self._change.wait(_IDLE_SECONDS):
                    break
            self._idle -= 1
            if not self._jobs:
                self._live -= 1
                return None
            job = self._jobs.popleft()
            job.has_begun = True
            self._at_work.add(job)
            return job
