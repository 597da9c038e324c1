"""Recall as a function from a table of queries to a table of hits, for other engines."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, TypedDict, TypeVar, Unpack

import numpy as np
import pyarrow as pa

from hyrecall.ask.filters import Filter
from hyrecall.ask.request import CallOptions, Search
from hyrecall.ask.scope import Scope
from hyrecall.base.arguments import (
    as_items,
    as_list,
    check_keywords,
    check_objects,
    one_of,
    python_scalar,
)
from hyrecall.base.times import call_time
from hyrecall.base.version import __version__
from hyrecall.distributed.sharded import ShardedIndex
from hyrecall.distributed.shards import ShardOpening
from hyrecall.distributed.shards_file import find_folders, read_folders
from hyrecall.errors import (
    DTypeError,
    HyrecallError,
    IndexMismatchError,
    OptionError,
    ScopeError,
    ShapeError,
    ShardLostError,
    error,
)
from hyrecall.hits.hits import Hits
from hyrecall.index import Index
from hyrecall.recall.embedders import Embedders, embedders_at_open

if TYPE_CHECKING:
    from hyrecall.arm.kinds import Arm
    from hyrecall.ask.filter_json import FilterLike
    from hyrecall.ask.recipe import Recipe
    from hyrecall.ask.request import Floors
    from hyrecall.ask.scoring import Above, Fusion
    from hyrecall.stages.stage import Stage
    from hyrecall.text.bm25 import BM25


# ---- Saved indexes for a batch: a single index, or the shards of one ----

Opened = Index | ShardedIndex


def open_saved(folders: Sequence[Path], opening: ShardOpening) -> Opened:
    """Open the folders as an index, or as shards of one."""
    if find_folders(folders).is_index:
        return opening.open(folders[0])
    return ShardedIndex.open(folders, embed={}, **opening.options)


def check_seals(folders: Sequence[Path], seals: Sequence[str]) -> None:
    """Refuse folders that got another version since a batch began."""
    if find_folders(folders).seals != tuple(seals):
        wish = "the version with which the batch began, until it ends"
        raise error(IndexMismatchError, "index", wish, "another, saved since")


def recall_whole(
    index: Opened, given: Mapping[str, Any], options: Mapping[str, Any], embedders: Embedders
) -> tuple[Hits, dict[int, list[str]]]:
    """Answer queries, whose texts these embedders embed; a batch has all hits of a query or
    none.
    """
    # Return the hits, and why queries were not answered as asked.
    fusion, recipe = options.get("fusion"), options.get("recipe")
    how = CallOptions(fusion=fusion, more=options.get("arms"), shaping=options.get("shaping"))
    before = Search(now=options["now"], text=given.get("text"), vectors=given.get("vectors"))
    request, told = embedders.of_queries(index._facts, None, before, recipe, how, seconds=math.inf)
    if request is not before:  # without any vectors, the arms of words answer
        given = {**given, "text": request.text, "vectors": request.vectors or {}}
    hits = index.recall(**given, **options)
    lost = [told for told in hits.trace.degraded if told not in hits.trace.about]
    if lost:
        raise error(ShardLostError, "index", "an answer of every shard", "; ".join(lost))
    reasons = _reasons(told.degraded, told.about, len(hits))
    for query, why in reasons_of(hits).items():
        reasons.setdefault(query, []).extend(why)
    return hits, reasons


DEGRADED = b"degraded"
"""In the metadata of a table of hits: the queries that were not answered as asked, and why."""


def reasons_of(hits: Hits) -> dict[int, list[str]]:
    """Return why queries were not answered as asked, as each of them is told alone."""
    return _reasons(hits.trace.degraded, hits.trace.about, len(hits))


def _reasons(degraded: Sequence[str], about: Any, n_queries: int) -> dict[int, list[str]]:
    out: dict[int, list[str]] = {}
    for told in degraded:
        every = dict.fromkeys(range(n_queries), told)
        for query, alone in about.get(told, every).items():
            out.setdefault(query, []).append(alone)
    return out


def with_reasons(table: pa.Table, reasons: Mapping[Any, Sequence[str]]) -> pa.Table:
    """Add the reasons to a table's metadata, as JSON; without any the table stays as it is."""
    if not reasons:
        return table
    told = {str(query): list(why) for query, why in reasons.items()}
    return table.replace_schema_metadata({DEGRADED: json.dumps(told)})


