"""Segments and the states made of them: built from columns, merged, and read row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.scoring import DEFAULT_BM25
from hyrecall.base.progress import Progress, ProgressFunction
from hyrecall.errors import KeyConflictError, error
from hyrecall.table.arrow_read import check_column
from hyrecall.table.arrow_values import readable
from hyrecall.table.attributes import attribute_column
from hyrecall.table.columns import Columns
from hyrecall.table.schema import RESULT_COLUMNS, MaxSim, Schema, Sparse
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

# ---- One file of a segment that is open: what was checked of it, and what is left for later ----

LateBytes = tuple[_core.files.BlockChecks, int, int]
"""(checks, address, size) of a part of a file that is compared before it is first read."""


@dataclass(frozen=True)
class OpenedFile:
    """One file of a segment."""

    path: Path
    batch: pa.RecordBatch
    checks: _core.files.BlockChecks | None = None
    address: int = 0
    mapped: _core.files.MappedFile | None = None
    ends: tuple[int, int] = (0, 0)

    def check_outside(self, file: pa.Buffer) -> None:
        """Check all of the file that lies before and behind the columns: what Arrow follows."""
        if self.checks is None:
            return
        parts = [part for array in self.batch.columns for part in array.buffers() if part]
        begin = min((part.address for part in parts), default=file.address)
        end = max((part.address + part.size for part in parts), default=file.address)
        first, last = self.ends
        if begin - file.address > first:
            self.checks.ensure(file.address, begin - file.address)
        if file.address + file.size - end > last:
            self.checks.ensure(end, file.address + file.size - end)

    def late(self, *columns: int) -> list[LateBytes]:
        """Return what was not checked of columns that the engine checks before it reads rows."""
        if self.checks is None:
            return []
        return [(self.checks, part.address, part.size) for part in self._parts(columns)]

    def read_in_order(self, *columns: int) -> None:
        """Tell the system that all of some columns will be read, by default of all columns."""
        if self.mapped is not None:
            for part in self._parts(columns):
                self.mapped.read_in_order(part.address, part.size)

    def read_apart(self, *columns: int) -> None:
        """Tell the system that a few rows of columns will be read, by default of all columns."""
        # A page fault then brings one page. Else it brings as much as the device reads ahead, which
        # may be megabytes, and drives out what scans read.
        if self.mapped is not None:
            for part in self._parts(columns):
                self.mapped.read_apart(part.address, part.size)

    def _parts(self, columns: Sequence[int]) -> list[pa.Buffer]:
        arrays = [self.batch.column(at) for at in columns or range(self.batch.num_columns)]
        return [part for array in arrays for part in array.buffers() if part and part.size]

    def check(self, *columns: int) -> None:
        """Check columns before they are first read, by default all."""
        if self.checks is None:
            return
        self.read_in_order(*columns)
        for at in columns or range(self.batch.num_columns):
            for part in self._parts((at,)):
                self.checks.ensure(part.address, part.size)
            check_column(self.path, self.batch.column(at))


# ---- Checks the mapped files of an index around a call that reads them ----


class CheckedFiles:
    """Refuses a call whose mapped files were cut or changed, before it or during it."""

    # A read of a page that is lost sees zeros, so what such a call made is not returned, and its
    # own error is replaced by the one that names the file.

    __slots__ = ("_files",)

    def __init__(self, files: _core.files.MappedFiles) -> None:
        """Keep the files of a state."""
        self._files = files

    def __enter__(self) -> None:
        """Check the files."""
        self._files.check()

    def __exit__(self, *exc: object) -> None:
        """Check that no read since then met a page that is lost."""
        self._files.check_reads()


# ---- Segments and the states made of them: built from columns, merged, and read row by row ----

Rows = npt.NDArray[np.uint32]

_PLAIN = (
    pa.types.is_large_string,
    pa.types.is_boolean,
    pa.types.is_int64,
    pa.types.is_float64,
    pa.types.is_timestamp,
)
"""Column types whose rows the engine gathers; Arrow gathers the others."""

SMALL_ROWS = 4096
"""Tables up to this size are concatenated as a whole before rows are taken."""


@dataclass(frozen=True, eq=False)
class Segment:
    """An immutable run of documents: the engine's segment, and the columns that hits return."""

    core: _core.Segment
    rows: pa.Table
    lexical: dict[str, _core.LexicalColumn]
    dense: dict[str, _core.DenseColumn]
    name: str | None = None
    late: Mapping[str, Callable[[], None]] = field(default_factory=dict)
    guests: Mapping[str, tuple[Any, Rows]] = field(default_factory=dict)
    files: Sequence[_core.files.MappedFile] = ()
    late_columns: Mapping[str, Callable[[], None]] = field(default_factory=dict)
    row_checks: _core.files.BlockChecks | None = None
    in_order: Sequence[Callable[[], None]] = ()
    apart: Sequence[Callable[[], None]] = ()

    def check_whole(self, arm: str) -> None:
        """Run the delayed check of an arm that is then read as a whole, by a merge or a save."""
        self.core.check()
        self.check(arm)
        for tell in self.in_order:
            tell()

    def read_apart(self) -> None:
        """Let the system read row by row again, after :meth:`check_whole`."""
        for tell in self.apart:
            tell()

    def check(self, arm: str) -> None:
        """Run the delayed check of an arm, if any."""
        if arm in self.late:
            self.late[arm]()

    def check_texts(self) -> None:
        """Run the delayed checks of all text arms."""
        for arm in self.lexical:
            self.check(arm)

    def columns(self, names: Sequence[str]) -> pa.Table:
        """Return row columns as a table."""
        for name in names:
            self._check_column(name)
        return self.rows.select(list(names))

    def _check_column(self, name: str) -> None:
        if name in self.late_columns:
            self.late_columns[name]()

    def column(self, name: str) -> pa.Array:
        """Return a row column as one array."""
        if name not in self._arrays:  # a segment of a few new rows is asked for one or two
            self._check_column(name)
            self._arrays[name] = one_array(self.rows.column(name))
        return self._arrays[name]

    @cached_property
    def _arrays(self) -> dict[str, pa.Array]:
        return {}

    def plain(self, name: str) -> _core.rows.Column | None:
        """Return a row column as an engine column, or None if Arrow gathers its type."""
        if name not in self._plain:
            is_late = name in self.late_columns
            column = one_array(self.rows.column(name)) if is_late else self.column(name)
            is_plain = any(test(column.type) for test in _PLAIN)
            checks = self.row_checks if is_late else None
            self._plain[name] = _core.rows.Column(column, checks) if is_plain else None
        return self._plain[name]

    @cached_property
    def _plain(self) -> dict[str, _core.rows.Column | None]:
        return {}


