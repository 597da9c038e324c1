"""Keeps conversations in the store, so that a restarted agent and a shell continue them."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import apsw

from hyrecall.base import threads
from hyrecall.memory.data.sessions import MOST_SESSIONS, SessionName, still_known
from hyrecall.memory.sql.codec import (
    OF_OWNER,
    from_micros,
    is_text,
    is_time,
    rows,
    to_json,
    to_micros,
)
from hyrecall.memory.sql.database import Database
from hyrecall.memory.sql.schema import meta
from hyrecall.stages.session import LONGEST, Session

_log = logging.getLogger("hyrecall.memory")

MOST_OF_A_USER = 1_000
"""Conversations of one user that are kept, those that recalled last; nobody displaces another's."""


class Conversation(NamedTuple):
    """The documents that a conversation has received, ready to be written."""

    name: SessionName
    last: datetime
    session: Session
    erasures: int
    was_kept: bool


_MOST_RECALLS = 2**53
_LAST_TIME = to_micros(datetime.max.replace(tzinfo=UTC))

_NAMED = f"{OF_OWNER} AND name = ?4"


class StoreSessions:
    """As :class:`InProcessSessions`, in tables of the store; conversations are kept for 24
    hours.
    """

    # A recall waits for no write: what it gave is known at once and written by a thread of its own,
    # so that a process that is killed may lose the last recall of a conversation, never a memory.
    # The exit waits for the thread, also if nobody closes the store. Where there can be no thread,
    # the recall writes. In a store that is only read, conversations go on in this process.

    def __init__(
        self, database: Database, write: Callable[[tuple[Conversation, ...]], object]
    ) -> None:
        self._database = database
        self._save = write
        self._lock = threading.Lock()
        self._pending: OrderedDict[SessionName, Conversation] = OrderedDict()  # not written yet
        # Of recalls under way: the number of erasures before they read any memory.
        self._began: OrderedDict[tuple[SessionName, datetime], int] = OrderedDict()
        self._writing = threading.Lock()
        self._is_due = False
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def session(self, name: SessionName, *, now: datetime) -> Session:
        """Return what a conversation met in 24 hours, as :meth:`SessionTracker.session`."""
        with self._lock, self._database.reading() as connection:
            self._began[name, now] = int(meta(connection, "erasures"))
            while len(self._began) > MOST_SESSIONS:
                self._began.popitem(last=False)
            held = self._held(connection, name, now)
        return still_known(held.session, held.last, now)

    def record(self, name: SessionName, ids: Sequence[str], *, now: datetime) -> None:
        """Keep what a recall gave, as :meth:`SessionTracker.record`."""
        with self._lock, self._database.reading() as connection:
            held = self._held(connection, name, now)
            known = still_known(held.session, held.last, now)
            self._pending[name] = held._replace(
                last=now,
                session=known.after(ids, now=now),
                erasures=min(self._began.pop((name, now), held.erasures), held.erasures),
            )
            self._pending.move_to_end(name)
            while len(self._pending) > MOST_SESSIONS:
                self._pending.popitem(last=False)
            if self._database.read_only or self._is_closed:
                return
            self._is_due = True
            if self._has_thread():
                return
        self._try_flush()

    def flush(self) -> None:
        """Write what is not written yet."""
        if self._database.read_only:
            return
        with self._writing:
            with self._lock:
                taken = dict(self._pending)
            if not taken:
                return
            self._save(tuple(taken.values()))
            with self._lock:
                for name, kept in taken.items():
                    if self._pending.get(name) is kept:
                        del self._pending[name]

    def close(self) -> None:
        """Write what is left and end the thread. Closing twice is fine."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        if thread is not None:
            thread.join()  # in a forked child the thread is not there
        if self._pending:
            self._try_flush()

    def _held(self, connection: apsw.Connection, name: SessionName, now: datetime) -> Conversation:
        found = self._pending.get(name)
        if found is not None:
            return found
        loaded = _load(connection, name, now)
        last, session = loaded or (now, Session())
        erasures = int(meta(connection, "erasures"))
        return Conversation(name, last, session, erasures, loaded is not None)

    def _has_thread(self) -> bool:
        """Start the thread if there is none; say whether there is one."""
        if self._thread is None:
            try:
                self._thread = threads.start(self._write, name="hyrecall-conversations")
            except RuntimeError as fault:  # no more threads, or the interpreter is exiting
                _log.debug("there is no thread that writes conversations: %s", fault)
        return self._thread is not None

    def _write(self) -> None:
        try:
            while self._is_wanted():
                self._try_flush()
        finally:  # whatever ended it: a recall that came meanwhile, or the next one, starts another
            with self._lock:
                if self._thread is threading.current_thread():
                    self._thread = None
                    if self._is_due:
                        self._has_thread()

    def _is_wanted(self) -> bool:
        """Say whether there is something to write; else the thread ends."""
        with self._lock:
            is_due, self._is_due = self._is_due, False
            if not is_due:
                self._thread = None
            return is_due

    def _try_flush(self) -> None:
        """Write; a fault is logged, and the next recall tries again."""
        try:
            self.flush()
        except Exception as fault:
            _log.debug("conversations could not be written: %s", type(fault).__name__)


def count_damaged(connection: apsw.Connection, *, full: bool) -> int:
    """Count the conversations that cannot be decoded; not ``full``: without reading their ids."""
    select = "SELECT session, org, workspace, user, name, last, n_recalls FROM sessions ORDER BY 1"
    damaged = {
        number
        for number, *owner, name, last, n_recalls in rows(connection, select)
        if not (_is_count(n_recalls) and is_time(last))
        or not is_text(name, *(one for one in owner if one is not None))
    }
    if full:
        met = rows(connection, "SELECT session, id, at FROM session_ids ORDER BY 1, 2")
        damaged |= {number for number, key, at in met if not (is_text(key) and is_time(at))}
    return len(damaged)


def _is_count(n_recalls: object) -> bool:
    return isinstance(n_recalls, int) and 0 <= n_recalls <= _MOST_RECALLS


def _load(
    connection: apsw.Connection, name: SessionName, now: datetime
) -> tuple[datetime, Session] | None:
    """Read a conversation."""
    # None: there is none, or its rows are damaged: they cannot be decoded, or have a time that is
    # more than a day in the future.
    select = f"SELECT session, last, n_recalls FROM sessions WHERE {_NAMED}"
    found = connection.execute(select, name).get
    if found is None:
        return None
    number, last, n_recalls = found
    met = connection.execute("SELECT id, at FROM session_ids WHERE session = ?", (number,))
    try:
        accessed = {key: from_micros(at) for key, at in met}
        ended = from_micros(last)
    except (TypeError, ValueError, OverflowError):
        return None
    is_future = any(time - now > LONGEST for time in (ended, *accessed.values()))
    if is_future or not _is_count(n_recalls):
        return None
    return ended, Session(accessed, n_recalls)


def save_conversations(connection: apsw.Connection, met: Sequence[Conversation]) -> None:
    """Replace conversations in the caller's transaction."""
    # A recall may have ended before an erasure and come here after it: then what was erased is left
    # out, and so is a conversation that was erased itself.
    erasures = int(meta(connection, "erasures"))
    for one in met:
        left = one.session if one.erasures == erasures else _without_erased(connection, one)
        if left is not None:
            _save(connection, one.name, one.last, left)


