"""The index of a store: opened or built, kept up to date, saved, and rebuilt after damage."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw

from hyrecall.base import threads
from hyrecall.base.forks import Birth
from hyrecall.base.progress import ProgressFunction
from hyrecall.errors import CorruptIndexError, DeviceUnavailableError, HyrecallError, StoreError
from hyrecall.memory.data.matches import DegradedReason
from hyrecall.memory.derived import derived_index as derived
from hyrecall.memory.derived import projection
from hyrecall.memory.derived.derived_index import (
    Derived,
    IndexChanges,
    Wish,
    drop_snapshot,
    keep_snapshot,
    may_hold_erased,
    take_snapshot,
)
from hyrecall.memory.derived.layout import (
    BEHIND,
    How,
    IndexNotReadyError,
    Layout,
    OpenReport,
    Ready,
    count_unembedded,
)
from hyrecall.memory.sql.database import Database
from hyrecall.memory.sql.lost_changes import HEADER, INDEX, StaleError
from hyrecall.memory.sql.schema import meta

__all__ = ["INDEX", "Background", "Follower"]

SMALL_STORE = 20_000
"""Up to so many documents, an index is built while the caller waits: half a second."""

RETRY_SECONDS = 30.0
"""After an index could not be made or followed, so long goes by before it is tried again."""

_log = logging.getLogger("hyrecall.memory")


class Follower:
    """The index of a store, with every committed change applied. Threads may share it."""

    def __init__(
        self,
        database: Database,
        folder: Path | None,
        layout: Layout,
        *,
        model: str | None,
        dim: int,
        may_save: bool,
        device: str = "cpu",
        threads: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set the options; :meth:`open` opens or builds the index."""
        self._database = database
        self._folder = folder
        self._wish = Wish(layout, model, dim, device, threads)
        self._save_to = folder if may_save else None
        self._clock = clock
        self._birth = Birth()
        self._lock = threading.Lock()  # around every change of the index: it takes one writer
        self._held: Derived | None = None
        self._offering = threading.Lock()
        self._offered: IndexChanges | None = None
        self._saved = 0
        self._is_later = False
        self._failed: tuple[float, str] | None = None
        self._counts: Counter[str] = Counter()
        self._reasons: list[str] = []

    # ---- opening and building ----

    def open(
        self, *, progress: ProgressFunction | None = None, background: bool = False
    ) -> OpenReport:
        """Open the saved index, or build it anew."""
        with self._lock:
            return self._open(progress, background)

    def open_soon(self) -> None:
        """Open the index on a thread; whoever asks for it meanwhile waits within a budget."""
        is_held = threading.Event()

        def work() -> None:
            with self._lock:
                is_held.set()
                try:
                    self._open(None, True)
                except HyrecallError as fault:  # the next one who asks meets it
                    _log.warning("the index could not be opened: %s", type(fault).__name__)

        try:
            threads.start(work, name="hyrecall-index")
        except RuntimeError:  # there is no thread for it
            self.open(background=True)
            return
        is_held.wait()

    @property
    def model(self) -> str | None:
        """Whose vectors the index takes; None: of whatever model."""
        return self._wish.model

    @property
    def dim(self) -> int:
        """The length of vectors that the index takes."""
        return self._wish.dim

    def _open(self, progress: ProgressFunction | None, background: bool) -> OpenReport:
        began = self._clock()
        how: How = "snapshot"
        reason = ""
        with self._database.reading() as connection:
            try:
                now = self._wish.header(connection)
                if self._folder is None:
                    raise StaleError("not kept: the store is in memory")
                self._held = take_snapshot(self._folder, self._wish, now)
                self._saved = self._held.sequence
            except StaleError as fault:
                reason = str(fault)
                how = self._open_without(connection, reason, progress, background)
        return OpenReport(how, reason, self._clock() - began)

    def _open_without(
        self,
        connection: apsw.Connection,
        reason: str,
        progress: ProgressFunction | None,
        background: bool,
    ) -> How:
        if self._folder is not None and (self._folder / HEADER).exists():
            _log.warning("the index of the store is built anew: its snapshot is %s", reason)
        self._reasons.append(reason)
        self._drop_snapshot()
        if background and projection.n_live(connection) > SMALL_STORE:
            self._is_later = True
            return "later"
        try:
            self._build(connection, progress)
        except IndexNotReadyError:
            return "failed"
        return "rebuilt"

    def relayout(self, layout: Layout, *, model: str | None, dim: int) -> None:
        """Build the index anew for another layout, model or length."""
        with self._lock, self._database.reading() as connection:
            self._wish = replace(self._wish, layout=layout, model=model, dim=dim)
            self._held = None
            self._drop_snapshot()
            self._build(connection)

    def _build(
        self, connection: apsw.Connection, progress: ProgressFunction | None = None
    ) -> Derived:
        self._counts["rebuilds"] += 1
        try:
            self._held = derived.build(connection, self._wish, progress)
        except (StoreError, DeviceUnavailableError):
            raise
        except Exception as fault:
            if not self._leaves_none(fault):
                raise
            raise self._unavailable(fault) from fault
        finally:
            self._is_later = False
        self._failed = None
        return self._held

    def _leaves_none(self, fault: Exception) -> bool:
        """Return whether an error means that there is no index now; raises any other error."""
        is_known = isinstance(fault, HyrecallError | MemoryError | OSError)
        return is_known or self._wish.layout.analyzer.has_callable  # which may raise anything

    def _unavailable(self, fault: BaseException) -> IndexNotReadyError:
        name = type(fault).__name__
        _log.warning("the index of the store cannot be made or followed: %s", name)
        self._counts["failures"] += 1
        self._failed = (self._clock(), name)
        return IndexNotReadyError(DegradedReason.INDEX_UNAVAILABLE, name)

    # ---- following ----

    def project(self, connection: apsw.Connection, *, after: int) -> IndexChanges | None:
        """Return a transaction's changes as rows for the index, before its commit."""
        # They are for :meth:`offer`; None: there are too many. It fails where an index could not
        # take the changes.
        return derived.project(connection, self._wish, after)

    def offer(self, changes: IndexChanges | None) -> None:
        """Accept the rows of committed changes, so that they need not be read again."""
        with self._offering:
            held, offered = self._held, self._offered
            if held is None or changes is None:
                self._offered = None
            elif offered is None or offered.after < held.sequence:
                self._offered = changes
            else:
                self._offered = offered.followed_by(changes)

    def _take_offered(self) -> IndexChanges | None:
        with self._offering:
            offered, self._offered = self._offered, None
            return offered

    def ready(self, *, budget: float | None = None) -> Ready:
        """Return the index with every change that was committed before the call."""
        sequence = self._database.sequence()
        held = self._held
        if held is not None and held.sequence == sequence:
            return self._give(held)
        if self._is_later:
            raise IndexNotReadyError(DegradedReason.INDEX_NOT_READY, "being built")
        if not self._lock.acquire(timeout=-1 if budget is None else max(budget, 0.0)):
            if held is not None and self._database.read_only:
                return self._give(held, behind=True)
            raise IndexNotReadyError(DegradedReason.INDEX_NOT_READY, BEHIND)
        try:
            return self._give(self._current()[0])
        finally:
            self._lock.release()

    def _give(self, held: Derived, *, behind: bool = False) -> Ready:
        wish = held.wish
        return Ready(
            held.index, held.graph, held.sequence, wish.layout, wish.model, wish.dim, behind
        )

    def catch_up(self) -> int:
        """Apply the changes committed since the last call, or build the index if there is none."""
        with self._lock:
            return self._current()[1]

    def reconcile(self) -> int:
        """Remove erased rows from the index in memory and on the disk."""
        with self._lock:
            before = self._counts["dropped"]
            try:
                held, _ = self._current()
            except IndexNotReadyError:
                self._held = None
                self._drop_snapshot()
                raise
            n_dropped = self._counts["dropped"] - before
        if held.holds_erased:
            self._scrub()
        return n_dropped

    def _scrub(self) -> None:
        """Drop the bytes of erased rows from the index, and save it where one is kept."""
        if self._folder is not None:
            self.snapshot()
            return
        with self._lock:
            if self._held is not None and self._held.holds_erased:
                self._held = derived.compact(self._held)

    def _current(self) -> tuple[Derived, int]:
        """Bring the index to the last commit; the caller holds the lock."""
        if self._failed is not None and self._clock() - self._failed[0] < RETRY_SECONDS:
            raise IndexNotReadyError(DegradedReason.INDEX_UNAVAILABLE, self._failed[1])
        with self._database.reading() as connection:
            held = self._held
            if held is None:
                return self._build(connection), 0
            if held.sequence == int(meta(connection, "sequence")):
                return held, 0
            try:
                self._held, n_changes, n_dropped = derived.apply(
                    connection, held, self._take_offered()
                )
            except StoreError:
                raise
            except CorruptIndexError as fault:  # of the snapshot it was opened from
                _log.warning("the index of the store is built anew: %s", type(fault).__name__)
                self._reasons.append("damaged")
                self._held = None
                self._drop_snapshot()
                return self._build(connection), 0
            except Exception as fault:
                if not self._leaves_none(fault):
                    raise
                raise self._unavailable(fault) from fault
            self._failed = None
            self._counts["dropped"] += n_dropped
            return self._held, n_changes

    # ---- saving ----

    @property
    def n_unsaved(self) -> int:
        """How many changes the snapshot lacks."""
        held = self._held
        return 0 if held is None or self._save_to is None else max(held.sequence - self._saved, 0)

    def snapshot(self) -> bool:
        """Save the index, so that the next process need not build it; return whether it was
        saved.
        """
        # It never saves the bytes of what was erased. A fault is logged and counted, not raised:
        # the store has everything. If an older snapshot still holds those bytes then, it is
        # removed.
        if self._save_to is None:
            return False
        with self._lock:
            held = self._held
            if held is None or held.sequence == self._saved:
                return False
            if self._database.problem_of_files():
                return False  # the folder is gone, or another store's
            try:
                made = derived.compact(held) if held.holds_erased else held
                self._keep(made, self._save_to)
            except (HyrecallError, MemoryError, OSError) as fault:
                _log.warning("no snapshot of the index was kept: %s", type(fault).__name__)
                self._counts["failed_snapshots"] += 1
                if held.holds_erased:
                    self._drop_snapshot()
                return False
            self._held = made
            self._saved = made.sequence
            self._counts["snapshots"] += 1
            return True

    def _keep(self, held: Derived, folder: Path) -> None:
        with self._database.reading() as connection:  # refused in a forked child
            now = held.wish.header(connection)
        header = replace(now, sequence=held.sequence, erasures=held.erasures)
        try:
            keep_snapshot(folder, held, header)
        except CorruptIndexError:
            self._drop_snapshot()
            keep_snapshot(folder, held, header)

    def _drop_snapshot(self) -> None:
        self._saved = 0
        if self._save_to is not None:
            drop_snapshot(self._save_to)

    def close(self) -> None:
        """Save a snapshot and let go of the index. Closing twice is fine."""
        if not self._birth.is_here or self._held is None:
            return
        try:
            self.catch_up()
        except (IndexNotReadyError, HyrecallError) as fault:
            _log.warning("the index was not brought up to date: %s", type(fault).__name__)
        self.snapshot()
        with self._lock:
            held, self._held = self._held, None
            if held is not None:
                held.index.close()
                held.graph.edges.close()

    # ---- reporting ----

    def may_hold_erased(self, *, full: bool) -> bool:
        """Return whether the saved index may hold bytes of erased rows; see ``snapshots.py``."""
        if self._folder is None:
            return False
        with self._database.reading() as connection:
            return may_hold_erased(self._folder, connection, full=full)

    def unembedded(self) -> tuple[int, int] | None:
        """Count the memories without a usable vector, and all; None without an index."""
        held = self._held
        return None if held is None else (count_unembedded(held.index), len(held.index))

    def report(self) -> dict[str, Any]:
        """Return counts and reasons for a health check; contains no content of documents."""
        with self._database.reading() as connection:
            sequence = int(meta(connection, "sequence"))
        held = self._held
        saved = () if self._folder is None else self._folder.rglob("*")
        files = (path for path in saved if path.is_file())
        names = ("rebuilds", "failures", "snapshots", "failed_snapshots", "dropped")
        return {
            "sequence": None if held is None else held.sequence,
            "behind": None if held is None else sequence - held.sequence,
            "documents": None if held is None else len(held.index),
            "edges": None if held is None else len(held.graph),
            "failed": None if self._failed is None else self._failed[1],
            "rebuild_reasons": tuple(self._reasons),
            "snapshot_sequence": self._saved or None,
            "snapshot_bytes": sum(path.stat().st_size for path in files),
            "without_vector": None if held is None else count_unembedded(held.index),
            **{name: self._counts[name] for name in names},
        }