@dataclass(frozen=True, eq=False)
class State:
    """All documents that a reader sees; the writer replaces the state as a whole."""

    segments: tuple[Segment, ...]
    views: tuple[_core.SegmentView, ...]
    snapshot: _core.Snapshot
    next_seq: int

    @staticmethod
    def of(
        segments: Sequence[Segment],
        views: Sequence[_core.SegmentView],
        next_seq: int,
        before: State | None = None,
    ) -> State:
        """Make a state from segments and their views; ``before`` is the one that it follows."""
        known = None if before is None else before.snapshot
        snapshot = _core.Snapshot(list(views), known)
        return State(tuple(segments), tuple(views), snapshot, next_seq)

    @property
    def n_docs(self) -> int:
        """Number of live documents."""
        return self.snapshot.n_docs

    @cached_property
    def files(self) -> _core.files.MappedFiles:
        """The mapped files of all segments."""
        return _core.files.MappedFiles(
            [file for segment in self.segments for file in segment.files]
        )

    def check_texts(self, request: _core.BatchRequest | None = None) -> None:
        """Run the delayed checks of text arms; none but after open(verify="structure")."""
        # With ``request``, only in the segments that have a cell of one of its scopes: a search
        # reads no others.
        if not self.late_segments:
            return
        reached = None if request is None else request.reached(self.snapshot)
        for at in tuple(self.late_segments):
            if reached is None or reached[at]:
                self.segments[at].check_texts()
                self.late_segments.discard(at)

    @cached_property
    def late_segments(self) -> set[int]:
        """The segments whose text arms have not all been checked yet."""
        return {at for at, segment in enumerate(self.segments) if segment.late}

    def reading(self) -> CheckedFiles:
        """Return what checks the mapped files around a call that reads the documents."""
        return CheckedFiles(self.files)

    @cached_property
    def threaded_scopes(self) -> dict[object, bool]:
        """Whether a scope holds a row in a thread, by scope, as far as it was asked."""
        return {}


