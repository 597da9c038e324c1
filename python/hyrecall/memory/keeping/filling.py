"""Embeds by itself what has no usable vector, on a thread beside writers and searches."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from hyrecall.ask.arms import Newest
from hyrecall.base import threads
from hyrecall.embed.guard import OF_TEXT, Guard
from hyrecall.embed.protocol import EmbedFault, NoVectors
from hyrecall.errors import HyrecallError
from hyrecall.index import Index
from hyrecall.memory.changes.vectors import SetVectors
from hyrecall.memory.data.types import Episode
from hyrecall.memory.derived.comparable_vectors import EVERYWHERE, UNEMBEDDED
from hyrecall.memory.derived.follower import Follower
from hyrecall.memory.derived.readiness import IndexNotReadyError
from hyrecall.memory.sql.cells import every_cell
from hyrecall.memory.sql.codec import encode_vector
from hyrecall.memory.sql.database import Database
from hyrecall.memory.sql.reading import episodes_of_rows

__all__ = ["FILLING", "Filling"]

_log = logging.getLogger("hyrecall.memory")

FILLING = "embedding what has no vector"
"""What the background does until it is done."""

FIRST_SECONDS = 2.0  # after the opening: a handle that is open for a moment starts nothing
PAGE = 32  # memories of a call of the embedder, and of a transaction
PAGE_SECONDS = 60.0
LONGEST_REST = 1.0  # after a page, as long as it took: others use the model and the processor too
LONGEST_WAIT = 60.0  # between two tries of an embedder that fails


class Filling:
    """Embeds memories without a usable vector, the newest first, while there are any."""

    # What is left to do is what the store's rows say, so it goes on after an interruption. A text
    # that the embedder refuses is left alone until the store is opened again, or until ``reembed``.

    def __init__(
        self,
        database: Database,
        guard: Guard,
        follower: Follower,
        write: Callable[[SetVectors], int],
        take_dim: Callable[[int], None],
        *,
        at_once: bool = True,
    ) -> None:
        """Do nothing before :meth:`due` is called."""
        self._database, self._guard, self._follower = database, guard, follower
        self._write, self._take_dim = write, take_dim
        self._at_once = at_once
        self._wake = threading.Condition()
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self._many: Guard | None = None
        self._refused: set[int] = set()
        self._written: set[int] = set()  # of the last page
        self._pid = os.getpid()
        self._n_embedded = 0
        self._trouble = ""
        self._n_tries = 0
        self._next = time.monotonic() + FIRST_SECONDS

    def due(self) -> bool:
        """Start the thread if there is something to do and it is time; return whether there is
        nothing more.
        """
        index = self._index()
        is_unused = not self._at_once and not self._guard.was_asked
        if (
            self._is_closed
            or is_unused
            or (index is not None and not _rows(index, 1, self._refused))
        ):
            return True
        is_running = self._thread is not None and self._thread.is_alive()
        if index is not None and not is_running and time.monotonic() >= self._next:
            try:
                self._thread = threads.start(self._run, name="hyrecall-embed", stop=self.stop)
            except RuntimeError as fault:
                _log.warning("there is no thread that embeds what has no vector: %s", fault)
                return True
        return False

    def told(self) -> str:
        """Say how far it came, and what stops it; no text, and nothing that an endpoint said."""
        told = [f"{self._n_embedded} embedded so far"] if self._n_embedded else []
        if self._refused:
            told.append(f"{len(self._refused)} refused by the embedder: reembed() names them")
        if self._trouble:
            left = max(self._next - time.monotonic(), 0.0)
            told.append(f"{self._trouble}; tried again in {left:.0f} s")
        return ", ".join(told)

    def stop(self) -> None:
        """Start no more work, and wake the thread, which a forked child does not have."""
        if self._pid != os.getpid():
            return
        with self._wake:
            self._is_closed = True
            many = self._many
            self._wake.notify_all()
        if many is not None:
            many.close()  # whoever waits for the embedder gives up

    def close(self) -> None:
        """Stop, and wait for the transaction at work. Closing twice is fine."""
        self.stop()
        thread = self._thread
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join()

    def _index(self) -> Index | None:
        """Return an up-to-date index for the embedder's model, or None."""
        if self._follower.model != self._guard.model:
            return None
        try:
            self._follower.catch_up()
            return self._follower.ready().index
        except (IndexNotReadyError, HyrecallError):
            return None

    def _run(self) -> None:
        many = self._guard.for_many()
        with self._wake:
            if self._is_closed:
                many.close()
                return
            self._many = many
        trouble = ""
        try:
            while not self._is_closed and not trouble and (index := self._index()) is not None:
                wanted = _rows(index, PAGE, self._refused)
                if not wanted:
                    break
                begun = time.monotonic()
                trouble = self._fill(many, wanted)
                with self._wake:
                    rest = min(time.monotonic() - begun, LONGEST_REST)
                    self._wake.wait_for(lambda: self._is_closed, rest)
        except Exception as fault:  # the store cannot be written, say; its message may hold a text
            trouble = type(fault).__name__
        finally:
            many.close()
        self._n_tries = self._n_tries + 1 if trouble else 0
        self._next = time.monotonic() + (
            min(2.0 ** (self._n_tries - 1), LONGEST_WAIT) if trouble else 0
        )
        if trouble and trouble != self._trouble and not self._is_closed:
            _log.warning("memories without a vector wait for the embedder: %s", trouble)
        self._trouble = trouble

    def _fill(self, many: Guard, wanted: list[int]) -> str:
        """Embed rows and write their vectors; return what is wrong with the embedder, or ""."""
        damaged: set[int] = set()
        with self._database.reading() as connection:
            episodes = episodes_of_rows(connection, wanted, every_cell(connection), damaged)
        self._refused |= set(wanted) - set(episodes)  # damaged, or changed meanwhile
        self._refused |= set(wanted) & self._written  # the index does not take what was made
        rows = [(row, one) for row, one in episodes.items() if one.text.strip()]
        if not rows:
            return ""
        vectors, why = many.embed_each(
            [one.text for _, one in rows], budget=PAGE_SECONDS, waits=True
        )
        self._guard.learn_from(many)
        if many.dim is not None and many.dim != self._follower.dim:
            self._take_dim(many.dim)
        model = self._guard.model
        assert model is not None
        made = tuple(
            (row, encode_vector(vector), model)
            for (row, _), vector, fault in zip(rows, vectors, why, strict=True)
            if fault is None
        )
        if made:
            self._n_embedded += self._write(SetVectors(made))
            self._written = {row for row, _, _ in made}
            self._n_tries = 0
        return self._judge(rows, why, has_any=bool(made))

    def _judge(
        self, rows: list[tuple[int, Episode]], why: list[NoVectors | None], *, has_any: bool
    ) -> str:
        """Leave refused rows alone; return a fault that is the embedder's."""
        for (row, _), fault in zip(rows, why, strict=True):
            if fault is None:
                continue
            if fault.fault is EmbedFault.REFUSED or (has_any and fault.fault in OF_TEXT):
                self._refused.add(row)
            else:
                return f"{fault.fault}: {fault.detail}" if fault.detail else str(fault.fault)
        return ""


def _rows(index: Index, most: int, without: set[int]) -> list[int]:
    """Return rows without a usable vector, the newest first."""
    hits: Any = index.recall(
        arms=Newest("updated_at"),
        scope=EVERYWHERE,
        filter=UNEMBEDDED,
        limit=most + len(without),
        columns=("row",),
    )
    found = hits.to_arrow().column("row").to_pylist()
    return [row for row in found if row not in without][:most]
