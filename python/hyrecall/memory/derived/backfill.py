"""Embeds memories that have no vector of the embedder's model and length, or all memories.

It can be ended at any time: each page of rows is one transaction, and the next run goes on with
what is missing. An embedder that cannot say how long its vectors are is not asked for that alone:
the length counts from its first reply on. A run with ``force`` notes in ``meta`` how far it came,
as the number of a row: an id would outlive its erasure there. With another model or length it
begins anew.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import apsw
import numpy as np
import xxhash

from hyrecall.arm.newest import Newest
from hyrecall.base import threads
from hyrecall.base.progress import ProgressFunction
from hyrecall.embed.guard import OF_TEXT, Guard
from hyrecall.embed.protocol import EmbedFault, NoVectors
from hyrecall.errors import HyrecallError, OptionError, error
from hyrecall.index import Index
from hyrecall.memory.data.types import Episode
from hyrecall.memory.derived.follower import Follower
from hyrecall.memory.derived.layout import ARE_UNEMBEDDED, EVERYWHERE, IndexNotReadyError
from hyrecall.memory.sql.codec import (
    cells_by_number,
    encode_vector,
    every_cell,
    is_text,
    rows,
    to_json,
)
from hyrecall.memory.sql.database import Database
from hyrecall.memory.sql.reading import episodes_of_rows
from hyrecall.memory.sql.schema import HEAD, LIVE

PAGE = 64  # rows that are embedded in one call and written in one transaction
CURSOR = "reembed"
"""Name of the note in ``meta`` that says how far a forced run came."""

_LIVE = f"{HEAD} WHERE d.cell IN (SELECT value FROM json_each(?1)) AND {LIVE}"
_WANTED = (
    f"{_LIVE} AND v.row > ?2 AND v.row <= ?3 AND (?4 OR v.embedding IS NULL "
    "OR v.embedding_model <> ?5 OR length(v.embedding) <> ?6 * 4)"
)
_DIM = "SELECT dim FROM models WHERE model = ?"
_ANY_TEXT = "How long is a vector?"
_DAMAGED = "damaged: doctor(full=True) tells more"
# Faults of the whole embedder: retrying single rows would not help.
_OF_ALL = frozenset({EmbedFault.OFF, EmbedFault.HUNG, EmbedFault.RESTING, EmbedFault.CONFIGURATION})


WritePage = Callable[[tuple[tuple[int, bytes, str], ...], str | None, bool], int]
"""Writes row, vector and model of each, and the note of a run or, at its end, no note any more, in
one transaction; returns how many rows were live.
"""


@dataclass(frozen=True)
class RowError:
    """Why a memory has no new vector."""

    id: str
    user_id: str | None
    error: str


@dataclass(frozen=True)
class Reembedded:
    """The result of a backfill."""

    scanned: int
    embedded: int
    skipped: int
    errors: tuple[RowError, ...] = ()
    stopped: str | None = None


def reembed(
    database: Database,
    guard: Guard,
    cells: Collection[int],
    *,
    write: WritePage,
    force: bool = False,
    budget: float = 60.0,
    progress: ProgressFunction | None = None,
) -> Reembedded:
    """Embed the live memories of cells that have no vector of the embedder's model and length."""
    if guard.off is not None or guard.model is None:
        wish = 'one: set LTM_EMBEDDING_URL, or name the packaged model of [local], "static"'
        raise error(OptionError, "embedder", wish, guard.off.detail if guard.off else "none")
    if database.read_only:
        raise error(OptionError, "memory", "a store opened for writing", "read_only=True")
    many = guard.for_many()
    try:
        return _Backfill(database, many, guard.model, cells, write, force, budget).run(progress)
    finally:
        guard.learn_from(many)
        many.close()


@dataclass(frozen=True)
class _Page:
    """A page of rows to embed: their episodes, the damaged ones, and the last row number."""

    episodes: dict[int, Episode]
    damaged: list[RowError]
    last: int | None


