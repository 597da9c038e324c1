"""The index: built from a table, asked in batches, changed by one writer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hyrecall import ask, parts
from hyrecall.ask.queries import TextQuery
from hyrecall.ask.request import (
    CallOptions,
    Floors,
    Search,
    Texts,
    batch_of_one,
    order_of,
    read_query_keys,
)
from hyrecall.ask.scope import check_no_list, scope_entries
from hyrecall.ask.scoring import Above, Fusion
from hyrecall.base.arguments import as_int, check_keywords, read_path, same_arguments
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.base.runtime import check_device, choose_threads
from hyrecall.base.threads import OneWriter, off_loop
from hyrecall.base.times import call_time
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.hits.hits import Hits, QueryHits
from hyrecall.hits.trace import NOTHING_TOLD
from hyrecall.recall.answer import answer
from hyrecall.recall.known import KnownOptions
from hyrecall.segments import writer
from hyrecall.segments.device_placement import choose_device, place
from hyrecall.segments.lookup import count_where, describe, read_columns, table_of_keys
from hyrecall.segments.manifest import Lineage
from hyrecall.segments.opening import OpenOptions, is_current, open_index, read_pin
from hyrecall.segments.segments import IndexFacts, State
from hyrecall.table.python_rows import are_texts, table_of_texts
from hyrecall.table.schema import Schema
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

if TYPE_CHECKING:
    from hyrecall.embed.choose import Embeds
    from hyrecall.hits.reply import ReplyBase
    from hyrecall.recall.embedders import Embedders


@check_keywords
class Index:
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
    """

    def __init__(
        self, facts: IndexFacts, state: State, device: str, embedders: Embedders | None = None
    ) -> None:
        """Hold a state; use :meth:`build` or :meth:`open`."""
        self._embedders = embedders
        if embedders is not None:
            facts = replace(facts, embedded={**facts.embedded, **embedders.embedded})
        self._held: State | None
        self._device, self._facts, self._held = choose_device(device, facts, state)
        self._lineage = Lineage()
        self._opening = OpenOptions(threads=facts.threads)
        self._saved: State | None = None  # the state of the last open, save or reload
        self._writing = OneWriter("index")
        self._closed = False
        self._known = KnownOptions()

    # ---- making ----

    @classmethod
    def build(
        cls,
        table: object,
        schema: Schema | None = None,
        *,
        vectors: Mapping[str, object] | None = None,
        analyzer: Analyzer | None = None,
        bm25: BM25 | None = None,
        embed: Embeds = None,
        device: str = "auto",
        threads: int | None = None,
        first_seq: int = 0,
        progress: ProgressFunction | None = None,
    ) -> Index:
        """Index a table, in one permuted copy; memory peaks at input + index + 10 %.

        Parameters
        ----------
        table : object
            With ``__arrow_c_stream__`` or ``__arrow_c_array__``: pyarrow, polars, pandas, duckdb;
            or a list of dicts, in which a name that a row does not have, None and NaN are null; or
            a dict of lists or arrays; or a list of texts, whose keys are their insertion numbers.
        schema : Schema
            What each column is for. Default, for a list of texts: ``Schema(key="id", cell=None,
            text="text")``, with ``vector="embedding"`` if ``embed`` or ``vectors`` is given.
        vectors : mapping of str to array, shape (n_rows, dim), optional
            Arm to float32, float16, bfloat16 or float64 rows, in place of a column.
        analyzer : Analyzer, default Analyzer("unicode")
            For text arms that name none.
        bm25 : BM25, default BM25("lucene")
            For text arms that name none; a default only, since the index holds integers. Naming
            the default itself says no more than naming none: arms that are joined by the default
            ``fusion`` of :meth:`recall` then have its constants.
        embed : embedder, str or EmbedBy, or mapping of str to those, optional
            What makes the vectors of an arm, or ``{arm: ...}``: of documents if neither the table
            nor ``vectors`` has the arm, now and at each add (a null in a column that is there is a
            row without a vector), and of queries that come without. It is what a store takes as
            its embedder; :class:`hyrecall.embed.EmbedBy` says more.
        device : {"auto", "cpu", "cuda:N"}, default "auto"
            Where vectors and texts are searched. Only "auto" may choose: cuda:0 where there is
            one and the vectors are large enough to gain by it and all of it fits, else the CPU.
            The replies are the same to the last bit. :attr:`device` says which.
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
        EmbedError
            The embedder failed or returned no vectors.
        DeviceUnavailableError, DeviceMemoryError
            The named CUDA device is not there, or has no room.
        """
        if schema is None and are_texts(table):
            has_vectors = embed is not None or vectors is not None
            schema = Schema(
                key="id", cell=None, text="text", vector="embedding" if has_vectors else ()
            )
        if not isinstance(schema, Schema):
            raise error(DTypeError, "schema", "an hr.Schema", type(schema).__name__)
        check_device(device)
        count = choose_threads(threads)
        first = writer.read_seq(first_seq)
        table = _with_keys(table, schema, first)
        tell = read_progress(progress)
        options = (analyzer, bm25, count, first, tell)
        if embed is None:
            return cls(*writer.build(table, schema, vectors, *options), device)
        from hyrecall.recall.embedders import embedders_at_build  # loads clients of endpoints

        embedders = embedders_at_build(embed, schema)
        try:
            table, vectors = embedders.of_documents(table, schema, vectors)
            facts, state = writer.build(table, schema, vectors, *options)
            embedders.settle(facts.dims)
            return cls(facts, state, device, embedders)
        except BaseException:
            embedders.close()
            raise

    # ---- changing ----

    @property
    def _state(self) -> State:
        state = self._held
        if state is None:
            raise error(OptionError, "index", "an open index", "a closed one")
        return state

    @_state.setter
    def _state(self, state: State) -> None:
        if self._held is not None:
            self._held.files.check_reads()  # of which the new state was made
        self._held = place(self._device, state, self._held)
        if self._closed:  # by another thread, while this one wrote
            self._held = None

    @contextmanager
    def _writer(self) -> Iterator[State]:
        _ = self._state  # that it is open comes first
        with self._writing:
            state = self._state
            with state.reading():
                yield state

    def _embed(
        self, table: object, vectors: Mapping[str, object] | None
    ) -> tuple[object, Mapping[str, object] | None]:
        """Return a table with its vectors, also those that the index makes."""
        if self._embedders is None:
            return table, vectors
        return self._embedders.of_documents(table, self.schema, vectors, self._facts.row_types)

    def add(
        self,
        table: object,
        *,
        vectors: Mapping[str, object] | None = None,
        first_seq: int | None = None,
        progress: ProgressFunction | None = None,
    ) -> None:
        """Add the rows of a table; a key that its cell already holds is refused.

        The new rows take the next insertion numbers. A failing add leaves the index as it was. It
        costs its rows, a small merge every few adds and a larger one now and then: best in batches.
        Writers of several threads wait for each other.

        Parameters
        ----------
        table, vectors, progress
            As in :meth:`build`, with the index's dimensions and types: a column of a kindred type
            joins where no value changes by the cast, a column of nulls only joins any.
        first_seq : int, optional
            Insertion number of the first row, for a shard whose numbers others give out; at least
            the next one, which is the default.

        Raises
        ------
        KeyConflictError
            A key that its cell already holds, or that comes twice.
        DTypeError, ShapeError, OptionError
            Columns that do not fit the index.
        EmbedError
            The embedder failed; nothing was added.
        DeviceMemoryError
            The index is on a device that has no room for the new rows.
        WriterBusyError
            This thread is writing already: an embedder or ``progress`` called.
        """
        tell = read_progress(progress)
        with self._writer() as state:
            first = writer.first_of(state, first_seq)
            table, vectors = self._embed(_with_keys(table, self.schema, first), vectors)
            self._state = writer.append(
                self._facts, state, table, vectors, first_seq=first, progress=tell
            )

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
            table, vectors = self._embed(table, vectors)
            self._state = writer.append(
                self._facts, state, table, vectors, replace_existing=True, progress=tell
            )

    def delete(
        self,
        keys: Sequence[object] | None = None,
        *,
        scope: object = None,
        filter: ask.FilterLike | None = None,  # noqa: A002
        everything: bool = False,
    ) -> int:
        """Delete documents by key or by filter, within a scope; return how many there were.

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
            Nothing says which documents are meant, or a filter without conditions or one that the
            attribute columns cannot answer.
        ScopeError, ShapeError, DTypeError, KeyConflictError
            A scope or keys that cannot be one; nothing is deleted.
        WriterBusyError
            This thread is writing already: an embedder or ``progress`` called.

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

    def update(
        self,
        table: object,
        *,
        vectors: Mapping[str, object] | None = None,
        progress: ProgressFunction | None = None,
    ) -> None:
        """Change some columns of documents by key; what a row does not have stays as it is.

        It is an :meth:`upsert` of the completed rows: a changed document takes a new insertion
        number, and replies equal those after that upsert. A failing update changes nothing.

        Parameters
        ----------
        table : object
            Rows as in :meth:`build` with the key, the cell columns and those to change: attributes,
            stored columns, texts, vectors. In a list of dicts each may have others; None is null.
        vectors : mapping of str to array, optional
            As in :meth:`build`, in place of a column. With an embedder, the vector of a text that
            changes is made anew; others stay.
        progress : callable, optional
            As in :meth:`build`.

        Raises
        ------
        NotFoundError
            A key that its cell does not hold.
        OptionError
            Nothing to change; a column that the schema does not name; a text that the index does
            not store and the row does not have; or the vector of a changed text, where the embedder
            of the index is not here.
        KeyConflictError
            A null key, or one that comes twice.
        DTypeError, ShapeError, EmbedError, DeviceMemoryError, WriterBusyError
            As in :meth:`add`.

        Examples
        --------
        >>> import hyrecall as hr
        >>> notes = [{"id": n, "user": "ann", "text": "tea", "kind": "note"} for n in range(3)]
        >>> schema = hr.Schema(key="id", cell="user", text="text", attributes="kind")
        >>> index = hr.Index.build(notes, schema)
        >>> index.update([{"id": 1, "user": "ann", "kind": "done"}])
        >>> index.recall_one(text="tea", scope="ann", filter=hr.Filter(kind="done")).keys
        [1]
        """
        tell = read_progress(progress)
        with self._writer() as state:
            from hyrecall.segments.updating import complete_rows, made_elsewhere

            made = made_elsewhere(self._facts)
            if self._embedders is not None:
                made |= self._embedders.of_changed(self.schema)
            whole = complete_rows(self._facts, state, table, vectors, made)
            if whole is not None:
                self._state = writer.append(
                    self._facts, state, *whole, replace_existing=True, progress=tell
                )

    def replace(
        self,
        table: object,
        *,
        scope: object = None,
        filter: ask.FilterLike,  # noqa: A002
        vectors: Mapping[str, object] | None = None,
        progress: ProgressFunction | None = None,
    ) -> int:
        """Remove what a filter names in a scope, and add rows, in one step.

        For a file that changed: its old chunks go, its new ones come. Readers see the old documents
        or the new ones, and a failure leaves the old ones.

        Parameters
        ----------
        table, vectors, progress
            As in :meth:`add`. The rows name their own cells, and may have keys of what is removed.
        scope
            Where to remove: one scope, as in :meth:`recall`; never a list.
        filter : Filter or pyarrow.compute.Expression
            What to remove.

        Returns
        -------
        int
            How many documents were removed.

        Raises
        ------
        OptionError
            A filter without conditions, or one that the attribute columns cannot answer.
        KeyConflictError
            A key that its cell holds and the filter does not name.
        ScopeError, DTypeError, ShapeError, EmbedError, DeviceMemoryError, WriterBusyError
            As in :meth:`add` and :meth:`delete`.

        Examples
        --------
        >>> import hyrecall as hr
        >>> schema = hr.Schema(key="id", cell="user", text="text", attributes="file")
        >>> old = [{"id": f"a/{n}", "user": "ann", "file": "a", "text": "tea"} for n in range(3)]
        >>> index = hr.Index.build(old, schema)
        >>> new = [{"id": "a/0", "user": "ann", "file": "a", "text": "hot tea"}]
        >>> index.replace(new, scope="ann", filter=hr.Filter(file="a"))
        3
        >>> index.recall_one(text="tea", scope="ann").keys
        ['a/0']
        """
        tell = read_progress(progress)
        with self._writer() as state:
            table, vectors = self._embed(table, vectors)
            self._state, n_removed = writer.replace_where(
                self._facts, state, table, vectors, scope, filter, tell
            )
            return n_removed

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
            A folder; made if need be. What it holds is replaced; open readers keep it.
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
        embed: Embeds = None,
        memory: str = "mmap",
        verify: str | None = None,
        pin: Sequence[str] | str = (),
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
        embed : embedder, str or EmbedBy, or mapping of str to those, optional
            As in :meth:`build`; its model, length and columns must be those that the index was
            built with, as far as its files say. Without it, vectors of a local model ("static",
            "minilm") get that model if it is installed. Of other models, a recall of texts alone
            asks the text arms and is degraded. ``{}`` opens without any.
        memory : {"mmap", "ram"}, default "mmap"
            Map the files, or read them whole.
        verify : {"full", "structure"}, optional
            Check every block's checksum now, or most of them when they are first read (default:
            full below 8 GB).
        pin : str or sequence of str, default ()
            Parts of a mapped index to lock in memory, see docs/larger-than-memory.md.
        device, threads
            As in :meth:`build`.

        Raises
        ------
        IndexMismatchError
            The vectors of the index are of another embedder.
        CorruptIndexError
            A file that is damaged, missing, or of a newer format; it is named. With
            ``verify="structure"``, other damage is found by the first call that reads it. Any call
            raises it if a file was cut or written to since.
        OptionError
            An unknown option, or parts to pin that the system does not lock.
        IndexNotFoundError
            Nothing at ``path``; a CorruptIndexError and a FileNotFoundError.
        """
        check_device(device)
        how = OpenOptions(analyzer, memory, verify, choose_threads(threads), read_pin(pin))
        folder = read_path(path)
        facts, state, seal = open_index(folder, how)
        embedders = None
        if embed is not None or facts.embedded:
            from hyrecall.recall.embedders import embedders_at_open

            embedders = embedders_at_open(embed, facts)
        try:
            made = cls(facts, state, device, embedders)
        except BaseException:
            if embedders is not None:
                embedders.close()
            raise
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
        IndexMismatchError
            The folder now holds vectors of another embedder; the index stays as it was.
        CorruptIndexError, IndexNotFoundError
            As :meth:`open`; the index stays as it was.
        WriterBusyError
            This thread is writing already: an embedder or ``progress`` called.
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
            facts, found, seal = open_index(home, self._opening, (self._facts, state))
            self._state, self._facts = found, facts
            self._saved = self._held
            self._lineage.begin_at(home, seal)
            return True

    # ---- asking ----

    def recall(
        self,
        *,
        text: Texts = None,
        vectors: object = None,
        scope: object = None,
        filter: ask.FilterLike | list[ask.FilterLike | None] | None = None,  # noqa: A002
        limit: int = 10, offset: int = 0, depth: int = 100,
        fusion: Fusion | None = None,
        min_score: Floors = None, min_fused: float | Above | None = None,
        min_confidence: float | None = None,
        bm25: BM25 | Mapping[str, BM25] | None = None,
        normalize: bool = False,
        arms: Sequence[ask.Arm] | ask.Arm = (),
        candidates: Mapping[str, Sequence[Any]] | None = None,
        shaping: Sequence[ask.Stage] | ask.Stage = (),
        session: ask.Session | list[ask.Session | None] | None = None,
        expansion: Sequence[ask.Expansion] | ask.Expansion = (),
        graphs: Mapping[str, ask.GraphLike] | None = None,
        recipe: ask.Recipe | list[ask.Recipe] | None = None,
        group: str | None = None, per_group: int | None = None, surrounding: int = 0,
        sort: ask.Sort | None = None, facets: ask.Facets | None = None,
        columns: str | Sequence[str] = (),
        query_keys: Sequence[str] | Sequence[int] | None = None, now: datetime | None = None,
    ) -> Hits:  # fmt: skip
        """Answer a batch of queries, each within its own scope.

        Parameters
        ----------
        text : sequence or mapping of str to sequence, optional
            A str, typed query or None per query, for every text arm, or ``{arm: ...}``.
        vectors : array or mapping of str to array, shape (n_queries, dim), optional
            NumPy, torch (CPU or CUDA), DLPack, Arrow, or a list with None for a missing one. None:
            an index with an embedder embeds the texts; ``{}`` asks no vector arm.
        scope : cell or Scope, or list, array or series of those
            What each query may see: a list or column has one entry per query, anything else holds
            for all. With several cell columns the column is of structs, a field for each. A null
            entry is refused. There is no default; an index built with ``cell=None`` takes none.
        filter : Filter or pyarrow.compute.Expression, or list of those or None, optional
            Narrows the reply; statistics stay those of the scope. A list has one per query.
        limit, offset, depth : int, default 10, 0, 100
            Which part of the list to give, and how many documents each arm hands on (100 stands for
            the recipe's, if there is one); with several arms, limit + offset <= depth.
        fusion : RRF or WeightedSum or Max or DBSF, optional
            How two or more arms are joined. Default: as ``recipes.default`` does, by
            ``WeightedSum(balance=0.85)``, with its ``BM25(k1=0.75, b=0.25)`` for text arms whose
            constants neither this call nor the index names. One arm alone is not joined.
        min_score, min_fused : float or Above, or (the first) mapping of str to those, optional
            Least score, inclusive, of an arm in its unit and of the fusion before ``normalize``.
        min_confidence : float, optional
            A reply whose ``confidence`` is below it, in [0, 1], has no hits; docs/confidence.md.
        bm25 : BM25 or mapping of str to BM25, optional
            In place of the constants of the index or of the default ``fusion``.
        normalize : bool, default False
            Divide by the best score possible (with one arm, by the list's best): scores in [0, 1],
            the order unchanged.
        arms, candidates : arm of hyrecall.arms or sequence of them; mapping of str to sequence
            More ways to retrieve, which a list in ``text`` goes to as well; what each
            :class:`hyrecall.arms.Listed` lists, per query.
        shaping : sequence of stages, default ()
            What happens to the whole fused list before it is cut, such as :class:`hyrecall.MMR`.
        session : Session or list of Session or None, optional
            What each conversation met before, for :class:`hyrecall.SessionSignals`.
        expansion : Context or SharedTags or both, default ()
            What to show beside the hits.
        graphs : mapping of str to Graph, optional
            Those that arms, stages and expansion name.
        recipe : Recipe or list of Recipe, optional
            Arms, fusion, floors, bm25, normalize, shaping and expansion as plain data; see
            ``hyrecall.recipes``. A list has one entry per query.
        group : str, optional
            "thread": one hit a thread, its best row. An attribute column: one hit for each of its
            values; rows without a value are hits of their own.
        per_group : int, optional
            How many of the best rows of its group ``hit.thread_rows`` lists; default 5.
        surrounding : int, default 0
            How many rows on either side of a hit in its thread ``hit.surrounding`` has, by place.
            They need not pass the filter; with a :class:`hyrecall.Budget` they take part of it. A
            row stands there once: one that stands around a better hit is no hit of its own.
        sort : str, pair or list of those, optional
            Order all matching rows by attribute columns in place of their scores: a column, or
            ``(column, "desc")``. Null and NaN come last in either direction, ties by seq. ``score``
            is then None, and what ranks or shapes is refused. Without text and vectors the rows are
            all that pass the filter, by ``sort`` or else by seq.
        facets : str, Buckets or list of those, optional
            Attribute columns whose values ``hits.facets`` counts, over the rows of ``hits.total``.
        columns : str or sequence of str, default ()
            Row columns that ``to_arrow()`` adds, or vector arms: their rows as the index has them,
            fixed-size lists (of uint16 with the bits of bfloat16); null where there is no vector.
        query_keys : sequence of str or of int, optional
            The caller's own key of each query, also as an array or series: ``to_arrow()`` has them
            as ``query_key`` beside ``query``, and ``hits[i].query_key`` is one.
        now : datetime, optional
            The time of the call, echoed in ``hits.now``; naive is UTC.

        Returns
        -------
        Hits
            Per query at most ``limit``, by score descending or as ``sort`` says, then seq
            ascending.

        Raises
        ------
        OptionError
            A filter that the attribute columns cannot answer.
        DeviceMemoryError
            A single query does not fit beside the index on its device; the next call works.

        Notes
        -----
        Exact: every arm's list equals a full sort. Reads the vectors of the rows in scope once a
        block of 16 queries, and each query's posting ranges. Formulas, sources: docs/scoring.md.
        """
        given = (
            limit, offset, depth, fusion, min_score, min_fused, bm25, normalize, arms, shaping,
            expansion, recipe, group, per_group, surrounding, columns,
        )  # fmt: skip
        is_usual = candidates is None and session is None and graphs is None
        is_usual = is_usual and query_keys is None and sort is None and facets is None
        is_usual = is_usual and min_confidence is None
        if is_usual:
            asked = (text, vectors, scope, given, filter, now)
            known = self._known.ask(self._held, *asked, one=False)
            if known is not None:
                return Hits(known)
        facts = self._facts
        named = read_columns(facts, columns)
        request = Search(
            now=call_time(now), text=text, vectors=vectors, filter=filter, session=session,
            scope=scope_entries(facts.cell_types, scope), candidates=candidates, limit=limit,
            offset=offset, columns=named, group=group, per_group=per_group,
            surrounding=surrounding,
            query_keys=read_query_keys(query_keys, (*facts.schema.cell_columns, *named)),
            sort=order_of(sort, text, vectors, arms, candidates, recipe),
        )  # fmt: skip
        state = self._state
        options = CallOptions(
            fusion=fusion, more=arms, min_score=min_score, min_fused=min_fused, bm25=bm25,
            normalize=normalize, shaping=shaping, expansion=expansion, depth=depth,
        )  # fmt: skip
        told = NOTHING_TOLD
        if self._embedders is not None:
            request, told = self._embedders.of_queries(facts, state, request, recipe, options)
        with state.reading():
            reply = answer(facts, state, self._device, request, options, recipe, graphs, told)
        if facets is not None:
            reply = _with_facets(reply, facets)
        if min_confidence is not None:
            reply = _with_floor(reply, min_confidence, is_sorted=request.sort is not None)
        if is_usual and self._embedders is None:
            self._known.learn(self._device, text, vectors, scope, given, recipe, reply)
        return Hits(reply)

    def recall_one(
        self,
        *,
        text: TextQuery | Mapping[str, TextQuery | None] | None = None,
        vector: object = None,
        scope: object = None,
        filter: ask.FilterLike | None = None,  # noqa: A002
        limit: int = 10, offset: int = 0, depth: int = 100,
        fusion: Fusion | None = None,
        min_score: Floors = None, min_fused: float | Above | None = None,
        min_confidence: float | None = None,
        bm25: BM25 | Mapping[str, BM25] | None = None,
        normalize: bool = False,
        arms: Sequence[ask.Arm] | ask.Arm = (),
        candidates: Mapping[str, Any] | None = None,
        shaping: Sequence[ask.Stage] | ask.Stage = (),
        session: ask.Session | None = None, expansion: Sequence[ask.Expansion] | ask.Expansion = (),
        graphs: Mapping[str, ask.GraphLike] | None = None,
        recipe: ask.Recipe | None = None,
        group: str | None = None, per_group: int | None = None, surrounding: int = 0,
        sort: ask.Sort | None = None, facets: ask.Facets | None = None,
        columns: str | Sequence[str] = (), now: datetime | None = None,
    ) -> QueryHits:  # fmt: skip
        """Answer one query.

        Parameters
        ----------
        text : str or typed query or mapping of str to those, optional
        vector : array or mapping of str to array, shape (dim,), optional
            As ``vectors`` in :meth:`recall`.
        scope : cell or Scope, optional
            One scope, never a list.
        candidates : mapping of str to object, optional
            What each :class:`hyrecall.arms.Listed` lists for the query.
        filter, limit, offset, depth, fusion, min_score, min_fused, min_confidence, bm25, normalize,
        arms, shaping
            As in :meth:`recall`, errors too.
        session, expansion, graphs, recipe, group, per_group, surrounding, sort, facets,
        columns, now
            As in :meth:`recall`, errors too.
        """
        given = (
            limit, offset, depth, fusion, min_score, min_fused, bm25, normalize, arms, shaping,
            expansion, recipe, group, per_group, surrounding, columns,
        )  # fmt: skip
        is_usual = candidates is None and session is None and graphs is None
        is_usual = is_usual and sort is None and facets is None and min_confidence is None
        if is_usual:
            asked = (text, vector, scope, given, filter, now)
            known = self._known.ask(self._held, *asked, one=True)
            if known is not None:
                return QueryHits(known, 0)
        check_no_list(scope)
        # Candidates of another type are refused where they are read.
        if candidates is not None and isinstance(candidates, Mapping):
            candidates = batch_of_one(candidates)
        facts = self._facts
        request = Search(
            now=call_time(now), text=batch_of_one(text), vectors=batch_of_one(vector),
            filter=filter, session=session, scope=scope, candidates=candidates, limit=limit,
            offset=offset, columns=read_columns(facts, columns), group=group,
            per_group=per_group, surrounding=surrounding,
            sort=order_of(sort, text, vector, arms, candidates, recipe),
        )  # fmt: skip
        state = self._state
        options = CallOptions(
            fusion=fusion, more=arms, min_score=min_score, min_fused=min_fused, bm25=bm25,
            normalize=normalize, shaping=shaping, expansion=expansion, depth=depth,
        )  # fmt: skip
        told = NOTHING_TOLD
        if self._embedders is not None:
            request, told = self._embedders.of_queries(facts, state, request, recipe, options)
        with state.reading():
            reply = answer(facts, state, self._device, request, options, recipe, graphs, told)
        if facets is not None:
            reply = _with_facets(reply, facets)
        if min_confidence is not None:
            reply = _with_floor(reply, min_confidence, is_sorted=request.sort is not None)
        if is_usual and self._embedders is None:
            self._known.learn(self._device, text, vector, scope, given, recipe, reply)
        return QueryHits(reply.part_of(0), 0)

    @same_arguments(recall)
    async def arecall(self, **options: Any) -> Hits:
        """Answer as :meth:`recall` does, off the event loop."""
        return await off_loop(self.recall, options)

    @same_arguments(recall_one)
    async def arecall_one(self, **options: Any) -> QueryHits:
        """Answer as :meth:`recall_one` does, off the event loop."""
        return await off_loop(self.recall_one, options)

    # ---- knowing ----

    def __reduce__(self) -> tuple[object, ...]:
        """Refuse to be pickled by a DTypeError that says how processes share an index."""
        remedy = "index.save(path), then in each process hr.Index.open(path)"
        raise error(DTypeError, "pickle", "a folder that each process opens", "an Index", remedy)

    def close(self) -> None:
        """Let go of the documents; later calls are refused. Closing twice is fine.

        Hits that were given keep the documents of their call.
        """
        self._closed = True
        self._held = None
        if self._embedders is not None:
            self._embedders.close()

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

    # ---- building from more rows than memory holds ----

    @classmethod
    def build_in_parts(
        cls,
        batches: object,
        schema: Schema,
        path: str | Path,
        *,
        memory_limit: int,
        analyzer: Analyzer | None = None,
        bm25: BM25 | None = None,
        threads: int | None = None,
        resume: bool = False,
        join: bool = True,
        total_rows: int | None = None,
        progress: ProgressFunction | None = None,
        join_progress: ProgressFunction | None = None,
    ) -> Index:
        """Index a stream of rows in parts that fit a limit of memory, and open the saved index.

        Replies are those of :meth:`build` of all rows, to the last bit. Each part becomes a
        segment. At the end the parts are joined by cell, within the same limit: the rows of a cell
        come to lie in one segment, or in as few as the limit allows. So a query of one cell reads
        one segment.

        Parameters
        ----------
        batches : object
            With ``__arrow_c_stream__``, such as a ``pyarrow.RecordBatchReader``, or an iterable of
            tables or record batches. Vectors are columns. It is read once, batch after batch.
        schema : Schema
            As in :meth:`build`.
        path : path-like
            The folder to write; it must not exist. Until the end the index lies beside it, in
            ``PATH.unfinished``.
        memory_limit : int
            Bytes of memory that the process may take, at least 256 MiB, beside pages of mapped
            files, which the system drops when it needs them. A part is as large as fits; a batch
            that is larger is not cut.
        analyzer, bm25, threads
            As in :meth:`build`.
        resume : bool, default False
            Go on where an earlier call with the same rows was interrupted, if there was one. Rows
            that are saved are read again, to see that they are the same documents, and not indexed
            again. A join goes on, too.
        join : bool, default True
            Join the parts by cell. It needs the disk space of a second copy until it is done, and
            reads and writes each part once more. With False the parts stay as they are.
        total_rows : int, optional
            How many rows there are, for ``progress``.
        progress : callable, optional
            ``progress(done, total)`` after each part, in rows; ``total`` is ``total_rows``, or
            ``done`` without it.
        join_progress : callable, optional
            ``join_progress(done, total)`` while the parts are joined, in rows: first with what an
            earlier call had joined. It is not called where joining would not help.

        Returns
        -------
        Index
            Mapped, on the CPU.

        Raises
        ------
        OptionError
            ``path`` exists; an unfinished build is there and ``resume`` is False, or it was of
            other rows; there is no batch; the limit is too small.
        DTypeError, ShapeError
            A column that the schema cannot take.
        KeyConflictError
            A null key, or one that comes twice in a cell; the row is counted within its part.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import pyarrow as pa
        >>> import hyrecall as hr
        >>> rows = [{"id": n, "text": "tea"} for n in range(6)]
        >>> reader = pa.Table.from_pylist(rows).to_reader(max_chunksize=2)
        >>> folder = pathlib.Path(tempfile.mkdtemp()) / "index"
        >>> schema = hr.Schema(key="id", cell=None, text="text")
        >>> index = hr.Index.build_in_parts(reader, schema, folder, memory_limit=2**30)
        >>> index.recall_one(text="tea", limit=2).keys
        [0, 1]
        """
        from hyrecall.segments.parts import LEAST_MEMORY, PartsBuild, batches_of

        if not isinstance(schema, Schema):
            raise error(DTypeError, "schema", "an hr.Schema", type(schema).__name__)
        limit = as_int(memory_limit)
        if limit is None or limit < LEAST_MEMORY:
            wish = f"an int of at least {LEAST_MEMORY} bytes"
            raise error(OptionError, "memory_limit", wish, repr(memory_limit))
        for option, value in (("resume", resume), ("join", join)):
            if not isinstance(value, bool):
                raise error(DTypeError, option, "True or False", repr(value))
        total = None if total_rows is None else as_int(total_rows)
        if total_rows is not None and (total is None or total < 0):
            raise error(OptionError, "total_rows", "an int of at least 0", repr(total_rows))
        folder, count = read_path(path), choose_threads(threads)
        tell = read_progress(progress)
        build = PartsBuild(
            folder, schema, limit, analyzer, bm25, count, total, tell, join=join,
            join_progress=read_progress(join_progress, "join_progress"),
        )  # fmt: skip
        build.run(batches_of(batches), resume=resume)
        given = build.callables() or None
        return cls.open(folder, analyzer=given, verify="structure", device="cpu", threads=threads)

    # ---- reading rows and sizes ----

    def get(
        self, keys: Sequence[object], *, scope: object = None, columns: str | Sequence[str] = ()
    ) -> pa.Table:
        """Return the rows of some keys, as far as their scope holds them.

        Parameters
        ----------
        keys : sequence of str or int
            A key that its scope does not hold has no row, whether or not another cell has it.
        scope
            As in :meth:`recall`, errors too; a list has one entry per key.
        columns : str or sequence of str, default ()
            What to return beside them: attribute and stored columns, and vectors by the name of
            their arm, as in :meth:`recall`.

        Returns
        -------
        pyarrow.Table
            ``key``, the cell columns, then the columns asked for; a row per document in the order
            of the keys. A key that is asked twice comes twice, and one that several cells of its
            scope hold has a row for each, by insertion number.

        Raises
        ------
        KeyConflictError
            A null key.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import hyrecall as hr
        >>> rows = {"id": [1, 2], "user": ["ann", "bob"], "text": ["hot tea", "coffee"]}
        >>> index = hr.Index.build(pa.table(rows), hr.Schema(key="id", cell="user", text="text"))
        >>> index.get([2, 1], scope="ann", columns=["text"]).to_pylist()
        [{'key': 1, 'user': 'ann', 'text': 'hot tea'}]
        """
        state = self._state
        with state.reading():
            return table_of_keys(self._facts, state, keys, scope, columns)

    def count(
        self,
        *,
        text: TextQuery | Mapping[str, TextQuery | None] | None = None,
        scope: object = None,
        filter: ask.FilterLike | None = None,  # noqa: A002
    ) -> int:
        """Return how many documents a scope holds, or how many of them match.

        Reads a bit per row in scope, the columns that the filter names, and the postings of the
        text.

        Parameters
        ----------
        text : str or typed query or mapping of str to those, optional
            Count what a text arm matches, as ``total`` of the hits does.
        scope
            One scope, as in :meth:`recall`; never a list.
        filter : Filter or pyarrow.compute.Expression, optional

        Returns
        -------
        int
            Live documents. One that several queries may see counts once.
        """
        state = self._state
        with state.reading():
            if text is None:
                return count_where(self._facts, state, scope, filter)
            from hyrecall.recall.pages import count_matched

            check_no_list(scope)
            request = Search(
                now=call_time(None), text=batch_of_one(text), scope=scope, filter=filter, limit=0
            )
            return count_matched(self._facts, state, request)

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
        """Return sizes and settings: threads, documents, bytes by part, and ``host_rates``."""
        return describe(self._facts, self._state, self._device)

    # ---- as a shard of a larger index ----

    def statistics(self, request: parts.Request) -> parts.Statistics:
        """Count what BM25 needs to score a request: integers over the scope of each query.

        Parameters
        ----------
        request : hyrecall.distributed.Request

        Returns
        -------
        hyrecall.distributed.Statistics
            Sum those of all shards with :meth:`hyrecall.distributed.Statistics.sum`.

        Raises
        ------
        DTypeError
            Not a request.
        ScopeError, OptionError, ShapeError
            As in :meth:`recall`. OptionError also for rows around hits, since these are read from
            whole threads.
        """
        _check("request", request, parts.Request)
        from hyrecall.parts.shard import statistics_of

        state = self._state
        with state.reading():
            return statistics_of(self._facts, state, self._name_of(state), request)

    def candidates(self, request: parts.Request, statistics: parts.Statistics) -> parts.Part:
        """Return the best documents of each arm, scored with the statistics of all shards.

        Parameters
        ----------
        request : hyrecall.distributed.Request
        statistics : hyrecall.distributed.Statistics
            The statistics of this request, summed over all shards.

        Returns
        -------
        hyrecall.distributed.Part
            The argument of :func:`hyrecall.distributed.merge`.

        Raises
        ------
        OptionError
            The statistics are of another request, or documents have changed since.
        DTypeError, ScopeError, ShapeError
            As in :meth:`statistics`.
        """
        _check("request", request, parts.Request)
        _check("statistics", statistics, parts.Statistics)
        from hyrecall.parts.shard import candidates_of

        state = self._state
        with state.reading():
            given = self._name_of(state), self._device, request, statistics
            return candidates_of(self._facts, state, *given)

    @property
    def _version(self) -> str:
        """The name of the current state of the index, as in statistics and parts."""
        return self._name_of(self._state)

    def _name_of(self, state: State) -> str:
        from hyrecall.parts.messages import version_of

        return version_of(state, self._lineage.seals)


def _with_keys(table: object, schema: Schema, first_seq: int) -> object:
    """Give texts alone a key each; return other rows unchanged."""
    return table_of_texts(table, schema, first_seq) if are_texts(table) else table


def _with_facets(reply: ReplyBase, facets: object) -> ReplyBase:
    from hyrecall.recall.pages import with_facets

    return with_facets(reply, facets)


def _with_floor(reply: ReplyBase, min_confidence: object, *, is_sorted: bool) -> ReplyBase:
    from hyrecall.recall.confidence import with_floor

    return with_floor(reply, min_confidence, is_sorted=is_sorted)


def _check(argument: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise error(DTypeError, argument, f"a {kind.__name__}", repr(value)[:80])
