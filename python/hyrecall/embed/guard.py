"""Calls an embedder within a time budget; returns vectors or the reason why there are none."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hyrecall.base import threads
from hyrecall.base.forks import Birth, free_in_children, leave_to_parent, renew_in_children
from hyrecall.base.threads import AllHungError, LateError, Pool, PoolClosedError
from hyrecall.embed.protocol import (
    Embedder,
    EmbedError,
    EmbedFault,
    NoVectors,
    check_vectors,
    composed,
    error_of_reply,
    fault_of_status,
)
from hyrecall.errors import DTypeError, OptionError, error

if TYPE_CHECKING:
    import asyncio
    import concurrent.futures

# ---- A circuit breaker: stops calls to a failing service for a while ----


class Breaker:
    """Counts failures in a row; after a number of them, admits no call for a while."""

    # After this rest, one call is admitted as a probe. If it succeeds, all calls are admitted
    # again; if it fails, another rest begins. A breaker is thread-safe.

    def __init__(
        self,
        failures: int = 5,
        rest: float = 30.0,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._rest = failures, rest
        self._clock = clock
        self._lock = free_in_children(threading.Lock())
        self._failures = 0
        self._opened: float | None = None
        self._probing = False

    def admits(self) -> bool:
        """Return whether a call may be made; the caller must then report its result."""
        with self._lock:
            if self._opened is None:
                return True
            if self._probing or self._left() > 0:
                return False
            self._probing = True
            return True

    def succeeded(self) -> None:
        """Report a successful call."""
        with self._lock:
            self._failures = 0
            self._opened = None
            self._probing = False

    @property
    def is_at_limit(self) -> bool:
        """Whether a rest begins if the admitted call fails."""
        with self._lock:
            return self._probing or self._failures + 1 >= self._most

    def failed(self) -> None:
        """Report a failed call."""
        with self._lock:
            self._failures += 1
            # A call from before the rest that fails during it does not extend the rest.
            if self._probing or (self._opened is None and self._failures >= self._most):
                self._opened = self._clock()
            self._probing = False

    def undecided(self) -> None:
        """Report a call whose result says nothing about the service; the next can be the probe."""
        with self._lock:
            self._probing = False

    @property
    def rests_for(self) -> float:
        """Seconds until a probe is admitted; 0 if a probe or all calls are admitted now."""
        with self._lock:
            return 0.0 if self._opened is None else max(0.0, self._left())

    @property
    def state(self) -> str:
        """``"closed"`` admits all calls, ``"open"`` none, ``"probing"`` a single one."""
        with self._lock:
            if self._opened is None:
                return "closed"
            return "probing" if self._probing or self._left() <= 0 else "open"

    def _left(self) -> float:
        assert self._opened is not None
        return self._opened + self._rest - self._clock()


# ---- Calls an embedder within a time budget; returns vectors or the reason why there are none ----

Rows = npt.NDArray[np.float32]

_WAY_BACK = 0.003  # seconds of a budget reserved for waking up and returning
_HURRY = 0.05  # seconds: with a shorter budget, a timeout says nothing about the embedder
_CLOSE_SECONDS = 1.0
_SHORT = 2_000  # characters
_LATE = (EmbedFault.TIMEOUT, EmbedFault.HUNG)
_OF_CALLER = frozenset({EmbedFault.REFUSED, EmbedFault.CONFIGURATION})
"""Faults of a text, or of the key: they say nothing about the endpoint."""
OF_TEXT = frozenset({EmbedFault.REFUSED, EmbedFault.CRASHED, EmbedFault.MALFORMED})
"""Faults that a single text of a call may have caused."""
_PLAIN = "How long is a vector?"
"""A text that any embedder takes, unless it fails whatever the text."""
_MOST_IN_VAIN = (
    12  # failed calls with no successful one, after which a batch is not divided further
)


@dataclass(frozen=True)
class Off:
    """Used instead of an embedder if there is none; ``detail`` says why and how to get one."""

    detail: str = ""
    is_choice: bool = False  # the caller wants none, so that answers are not degraded


class Guard:
    """Calls an embedder with a time limit; never raises for its errors and never hangs."""

    # The embedder runs on threads of the guard; where it says ``is_prompt``, a short text runs on
    # the caller's. The guard does not wait longer than the budget. An exception becomes a fault.
    # After five faults in a row the embedder is not called for 30 seconds; a text or a key that an
    # endpoint refuses does not count, since it says nothing about others. If the last fault may be
    # due to its texts, a plain text is embedded first: if that works, the embedder is well, and the
    # count begins anew. Texts are embedded in NFC.
    # A caller with a short budget must not cause this for all others: a timeout with a budget below
    # 50 ms (``usual``, the callers' default budget, if that is less) does not count as a fault, and
    # while such a call is running, no other call with a short budget is made.
    # ``closes`` says that only this guard uses the embedder, and closes it.

    def __init__(
        self,
        embedder: Embedder | Off,
        *,
        dim: int | None = None,
        workers: int = 2,
        breaker: Breaker | None = None,
        usual: float = _HURRY,
        closes: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.off = embedder if isinstance(embedder, Off) else None
        self._embedder = None if isinstance(embedder, Off) else _check(embedder)
        self.model = None if self._embedder is None else self._embedder.model
        self._dim = dim or getattr(embedder, "dim", None)
        self._breaker = breaker or Breaker(clock=clock)
        self._closes = closes
        self._is_prompt = vars(type(embedder)).get("is_prompt") is True
        self._hurry = min(usual, _HURRY)
        self._pool: Pool[Sequence[str], Rows | NoVectors] = Pool(
            self._call, workers=workers, clock=clock
        )
        self._warmed = threading.Event()
        self._warmed.set()  # set means: nothing is being loaded
        self._has_warmed = False
        self._warming_since = 0.0
        self._last_failure = ""
        self._answered = False  # whether the last call with a clear result succeeded
        self._birth = Birth()
        self._n_calls = 0
        self._faults: Counter[EmbedFault] = Counter()

    @property
    def dim(self) -> int | None:
        """Length of a vector; None if it is not known before the first reply."""
        return self._dim

    @property
    def timeout(self) -> float | None:
        """The embedder's own time limit for a call in seconds, if it has one."""
        given = getattr(self._embedder, "timeout", None)
        return float(given) if isinstance(given, int | float) else None

    def embed(
        self,
        texts: Sequence[str],
        *,
        budget: float,
        waits: bool = False,
        is_divided: bool = False,
    ) -> Rows | NoVectors:
        """Return a row per text within a budget in seconds, or why there are none."""
        # A blank text is not sent and has a zero row. The shape is (n, 0) if all are blank and the
        # dim is not known. ``waits``: for an embedder that loads its model, until the budget has
        # passed since the call and since the loading began; so a loading that hangs delays only its
        # first callers. ``is_divided``: they are some texts of a call that failed.
        begun = time.monotonic()
        if self.off is not None:
            return NoVectors(EmbedFault.OFF, self.off.detail)
        asked, some = [], []
        for at, text in enumerate(texts):
            if text.strip():
                asked.append(at)
                some.append(text if text.isascii() else composed(text))
        if not asked:
            return np.zeros((len(texts), self._dim or 0), np.float32)
        answer = self._ask(some, begun, budget, waits=waits, is_divided=is_divided)
        if isinstance(answer, NoVectors):
            self._faults[answer.fault] += 1
            return answer
        if len(asked) == len(texts):
            return answer
        rows = np.zeros((len(texts), answer.shape[1]), np.float32)
        rows[asked] = answer
        return rows

    def embed_each(
        self, texts: Sequence[str], *, budget: float, waits: bool = False
    ) -> tuple[Rows, list[NoVectors | None]]:
        """Return a row per text, and per text why it has no vector; None: it has, or is blank."""
        # One that the embedder refuses does not cost the others their vectors: if a call fails, and
        # one of its texts may be the reason, its halves are tried. The budget is for all calls.
        until = time.monotonic() + budget
        why: list[NoVectors | None] = [None] * len(texts)
        found: dict[int, npt.NDArray[np.float32]] = {}
        left = [list(range(len(texts)))]
        n_failed = 0
        while left:
            part = left.pop()
            is_divided = len(part) < len(texts)
            most = until - time.monotonic() if is_divided else budget
            some = [texts[at] for at in part]
            answer = self.embed(some, budget=most, waits=waits, is_divided=is_divided)
            if not isinstance(answer, NoVectors):
                found |= dict(zip(part, answer, strict=True))
                continue
            n_failed += 1
            is_of_text = answer.fault in OF_TEXT
            if len(part) > 1 and is_of_text and (found or n_failed < _MOST_IN_VAIN):
                part.sort(key=lambda at: len(texts[at]))  # the longest is the likely reason
                left += [part[len(part) // 2 :], part[: len(part) // 2]]
                continue
            for at in part if is_of_text else chain(part, *left):
                why[at] = answer if texts[at].strip() else None
            if not is_of_text:
                break
        dim = max([self._dim or 0, *map(len, found.values())])
        rows = np.zeros((len(texts), dim), np.float32)
        for at, row in found.items():
            rows[at, : len(row)] = row
        return rows, why

    def for_many(self) -> Guard:
        """Return a guard of the same embedder for a long task, with its own breaker and thread."""
        embedder = self.off if self._embedder is None else self._embedder
        assert embedder is not None
        return Guard(embedder, dim=self._dim, workers=1, breaker=Breaker(failures=20))

    def learn_from(self, other: Guard) -> None:
        """Take over the dim of a guard from :meth:`for_many`; its last success ends a rest."""
        self._dim = self._dim or other.dim
        if other._answered:
            self._breaker.succeeded()

    def start_warming(self) -> None:
        """Start loading the embedder's model on a thread; calls are not made until it is loaded.

        Only the first call does this.
        """
        warm = getattr(self._embedder, "warm", None)
        if warm is None or self._has_warmed:
            return
        self._has_warmed = True
        self._warming_since = time.monotonic()
        self._warmed.clear()

        def run() -> None:
            _quietly(warm)  # an embedding call will raise and report the same error
            self._warmed.set()

        try:
            threads.start(run, name="hyrecall-warm")
        except RuntimeError:  # the system has no more threads: the first call loads it
            self._warmed.set()

    def wait_until_loaded(self, timeout: float) -> bool:
        """Load the embedder's model; return whether that has ended, perhaps in a failure."""
        self.start_warming()
        return self._is_loaded(time.monotonic() + timeout)

    @property
    def is_ready(self) -> bool:
        """Whether calls are made: the embedder is not off, and its model is loaded."""
        return self.off is None and self._warmed.is_set()

    @property
    def was_asked(self) -> bool:
        """Whether the embedder has been called."""
        return self._n_calls > 0

    def state(self) -> dict[str, Any]:
        """Return the state of the guard, for a report; it holds no text."""
        return {
            "model": self.model,
            "dim": self._dim,
            "ready": self.is_ready,
            "breaker": self._breaker.state,
            "rests_for": round(self._breaker.rests_for, 1),
            "calls": self._n_calls,
            "faults": {str(fault): n for fault, n in self._faults.items()},
            **self._pool.counts(),
        }

    def close(self) -> None:
        """Refuse further calls and wake waiting callers. Closing twice is allowed.

        A running call is not stopped. A forked child leaves the embedder to its parent.
        """
        if not self._birth.is_here:
            return
        self._pool.close()
        self._warmed.set()
        close = getattr(self._embedder, "close", None) if self._closes else None
        if close is not None:
            with contextlib.suppress(RuntimeError):  # the system has no more threads
                thread = threads.start(partial(_quietly, close), name="hyrecall-close")
                thread.join(_CLOSE_SECONDS)

    def _ask(
        self, texts: list[str], begun: float, budget: float, *, waits: bool, is_divided: bool
    ) -> Rows | NoVectors:
        if self._birth.pid != os.getpid():
            return NoVectors(EmbedFault.OFF, "made in the process that forked this one")
        until = begun + budget - _WAY_BACK
        is_loaded = self._warmed.is_set() or self._is_loaded(
            min(until, self._warming_since + budget) if waits else 0.0
        )
        if not is_loaded:
            return NoVectors(EmbedFault.NOT_READY)
        left = until - time.monotonic()
        if not left > 0:
            return NoVectors(EmbedFault.TIMEOUT, "no time was left to ask")
        is_hurried = budget < self._hurry
        if is_hurried and (n_left := self._pool.counts()["hung"]):
            # Another call with a short budget could block the next thread, and then the last one.
            return NoVectors(EmbedFault.HUNG, f"{n_left} calls have not come back")
        if not self._breaker.admits():
            told = f"for {self._breaker.rests_for:.0f} s, after {self._last_failure}"
            return NoVectors(EmbedFault.RESTING, told)
        answer = self._run(texts, left, budget)
        decisive: Rows | NoVectors | None = answer
        is_of_text = isinstance(answer, NoVectors) and answer.fault in OF_TEXT - _OF_CALLER
        if is_of_text and not is_divided and self._breaker.is_at_limit:
            left = until - time.monotonic()
            decisive = self._run([_PLAIN], left, budget) if left > 0 else None
        self._judge(decisive, is_hurried=is_hurried, is_divided=is_divided)
        return answer

    def _run(self, texts: list[str], left: float, budget: float) -> Rows | NoVectors:
        self._n_calls += 1
        try:
            is_short = len(texts) == 1 and len(texts[0]) <= _SHORT
            if self._is_prompt and is_short and left >= _HURRY and not self._pool.is_closed:
                return self._answer(texts, time.monotonic() + left)
            return self._pool.run(texts, left)
        except LateError:
            return NoVectors(EmbedFault.TIMEOUT, f"no reply within {budget * 1000:.0f} ms")
        except AllHungError as hung:
            return NoVectors(EmbedFault.HUNG, f"{hung.args[0]} calls have not come back")
        except PoolClosedError:
            return NoVectors(EmbedFault.OFF, "closed")
        except BaseException:  # from a signal during the wait
            self._breaker.undecided()
            raise

    def _judge(
        self, answer: Rows | NoVectors | None, *, is_hurried: bool, is_divided: bool
    ) -> None:
        """Tell the breaker what a reply says of the embedder; None says nothing."""
        if answer is None:
            self._breaker.undecided()
        elif not isinstance(answer, NoVectors):
            self._breaker.succeeded()
            self._answered = True
        elif answer.fault in _OF_CALLER or (answer.fault in _LATE and is_hurried):
            self._breaker.undecided()
        elif is_divided and answer.fault in OF_TEXT:
            self._breaker.undecided()  # the whole batch has counted
        else:
            self._breaker.failed()
            self._answered = False
            self._last_failure = f"{answer.fault}: {answer.detail}"

    def _is_loaded(self, until: float) -> bool:
        """Wait for the embedder's model until a time; return whether it is loaded."""
        return self._warmed.wait(max(0.0, until - time.monotonic()))

    def _call(self, texts: Sequence[str], until: float) -> Rows | NoVectors:
        """Call the embedder on a thread of the pool, which nothing may end."""
        try:
            return self._answer(texts, until)
        except BaseException as fault:  # SystemExit, say
            return NoVectors(EmbedFault.CRASHED, type(fault).__name__)

    def _answer(self, texts: Sequence[str], until: float) -> Rows | NoVectors:
        """Call the embedder and check its reply."""
        embedder = self._embedder
        assert embedder is not None
        within = getattr(embedder, "embed_within", None)
        try:
            if within is not None:
                reply = within(texts, max(0.0, until - time.monotonic()))
            else:
                reply = embedder.embed(texts)
            rows = check_vectors(reply, len(texts), self._dim)
        except EmbedError as fault:
            told = fault.detail or str(fault).removeprefix("embedder: ")
            return NoVectors(fault.fault, told, fault.said)
        except TimeoutError:
            return NoVectors(EmbedFault.TIMEOUT, "it gave up")
        except Exception as fault:
            status = getattr(fault, "status_code", None)  # as clients of endpoints have it
            if isinstance(status, int) and status >= 400:
                told = f"{type(fault).__name__}, status {status}"
                return NoVectors(fault_of_status(status), told)
            return NoVectors(EmbedFault.CRASHED, type(fault).__name__)
        self._dim = self._dim or rows.shape[1]
        return rows

    def __repr__(self) -> str:
        """Show the model and whether it is ready."""
        return f"Guard(model={self.model!r}, ready={self.is_ready})"


def _check(embedder: Embedder) -> Embedder:
    if not isinstance(embedder, Embedder) or not callable(embedder.embed):
        wish = "an object with model, dim and embed(texts)"
        raise error(DTypeError, "embedder", wish, type(embedder).__name__)
    if not isinstance(embedder.model, str):
        raise error(DTypeError, "embedder.model", "a str", type(embedder.model).__name__)
    if not embedder.model.strip():
        raise error(OptionError, "embedder.model", "a name", repr(embedder.model))
    return embedder


def _quietly(function: Callable[[], object]) -> None:
    with contextlib.suppress(BaseException):
        function()


# ---- Makes an embedder from an async function, which runs on its own event loop ----

_Function = Callable[[Sequence[str]], Awaitable[object]]


class AsyncEmbedder:
    """Calls an async function on its own event loop; made by :func:`from_async`."""

    def __init__(self, function: _Function, *, model: str, dim: int | None) -> None:
        """Check the arguments; the first call starts the loop."""
        if not callable(function):
            raise error(DTypeError, "function", "an async function", type(function).__name__)
        if not isinstance(model, str) or not model.strip():
            raise error(OptionError, "model", "a name", repr(model))
        self.model = model
        self.dim = dim
        self._function = function
        self._loop: asyncio.AbstractEventLoop | None = None
        self.renew()
        renew_in_children(self)

    def embed(self, texts: Sequence[str]) -> object:
        """Return the function's result, or raise its exception."""
        return self._future(texts).result()

    def embed_within(self, texts: Sequence[str], seconds: float) -> object:
        """Return the function's result, or cancel it after some seconds."""
        future = self._future(texts)
        try:
            return future.result(seconds)
        except TimeoutError:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the loop and cancel running calls."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)

    def renew(self) -> None:
        """Forget the parent's loop in a forked child; to close it would act on the parent's."""
        self._lock = threading.Lock()
        loop, self._loop = self._loop, None
        leave_to_parent(loop)

    def _future(self, texts: Sequence[str]) -> concurrent.futures.Future[object]:
        async def call() -> object:
            return await self._function(texts)

        import asyncio

        loop = self._running()
        return asyncio.run_coroutine_threadsafe(call(), loop)

    def _running(self) -> asyncio.AbstractEventLoop:
        import asyncio

        with self._lock:
            if self._loop is None:
                runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
                loop = runner.get_loop()
                try:
                    threads.start(partial(_run, runner), name="hyrecall-await", stop=self.close)
                except RuntimeError:
                    runner.close()
                    raise
                self._loop = loop
            return self._loop

    def __repr__(self) -> str:
        """Show the model."""
        return f"AsyncEmbedder({self.model!r})"


def from_async(function: _Function, *, model: str, dim: int | None = None) -> AsyncEmbedder:
    """Make an embedder from an async function, such as a method of an async client."""
    # All calls run on one event loop in its own thread, so a client can keep its connections.
    return AsyncEmbedder(function, model=model, dim=dim)


def _run(runner: asyncio.Runner) -> None:
    """Run a loop until it is stopped; its runner cancels what is left."""
    with runner:
        runner.get_loop().run_forever()


# ---- Embeds many texts by a guard, some at a time ----

_TEXTS_AT_ONCE = 64
SECONDS_PER_CALL = 60.0  # as for the memories of a store


def embed_texts(
    guard: Guard,
    texts: Sequence[str | None],
    *,
    seconds: float = math.inf,
    tell: Callable[[int, int], object] | None = None,
    refused: dict[int, NoVectors] | None = None,
) -> npt.NDArray[np.float32]:
    """Return one row per text."""
    until = time.monotonic() + seconds
    found: list[tuple[range, npt.NDArray[np.float32]]] = []
    for first in range(0, len(texts), _TEXTS_AT_ONCE):
        places = range(first, min(first + _TEXTS_AT_ONCE, len(texts)))
        budget = min(SECONDS_PER_CALL, until - time.monotonic())
        some = [texts[at] or "" for at in places]
        answer, why = guard.embed_each(some, budget=budget, waits=True)
        others = OF_TEXT if answer.any() else {EmbedFault.REFUSED}  # it is well, but for this text
        for at, fault in zip(places, why, strict=True):
            if fault is None:
                continue
            if fault.fault not in others:
                raise error_of_reply(fault, f"vectors of {len(places)} texts")
            if refused is None:
                raise error_of_reply(fault, f"a vector of text {at}")
            refused[at] = fault
        found.append((places, answer))
        if tell is not None:
            tell(places.stop, len(texts))
    # Replies for blank texts have zero columns if the embedder's dim is not known.
    dim = max([guard.dim or 1, *(part.shape[1] for _, part in found)])
    rows = np.zeros((len(texts), dim), np.float32)
    for places, part in found:
        rows[places.start : places.stop, : part.shape[1]] = part
    return rows