class _Backfill:
    """One run: which rows to embed, and the results so far."""

    def __init__(
        self,
        database: Database,
        guard: Guard,
        model: str,
        cells: Collection[int],
        write: WritePage,
        force: bool,
        budget: float,
    ) -> None:
        self._database = database
        self._guard = guard
        self._model = model
        self._cells = cells
        self._commit = write
        self._listed = to_json(sorted(cells))
        self._force = force
        self._budget = budget
        self._errors: list[RowError] = []
        self._n_embedded = 0
        self._n_passed = 0  # have no text, or were changed meanwhile
        self._stopped: str | None = None
        self._last_dim: int | None = None

    def run(self, progress: ProgressFunction | None) -> Reembedded:
        with self._database.reading() as connection:
            self._last_dim = connection.execute(_DIM, (self._model,)).get
            after = self._resumed(connection) if self._force else 0
            last = connection.execute("SELECT ifnull(max(row), 0) FROM versions").get
            n_live = connection.execute(f"SELECT count(*) FROM {_LIVE}", (self._listed,)).get
            total = self._n_wanted(connection, after, last)
        done, dim = 0, self._dim
        while self._stopped is None:
            page = self._page(after, last)
            if page.last is None:
                break
            after = page.last
            self._errors += page.damaged
            self._write(self._embedded(page.episodes), after)
            done += len(page.episodes) + len(page.damaged)
            if self._dim != dim and not self._force:  # more are wanted than it seemed
                dim, after, done = self._dim, 0, self._n_embedded
                self._n_passed, self._errors = 0, []
                with self._database.reading() as connection:
                    total = done + self._n_wanted(connection, after, last)
            if progress is not None:
                progress(min(done, total), total)
        if self._force and self._stopped is None:
            self._commit((), None, True)
        skipped = n_live - total + self._n_passed
        errors = tuple(self._errors)
        return Reembedded(n_live, self._n_embedded, skipped, errors, self._stopped)

    @property
    def _dim(self) -> int | None:
        """Length of the embedder's vectors; before its first reply, that of the last vector."""
        return self._guard.dim or self._last_dim

    def _n_wanted(self, connection: apsw.Connection, after: int, last: int) -> int:
        select = f"SELECT count(*) FROM {_WANTED}"
        return int(connection.execute(select, self._range(after, last)).get)

    def _range(self, after: int, last: int) -> tuple[Any, ...]:
        """Return the values of ``_WANTED``."""
        return (self._listed, after, last, self._force, self._model, self._dim)

    def _page(self, after: int, last: int) -> _Page:
        """Read the next rows to embed, with their episodes."""
        select = f"SELECT v.row, d.cell, d.id FROM {_WANTED} ORDER BY v.row LIMIT {PAGE}"
        with self._database.reading() as connection:
            wanted = list(rows(connection, select, self._range(after, last)))
            numbers = [row for row, _, _ in wanted]
            episodes = episodes_of_rows(connection, numbers, self._cells, set())
            homes = cells_by_number(connection, self._cells)
        damaged = []
        for row, cell, key in wanted:
            if row not in episodes:
                name = key if is_text(key) else f"row {row}"
                user = homes[cell].user if cell in homes else None
                damaged.append(RowError(name, user, _DAMAGED))
        return _Page(episodes, damaged, numbers[-1] if numbers else None)

    def _embedded(self, page: dict[int, Episode]) -> Iterator[tuple[int, bytes, str]]:
        """Embed a page in one call, or in smaller ones if that fails; yield vectors to write."""
        with_text = [(row, episode) for row, episode in page.items() if episode.full_text.strip()]
        self._n_passed += len(page) - len(with_text)
        texts = [episode.full_text for _, episode in with_text]
        vectors, why = self._guard.embed_each(texts, budget=self._budget)
        for (row, episode), vector, fault in zip(with_text, vectors, why, strict=True):
            made: np.ndarray[Any, Any] | NoVectors = vector if fault is None else fault
            if fault is not None and fault.fault not in _OF_ALL | OF_TEXT:
                alone = self._guard.embed([episode.full_text], budget=self._budget)
                made = alone if isinstance(alone, NoVectors) else alone[0]
            if not isinstance(made, NoVectors):
                yield row, encode_vector(made), self._model
            elif made.fault in _OF_ALL:
                self._stopped = _told(made)
                return
            else:
                self._errors.append(RowError(episode.id, episode.user_id, _told(made)))

    def _write(self, rows: Iterator[tuple[int, bytes, str]], after: int) -> None:
        """Write a page's vectors, and the progress of a forced run."""
        made = tuple(rows)  # no call is made while the database is locked
        note = None
        if self._force and self._stopped is None:
            note = json.dumps({**self._kind, "row": after})
        n_set = self._commit(made, note, False)
        self._n_embedded += n_set
        self._n_passed += len(made) - n_set

    def _resumed(self, connection: apsw.Connection) -> int:
        """Return the last row of an interrupted run of the same kind, or 0."""
        # A note that is damaged counts as none.
        select = "SELECT value FROM meta WHERE name = ?"
        try:
            found = connection.execute(select, (CURSOR,)).get
            if found is None:
                return 0
            note = json.loads(found)
            row, kind = note["row"], {name: note[name] for name in self._kind}
        except (ValueError, TypeError, KeyError):
            return 0
        if not isinstance(row, int) or row not in range(2**63):
            return 0
        if self._guard.dim is None:
            self._guard.embed([_ANY_TEXT], budget=self._budget)  # a fault is met again, and told
        return row if kind == self._kind else 0

    @property
    def _kind(self) -> dict[str, Any]:
        """The model and length by which a run recognises the one that it continues."""
        cells = xxhash.xxh3_64_hexdigest(self._listed.encode())
        return {"model": self._model, "dim": self._guard.dim, "cells": cells}


def _told(answer: NoVectors) -> str:
    return f"{answer.fault}: {answer.told}" if answer.told else str(answer.fault)


# ---- Embeds by itself what has no usable vector, on a thread beside writers and searches ----

_log = logging.getLogger("hyrecall.memory")

FILLING = "embedding what has no vector"
"""What the background does until it is done."""

FIRST_SECONDS = 2.0  # after the opening: a handle that is open for a moment starts nothing
MOST_FILLED = 32  # memories of a call of the embedder, and of a transaction
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
        write: Callable[[tuple[tuple[int, bytes, str], ...]], int],
        take_dim: Callable[[int], None],
        *,
        at_once: bool = True,
    ) -> None:
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
            or (index is not None and not _rows_without(index, 1, self._refused))
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
                wanted = _rows_without(index, MOST_FILLED, self._refused)
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
        rows = [(row, one) for row, one in episodes.items() if one.full_text.strip()]
        if not rows:
            return ""
        vectors, why = many.embed_each(
            [one.full_text for _, one in rows], budget=PAGE_SECONDS, waits=True
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
            self._n_embedded += self._write(made)
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


def _rows_without(index: Index, most: int, without: set[int]) -> list[int]:
    """Return rows without a usable vector, the newest first."""
    hits: Any = index.recall(
        arms=Newest("updated_at"),
        scope=EVERYWHERE,
        filter=ARE_UNEMBEDDED,
        limit=most + len(without),
        columns=("row",),
    )
    found = hits.to_arrow().column("row").to_pylist()
    return [row for row in found if row not in without][:most]