_LEFT = """SELECT value FROM json_each(?1) WHERE EXISTS (
  SELECT 1 FROM cells c JOIN documents d ON d.cell = c.cell AND d.id = value
  WHERE c.org IS ?2 AND c.workspace IS ?3 AND (c.user IS ?4 OR c.visibility = 'global'))"""
"""The ids of a list that a user can still meet: its own, and shared ones of others."""


def _without_erased(connection: apsw.Connection, one: Conversation) -> Session | None:
    """Return what a conversation met that is still there; None: it is not to be written."""
    select = f"SELECT 1 FROM sessions WHERE {_NAMED}"
    if one.was_kept and connection.execute(select, one.name).get is None:
        return None
    met = one.session.accessed
    given = (to_json(tuple(map(str, met))), *one.name[:3])
    left = {key for (key,) in connection.execute(_LEFT, given)}
    kept = {key: at for key, at in met.items() if str(key) in left}
    return Session(kept, one.session.n_recalls) if kept or one.was_kept or not met else None


def _save(connection: apsw.Connection, name: SessionName, last: datetime, session: Session) -> None:
    """Replace a conversation, and forget those that are over or whose time is damaged."""
    over = "DELETE FROM sessions WHERE last <= ? OR last > ?"
    connection.execute(over, (to_micros(last - LONGEST), _LAST_TIME))
    connection.execute(f"DELETE FROM sessions WHERE {_NAMED}", name)
    insert = (
        "INSERT INTO sessions (org, workspace, user, name, last, n_recalls) "
        "VALUES (?, ?, ?, ?, ?, ?) RETURNING session"
    )
    number = connection.execute(insert, (*name, to_micros(last), session.n_recalls)).get
    connection.executemany(
        "INSERT INTO session_ids (session, id, at) VALUES (?, ?, ?)",
        [(number, str(key), to_micros(at)) for key, at in session.accessed.items()],
    )
    displaced = (
        f"DELETE FROM sessions WHERE session IN (SELECT session FROM sessions WHERE {OF_OWNER} "
        "ORDER BY last DESC, session DESC LIMIT -1 OFFSET ?4)"
    )
    connection.execute(displaced, (*name[:3], MOST_OF_A_USER))