def chunks_of(column: pa.ChunkedArray | pa.Array) -> list[pa.Array]:
    """Return the chunks of a column; an array is a single chunk."""
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one contiguous array; copies only if it has several chunks."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def build_segment(
    columns: Columns,
    schema: Schema,
    analyzers: Mapping[str, Analyzer],
    *,
    first_seq: int,
    threads: int,
    progress: ProgressFunction | None = None,
    seqs: npt.NDArray[np.int64] | None = None,
) -> Segment:
    """Build a segment: sort the rows, copy each column in that order, and index the arms."""
    # Rows are numbered from ``first_seq`` on, or have the insertion numbers ``seqs``.
    n_rows = columns.n_rows
    cells = [one_array(columns.rows.column(name)) for name in schema.cell_columns]
    cluster = np.zeros(0, np.int64)
    if schema.cluster is not None:
        cluster = attribute_column(columns.rows.column(schema.cluster)).sort_codes
    if seqs is None:
        seqs = np.arange(first_seq, first_seq + n_rows, dtype=np.int64)
    order = _core.sort_rows(cells, n_rows, cluster, seqs)
    is_sorted = bool(np.array_equal(order, np.arange(n_rows, dtype=np.uint32)))
    rows = columns.rows if is_sorted else columns.rows.take(pa.array(order))
    rows = rows.combine_chunks()
    if n_rows > SMALL_ROWS:
        # take() made a joined copy of the chunks, which Arrow's pool would keep during the build.
        pa.default_memory_pool().release_unused()
    directory = directory_of(rows, schema)
    steps = Progress(progress, n_rows, len(columns.texts) + len(columns.vectors))
    lexical = {}
    for arm, texts in columns.texts.items():
        lexical[arm] = _core.LexicalColumn.build(
            arm,
            [chunks_of(c) for c in texts],
            schema.text_arms[arm].column_weights,
            order,
            analyzers[arm].native,
            threads,
            steps.of_arm(),
        )
        steps.finish_arm()
    dense = {}
    for arm, given in columns.vectors.items():
        if given.sparse is not None:
            rows_of = given.sparse
            dense[arm] = _core.DenseColumn.build_sparse(
                arm, given.dtype == "float16", rows_of.terms, rows_of.begins, rows_of.numbers,
                rows_of.weights.view(np.uint8), order,
            )  # fmt: skip
            steps.finish_arm()
            continue
        valid = np.zeros(0, np.uint8) if given.valid is None else given.valid.view(np.uint8)
        dense[arm] = _core.DenseColumn.build(
            arm, given.dtype, given.dim, list(given.chunks), valid, order, threads, given.begins
        )
        steps.finish_arm()
    made = segment_from_parts(rows, seqs[order], schema, lexical, dense, directory)
    if made.core.duplicate is not None:
        first, second = sorted(int(order[row]) for row in made.core.duplicate)
        key = made.column(schema.key)[made.core.duplicate[0]].as_py()
        got = f"{key!r} in rows {first} and {second}"
        shown = columns.shown
        remedy = f"keep one: pa.concat_tables([{shown}[:{second}], {shown}[{second + 1}:]])"
        remedy = remedy if shown else ""
        raise error(KeyConflictError, schema.key, "keys unique within a cell", got, remedy)
    guests = {a: (v.guest, order) for a, v in columns.vectors.items() if v.guest is not None}
    return replace(made, guests=guests) if guests else made


def directory_of(rows: pa.Table, schema: Schema) -> _core.CellDirectory:
    """Return the cells of rows that are sorted by them."""
    return _core.CellDirectory(
        [one_array(rows.column(c)) for c in schema.cell_columns], rows.num_rows
    )


def segment_from_parts(
    rows: pa.Table,
    seqs: npt.NDArray[np.int64],
    schema: Schema,
    lexical: dict[str, _core.LexicalColumn],
    dense: dict[str, _core.DenseColumn],
    directory: _core.CellDirectory | None = None,
    *,
    name: str | None = None,
    files: Sequence[_core.files.MappedFile] = (),
    late: tuple[list[LateBytes], list[LateBytes], int] | None = None,
) -> Segment:
    """Make a segment from columns that are already in its row order."""
    # ``late`` has what the engine compares before it reads rows, and before it reads keys, and what
    # all insertion numbers must be below.
    late_rows, late_keys, next_seq = late or ([], [], None)
    is_opened = late is not None or bool(files)
    thread, place = (
        None if one is None else schema.attributes.index(one)
        for one in (schema.thread, schema.place)
    )
    core = _core.Segment(
        seqs,
        directory_of(rows, schema) if directory is None else directory,
        one_array(rows.column(schema.key)),
        list(lexical.values()),
        list(dense.values()),
        [attribute_column(rows.column(name), in_place=is_opened) for name in schema.attributes],
        thread=thread,
        place=place,
        late=late_rows,
        late_keys=late_keys,
        next_seq=next_seq,
    )
    return Segment(core, rows, lexical, dense, name, files=files)


