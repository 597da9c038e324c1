"""Makes a segment from its Arrow files. Layout: docs/format.md.

The engine reads the memory of the files: nothing is copied but what leads to other data. Of a file
of which only the structure was checked, each part is checked before it is first read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.base import disk
from hyrecall.errors import CorruptIndexError, error
from hyrecall.segments.arrow_files import (
    DEAD,
    DOCUMENTS,
    LEAST_PIECE,
    TERMS,
    VALUE_TYPES,
    directions_schema,
    heads_schemas,
    piece_sums,
    plane_schema,
    vector_schema,
)
from hyrecall.segments.opened_file import LateBytes, OpenedFile
from hyrecall.segments.segments import Segment, segment_from_parts
from hyrecall.table.arrow_read import damage_of
from hyrecall.table.attributes import is_read_late
from hyrecall.table.schema import Schema

__all__ = ["dead_rows", "segment_of"]

Numbers = npt.NDArray[Any]


Open = Callable[[str], OpenedFile]


def segment_of(
    name: str,
    n_rows: int,
    open_role: Open,
    has_role: Callable[[str], bool],
    schema: Schema,
    dims: Mapping[str, int],
    threads: int,
    mapped: Sequence[_core.files.MappedFile],
    next_seq: int,
) -> Segment:
    """Make a segment from its files."""

    def take(role: str, *wanted: pa.Schema) -> OpenedFile:
        file = open_role(role)
        if not any(file.batch.schema.equals(one) for one in wanted):
            got = file.batch.schema
            raise error(CorruptIndexError, str(file.path), f"columns {wanted[0]}", got)
        if role.startswith("documents") and file.batch.num_rows != n_rows:
            raise error(CorruptIndexError, str(file.path), f"{n_rows} rows", file.batch.num_rows)
        return file

    file = open_role("rows")
    batch = file.batch
    file.read_apart()  # hits show rows far from each other
    names = list(schema.row_columns)
    _refuse_other_rows(file, names, n_rows)
    late_rows, late_keys = file.late(0), file.late(1 + names.index(schema.key))
    late_columns = {
        name: disk.LateCheck(partial(file.check, at))
        for at, name in enumerate(names, 1)
        if file.checks is not None
    }
    late: dict[str, Callable[[], None]] = {}
    dense = {}
    apart: list[Callable[[], None]] = []
    for at, arm in enumerate(schema.vector_arms):
        vectors = open_role(f"vectors-{at}")
        dense[arm] = _dense(at, arm, vectors, dims[arm], n_rows, take, has_role)
        late_rows += vectors.late(1)
        apart.append(vectors.read_apart)  # of a few rows, vectors and norms
        late[arm] = dense[arm].check
    lexical = {}
    in_order: list[Callable[[], None]] = [file.read_in_order]
    for at, arm in enumerate(schema.text_arms):
        documents = take(f"documents-{at}", DOCUMENTS)
        terms = take(f"terms-{at}", *TERMS.values())
        is_late = documents.checks is not None or terms.checks is not None
        late_rows += documents.late(0)
        with damage_of(terms.path, "terms of the segment's documents"):
            lexical[arm] = _lexical(
                arm, documents.batch, terms.batch, threads, bool(mapped), is_late
            )
        if is_late:
            left = partial(_check_lexical, lexical[arm], documents, terms, threads)
            late[arm] = disk.LateCheck(left)
        else:
            _read_apart(lexical[arm], documents, terms)
        in_order += [documents.read_in_order, terms.read_in_order]
        apart.append(partial(_read_apart, lexical[arm], documents, terms))
    late_rows += _check_rows(file, names, schema, late_columns)
    with damage_of(file.path, "rows of the schema's types"):
        seqs = _values(batch.column(0))
        rows = pa.table(batch.columns[1:], names=names)
        late_parts = (late_rows, late_keys, next_seq)
        made = segment_from_parts(
            rows, seqs, schema, lexical, dense, name=name, files=mapped, late=late_parts
        )
    apart.append(partial(_rows_apart, file, names, schema))
    apart[-1]()
    # The table of keys is made when it is first needed, and then finds a key that comes twice.
    if batch.column(1 + names.index(schema.key)).null_count or (
        file.checks is None and made.core.duplicate is not None
    ):
        raise error(CorruptIndexError, str(file.path), "keys unique within a cell", "others")
    return replace(
        made, late=late, late_columns=late_columns, row_checks=file.checks, in_order=in_order,
        apart=apart,
    )  # fmt: skip


def _refuse_other_rows(file: OpenedFile, names: Sequence[str], n_rows: int) -> None:
    """Refuse rows of other columns, or another number of them."""
    found, first = file.batch.schema, pa.field("seq", pa.int64())
    if found.names != ["seq", *names] or not found.field(0).equals(first):
        raise error(CorruptIndexError, str(file.path), f"columns seq, {names}", found)
    if file.batch.num_rows != n_rows:
        raise error(CorruptIndexError, str(file.path), f"{n_rows} rows", file.batch.num_rows)


def _rows_apart(file: OpenedFile, names: Sequence[str], schema: Schema) -> None:
    """Tell the system how rows are read: attributes in order, by filters, and the rest by row."""
    attributes = {*schema.attributes}
    file.read_apart(0, *(at for at, one in enumerate(names, 1) if one not in attributes))


def _check_rows(
    file: OpenedFile,
    names: Sequence[str],
    schema: Schema,
    late_columns: dict[str, disk.LateCheck],
) -> list[LateBytes]:
    """Check cells, and attributes that are encoded now; return what is left of the attributes."""
    left = []
    for column in dict.fromkeys((*schema.cell_columns, *schema.attributes)):
        at = 1 + names.index(column)
        if column not in schema.cell_columns and is_read_late(file.batch.column(at)):
            left += file.late(at)
        else:
            late_columns.pop(column, _nothing)()
    return left


def _nothing() -> None:
    """Check nothing: a file that was read whole."""


def _dense(
    at: int,
    arm: str,
    file: OpenedFile,
    dim: int,
    n_rows: int,
    take: Callable[..., OpenedFile],
    has_role: Callable[[str], bool],
) -> _core.DenseColumn:
    wanted = {dtype: vector_schema(dtype, dim) for dtype in VALUE_TYPES}
    vectors = file.batch
    dtype = next((d for d, s in wanted.items() if vectors.schema.equals(s)), None)
    if dtype is None or vectors.num_rows != n_rows:
        got = f"{vectors.num_rows} of {vectors.schema}"
        raise error(CorruptIndexError, str(file.path), f"{n_rows} rows of {dim} values", got)
    file.read_apart()  # of a few rows, vectors and norms
    rows = _values(vectors.column(0).storage.values).view(np.uint8)
    norms = _values(vectors.column(1))
    planes = head = plane_checks = head_checks = None
    path = file.path
    has = [has_role(f"{part}-{at}") for part in ("plane", "directions", "heads")]
    if has[1:] not in ([False, False], [has[0], has[0]]):
        raise error(CorruptIndexError, str(path), "plane, directions and heads", "some of them")
    if has[1]:
        given = take(f"directions-{at}", directions_schema(dim))
        given.check()
        heads = take(f"heads-{at}", *heads_schemas(given.batch.num_rows))
        path, head_checks = heads.path, heads.checks
        head = _values(given.batch.column(0).storage.values), _int8_plane(heads.batch)
    if has[0]:
        blocks = take(f"plane-{at}", plane_schema(dim))
        path, plane_checks = blocks.path if head is None else path, blocks.checks
        planes = _int8_plane(blocks.batch), head
    with damage_of(path, "a part of the segment"):
        column = _core.DenseColumn.from_parts(arm, dtype, dim, rows, norms, planes)
    column.read_late(_row_checks(file), plane_checks, head_checks)
    return column


def _row_checks(file: OpenedFile) -> _core.files.BlockChecks | None:
    """Return the checks of a column's vectors: by pieces where the file has their checksums."""
    if file.checks is None:
        return None
    with damage_of(file.path, "checksums of its vectors"):
        pieces = piece_sums(file.batch)
    if pieces is None:
        return file.checks
    n_bytes, sums = pieces
    values = file.batch.column(0).storage.values.buffers()[1]
    done = []
    if 0 < values.size % n_bytes < LEAST_PIECE:  # too short for a late check
        tail = values.size - values.size % n_bytes
        file.checks.ensure(values.address + tail, values.size - tail)
        done.append(len(sums) - 1)
    where = values.address - file.address
    return _core.files.BlockChecks(os.fsencode(file.path), values, sums, n_bytes, done, where)


