"""Segments and the states made of them: built from columns, merged, and read row by row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.base.progress import Progress, ProgressFunction
from hyrecall.errors import KeyConflictError, error
from hyrecall.segments.opened_file import LateBytes
from hyrecall.segments.reading import Reading
from hyrecall.table.arrow_values import readable
from hyrecall.table.attributes import attribute_column
from hyrecall.table.columns import Columns
from hyrecall.table.schema import Schema
from hyrecall.text.analyzer import Analyzer

__all__ = [
    "Segment",
    "State",
    "build_segment",
    "directory_of",
    "document_numbers",
    "gather",
    "gather_column",
    "segment_from_parts",
]

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
        # With ``request``, only in the segments that have a cell of one of its scopes: a
        # search reads
        # no others.
        if not self._late_segments:
            return
        reached = None if request is None else request.reached(self.snapshot)
        for at in tuple(self._late_segments):
            if reached is None or reached[at]:
                self.segments[at].check_texts()
                self._late_segments.discard(at)

    @cached_property
    def _late_segments(self) -> set[int]:
        """The segments whose text arms have not all been checked yet."""
        return {at for at, segment in enumerate(self.segments) if segment.late}

    def reading(self) -> Reading:
        """Return what checks the mapped files around a call that reads the documents."""
        return Reading(self.files)

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
    row_name: str = "row",
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
            order,
            analyzers[arm].native,
            threads,
            steps.of_arm(),
        )
        steps.finish_arm()
    dense = {}
    for arm, given in columns.vectors.items():
        valid = np.zeros(0, np.uint8) if given.valid is None else given.valid.view(np.uint8)
        dense[arm] = _core.DenseColumn.build(
            arm, given.dtype, given.dim, list(given.chunks), valid, order, threads
        )
        steps.finish_arm()
    made = segment_from_parts(rows, seqs[order], schema, lexical, dense, directory)
    if made.core.duplicate is not None:
        first, second = sorted(int(order[row]) for row in made.core.duplicate)
        key = made.column(schema.key)[made.core.duplicate[0]].as_py()
        got = f"{key!r} in {row_name}s {first} and {second}"
        shown = columns.shown
        remedy = f"keep one: pa.concat_tables([{shown}[:{second}], {shown}[{second + 1}:]])"
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