def reasons_in(tables: Iterable[pa.Table]) -> dict[str, list[str]]:
    """Return the reasons in the metadata of tables."""
    out: dict[str, list[str]] = {}
    for table in tables:
        out |= json.loads((table.schema.metadata or {}).get(DEGRADED, b"{}"))
    return out


def encode(argument: str, value: Any) -> Any:
    """Return an argument of a call as plain data, by which it is recognised later."""
    value = python_scalar(as_list(value))
    value = value.tolist() if isinstance(value, np.ndarray) else value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        value = list(value.items())
    if isinstance(value, list | tuple):
        return [encode(argument, one) for one in value]
    try:
        made = value.__reduce_ex__(4)  # what pickle takes; of a function only a name
        _, given, *state = made if isinstance(made, tuple) else ()
        own = [one for one in given if one is not type(value)]
        return [type(value).__qualname__, *(encode(argument, one) for one in (own, *state))]
    except (TypeError, ValueError, RecursionError) as fault:
        if isinstance(fault, DTypeError):
            raise
        wish = "plain data that another process can read (no function, no graph)"
        raise error(DTypeError, argument, wish, repr(value)[:80]) from fault


# ---- Turns a table of queries into the arguments of a recall, by the roles of its columns ----

QUERY_KEY = "query_key"

Named = Callable[[str], str]
"""Maps the name of an argument here to the caller's name for it, for errors."""


@dataclass(frozen=True)
class QueryColumns:
    """The roles of columns in a table of queries; a str applies to all arms."""

    text: str | dict[str, str] | None = None
    vectors: str | dict[str, str] | None = None
    scope: tuple[str, ...] = ()
    key: str | None = None
    equals: Mapping[str, str] = field(default_factory=dict)

    def wanted(self, named: Named = str) -> dict[str, str]:
        """Return the columns to read, each with the first argument that names it."""
        wanted: dict[str, str] = {}
        for role, given in (("text", self.text), ("vectors", self.vectors)):
            for column in given.values() if isinstance(given, dict) else [given]:
                if column is not None:
                    wanted.setdefault(column, named(role))
        for column in self.scope:
            wanted.setdefault(column, named("scope"))
        if self.key is not None:
            wanted.setdefault(self.key, named("key"))
        for column in self.equals.values():
            wanted.setdefault(column, named("equals"))
        return wanted

    def arguments(
        self, queries: pa.Table, scope: Scope | None, named: Named = str
    ) -> dict[str, Any]:
        """Return the texts, vectors and scopes of a recall."""
        made: dict[str, Any] = {"scope": self._scopes(queries, named) if self.scope else scope}
        text, vectors = self.text, self.vectors
        if isinstance(text, dict):
            made["text"] = {arm: _strings(queries, one, named) for arm, one in text.items()}
        elif text is not None:
            made["text"] = _strings(queries, text, named)
        if isinstance(vectors, dict):
            made["vectors"] = {arm: queries.column(column) for arm, column in vectors.items()}
        elif vectors is not None:
            made["vectors"] = queries.column(vectors)
        elif text is None:
            made["text"] = {}  # which is refused: a query asks something
        return made

    def filters(
        self, queries: pa.Table, every: Any, *, named: Named = str
    ) -> list[Filter | None] | None:
        """Return a filter for each query, joined with ``every``; None: no column is a filter."""
        # A null in a column lets every document pass; a list lets any of its values pass.
        if not self.equals:
            return None
        columns = {of: _values(queries, name, named("equals")) for of, name in self.equals.items()}
        given = []
        for values in zip(*columns.values(), strict=True):
            tests = {of: one for of, one in zip(columns, values, strict=True) if one is not None}
            own = Filter(**tests) if tests else None
            given.append(own if every is None else every if own is None else own & every)
        return given

    def _scopes(self, queries: pa.Table, named: Named) -> list[Any]:
        columns = [_values(queries, name, named("scope")) for name in self.scope]
        if len(columns) > 1:
            return [tuple(parts) for parts in zip(*columns, strict=True)]
        return [_scope(value) for value in columns[0]]


