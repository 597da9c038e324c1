"""Vectors within a budget, or the reason why there are none: never an error, never a hang."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hyrecall.base import threads
from hyrecall.base.keywords import check_keywords
from hyrecall.embed.breaker import Breaker
from hyrecall.embed.pool import AllHungError, LateError, Pool, PoolClosedError
from hyrecall.embed.protocol import Embedder, EmbedError, EmbedFault, NoVectors, check_vectors
from hyrecall.errors import DTypeError, OptionError, error

__all__ = ["Guard", "Off"]

Rows = npt.NDArray[np.float32]

_WAY_BACK = 0.003  # seconds of a budget kept for waking up and answering
_HURRY = 0.05  # seconds: less than that is no time for an embedder to fail in
_CLOSE_SECONDS = 1.0
_LATE = (EmbedFault.TIMEOUT, EmbedFault.HUNG)


@dataclass(frozen=True)
class Off:
    """Stands for an embedder where there is none.

    Attributes
    ----------
    detail : str
        Why, and how there could be one.
    is_choice : bool
        The caller wants none (``embedder=None``): answers are not degraded by it.
    """

    detail: str = ""
    is_choice: bool = False


@check_keywords
class Guard:
    """Ask an embedder so that nothing it does can hurt the one who asks.

    It runs on threads of the guard; after the budget it is left alone. Whatever it raises becomes a
    fault; after five faults in a row it rests for 30 seconds. One caller in a hurry must not take
    the vectors from all the others: a reply that is too late for a budget below 50 ms is no fault,
    and while it has not come, no other such call is made. Threads may share a guard.

    Parameters
    ----------
    embedder : Embedder or Off
    dim : int, optional
        Length of a vector that the caller can use; default: the embedder's, or that of its first
        good reply.
    workers : int, default 2
        How many calls are made at once.
    breaker : Breaker, optional
        When it rests; default: after five faults, for 30 seconds.
    usual : float, optional
        Seconds that callers spend where they say nothing; below 50 ms, a reply too late for that
        counts as a fault.
    closes : bool, default False
        Whether :meth:`close` closes the embedder too: it does for one that nobody else has.
    clock : callable, default ``time.monotonic``
        For rests; budgets are true time.

    Raises
    ------
    DTypeError
        It is no embedder, or its model is no str.
    OptionError
        Its model has no name.

    Examples
    --------
    >>> from hyrecall.embed import HashEmbedder
    >>> guard = Guard(HashEmbedder(dim=8))
    >>> guard.embed(["tea", "coffee"], budget=1.0).shape
    (2, 8)
    >>> Guard(Off("switched off")).embed(["tea"], budget=1.0)
    NoVectors(fault=<EmbedFault.OFF: 'off'>, detail='switched off')
    """

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
        """Call nothing yet."""
        self.off = embedder if isinstance(embedder, Off) else None
        self._embedder = None if isinstance(embedder, Off) else _check(embedder)
        self.model = None if self._embedder is None else self._embedder.model
        self._dim = dim or getattr(embedder, "dim", None)
        self._breaker = breaker or Breaker(clock=clock)
        self._closes = closes
        self._hurry = min(usual, _HURRY)
        self._pool: Pool[Sequence[str], Rows | NoVectors] = Pool(
            self._call, workers=workers, clock=clock
        )
        self._warmed = threading.Event()
        self._warmed.set()  # nothing is being loaded
        self._has_warmed = False
        self._warming_since = 0.0
        self._answered = False  # by the last call that said anything of the embedder
        self._pid = os.getpid()
        self._n_calls = 0
        self._faults: Counter[EmbedFault] = Counter()

    @property
    def dim(self) -> int | None:
        """Length of a vector; None: not known before the first reply."""
        return self._dim

    @property
    def timeout(self) -> float | None:
        """Seconds that the embedder gives itself for a call, if it says so."""
        given = getattr(self._embedder, "timeout", None)
        return float(given) if isinstance(given, int | float) else None

    def embed(
        self, texts: Sequence[str], *, budget: float, waits: bool = False
    ) -> Rows | NoVectors:
        """Embed texts.

        Parameters
        ----------
        texts : sequence of str
            Blank ones are not sent.
        budget : float
            Seconds in which there is an answer of either kind.
        waits : bool, default False
            While the embedder loads what it needs, wait for that: within the budget, and for no
            longer than the budget from when the loading began, so that one that hangs holds up
            its first callers only.

        Returns
        -------
        ndarray, shape (len(texts), dim), float32, or NoVectors
            Finite; a text that is blank or has no token has a zero row. (n, 0) if all are blank and
            the dim is not known.
        """
        begun = time.monotonic()
        if self.off is not None:
            return NoVectors(EmbedFault.OFF, self.off.detail)
        asked = [at for at, text in enumerate(texts) if text.strip()]
        if not asked:
            return np.zeros((len(texts), self._dim or 0), np.float32)
        answer = self._ask([texts[at] for at in asked], begun, budget, waits=waits)
        if isinstance(answer, NoVectors):
            self._faults[answer.fault] += 1
            return answer
        if len(asked) == len(texts):
            return answer
        rows = np.zeros((len(texts), answer.shape[1]), np.float32)
        rows[asked] = answer
        return rows

    def for_many(self, *, failures: int = 20) -> Guard:
        """Return a guard on the same embedder for a long work: apart from this one's rests.

        It waits while the embedder loads what it needs, and rests after more failures. It is to be
        closed on its own.

        Parameters
        ----------
        failures : int, default 20
            So many in a row begin a rest; at least 1.

        Returns
        -------
        Guard
            With one worker.
        """
        embedder = self.off if self._embedder is None else self._embedder
        assert embedder is not None
        return Guard(embedder, dim=self._dim, workers=1, breaker=Breaker(failures))

    def learn_from(self, other: Guard) -> None:
        """Take what one of :meth:`for_many` found out: how long a vector is if that is not known.

        A rest ends if the other's last call was answered.

        Parameters
        ----------
        other : Guard
        """
        self._dim = self._dim or other.dim
        if other._answered:
            self._breaker.succeeded()

    def start_warming(self) -> None:
        """Let the embedder load what it needs, on a thread; until it has, calls are not made.

        It is done once: later calls do nothing.
        """
        warm = getattr(self._embedder, "warm", None)
        if warm is None or self._has_warmed:
            return
        self._has_warmed = True
        self._warming_since = time.monotonic()
        self._warmed.clear()

        def run() -> None:
            _quietly(warm)  # what it raises a call will meet too, and say so
            self._warmed.set()

        try:
            threads.start(run, name="hyrecall-warm")
        except RuntimeError:  # the system has no more threads: the first call loads it
            self._warmed.set()

    def wait_until_loaded(self, timeout: float) -> bool:
        """Let the embedder load what it needs, and wait for that.

        Parameters
        ----------
        timeout : float
            Seconds at most.

        Returns
        -------
        bool
            Whether nothing is being loaded. What could not be loaded counts as loaded: calls say
            what is wrong.
        """
        self.start_warming()
        return self._is_loaded(time.monotonic() + timeout)

    @property
    def is_ready(self) -> bool:
        """Whether calls are made: it is not off, and what it needs is loaded."""
        return self.off is None and self._warmed.is_set()

    def state(self) -> dict[str, Any]:
        """Return what is known, for a report.

        Returns
        -------
        dict of str
            Model, dim, whether it is ready, the breaker's state, counts of calls and faults; no
            text that was to be embedded.
        """
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
        """Make no more calls, and answer those who wait for one. Closing twice is fine.

        A call that is under way is left alone, however long it takes.
        """
        self._pool.close()
        self._warmed.set()
        close = getattr(self._embedder, "close", None) if self._closes else None
        if close is not None and self._pid == os.getpid():
            with contextlib.suppress(RuntimeError):  # the system has no more threads
                thread = threads.start(partial(_quietly, close), name="hyrecall-close")
                thread.join(_CLOSE_SECONDS)

    def _ask(
        self, texts: list[str], begun: float, budget: float, *, waits: bool
    ) -> Rows | NoVectors:
        if self._pid != os.getpid():
            return NoVectors(EmbedFault.OFF, "made in the process that forked this one")
        until = begun + budget - _WAY_BACK
        if not self._is_loaded(min(until, self._warming_since + budget) if waits else 0.0):
            return NoVectors(EmbedFault.NOT_READY)
        left = until - time.monotonic()
        if not left > 0:
            return NoVectors(EmbedFault.TIMEOUT, "no time was left to ask")
        is_hurried = budget < self._hurry
        if is_hurried and (n_left := self._pool.counts()["hung"]):
            # It would hold the next thread too, and then the last one.
            return NoVectors(EmbedFault.HUNG, f"{n_left} calls have not come back")
        if not self._breaker.admits():
            return NoVectors(EmbedFault.RESTING, f"for {self._breaker.rests_for:.0f} s")
        self._n_calls += 1
        try:
            answer = self._pool.run(texts, left)
        except LateError:
            answer = NoVectors(EmbedFault.TIMEOUT, f"no reply within {budget * 1000:.0f} ms")
        except AllHungError as hung:
            answer = NoVectors(EmbedFault.HUNG, f"{hung.args[0]} calls have not come back")
        except PoolClosedError:
            answer = NoVectors(EmbedFault.OFF, "closed")
        except BaseException:  # of a signal, while it waited
            self._breaker.undecided()
            raise
        if not isinstance(answer, NoVectors):
            self._breaker.succeeded()
            self._answered = True
        elif answer.fault in _LATE and is_hurried:
            self._breaker.undecided()
        else:
            self._breaker.failed()
            self._answered = False
        return answer

    def _is_loaded(self, until: float) -> bool:
        """Wait until then for the embedder to be loaded; say whether it is."""
        return self._warmed.is_set() or self._warmed.wait(max(0.0, until - time.monotonic()))

    def _call(self, texts: Sequence[str], until: float) -> Rows | NoVectors:
        """Call the embedder, on a thread of the pool."""
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
            return NoVectors(fault.fault, str(fault).removeprefix("embedder: "))
        except TimeoutError:
            return NoVectors(EmbedFault.TIMEOUT, "it gave up")
        except BaseException as fault:  # SystemExit too: a worker does not die of its embedder
            return NoVectors(EmbedFault.CRASHED, type(fault).__name__)
        self._dim = self._dim or rows.shape[1]
        return rows

    def __repr__(self) -> str:
        """Show the model and whether it is asked."""
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