# ---- A thread that keeps the index up to date and saves it, so that recalls need not ----

FOLLOW_PAUSE = 0.05
"""Seconds between two times that changes are applied: while many processes write, those of several
commits cost as much as those of one. A search does not wait for it but applies what it lacks."""

BACKGROUND_RETRY_SECONDS = 1.0
"""Between two tries of what has to be done and could not be yet."""

_FAULTS = (HyrecallError, MemoryError, OSError)  # that pass: the thread goes on


class Background:
    """Applies changes after commits, builds an index that opening left for later, saves
    snapshots.
    """

    def __init__(
        self,
        follower: Follower,
        *,
        snapshot_every: int = 10_000,
        quiet: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._follower = follower
        self._snapshot_every = snapshot_every
        self._quiet = quiet
        self._clock = clock
        self._wake = threading.Condition()
        self._poked = False
        self._dues: dict[str, Callable[[], bool]] = {}
        self._tried = -math.inf
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._poked = True
        try:
            self._thread = threads.start(self._run, name="hyrecall-memory", stop=self.stop)
        except RuntimeError as fault:  # recalls apply changes themselves, closing saves
            _log.warning("there is no thread that follows the store: %s", fault)

    def poke(self) -> None:
        """Tell the thread that something was committed."""
        with self._wake:
            self._poked = True
            self._wake.notify()

    def until_done(self, name: str, due: Callable[[], bool]) -> None:
        """Call a function about once a second until it returns True or the store is closed."""
        # A function of the same name replaces the earlier one; those of other names are called too.
        with self._wake:
            self._dues[name] = due
            self._wake.notify()

    def stop(self) -> None:
        """Start no more work; does not wait for the current step."""
        with self._wake:
            self._stopping = True
            self._wake.notify()

    def close(self) -> None:
        """Stop, and wait for the current step. Closing twice is fine."""
        self.stop()
        thread = self._thread
        # A forked child does not have the thread.
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        last_change = self._clock()
        while True:
            with self._wake:
                if not self._poked and not self._stopping:
                    self._wake.wait(self._patience(last_change))
                if self._stopping:
                    return
                poked, self._poked = self._poked, False
            if self._dues and self._clock() - self._tried >= BACKGROUND_RETRY_SECONDS:
                self._tried = self._clock()
                for name, due in list(self._dues.items()):
                    self._try(name, due)
            if poked:
                last_change = self._clock()
                self._follow()
                with self._wake:
                    self._wake.wait_for(lambda: self._stopping, FOLLOW_PAUSE)
            n_unsaved = self._follower.n_unsaved
            is_quiet = n_unsaved > 0 and self._clock() - last_change >= self._quiet
            if n_unsaved >= self._snapshot_every or is_quiet:
                self._follower.snapshot()
                last_change = self._clock()  # a snapshot that failed is tried as late again

    def _patience(self, last_change: float) -> float | None:
        """Return the seconds until the next step that nothing triggers."""
        times = [last_change + self._quiet] if self._follower.n_unsaved else []
        if self._dues:
            times.append(self._tried + BACKGROUND_RETRY_SECONDS)
        return max(min(times) - self._clock(), 0.0) if times else None

    def _try(self, name: str, due: Callable[[], bool]) -> None:
        try:
            is_done = due()
        except _FAULTS as fault:
            _log.debug("%s: is due, could not be done: %s", name, type(fault).__name__)
            return
        with self._wake:
            if is_done and self._dues.get(name) is due:  # another may have come meanwhile
                del self._dues[name]

    def _follow(self) -> None:
        try:
            self._follower.catch_up()
        except (IndexNotReadyError, *_FAULTS) as fault:
            # A recall meets the same error and reports it; the next commit tries again.
            _log.debug("changes were not applied: %s", type(fault).__name__)