def with_keys(
    hits: pa.Table, queries: pa.Table, key: str, *, argument: str, columns: str
) -> pa.Table:
    """Add the column ``query_key`` after ``query``, which is a row number of ``queries``."""
    # ``argument`` and ``columns`` are the caller's names for the key and the documents' columns.
    if QUERY_KEY in hits.column_names:
        raise error(OptionError, columns, f"no column named {QUERY_KEY}", "one")
    keys = queries.column(key).combine_chunks()
    keys = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid as fault:
        raise error(DTypeError, argument, f"UTF-8 in column {key!r}", fault) from None
    return hits.add_column(1, QUERY_KEY, keys.take(hits.column("query").combine_chunks()))


def _scope(value: Any) -> Any:
    """Convert a list to a Scope of cells, each a value, or a list or struct for several columns."""
    if not isinstance(value, list):
        return value
    return Scope([_parts(cell) for cell in value])


def _parts(cell: Any) -> Any:
    if isinstance(cell, dict):
        return tuple(cell.values())
    return tuple(cell) if isinstance(cell, list) else cell


def _strings(queries: pa.Table, name: str, named: Named) -> list[str | None]:
    column = queries.column(name)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_null(kind)
    ):
        raise error(DTypeError, named("text"), f"strings in column {name!r}", column.type)
    return _values(queries, name, named("text"))


def _values(queries: pa.Table, name: str, argument: str) -> list[Any]:
    try:
        values: list[Any] = queries.column(name).to_pylist()
    except UnicodeDecodeError as fault:
        raise error(DTypeError, argument, f"UTF-8 in column {name!r}", fault) from None
    return values


# ---- Cuts a batch into slices that fit into memory, and finds the queries that are refused ----


class QueryRows(Protocol):
    """Some queries, in order, perhaps not parsed yet."""

    @property
    def n_rows(self) -> int:
        """The number of rows."""

    def slice(self, first: int, n_rows: int) -> QueryRows:
        """Return at most `n_rows` rows from row `first` on."""

    def key(self, column: str) -> Any:
        """Return the first row's value in a column, or None if it cannot be read."""

    def table(self) -> pa.Table:
        """Return the wanted columns."""


class TableRows:
    """Rows of a table."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self.n_rows: int = rows.num_rows

    def slice(self, first: int, n_rows: int) -> QueryRows:
        """Return some of the rows."""
        return TableRows(self._rows.slice(first, n_rows))

    def key(self, column: str) -> Any:
        """Return the first row's value in a column."""
        try:
            return self._rows.column(column)[0].as_py()
        except ValueError:
            return None  # invalid UTF-8, or a time outside Python's range

    def table(self) -> pa.Table:
        """Return the rows."""
        return self._rows


T_ = TypeVar("T_")

MAX_QUERIES = 4096
"""Largest number of queries in a slice: enough to keep all threads busy."""

_ARM_BYTES = 256  # upper estimate for a document in an arm's list during a batch
_WORK_BYTES = 96 << 20  # for the arms' lists of a slice
_SHARED_BYTES = 256 << 20  # the same over several shards, where each slice costs extra
_REPLY_BYTES = 64 << 20  # for the hits of a slice; above this, the next slice is smaller
_OF_A_QUERY = (DTypeError, OptionError, ScopeError, ShapeError)  # errors caused by a query