def _check_lexical(
    column: _core.LexicalColumn, documents: OpenedFile, terms: OpenedFile, threads: int
) -> None:
    """Check what opening left of a lexical arm, before it is first searched."""
    documents.check()
    terms.check()
    with damage_of(terms.path, "terms of the segment's documents"):
        column.check(threads)
    _read_apart(column, documents, terms)


def _read_apart(column: _core.LexicalColumn, documents: OpenedFile, terms: OpenedFile) -> None:
    """Tell the system that a query reads tokens of some candidates and a part of the lists."""
    documents.read_apart()
    if terms.mapped is not None:
        column.read_apart()


def _int8_plane(batch: pa.RecordBatch) -> tuple[Numbers, Numbers, Numbers]:
    codes, scales, residuals = batch.columns
    n_bytes = len(codes) * codes.type.byte_width
    return (
        _view(codes.buffers()[1], np.uint8, n_bytes),
        _values(scales.values),
        _values(residuals.values),
    )


def _lexical(
    arm: str,
    documents: pa.RecordBatch,
    terms: pa.RecordBatch,
    threads: int,
    is_mapped: bool,
    is_late: bool,
) -> _core.LexicalColumn:
    term_offsets, term_bytes = _strings(terms.column(0))
    forward_offsets, forward_bytes = _strings(documents.column(1))
    postings, runs, escapes = terms.columns[1:]
    width = postings.type.value_type.byte_width
    parts: dict[str, Any] = {
        "doc_lengths": _values(documents.column(0)),
        "term_offsets": term_offsets,
        "term_bytes": term_bytes,
        "forward_offsets": forward_offsets.view(np.uint64),
        "forward_bytes": forward_bytes,
        "posting_offsets": _offsets(postings).view(np.uint64),
        "posting_width": width,
        "postings": _view(postings.values.buffers()[1], np.uint8, len(postings.values) * width),
        "run_offsets": _offsets(runs, np.int32).view(np.uint32),
        "runs": _values(runs.values.values),
        "escape_offsets": _offsets(escapes, np.int32).view(np.uint32),
        "escapes": _values(escapes.values.values),
    }
    return _core.LexicalColumn.from_parts(arm, parts, threads, is_mapped, is_late)