def gather_column(segments: Sequence[Segment], source: Rows, row: Rows, name: str) -> pa.Array:
    """Return one column of the rows (source[i], row[i]), in that order, with valid UTF-8."""
    return readable(_gather_column(segments, source, row, name))


def _gather_column(segments: Sequence[Segment], source: Rows, row: Rows, name: str) -> pa.Array:
    plain = [one for segment in segments if (one := segment.plain(name)) is not None]
    if len(plain) == len(segments):  # of which each checks what it reads
        return pa.array(_core.rows.gather(plain, source, row))
    if len(segments) == 1:
        return segments[0].column(name).take(pa.array(row))
    return one_array(gather(segments, source, row, [name]).column(0))


def _merged(segments: Sequence[Segment], source: Rows, row: Rows, arm: str) -> _core.DenseColumn:
    used, place = np.unique(source, return_inverse=True)
    columns = [segments[int(number)].dense[arm] for number in used]
    return _core.DenseColumn.merge(columns, place.astype(np.uint32), row)


_ARROW = {"float32": pa.float32(), "float16": pa.float16(), "bfloat16": pa.uint16()}
"""What Arrow has for the rows of a vector column; bits for bfloat16, which it does not have."""


def gather_values(
    facts: IndexFacts, segments: Sequence[Segment], source: Rows, row: Rows, name: str
) -> pa.Array:
    """Return a row column or the vectors of an arm, for the rows (source[i], row[i])."""
    if name in facts.schema.row_columns:
        return gather_column(segments, source, row, name)
    form = type(facts.schema.vector_arms[name])
    if form is Sparse:
        from hyrecall.table.sparse import MAPS, rows_of

        made = _merged(segments, source, row, name) if len(row) else None
        return pa.array([], MAPS) if made is None else rows_of(made).to_arrow()
    kind = pa.list_(_ARROW[str(facts.schema.vector_arms[name].dtype)], facts.dims[name])
    if not len(row):
        return pa.array([], pa.large_list(kind) if form is MaxSim else kind)
    made = _merged(segments, source, row, name)
    values = np.asarray(made.rows).view(kind.value_type.to_pandas_dtype()).reshape(-1)
    has_none = pa.array(np.asarray(made.inverse_norms) == 0)  # null, or of zeros
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values), type=kind, mask=has_none)
    if made.begins is None:
        return vectors
    return pa.LargeListArray.from_arrays(pa.array(made.begins.astype(np.int64)), vectors)


def document_numbers(
    segments: Sequence[Segment], query: npt.NDArray[Any], source: Rows, row: Rows
) -> npt.NDArray[np.int64]:
    """Return a number for each (query, document) pair, ordered like (query, source, row)."""
    bases = np.cumsum([0, *(segment.rows.num_rows for segment in segments)])
    documents = bases[source] + row.astype(np.int64)
    return np.asarray(query.astype(np.int64) * int(bases[-1]) + documents)


def seqs_of(segments: Sequence[Segment], source: Rows, row: Rows) -> npt.NDArray[np.int64]:
    """Return the insertion numbers of the rows (source[i], row[i])."""
    if len(segments) == 1:
        return np.asarray(segments[0].core.seqs[row], np.int64)
    out = np.empty(len(row), np.int64)
    for number in np.unique(source):
        here = source == number
        out[here] = segments[number].core.seqs[row[here]]
    return out


def gather(segments: Sequence[Segment], source: Rows, row: Rows, names: Sequence[str]) -> pa.Table:
    """Return columns of the rows (source[i], row[i]), in that order, one chunk each."""
    used = [int(s) for s in np.unique(source)]
    tables = [
        segment.columns(names) if number in used else segment.rows.select(list(names))
        for number, segment in enumerate(segments)
    ]
    if len(used) <= 1:
        table = tables[used[0]].take(pa.array(row)) if used else tables[0].slice(0, 0)
        return table.combine_chunks()
    if sum(tables[number].num_rows for number in used) <= SMALL_ROWS:
        # Cheaper than a take per segment, for example after one-row adds.
        starts = np.zeros(len(tables), np.int64)
        starts[used] = np.cumsum([0, *(tables[number].num_rows for number in used[:-1])])
        small = pa.concat_tables([tables[number] for number in used]).combine_chunks()
        return small.take(pa.array(starts[source] + row)).combine_chunks()
    parts = []
    place = np.empty(len(row), np.int64)  # position of row i in the concatenation
    start = 0
    for number in used:
        here = np.flatnonzero(source == number)
        parts.append(tables[number].take(pa.array(row[here])))
        place[here] = np.arange(start, start + len(here))
        start += len(here)
    return pa.concat_tables(parts).combine_chunks().take(pa.array(place)).combine_chunks()