def slice_size(index: Opened, options: Mapping[str, Any]) -> int:
    """Return the number of queries whose lists fit into the memory of a slice."""
    facts, n_shards = index._facts, 1 if isinstance(index, Index) else len(index)
    recipe = options.get("recipe")
    held = max(options.get("depth", 100), options.get("offset", 0) + options.get("limit", 10))
    held, n_more = (held, 0) if recipe is None else (max(held, recipe.depth), len(recipe.more))
    lists = n_shards * held * _ARM_BYTES * (len(facts.arms) + n_more)
    work = _WORK_BYTES if n_shards == 1 else _SHARED_BYTES
    return max(1, min(MAX_QUERIES, int(work // (lists + 4 * sum(facts.dims.values())))))


def answered(
    answer: Callable[[int, int], T_], first: int, n_queries: int
) -> Iterator[T_ | tuple[int, HyrecallError]]:
    """Answer a slice at once; if it is refused, answer each half, down to single queries."""
    # A reply does not depend on the other queries of its slice, so splitting does not change it.
    try:
        made = answer(first, n_queries)
    except _OF_A_QUERY as fault:
        if not n_queries:
            raise
        if n_queries == 1:
            yield first, fault
            return
    else:
        yield made
        return
    half = n_queries // 2
    yield from answered(answer, first, half)
    yield from answered(answer, first + half, n_queries - half)


def renumber(fault: HyrecallError, query: int) -> HyrecallError:
    """Replace the query number 0 in an error by the number in the file; return the error."""
    text = re.sub(r"\bquery 0\b", f"query {query}", str(fault), count=1)
    fault.args = (re.sub(r"^(\w+)\[0\]", rf"\1[{query}]", text),)
    return fault


# ---- Recall as a function from a table of queries to a table of hits, for other engines ----

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
    min_confidence: float | None
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

    _embed: Mapping[str, str] | None = None

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
        self._options = {name: _own(one) for name, one in given.items()}
        self._scope = fixed
        self._marks_errors = on_error == "column"
        self._opening = ShardOpening(device, threads, memory, verify, pin)
        self._index: Opened | None = open_saved(folders, self._opening)
        self._embedders: Embedders | None = embedders_at_open(None, self._index._facts)
        self._seals = find_folders(folders).seals
        self.columns = tuple(self._asked.wanted())
        self._check_scope()
        self._answer(self._nothing(), 0)  # refuses wrong options before any work

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
        ShardLostError, IndexMismatchError
            A shard does not answer; the index was saved again since this object was made.
        HyrecallError
            A query is refused, and ``on_error`` is ``"raise"``. The message has its key.
        """
        rows = TableRows(_read_table(queries, self.columns))
        made = []
        for _, one in self._answers(rows, 0):
            if isinstance(one, HyrecallError):
                raise one
            made.append(one)
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

    @check_objects
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
            "scope": list(asked.scope) or encode("scope", self._scope), "key": asked.key,
            "equals": dict(asked.equals), "errors in a column": self._marks_errors,
            "options": {name: one for name, one in self._data.items() if name != "now"},
            "hyrecall": __version__,
        }  # fmt: skip

    @property
    def now(self) -> datetime:
        """The time from which ages count."""
        now: datetime = self._options["now"]
        return now

    def at(self, now: datetime) -> Self:
        """Return a copy with another time from which ages count."""
        return self._but(_options={**self._options, "now": call_time(now)})

    @check_objects
    def for_cpus(self, n: float) -> Self:
        """Return a copy with a thread for each of ``n`` CPUs, unless ``threads`` was given."""
        threads = self._opening.threads or max(1, int(n))
        return self._but(_opening=replace(self._opening, threads=threads))

    def _but(self, **changes: Any) -> Self:
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
            self._index, self._embedders = index, embedders_at_open(self._embed, index._facts)
        return self._index

    def _nothing(self) -> pa.Table:
        """Return a table of no queries."""
        vectors = pa.list_(pa.float32())
        kinds = {one: pa.string() for one in self.columns}
        kinds |= {one: vectors for one, role in self._asked.wanted().items() if role == "vectors"}
        return pa.schema(list(kinds.items())).empty_table()

    def _check_scope(self) -> None:
        cells = self._opened()._facts.schema.cell_columns
        has_one = bool(self._asked.scope) or self._scope is not None
        if bool(cells) != has_one:
            wish = f"a column for each of ({', '.join(cells)}), or a Scope" if cells else "None"
            raise error(ScopeError, "scope", wish, self._asked.scope or "none")

    def _answers(
        self, rows: QueryRows, first: int
    ) -> Iterator[tuple[int, pa.Table | HyrecallError]]:
        """Yield the hits of slices, each with its number of queries; or, at last, an error.

        The first row is query ``first``. A refused query becomes a row, or raises no error but
        ends the slices with it.
        """
        size, begin = slice_size(self._opened(), self._options), 0
        while begin < max(rows.n_rows, 1):
            some, at = rows.slice(begin, size), first + begin
            made, n_done, ended = self._slice(some, at)
            if made:
                table = with_reasons(pa.concat_tables(made), reasons_in(made))
                yield n_done, table
                if table.nbytes > _REPLY_BYTES:
                    size = max(1, size // 2)
            if ended is not None:
                yield 0, ended
                return
            begin += max(some.n_rows, 1)

    def _slice(
        self, rows: QueryRows, first: int
    ) -> tuple[list[pa.Table], int, HyrecallError | None]:
        """Answer a slice; return its tables, how many queries they answer, and what ended it."""
        made: list[pa.Table] = []

        def answer(begin: int, n: int) -> pa.Table:
            return self._answer(rows.slice(begin, n).table(), first + begin)

        for one in answered(answer, 0, rows.n_rows):
            if isinstance(one, pa.Table):
                made.append(one)
                continue
            begin, fault = one
            row = rows.slice(begin, 1)
            key = None if self._asked.key is None else row.key(self._asked.key)
            fault = renumber(fault, first + begin)
            if not self._marks_errors:
                vars(fault).update(query=first + begin, key=key)
                return made, begin, self._named(fault)
            made.append(self._refused(row, first + begin, key, fault))
        return made, rows.n_rows, None

    def _named(self, fault: HyrecallError) -> HyrecallError:
        fault.args = (f"{fault} (query_key {vars(fault)['key']!r})",)
        return fault

    def _refused(self, row: QueryRows, query: int, key: Any, fault: HyrecallError) -> pa.Table:
        """Return the row of a refused query."""
        schema = self._answer(row.slice(0, 0).table(), query).schema
        return _row_of(schema, query_key=key, error=" ".join(str(fault).split()))

    def _answer(self, queries: pa.Table, first: int) -> pa.Table:
        """Return the hits of a slice, whose first row is query ``first``."""
        index, options = self._opened(), dict(self._options)
        given = self._asked.arguments(queries, self._scope, self._argument)
        filters = self._asked.filters(queries, options.get("filter"))
        if filters is not None:
            options["filter"] = filters
        assert self._embedders is not None
        found, reasons = recall_whole(index, given, options, self._embedders)
        return self._shaped(found.to_arrow(), queries, reasons, first)

    def _argument(self, name: str) -> str:
        """Return the caller's name of an argument, for errors."""
        return name

    def _shaped(
        self, hits: pa.Table, queries: pa.Table, reasons: Mapping[int, list[str]], first: int
    ) -> pa.Table:
        """Return hits as the caller gets them: with the queries' keys, and what was refused."""
        del first
        key = self._asked.key
        assert key is not None
        hits = with_keys(hits, queries, key, argument="key", columns="columns")
        of_hits, hits = hits.column("query").to_numpy(), hits.drop_columns("query")
        keys = {at: queries.column(key)[at].as_py() for at in reasons}
        if not self._marks_errors:
            return with_reasons(hits, {keys[at]: told for at, told in reasons.items()})
        if ERROR in hits.column_names:
            raise error(OptionError, "columns", f"no column named {ERROR}", "one")
        hits = hits.append_column(ERROR, pa.nulls(hits.num_rows, pa.string()))
        made, begin = [], 0
        for at in sorted(reasons):
            end = int(np.searchsorted(of_hits, at, "right"))
            told = _row_of(hits.schema, query_key=keys[at], error="; ".join(reasons[at]))
            made += [hits.slice(begin, end - begin), told]
            begin = end
        return pa.concat_tables([*made, hits.slice(begin)])


class FileRecall(BatchRecall):
    """Answers the queries of one file: hits with their numbers and reasons, refused queries too."""

    _argument_names: Mapping[str, str]
    _none: pa.Table  # the columns of queries, without rows

    @classmethod
    def of(
        cls,
        index: Opened,
        folders: Sequence[Path],
        opening: ShardOpening,
        asked: QueryColumns,
        *,
        scope: Scope | None,
        options: Mapping[str, Any],
        embed: Mapping[str, str] | None,
        names: Mapping[str, str],
        none: pa.Table,
        skips: bool,
    ) -> FileRecall:
        """Take what is opened and checked; ``names`` are the caller's for arguments."""
        made = object.__new__(cls)
        vars(made).update(
            _folders=tuple(str(one.absolute()) for one in folders), _asked=asked, _scope=scope,
            _options={**options, "now": call_time(None)}, _marks_errors=skips, _opening=opening,
            _index=index, _embed=embed, _embedders=embedders_at_open(embed, index._facts),
            _seals=find_folders(folders).seals, columns=tuple(asked.wanted()), _none=none,
            _argument_names=names,
        )  # fmt: skip
        return made

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the hits; wrong options are refused."""
        return self._answer(self._none, 0).schema

    def _answer(self, queries: pa.Table, first: int) -> pa.Table:
        made = super()._answer(queries, first)
        known = vars(self).get("schema", made.schema)
        if made.schema.equals(known, check_metadata=False):
            return made
        wanted, got = (one.field(QUERY_KEY).type for one in (known, made.schema))
        try:  # a column of JSON lines that is the scope, too
            return made.cast(known.with_metadata(made.schema.metadata))
        except pa.ArrowException:
            wish = f"keys of the type {wanted}"
            raise error(DTypeError, self._argument("key"), wish, got) from None

    def _argument(self, name: str) -> str:
        return self._argument_names.get(name, name)

    def _named(self, fault: HyrecallError) -> HyrecallError:
        return fault

    def _refused(self, row: QueryRows, query: int, key: Any, fault: HyrecallError) -> pa.Table:
        said = key if isinstance(key, str) or key is None else json.dumps(key, default=str)
        is_text = QUERY_KEY in self.schema.names and pa.types.is_string(
            self.schema.field(QUERY_KEY).type
        )
        told = " ".join(str(fault).split())
        return _row_of(self.schema, query=query, query_key=said if is_text else key, error=told)

    def _shaped(
        self, hits: pa.Table, queries: pa.Table, reasons: Mapping[int, list[str]], first: int
    ) -> pa.Table:
        hits = _with_degraded(hits, reasons, self._argument("columns"))
        if self._asked.key is not None:
            argument, columns = self._argument("key"), self._argument("columns")
            hits = with_keys(hits, queries, self._asked.key, argument=argument, columns=columns)
        if ERROR in hits.column_names:
            raise error(OptionError, self._argument("columns"), f"no column named {ERROR}", "one")
        numbers = hits.column("query").to_numpy() + np.int32(first)
        hits = hits.set_column(0, "query", pa.array(numbers))
        told = {
            first + query: [f"query {first + query}: {one}" for one in why]
            for query, why in reasons.items()
        }
        return with_reasons(hits.append_column(ERROR, pa.nulls(len(hits), pa.string())), told)


_DEGRADED = "degraded"  # the column of reasons


def _with_degraded(hits: pa.Table, why: Mapping[int, Sequence[str]], columns: str) -> pa.Table:
    """Add a column of reasons; a degraded query without hits gets a row that has nothing else."""
    if _DEGRADED in hits.column_names:
        raise error(OptionError, columns, f"no column named {_DEGRADED}", "one")
    told = {query: "; ".join(reasons) for query, reasons in why.items()}
    missing = np.setdiff1d(np.array(list(told), np.int32), hits.column("query").to_numpy())
    if len(missing):
        rows = pa.table({"query": missing})
        hits = pa.concat_tables([hits, rows], promote_options="default")
        hits = hits.take(np.argsort(hits.column("query").to_numpy(), kind="stable"))
    reasons = [told.get(query) for query in hits.column("query").to_pylist()] if told else None
    column = pa.nulls(len(hits), pa.string()) if reasons is None else pa.array(reasons, pa.string())
    return hits.append_column(_DEGRADED, column)


def _row_of(schema: pa.Schema, **values: Any) -> pa.Table:
    """Return one row that has only these values; of a key that cannot be written, null."""
    made = {}
    for one in schema:
        try:
            made[one.name] = pa.array([values.get(one.name)], one.type)
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            made[one.name] = pa.nulls(1, one.type)
    return pa.table(made, schema=schema.remove_metadata())


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


def _own(value: Any) -> Any:
    """Return a value with a copy of a list or dict: the caller may change its own."""
    return type(value)(value) if type(value) in (list, dict) else value


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