def dead_rows(file: OpenedFile, n_rows: int, n_dead: int) -> npt.NDArray[np.uint32]:
    """Return deleted rows; refuse numbers that are not ascending and below ``n_rows``."""
    path, batch = file.path, file.batch
    if not batch.schema.equals(DEAD) or batch.num_rows != n_dead:
        got = f"{batch.num_rows} of {batch.schema}"
        raise error(CorruptIndexError, str(path), f"{n_dead} row numbers", got)
    dead = _values(batch.column(0))
    if n_dead and not (np.all(dead[1:] > dead[:-1]) and dead[-1] < n_rows):
        raise error(CorruptIndexError, str(path), f"ascending row numbers below {n_rows}", "others")
    return dead


def _values(array: pa.Array) -> Numbers:
    """View the numbers of an array in the memory of the file."""
    return _view(array.buffers()[1], array.type.to_pandas_dtype(), len(array))


def _offsets(array: pa.Array, dtype: Any = np.int64) -> Numbers:
    # Arrow may leave out the offsets of an array without items.
    if len(array) == 0:
        return np.zeros(1, dtype)
    return _view(array.buffers()[1], dtype, len(array) + 1)


def _strings(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    offsets = _offsets(array)
    return offsets, _view(array.buffers()[2], np.uint8, int(offsets[-1]))


def _view(buffer: pa.Buffer | None, dtype: Any, n_values: int) -> Numbers:
    if buffer is None or n_values == 0:
        return np.zeros(n_values, dtype)
    return np.frombuffer(buffer, dtype, n_values)
