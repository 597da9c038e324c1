"""The index: built from a table, asked in batches, changed by one writer."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hyrecall.ask.filter_expression import FilterLike
from hyrecall.base.arguments import read_path, whole
from hyrecall.base.keywords import check_keywords
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.base.runtime import check_device, choose_threads
from hyrecall.errors import DTypeError, OptionError, WriterBusyError, error
from hyrecall.recall.asking import Asking
from hyrecall.segments import writer
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.lineage import Lineage
from hyrecall.segments.opening import Opening, is_current, open_index
from hyrecall.segments.placing import place, settle_on
from hyrecall.segments.segments import State, describe
from hyrecall.table.schema import Schema
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

__all__ = ["Index"]


@check_keywords
class Index(Asking):
    """A scoped hybrid index: BM25 and cosine over one table, fused.

    Make one with :meth:`build` or :meth:`open`. Any number of threads may recall while one thread
    writes: a reader sees the snapshot of the moment it was called.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"id": ["a", "b"], "user": ["alice", "bob"], "text": ["hot tea", "tea"]})
    >>> index = Index.build(table, Schema(key="id", cell="user", text="text"))
    >>> index.recall(text=["tea", "tea"], scope=["alice", "bob"]).to_arrow()["key"].to_pylist()
    ['a', 'b']
    >>> index.add(pa.table({"id": ["c"], "user": ["alice"], "text": ["tea and tea"]}))
    >>> index.recall_one(text="tea", scope="alice").keys
    ['c', 'a']
    >>> index.delete(["a", "b"], scope="alice"), len(index)
    (1, 2)
    """

    def __init__(self, facts: IndexFacts, state: State, device: str) -> None:
        """Hold a state; use :meth:`build` or :meth:`open`."""
        self._facts = facts
        self._held: State | None
        self._device, self._held = settle_on(device, state)
        self._lineage = Lineage()
        self._opening = Opening(threads=facts.threads)
        self._saved: State | None = None  # the state of the last open, save or reload
        self._writing = threading.Lock()
        self._closed = False

    # ---- making ----

    @classmethod
    def build(
        cls,
        table: object,
        schema: Schema,
        *,
        vectors: Mapping[str, object] | None = None,
        analyzer: Analyzer | None = None,
        bm25: BM25 | None = None,
        device: str = "auto",
        threads: int | None = None,
        first_seq: int = 0,
        progress: ProgressFunction | None = None,
    ) -> Index:
        """Index a table, in one permuted copy; memory peaks at input + index + 10 %.

        Parameters
        ----------
        table : object
            With ``__arrow_c_stream__`` or ``__arrow_c_array__``: pyarrow, polars, pandas, duckdb.
        schema : Schema
            What each column is for.
        vectors : mapping of str to array, shape (n_rows, dim), optional
            Arm to float32, float16, bfloat16 or float64 rows, in place of a column.
        analyzer : Analyzer, default Analyzer("unicode")
            For text arms that name none.
        bm25 : BM25, default BM25("lucene")
            For text arms that name none; a default only, since the index holds integers. Naming
            the default itself says no more than naming none: arms that are joined by the default
            ``fusion`` of :meth:`recall` then have its constants.
        device : {"auto", "cpu", "cuda:N"}, default "auto"
            Where vectors are searched; texts are on the CPU. Only "auto" may choose: cuda:0 where
            there is one and the vectors are large enough to gain by it and fit, else the CPU. The
            replies are the same to the last bit. :attr:`device` says which.
        threads : int, optional
            At most so many at work, in [1, 1024]; default: what affinity and cgroup allow.
        first_seq : int, default 0
            Insertion number of the first row, in [0, 2^62).
        progress : callable, optional
            ``progress(done, total)``, called on this thread now and then: rows that were indexed,
            over all text and vector arms (a table of 100 rows and two arms counts to 200). What it
            raises ends the build.

        Raises
        ------
        DTypeError, ShapeError, OptionError
            A column that the schema cannot take; the message names row and remedy.
        KeyConflictError
            A null key, or one that comes twice in a cell.
        DeviceUnavailableError, DeviceMemoryError
            The named CUDA device is not there, or has no room.
        """
        if not isinstance(schema, Schema):
            raise error(DTypeError, "schema", "an hr.Schema", type(schema).__name__)
        check_device(device)
        count = choose_threads(threads)
        first = whole(first_seq)
        if first is None or not 0 <= first < 2**62:
            raise error(OptionError, "first_seq", "an int in [0, 2^62)", repr(first_seq))
        tell = read_progress(progress)
        facts, state = writer.build(table, schema, vectors, analyzer, bm25, count, first, tell)
        return cls(facts, state, device)

    # ---- changing ----

    @property
    def _state(self) -> State:
        state = self._held
        if state is None:
            raise error(OptionError, "index", "an open index", "a closed one")
        return state

    @_state.setter
    def _state(self, state: State) -> None:
        self._held = place(self._device, state, self._held)
        if self._closed:  # by another thread, while this one wrote
            self._held = None

    @contextmanager
    def _writer(self) -> Iterator[State]:
        _ = self._state  # that it is open comes first
        if not self._writing.acquire(blocking=False):
            raise error(WriterBusyError, "index", "no other writer", "one at work")
        try:
            yield self._state
        finally:
            self._writing.release()

    def add(
        self,
        table: object,
        *,
        vectors: Mapping[str, object] | None = None,
        progress: ProgressFunction | None = None,
    ) -> None:
        """Add the rows of a table; a key that its cell already holds is refused.

        The new rows take the next insertion numbers. A failing add leaves the index as it was. It
        costs its rows, a small merge every few adds and a larger one now and then: best in batches.

        Parameters
        ----------
        table, vectors, progress
            As in :meth:`build`, with the index's dimensions and types: a column of a kindred type
            joins where no value changes by the cast, a column of nulls only joins any.

        Raises
        ------
        KeyConflictError
            A key that its cell already holds, or that comes twice.
        DTypeError, ShapeError, OptionError
            Columns that do not fit the index.
        DeviceMemoryError
            The index is on a device that has no room for the new rows.
        WriterBusyError
            Another thread is writing.
        """
        tell = read_progress(progress)
        with self._writer() as state:
            self._state = writer.append(self._facts, state, table, vectors, progress=tell)

    def upsert(
        self,
        table: object,
        *,
        vectors: Mapping[str, object] | None = None,
        progress: ProgressFunction | None = None,
    ) -> None:
        """Add the rows of a table, in place of those with the same cell and key.

        A replaced row is deleted and takes a new insertion number; a row whose cell changed is
        another document (delete the old one). A key that comes twice is refused. Parameters, errors
        and cost as :meth:`add`.
        """
        tell = read_progress(progress)
        with self._writer() as state:
            self._state = writer.append(
                self._facts, state, table, vectors, replace_existing=True, progress=tell
            )

    def delete(
        self,
        keys: Sequence[object] | None = None,
        *,
        scope: object = None,
        filter: FilterLike | None = None,  # noqa: A002
        everything: bool = False,
    ) -> int:
        """Delete documents by key or by filter, within a scope; return how many there were.

        Keys, a filter or ``everything`` has to say which.

        Parameters
        ----------
        keys : sequence of str or int, optional
            A key that its scope does not hold is no error.
        scope
            As in :meth:`recall`, errors too. With keys, a list has one entry per key; without,
            it is one scope.
        filter : Filter or pyarrow.compute.Expression, optional
            Delete what passes it; with keys: what has one of them and passes.
        everything : bool, default False
            All that the scope holds; not beside keys or a filter. With it, an index that was built
            with ``cell=None`` is emptied.

        Returns
        -------
        int
            How many documents were deleted.

        Raises
        ------
        OptionError
            Nothing says which documents are meant, or a filter that the attribute columns cannot
            answer.
        ScopeError, ShapeError, DTypeError, KeyConflictError
            A scope or keys that cannot be one; nothing is deleted.
        WriterBusyError
            Another thread is writing.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import hyrecall as hr
        >>> rows = {"id": [1, 2, 3], "user": ["ann", "ann", "bob"], "text": ["tea"] * 3}
        >>> schema = hr.Schema(key="id", cell="user", text="text", attributes="year")
        >>> index = hr.Index.build(pa.table(rows | {"year": [2024, 2026, 2024]}), schema)
        >>> index.delete(filter=hr.Filter(year=hr.Between(None, 2025)), scope="ann")
        1
        >>> index.delete(scope="ann", everything=True), len(index)
        (1, 1)
        """
        with self._writer() as state:
            self._state, n_deleted = writer.delete(
                self._facts, state, keys, scope, filter, everything=everything
            )
            return n_deleted

    def compact(self) -> None:
        """Put all segments into one and drop what was deleted. Replies stay the same."""
        with self._writer() as state:
            self._state = writer.compact(self._facts, state)

    # ---- keeping ----

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the index to a folder: only what is new, then one atomic rename.

        Parameters
        ----------
        path : path-like
            A folder; made if need be. What it holds is replaced; a reader that has it open keeps
            it.
        overwrite : bool, default False
            Replace whichever index is there. By default only the version that this index was
            opened from or last saved as is replaced: what another writer saved since would be lost.

        Raises
        ------
        SaveConflictError
            Another writer saved there since, or another index is there; nothing is changed.
            Take up what is there with :meth:`reload`, or pass ``overwrite=True``.
        WriterBusyError
            Another thread or process is saving there.
        CorruptIndexError
            The MANIFEST there is damaged or of a newer format; it is left as it is.
        OptionError
            A path that no folder can have.
        """
        from hyrecall.segments.saving import save_index

        with self._writer() as state:
            self._state = save_index(
                read_path(path), self._facts, state, self._lineage, overwrite=overwrite
            )
            self._saved = self._held

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        analyzer: Analyzer | Mapping[str, Analyzer] | None = None,
        memory: str = "mmap",
        verify: str | None = None,
        device: str = "auto",
        threads: int | None = None,
    ) -> Index:
        """Open a saved index.

        Parameters
        ----------
        path : path-like
            The folder :meth:`save` wrote.
        analyzer : Analyzer or mapping of str to Analyzer, optional
            For arms whose analyzer is a callable: it must be passed again, and its hash must be the
            stored one.
        memory : {"mmap", "ram"}, default "mmap"
            Map the files, or read them whole.
        verify : {"full", "structure"}, optional
            Check every block's checksum now, or vectors only when they are first read. Default:
            full below 8 GB.
        device, threads
            As in :meth:`build`.

        Raises
        ------
        CorruptIndexError
            A file that is damaged, missing, or of a newer format; it is named. With
            ``verify="structure"``, damaged vectors are found by the first recall that reads them.
        IndexNotFoundError
            Nothing at ``path``; a CorruptIndexError and a FileNotFoundError.
        """
        check_device(device)
        how = Opening(analyzer, memory, verify, choose_threads(threads))
        folder = read_path(path)
        facts, state, seal = open_index(folder, how)
        made = cls(facts, state, device)
        made._opening, made._saved = how, made._held
        made._lineage.settle(folder, seal)
        return made

    @property
    def is_stale(self) -> bool:
        """Whether the folder holds another version than this index was opened from or saved as.

        Costs one small read. The folder is the one of :meth:`open`, or of the last :meth:`save`;
        an index that has none is never stale. True also if the saved index is gone.
        """
        _ = self._state
        home = self._lineage.home
        return home is not None and not is_current(home, self._lineage)

    def reload(self, *, discard_changes: bool = False) -> bool:
        """Take up the version that its folder holds now.

        Segments that the index has already are kept, so the cost is that of what is new. Calls that
        are running finish on the version they began with.

        Parameters
        ----------
        discard_changes : bool, default False
            Give up changes that were made here since the last save. By default they are an error.

        Returns
        -------
        bool
            Whether anything changed here; False if the index held that version already.

        Raises
        ------
        OptionError
            The index was never opened or saved; it has changes of its own; or the folder now holds
            an index of another schema.
        CorruptIndexError, IndexNotFoundError
            As :meth:`open`; the index stays as it was.
        WriterBusyError
            Another thread is writing.
        """
        with self._writer() as state:
            home = self._lineage.home
            if home is None:
                raise error(OptionError, "index", "one that was opened or saved", "one never saved")
            has_changes = state is not self._saved
            if has_changes and not discard_changes:
                wish, got = "no changes since the last save", "some that a reload would lose"
                raise error(OptionError, "index", wish, got, "index.reload(discard_changes=True)")
            if not has_changes and is_current(home, self._lineage):
                return False
            _, found, seal = open_index(home, self._opening, (self._facts, state))
            self._state = found
            self._saved = self._held
            self._lineage.begin_at(home, seal)
            return True

    # ---- knowing ----

    @property
    def device(self) -> str:
        """Where the index runs."""
        return self._device

    @property
    def schema(self) -> Schema:
        """What the columns are for."""
        return self._facts.schema

    def __len__(self) -> int:
        """Return the number of live documents."""
        return self._state.n_docs

    def stats(self) -> dict[str, Any]:
        """Return sizes and settings: threads, documents, bytes by part."""
        return describe(self._facts, self._state, self._device)

    def __reduce__(self) -> tuple[object, ...]:
        """Refuse to be pickled, and say how processes share an index.

        Raises
        ------
        DTypeError
            Always.
        """
        remedy = "index.save(path), then in each process hr.Index.open(path)"
        raise error(DTypeError, "pickle", "a folder that each process opens", "an Index", remedy)

    def close(self) -> None:
        """Let go of the documents; later calls are refused. Closing twice is fine.

        Hits that were given keep the documents of their call.
        """
        self._closed = True
        self._held = None

    def __enter__(self) -> Index:
        """Use the index in a with statement."""
        _ = self._state
        return self

    def __exit__(self, *exc: object) -> None:
        """Close the index."""
        self.close()

    def __repr__(self) -> str:
        """Show size and arms."""
        size = "closed" if self._held is None else f"{self._held.n_docs} documents"
        return f"<Index: {size}, arms {', '.join(self._facts.arms)}, on {self._device}>"
