"""Recall as a function from a table of queries to a table of hits, for other engines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import numpy as np
import pyarrow as pa

from hyrecall.ask.scope import Scope
from hyrecall.base.ages import call_time
from hyrecall.base.arguments import as_items, one_of
from hyrecall.base.keywords import check_keywords
from hyrecall.base.version import __version__
from hyrecall.distributed.query_columns import QueryColumns, with_keys
from hyrecall.distributed.saved import (
    Opened,
    check_seals,
    facts_of,
    n_shards,
    open_saved,
    reasons_in,
    recall_whole,
    seals_of,
    with_reasons,
)
from hyrecall.distributed.saved_folders import read_folders
from hyrecall.distributed.shard_opening import ShardOpening
from hyrecall.distributed.slices import answered, renumber, slice_size
from hyrecall.errors import DTypeError, OptionError, ScopeError, error
from hyrecall.parts.plain import decode, encode
from hyrecall.recall.embedders import Embedders, embedders_at_open

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hyrecall.ask.arms import Arm
    from hyrecall.ask.filter_like import FilterLike
    from hyrecall.ask.recipe import Recipe
    from hyrecall.ask.request import Floors
    from hyrecall.ask.scoring import Above, Fusion
    from hyrecall.ask.shaping import Stage
    from hyrecall.text.bm25 import BM25

__all__ = ["BatchOptions", "BatchRecall"]

ERROR = "error"
"""The column with the reason of a refusal, with ``on_error="column"``."""


class BatchOptions(TypedDict, total=False):
    """Arguments of :meth:`hyrecall.Index.recall` that are the same for all queries."""

    filter: FilterLike | None
    limit: int
    offset: int
    depth: int
    fusion: Fusion | None
    min_score: Floors
    min_fused: float | Above | None
    bm25: BM25 | Mapping[str, BM25] | None
    normalize: bool
    arms: Sequence[Arm] | Arm
    shaping: Sequence[Stage] | Stage
    recipe: Recipe | None
    columns: Sequence[str]
    now: datetime | None


@check_keywords
class BatchRecall:
    """Answers tables of queries: a table in, its hits out; each row has its own scope.

    The object keeps its arguments as plain data and opens the index with the first table. So it
    can be sent to other processes: by Ray Data's ``map_batches``, Spark's ``mapInArrow`` or a batch
    method of Daft. Every reply equals that of :meth:`hyrecall.Index.recall`, bit for bit.

    Parameters
    ----------
    index : path-like or sequence of path-like
        A folder that :meth:`hyrecall.Index.save` wrote, or the shards of an index, as
        :meth:`ShardedIndex.open` takes them. Each process opens all shards; they are mapped, so
        the processes of one machine share their memory.
    key : str
        Column with the queries' ids; the hits have them in the column ``query_key``.
    text, vectors : str or mapping of str to str, optional
        Column of the texts and of the vectors, or a column for each arm.
    scope : str, sequence of str or Scope, optional
        Column with each query's cell (or a list of cells), one column for each column of a cell,
        or one scope for all queries. Required unless the index has no cells.
    equals : mapping of str to str, optional
        Attribute columns of the documents, each with the query column whose value it must equal.
        If that value is a list, any of its values passes; if it is null, every document passes.
    on_error : {"raise", "column"}, default "raise"
        For a query that is refused: raise, or return one row that has only its ``query_key`` and
        the reason in a column ``error``. A query whose text asks for too much is not refused: it
        has the hits of its other arms, and such a row too; without that column, the table's
        metadata says under ``degraded`` which queries these are, and why, as JSON.
    memory, pin, device, threads
        As in :meth:`hyrecall.Index.open`, in each process.
    verify : {"full", "structure"}, optional
        As in :meth:`hyrecall.Index.open`. The version is checked here; other processes open only
        this version, and do not check it again.
    **options
        Further arguments of :meth:`hyrecall.Index.recall`, the same for all queries. ``now`` is
        fixed here.

    Raises
    ------
    ScopeError
        No scope for an index with cells.
    OptionError, DTypeError
        Wrong columns or options, or options that are not plain data.
    CorruptIndexError, IndexNotFoundError
        The index cannot be opened.

    Attributes
    ----------
    columns : tuple of str
        The query columns that are read.

    Examples
    --------
    >>> import tempfile
    >>> import hyrecall as hr
    >>> import pyarrow as pa
    >>> from hyrecall.distributed import BatchRecall
    >>> folder = tempfile.mkdtemp() + "/notes"
    >>> notes = pa.table({"id": [1, 2], "user": ["ann", "bob"], "text": ["hot tea", "tea"]})
    >>> hr.Index.build(notes, hr.Schema(key="id", cell="user", text="text")).save(folder)
    >>> recall = BatchRecall(folder, key="q", text="words", scope="who")
    >>> queries = pa.table({"q": ["q1"], "words": ["tea"], "who": ["bob"]})
    >>> recall(queries).select(["query_key", "rank", "key"]).to_pylist()
    [{'query_key': 'q1', 'rank': 1, 'key': 2}]
    """

    def __init__(
        self,
        index: str | Path | Sequence[str | Path],
        *,
        key: str,
        text: str | Mapping[str, str] | None = None,
        vectors: str | Mapping[str, str] | None = None,
        scope: str | Sequence[str] | Scope | None = None,
        equals: Mapping[str, str] | None = None,
        on_error: Literal["raise", "column"] = "raise",
        memory: str = "mmap",
        verify: str | None = None,
        pin: Sequence[str] | str = (),
        device: str = "auto",
        threads: int | None = None,
        **options: Unpack[BatchOptions],
    ) -> None:
        """Open the index and check all arguments with a table of no queries."""
        one_of("on_error", on_error, ("raise", "column"))
        folders = read_folders("index", index)
        given: dict[str, Any] = {**options, "now": call_time(options.get("now"))}
        fixed = scope if isinstance(scope, Scope) else None
        self._folders = tuple(str(one.absolute()) for one in folders)
        self._asked = QueryColumns(
            text=_by_arm("text", text),
            vectors=_by_arm("vectors", vectors),
            scope=() if fixed is not None else _names("scope", scope),
            key=_name("key", key),
            equals=_by_arm("equals", {} if equals is None else equals),
        )
        self._data = {name: encode(name, one) for name, one in given.items()}
        self._scope = encode("scope", fixed)
        self._marks_errors = on_error == "column"
        self._opening = ShardOpening(device, threads, memory, verify, pin)
        self._index: Opened | None = open_saved(folders, self._opening)
        self._embedders: Embedders | None = embedders_at_open(None, facts_of(self._index))
        self._seals = seals_of(folders)
        self.columns = tuple(self._asked.wanted())
        self._check_scope()
        self._answer(self._nothing())  # refuses wrong options before any work

    def __call__(self, queries: pa.Table | pa.RecordBatch) -> pa.Table:
        """Return the hits of queries, in the order of the queries; one without hits has no row.

        Parameters
        ----------
        queries : pyarrow.Table or pyarrow.RecordBatch
            With the columns that the roles name; others are ignored.

        Returns
        -------
        pyarrow.Table
            ``query_key`` and the columns of ``Hits.to_arrow()`` without ``query``, whose numbers
            would start again in each table; with ``on_error="column"`` also ``error``.

        Raises
        ------
        ScopeError, OptionError, ShapeError, DTypeError
            A query is refused, and ``on_error`` is ``"raise"``. The message has its key.
        ShardLostError
            A shard does not answer.
        IndexMismatchError
            The index was saved again since this object was made.
        """
        table = _read_table(queries, self.columns)
        index = self._opened()
        size = slice_size(facts_of(index), self._options(), n_shards(index))
        made = [self._slice(table.slice(first, size), first)
                for first in range(0, max(table.num_rows, 1), size)]  # fmt: skip
        return with_reasons(pa.concat_tables(made), reasons_in(made))

    def map(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the hits of each batch of queries; the function that Spark's ``mapInArrow`` takes.

        Parameters
        ----------
        batches : iterable of pyarrow.RecordBatch

        Yields
        ------
        pyarrow.RecordBatch
        """
        for batch in batches:
            yield from self(batch).to_batches()

    def schema_of(self, queries: pa.Schema) -> pa.Schema:
        """Return the columns of the hits for queries with these columns.

        Parameters
        ----------
        queries : pyarrow.Schema
            Its column of keys gives ``query_key`` its type.

        Returns
        -------
        pyarrow.Schema
        """
        return self(queries.empty_table()).schema

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that determines the hits of given queries, as plain data for JSON."""
        asked = self._asked
        return {
            "index": list(self._seals), "text": asked.text, "vectors": asked.vectors,
            "scope": list(asked.scope) or self._scope, "key": asked.key,
            "equals": dict(asked.equals), "errors in a column": self._marks_errors,
            "options": {name: one for name, one in self._data.items() if name != "now"},
            "hyrecall": __version__,
        }  # fmt: skip

    @property
    def now(self) -> datetime:
        """The time from which ages count."""
        now: datetime = decode("now", self._data["now"])
        return now

    def at(self, now: datetime) -> BatchRecall:
        """Return a copy with another time from which ages count."""
        return self._but(_data={**self._data, "now": encode("now", call_time(now))})

    def for_cpus(self, n: float) -> BatchRecall:
        """Return a copy with a thread for each of ``n`` CPUs, unless ``threads`` was given."""
        threads = self._opening.threads or max(1, int(n))
        return self._but(_opening=replace(self._opening, threads=threads))

    def _but(self, **changes: Any) -> BatchRecall:
        made = object.__new__(type(self))
        vars(made).update(vars(self), **changes)
        return made

    def check_current(self) -> None:
        """Refuse an index that was saved again since this object was made."""
        check_seals([Path(one) for one in self._folders], self._seals)

    def close(self) -> None:
        """Close the index; the next table opens it again."""
        index, self._index = self._index, None
        if index is not None:
            index.close()
        embedders, self._embedders = self._embedders, None
        if embedders is not None:
            embedders.close()

    def __getstate__(self) -> dict[str, Any]:
        """Return what is sent to another process: everything but the open index."""
        return {**vars(self), "_index": None, "_embedders": None}

    def __repr__(self) -> str:
        """Show the folders and the roles of the columns."""
        return f"BatchRecall({', '.join(self._folders)}; {self._asked})"

    def _opened(self) -> Opened:
        if self._index is None:
            folders = [Path(one) for one in self._folders]
            index = open_saved(folders, self._opening.once_checked)
            check_seals(folders, self._seals)
            self._index, self._embedders = index, embedders_at_open(None, facts_of(index))
        return self._index

    def _options(self) -> dict[str, Any]:
        return {name: decode(name, one) for name, one in self._data.items()}

    def _nothing(self) -> pa.Table:
        """Return a table of no queries."""
        vectors = pa.list_(pa.float32())
        kinds = {one: pa.string() for one in self.columns}
        kinds |= {one: vectors for one, role in self._asked.wanted().items() if role == "vectors"}
        return pa.schema(list(kinds.items())).empty_table()

    def _check_scope(self) -> None:
        cells = facts_of(self._opened()).schema.cell_columns
        has_one = bool(self._asked.scope) or self._scope is not None
        if bool(cells) != has_one:
            wish = f"a column for each of ({', '.join(cells)}), or a Scope" if cells else "None"
            raise error(ScopeError, "scope", wish, self._asked.scope or "none")

    def _slice(self, queries: pa.Table, first: int) -> pa.Table:
        """Answer a slice; a refused query raises an error or becomes a row."""
        rows: list[pa.Table] = []
        for one in answered(
            lambda begin, n: self._answer(queries.slice(begin, n)), 0, queries.num_rows
        ):
            if isinstance(one, pa.Table):
                rows.append(one)
                continue
            begin, fault = one
            key = queries.column(self._asked.key)[begin]
            if not self._marks_errors:
                fault = renumber(fault, first + begin)
                fault.args = (f"{fault} (query_key {key.as_py()!r})",)
                raise fault
            schema = self._answer(queries.slice(0, 0)).schema
            rows.append(_refused(schema, key.as_py(), " ".join(str(fault).split())))
        return with_reasons(pa.concat_tables(rows), reasons_in(rows))

    def _answer(self, queries: pa.Table) -> pa.Table:
        index, options = self._opened(), self._options()
        key = self._asked.key
        assert key is not None
        given = self._asked.arguments(
            queries,
            has_texts=bool(facts_of(index).text_arms),
            scope=decode("scope", self._scope),
        )
        filters = self._asked.filters(queries, options.get("filter"))
        if filters is not None:
            options["filter"] = filters
        assert self._embedders is not None
        found, reasons = recall_whole(index, given, options, self._embedders)
        hits = with_keys(found.to_arrow(), queries, key, argument="key", columns="columns")
        of_hits, hits = hits.column("query").to_numpy(), hits.drop_columns("query")
        keys = {at: queries.column(key)[at].as_py() for at in reasons}
        if self._marks_errors:
            if ERROR in hits.column_names:
                raise error(OptionError, "columns", f"no column named {ERROR}", "one")
            hits = hits.append_column(ERROR, pa.nulls(hits.num_rows, pa.string()))
            made, begin = [], 0
            for at in sorted(reasons):
                end = int(np.searchsorted(of_hits, at, "right"))
                told = _refused(hits.schema, keys[at], "; ".join(reasons[at]))
                made += [hits.slice(begin, end - begin), told]
                begin = end
            return pa.concat_tables([*made, hits.slice(begin)])
        return with_reasons(hits, {keys[at]: told for at, told in reasons.items()})


def _refused(schema: pa.Schema, key: object, reason: str) -> pa.Table:
    """Return the row of a query that was refused, or whose text was."""
    values = {"query_key": [key], ERROR: [reason]}
    return pa.table({one.name: pa.array(values.get(one.name, [None]), one.type) for one in schema})


def _read_table(queries: object, columns: Sequence[str]) -> pa.Table:
    if isinstance(queries, pa.RecordBatch):
        queries = pa.Table.from_batches([queries])
    if not isinstance(queries, pa.Table):
        wish = "a pyarrow Table or RecordBatch"
        raise error(DTypeError, "queries", wish, type(queries).__name__)
    missing = [name for name in columns if name not in queries.column_names]
    if missing:
        got = f"{queries.column_names}"[:120]
        raise error(OptionError, "queries", f"a column {missing[0]!r}", got)
    return queries.select(list(columns))


def _name(argument: str, value: object) -> str:
    if not isinstance(value, str):
        raise error(OptionError, argument, "the name of a column", repr(value))
    return value


def _names(argument: str, value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    given = (value,) if isinstance(value, str) else as_items(value)
    if not given:
        raise error(OptionError, argument, "a column, several, or a Scope", repr(value))
    return tuple(_name(argument, one) for one in given)


def _by_arm(argument: str, value: object) -> Any:
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        raise error(OptionError, argument, "a column, or a column for each arm", repr(value))
    return {_name(argument, arm): _name(argument, one) for arm, one in value.items()}
