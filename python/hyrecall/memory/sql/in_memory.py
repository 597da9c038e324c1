"""A database in the memory of this process, for a store that ends with its handle.

SQLite's ``memdb`` shares the pages between connections, but has no write-ahead log: a reader
cannot see the state before a change that is under way. So readings and changes take turns here;
readings run side by side.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import apsw

from hyrecall.base.version import __version__
from hyrecall.errors import StoreError, error
from hyrecall.memory.sql.connecting import check_sqlite, connect_in_memory, sqlite_named
from hyrecall.memory.sql.database import Database, Outcome
from hyrecall.memory.sql.schema import migrate

IN_MEMORY = ":memory:"
"""The path of a store in memory, as SQLite spells it."""

PATIENCE = 0.05
"""Seconds that a reading lets a waiting change go first. Without them, readers that overlap would
keep a writer out for ever; without an end, a reading could wait for a change that waits for it."""

_numbers = itertools.count(1)


class MemoryDatabase(Database):
    """The connections to a database in memory. Make one with :meth:`make`; threads may share it."""

    # It has no folder, no lock and no log. It is gone when it is closed and its readings have
    # ended.

    def __init__(self) -> None:
        """Hold nothing yet; use :meth:`make`."""
        super().__init__(Path(IN_MEMORY), None, None, is_writer=True)
        self._file = f"/hyrecall-{next(_numbers)}"
        self._turns = _Turns()
        self._keeper: apsw.Connection | None = None

    @property
    def folder(self) -> None:
        """None: there is no folder."""
        return

    @classmethod
    def make(cls) -> MemoryDatabase:
        """Make an empty database with a store's tables."""
        check_sqlite(apsw.sqlite_lib_version())
        self = cls()
        with sqlite_named(self._name):
            # Open as long as the store is: the writer's connection is replaced after a fault.
            self._keeper = self._connect()
            migrate(self._keeper, now=datetime.now(UTC), made_by=f"hyrecall {__version__}")
        return self

    def _connect(self) -> apsw.Connection:
        return connect_in_memory(self._file, writing=True)

    def _open_reader(self) -> apsw.Connection:
        return connect_in_memory(self._file, writing=False)

    def close(self) -> None:
        """Close every connection. Closing twice is fine."""
        super().close()
        if not self._birth.is_here:
            return
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.close()

    @contextmanager
    def transaction(self) -> Iterator[apsw.Connection]:
        """Change the database when no reading is under way: all of it or nothing."""
        self.check_usable()
        with self._turns.changing(), super().transaction() as connection:
            yield connection

    def commit(self, work: Callable[[apsw.Connection], object], outcome: Outcome) -> None:
        """Run a function in a transaction when no reading is under way."""
        self.check_usable()
        with self._turns.changing():
            super().commit(work, outcome)

    def check_may_write(self) -> None:
        """Refuse a thread that is reading: a change would wait for it."""
        super().check_may_write()
        self._turns.check_may_change()

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """Read the database when no change is under way."""
        self.check_usable()
        with self._turns.reading(), super().reading() as connection:
            yield connection

    def checkpoint(self, *, wait: float = 5.0) -> bool:
        """Return True: there is no log that could hold anything."""
        del wait
        return True

    def vacuum(self) -> None:
        """Write the database anew without unused pages, when no reading is under way."""
        self.check_usable()
        with self._turns.changing(), self._writing, sqlite_named(self._name):
            self._ready_writer().execute("VACUUM")

    def size(self) -> int:
        """Return the bytes that the pages take."""
        with self.reading() as connection:
            return int(connection.pragma("page_count")) * int(connection.pragma("page_size"))


class _Turns:
    """Any number of readings, or one change."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._readers: Counter[int] = Counter()  # thread -> how many readings it is in
        self._changer: int | None = None
        self._n_waiting = 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        me = threading.get_ident()
        with self._turn:
            if self._changer == me:
                raise _nested("a reading after the change")
            if me not in self._readers:  # a reading inside another must not wait for itself
                self._turn.wait_for(lambda: not (self._n_waiting or self._changer), PATIENCE)
                self._turn.wait_for(lambda: not self._changer)
            self._readers[me] += 1
        try:
            yield
        finally:
            with self._turn:
                self._readers[me] -= 1
                if not self._readers[me]:
                    del self._readers[me]
                    self._turn.notify_all()

    def check_may_change(self) -> None:
        if threading.get_ident() in self._readers:
            raise _nested("a change after the reading that it is in")

    @contextmanager
    def changing(self) -> Iterator[None]:
        me = threading.get_ident()
        with self._turn:
            if me in self._readers or self._changer == me:
                raise _nested("a change after the reading or change that it is in")
            self._n_waiting += 1
            try:
                self._turn.wait_for(lambda: not (self._readers or self._changer))
                self._changer = me
            finally:
                self._n_waiting -= 1
                self._turn.notify_all()
        try:
            yield
        finally:
            with self._turn:
                self._changer = None
                self._turn.notify_all()


def _nested(wish: str) -> StoreError:
    return error(StoreError, IN_MEMORY, wish, "one inside it, in the same thread")
