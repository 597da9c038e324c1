"""The index: built from a table, asked in batches, changed by one writer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.analyzer import Analyzer
from hyrecall.columns import Columns, read_table
from hyrecall.errors import DTypeError, KeyConflictError, OptionError, WriterBusyError, error
from hyrecall.hits import Hits, QueryHits, Trace
from hyrecall.request import IndexFacts, Options, make_plan
from hyrecall.runtime import choose_device, choose_threads
from hyrecall.schema import Schema, Vector
from hyrecall.scope import Scopes, check_no_list
from hyrecall.scoring import BM25
from hyrecall.segments import Segment, State, build_segment, merge_segments, nbytes, one_array
from hyrecall.writer import Pair, settle

__all__ = ["Index"]

_executor = ThreadPoolExecutor(max_workers=8, thread_name_prefix="hyrecall")


class Index:
    """A scoped hybrid index: BM25 and cosine over one table, fused.

    Make one with :meth:`build` or :meth:`open`. Any number of threads may recall while one thread
    writes: a reader sees the snapshot of the moment it was called.

    Examples
    --------
    >>> table = pa.table({"id": ["a", "b"], "user": ["alice", "bob"], "text": ["hot tea", "tea"]})
    >>> index = Index.build(table, Schema(key="id", cell="user", text="text"))
    >>> index.recall_one(text="tea", scope="alice").keys
    ['a']
    """

    def __init__(self, facts: IndexFacts, state: State, device: str) -> None:
        """Hold a state; use :meth:`build` or :meth:`open`."""
        self._facts = facts
        self._state = state
        self._device = device
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
    ) -> Index:
        """Index a table.

        Parameters
        ----------
        table : object
            Anything with ``__arrow_c_stream__`` or ``__arrow_c_array__``: pyarrow, polars, pandas,
            duckdb.
        schema : Schema
            What each column is for.
        vectors : mapping of str to array, optional
            Arm to rows, shape (n_rows, dim), in place of a column.
        analyzer : Analyzer, default Analyzer("unicode")
            For text arms that name none.
        bm25 : BM25, default BM25("lucene")
            For text arms that name none; a default only, since the index holds integers.
        device : {"auto", "cpu", "cuda:N"}, default "auto"
            Only "auto" may choose.
        threads : int, optional
            At most this many at work; default: what affinity and cgroup allow.
        first_seq : int, default 0
            Insertion number of the first row.

        Returns
        -------
        Index

        Raises
        ------
        DTypeError, ShapeError, OptionError
            A column that the schema cannot take; the message names row and remedy.
        KeyConflictError
            A null key, or one that comes twice in a cell.

        Notes
        -----
        One permuted copy of each column; peaks at input + index + 10 %.
        """
        if not isinstance(schema, Schema):
            raise error(DTypeError, "schema", "an hr.Schema", type(schema).__name__)
        chosen = choose_device(device)
        count = choose_threads(threads)
        if isinstance(first_seq, bool) or not isinstance(first_seq, int) or not 0 <= first_seq < 2**62:
            raise error(OptionError, "first_seq", "an int in [0, 2^62)", repr(first_seq))
        given = Analyzer() if analyzer is None else analyzer
        analyzers = {arm: text.analyzer or given for arm, text in schema.text_arms.items()}
        default = BM25() if bm25 is None else bm25
        columns = read_table(table, schema, vectors=vectors)
        segment = build_segment(columns, schema, analyzers, first_seq=first_seq, threads=count)
        facts = IndexFacts(
            schema=schema,
            analyzers=analyzers,
            bm25={arm: text.bm25 or default for arm, text in schema.text_arms.items()},
            dims={arm: column.dim for arm, column in segment.dense.items()},
            row_types={name: segment.rows.schema.field(name).type for name in schema.row_columns},
            threads=count,
        )
        view = _core.SegmentView(segment.core)
        return cls(facts, State.of([segment], [view], first_seq + columns.n_rows), chosen)

    # ---- asking ----

    def recall(
        self,
        *,
        columns: Sequence[str] = (),
        now: datetime | None = None,
        **options: Any,
    ) -> Hits:
        """Answer a batch of queries, each within its own scope.

        Parameters
        ----------
        text : sequence or mapping of str to sequence, optional
            A str, typed query or None per query, for every text arm, or ``{arm: ...}``.
        vectors : array or mapping of str to array, optional
            Shape (n_queries, dim): NumPy, torch (CPU or CUDA), anything with DLPack, Arrow, or a
            list with None for a missing one.
        scope : cell or Scope or list
            What each query may see: a list has one entry per query, anything else holds for all.
            There is no default; an index built with ``cell=None`` takes none.
        filter : Filter or list of Filter or None, optional
            Narrows the reply; statistics stay those of the scope.
        limit, offset : int, default 10 and 0
            Which part of the list to give.
        depth : int, default 100
            How many documents each arm hands to the fusion.
        fusion : RRF or WeightedSum or Max, optional
            Default: none with one arm, ``RRF()`` with several.
        min_score : mapping of str to float or Above, optional
            Least score of an arm, inclusive; acts inside the arm.
        min_fused : float or Above, optional
            Least fused score (before ``normalize``).
        bm25 : BM25 or mapping of str to BM25, optional
            In place of the index's defaults.
        normalize : bool, default False
            Divide by the best score possible (with one arm, by the list's best): scores in [0, 1],
            the order unchanged.
        columns : sequence of str, default ()
            Row columns that ``to_arrow()`` adds.
        now : datetime, optional
            The time of the call, echoed in ``hits.now``; naive is UTC.

        Returns
        -------
        Hits
            Per query at most ``limit`` hits, by score descending, then seq ascending.

        Raises
        ------
        ScopeError
            No scope, or one the cell columns cannot answer.
        OptionError, ShapeError, DTypeError
            The argument is named.

        Notes
        -----
        Exact: every arm's list equals a full sort. Cost follows the rows in scope.
        """
        started = time.perf_counter()
        self._check_open()
        state = self._state  # one read: everything below sees this snapshot
        for name in columns:
            if name not in self._facts.schema.row_columns:
                known = list(self._facts.schema.row_columns)
                raise error(OptionError, "columns", f"columns of {known}", repr(name))
        plan = make_plan(self._facts, state.snapshot, _options(options))
        for arm in plan.vectors:
            for segment in state.segments:
                segment.check(arm)  # does nothing but after open(verify="structure"), once
        planned = time.perf_counter()
        execution = _core.Execution(state.snapshot, plan.request)
        statistics = execution.statistics()
        counted = time.perf_counter()
        candidates = execution.candidates(statistics)
        ranked = time.perf_counter()
        arrays = _core.merge(plan.request, [candidates])
        ended = time.perf_counter()
        steps = {"plan": planned - started, "statistics": counted - planned}
        steps |= {"candidates": ranked - counted, "fusion": ended - ranked}
        empty = tuple(
            f"{arm}[{query}] has no indexable token"
            for at, arm in enumerate(plan.arms[: plan.n_lexical])
            for query in execution.empty_queries(at)
        )
        trace = Trace(
            device=self._device,
            n_queries=plan.n_queries,
            arms=plan.arms,
            depth=plan.depth,
            milliseconds={step: seconds * 1e3 for step, seconds in steps.items()},
            degraded=(),
            notes=plan.notes + empty,
        )
        return Hits(
            arrays,
            plan=plan,
            facts=self._facts,
            state=state,
            execution=execution,
            statistics=statistics,
            columns=columns,
            now=_utc(now),
            trace=trace,
        )

    def recall_one(self, *, text: object = None, vector: object = None, **options: Any) -> QueryHits:
        """Answer one query.

        Parameters
        ----------
        text : str or typed query or mapping of str to those, optional
        vector : array or mapping of str to array, optional
            Shape (dim,).
        **options
            As in :meth:`recall`; ``scope`` is one scope, never a list.

        Returns
        -------
        QueryHits
        """
        return self.recall(**_batch_of_one(text, vector, options))[0]

    async def arecall(self, **options: Any) -> Hits:
        """Answer as :meth:`recall` does, off the event loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(_executor, partial(self.recall, **options))

    async def arecall_one(self, **options: Any) -> QueryHits:
        """Answer as :meth:`recall_one` does, off the event loop."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(_executor, partial(self.recall_one, **options))

    # ---- changing ----

    @contextmanager
    def _writer(self) -> Iterator[None]:
        self._check_open()
        if not self._writing.acquire(blocking=False):
            raise WriterBusyError("index: expected no other writer, got one at work")
        try:
            yield
        finally:
            self._writing.release()

    def add(self, table: object, *, vectors: Mapping[str, object] | None = None) -> None:
        """Add the rows of a table; a key that its cell already holds is refused.

        The new rows take the next insertion numbers. A failing add leaves the index as it was.

        Parameters
        ----------
        table, vectors
            As in :meth:`build`.

        Raises
        ------
        KeyConflictError
            A key that its cell already holds, or that comes twice.
        WriterBusyError
            Another thread is writing.
        """
        with self._writer():
            self._append(table, vectors, replace_existing=False)

    def upsert(self, table: object, *, vectors: Mapping[str, object] | None = None) -> None:
        """Add the rows of a table, in place of those with the same cell and key.

        A replaced row is deleted and takes a new insertion number; a row whose cell changed is
        another document (delete the old one).

        Parameters
        ----------
        table, vectors
            As in :meth:`build`.
        """
        with self._writer():
            self._append(table, vectors, replace_existing=True)

    def delete(self, keys: Sequence[object], *, scope: object = None) -> int:
        """Delete documents by key, within a scope.

        Parameters
        ----------
        keys : sequence of str or int
        scope
            As in :meth:`recall`; a list has one entry per key.

        Returns
        -------
        int
            How many were deleted; a key that its scope does not hold is no error.
        """
        with self._writer():
            state = self._state
            kind = self._facts.row_types[self._facts.schema.key]
            try:
                wanted = pa.array(keys, kind)
            except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, OverflowError) as fault:
                raise error(DTypeError, "keys", f"a sequence of {kind} keys", fault) from None
            if wanted.null_count:
                raise error(KeyConflictError, "keys", "no null key", "null")
            types = {name: self._facts.row_types[name] for name in self._facts.schema.cell_columns}
            scopes = Scopes(types, state.snapshot)
            scopes.read(scope, len(wanted))
            cells = [scopes.distinct[number] for number in scopes.index]
            segments, rows = state.snapshot.locate_keys(wanted, cells)
            pairs, n_deleted = _without(state, segments, rows)
            if n_deleted:
                self._publish(pairs, state.next_seq)
            return n_deleted

    def compact(self) -> None:
        """Put all segments into one and drop what was deleted. Replies stay the same."""
        with self._writer():
            state = self._state
            if len(state.segments) == 1 and state.views[0].n_dead == 0:
                return
            segment = merge_segments(state.segments, state.views, self._facts.schema)
            self._state = State.of([segment], [_core.SegmentView(segment.core)], state.next_seq)

    def _append(
        self, table: object, vectors: Mapping[str, object] | None, *, replace_existing: bool
    ) -> None:
        state = self._state
        columns = self._read_more(table, vectors)
        if columns.n_rows == 0:
            return
        schema = self._facts.schema
        cells = [one_array(columns.rows.column(name)) for name in schema.cell_columns]
        keys = one_array(columns.rows.column(schema.key))
        segments, rows = state.snapshot.locate_rows(cells, keys)
        if not replace_existing and np.any(segments >= 0):
            row = int(np.argmax(segments >= 0))
            wish = "keys that their cells do not hold yet (upsert replaces)"
            raise error(KeyConflictError, schema.key, wish, f"{keys[row].as_py()!r} in row {row}")
        added = build_segment(
            columns,
            schema,
            self._facts.analyzers,
            first_seq=state.next_seq,
            threads=self._facts.threads,
        )
        found = segments >= 0
        pairs, _ = _without(state, segments[found], rows[found])
        pairs.append((added, _core.SegmentView(added.core)))
        self._publish(pairs, state.next_seq + columns.n_rows)

    def _read_more(self, table: object, vectors: Mapping[str, object] | None) -> Columns:
        """Read rows that join the index: they must have its types and dimensions."""
        facts = self._facts
        dense = self._state.segments[0].dense if self._state.segments else {}
        kept = {
            arm: Vector(vector.column, dtype=dense[arm].dtype if arm in dense else vector.dtype)
            for arm, vector in facts.schema.vector_arms.items()
        }
        columns = read_table(table, replace(facts.schema, vector=kept), vectors=vectors, dims=facts.dims)
        rows = columns.rows
        for name, kind in facts.row_types.items():
            if rows.schema.field(name).type != kind:
                try:
                    cast = rows.column(name).cast(kind)
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as fault:
                    got = f"{rows.schema.field(name).type} ({fault})"
                    raise error(DTypeError, name, f"{kind} as the index has", got) from None
                rows = rows.set_column(rows.schema.get_field_index(name), name, cast)
        return replace(columns, rows=rows)

    def _publish(self, pairs: list[Pair], next_seq: int) -> None:
        held = settle(pairs, self._facts.schema) or pairs[:1]
        self._state = State.of([s for s, _ in held], [v for _, v in held], next_seq)

    # ---- keeping ----

    def save(self, path: str | Path) -> None:
        """Write the index to a folder: only what is new, then one atomic rename.

        Parameters
        ----------
        path : path-like
            A folder; made if it is not there. A reader that holds an older version keeps it.
        """
        from hyrecall.files import save_index

        with self._writer():
            self._state = save_index(Path(path), self._facts, self._state)

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
        from hyrecall.files import open_index

        chosen = choose_device(device)
        count = choose_threads(threads)
        facts, state = open_index(Path(path), analyzer=analyzer, memory=memory, verify=verify, threads=count)
        return cls(facts, state, chosen)

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
        """Give the number of live documents."""
        return self._state.n_docs

    def stats(self) -> dict[str, Any]:
        """Give sizes and settings of the index; nothing of any document.

        Returns
        -------
        dict
            device, threads, documents, dead rows, segments (rows, dead, bytes by part), arms.
        """
        state = self._state
        return {
            "device": self._device,
            "threads": self._facts.threads,
            "isa": _core.arithmetic.isa(),
            "n_docs": state.n_docs,
            "n_dead": sum(view.n_dead for view in state.views),
            "n_segments": len(state.segments),
            "next_seq": state.next_seq,
            "segments": [
                {"n_rows": view.n_rows, "n_dead": view.n_dead, "n_cells": s.core.n_cells, "nbytes": nbytes(s)}
                for s, view in zip(state.segments, state.views, strict=True)
            ],
            "dims": dict(self._facts.dims),
            "analyzers": {arm: a.hash for arm, a in self._facts.analyzers.items()},
        }

    def close(self) -> None:
        """Let go of the documents; later calls are refused. Closing twice is fine."""
        self._closed = True

    def __enter__(self) -> Index:
        """Use the index in a with statement."""
        self._check_open()
        return self

    def __exit__(self, *exc: object) -> None:
        """Close the index."""
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise error(OptionError, "index", "an open index", "a closed one")

    def __repr__(self) -> str:
        """Show size and arms."""
        return f"<Index: {len(self)} documents, arms {', '.join(self._facts.arms)}, on {self._device}>"


def _options(given: dict[str, Any]) -> Options:
    known = Options.__dataclass_fields__
    for name in given:
        if name not in known:
            raise TypeError(f"recall() got an unexpected keyword argument {name!r}")
    return Options(**given)


def _batch_of_one(text: object, vector: object, options: dict[str, Any]) -> dict[str, Any]:
    check_no_list(options.get("scope"))
    if "vectors" in options:
        raise TypeError("recall_one() got an unexpected keyword argument 'vectors'; use vector=")
    batch = dict(options)
    if text is not None:
        batch["text"] = {a: [t] for a, t in text.items()} if isinstance(text, Mapping) else [text]
    if vector is not None:
        one = {a: [v] for a, v in vector.items()} if isinstance(vector, Mapping) else [vector]
        batch["vectors"] = one
    return batch


def _utc(now: datetime | None) -> datetime:
    if now is None:
        return datetime.now(UTC)
    if not isinstance(now, datetime):
        raise error(DTypeError, "now", "a datetime", type(now).__name__)
    return now.replace(tzinfo=UTC) if now.tzinfo is None else now


def _without(
    state: State, segments: npt.NDArray[np.int32], rows: npt.NDArray[np.uint32]
) -> tuple[list[Pair], int]:
    """Give the state's segments after the death of the named rows."""
    pairs: list[Pair] = []
    n_dead = 0
    for number, (segment, view) in enumerate(zip(state.segments, state.views, strict=True)):
        dead = np.unique(rows[segments == number])
        n_dead += len(dead)
        pairs.append((segment, view.without(dead) if len(dead) else view))
    return pairs, n_dead