def renamed(segment: Segment, name: str) -> Segment:
    """Return the segment with its name in a saved index."""
    return replace(segment, name=name)


_OF_ARM = ("score", "rank")  # columns of results that each arm has

# ---- The settings of an index that recalls and reads need: schema, analyzers, types, threads ----


@dataclass(frozen=True)
class EmbeddedArm:
    """The model of an arm's vectors, and the columns that it embedded."""

    model: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class HostRates:
    """Measured rates of a machine: the time of a kernel launch, postings a second on the CPU."""

    launch_seconds: float
    postings_per_second: float

    @property
    def most_postings(self) -> int:
        """The postings that the CPU has read before a device would have begun."""
        return int(self.launch_seconds * self.postings_per_second)

    def as_dict(self) -> dict[str, float]:
        """Return the rates and their product, as ``Index.stats()`` shows them."""
        return {
            "launch_ms": self.launch_seconds * 1e3,
            "postings_per_second": self.postings_per_second,
            "most_postings": self.most_postings,
        }


@dataclass(frozen=True, eq=False)
class IndexFacts:
    """The settings of an index, which stay the same when its documents change."""

    schema: Schema
    analyzers: Mapping[str, Analyzer]
    bm25: Mapping[str, BM25]
    dims: Mapping[str, int]
    row_types: Mapping[str, pa.DataType]
    threads: int
    embedded: Mapping[str, EmbeddedArm] = field(default_factory=dict)

    folder: Mapping[str, Any] | None = None
    """How the folder of documents is read that the index follows (``hyrecall.folders``), if any."""

    host_rates: HostRates | None = None
    """Only of an index that chose its device itself: small batches of texts then run on the CPU."""

    def plain(self) -> IndexFacts:
        """Return the facts that pickled hits keep, without the caller's functions."""
        schema = Schema.from_dict(self.schema.to_dict())
        return replace(self, schema=schema, analyzers={}, bm25={})

    @property
    def host_postings(self) -> int | None:
        """The most postings of a batch of texts that the CPU searches; None: the device does."""
        return None if self.host_rates is None else self.host_rates.most_postings

    @cached_property
    def text_arms(self) -> tuple[str, ...]:
        """The lexical arms in declared order."""
        return tuple(self.schema.text_arms)

    @cached_property
    def vector_arms(self) -> tuple[str, ...]:
        """The dense arms in declared order."""
        return tuple(self.schema.vector_arms)

    @cached_property
    def arms(self) -> tuple[str, ...]:
        """All arms in declared order, lexical arms first."""
        return (*self.text_arms, *self.vector_arms)

    @cached_property
    def returned_columns(self) -> tuple[str, ...]:
        """What hits can return: row columns, and the vectors of arms that have no such name."""
        taken = {*RESULT_COLUMNS, *(f"{arm}_{what}" for arm in self.arms for what in _OF_ARM)}
        named = (*self.schema.row_columns, *(arm for arm in self.dims if arm not in taken))
        return tuple(dict.fromkeys(named))

    @cached_property
    def joined_bm25(self) -> dict[str, BM25]:
        """The BM25 constants of each text arm under the default fusion."""
        # An arm keeps constants that its schema names, or that differ from ``BM25()``; other arms
        # have ``DEFAULT_BM25``.
        named = {arm: text.bm25 is not None for arm, text in self.schema.text_arms.items()}
        default = BM25()
        return {
            arm: bm25 if named[arm] or bm25 != default else DEFAULT_BM25
            for arm, bm25 in self.bm25.items()
        }

    @cached_property
    def attribute_types(self) -> dict[str, pa.DataType]:
        """The type of each attribute column, in the order of the segments."""
        return {name: self.row_types[name] for name in self.schema.attributes}

    @cached_property
    def cell_types(self) -> dict[str, pa.DataType]:
        """The type of each cell column."""
        return {name: self.row_types[name] for name in self.schema.cell_columns}
