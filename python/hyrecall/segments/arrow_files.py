"""Converts a segment to Arrow record batches, one per file, and back. Layout: docs/format.md.

Each array of the engine has a natural place in a batch: offsets are offsets of a list, postings are
the list items of a term. So saving copies nothing, and after opening the engine reads the memory of
the file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.errors import CorruptIndexError, error
from hyrecall.segments.facts import EmbeddedArm
from hyrecall.segments.segments import Segment, segment_from_parts
from hyrecall.table.arrow_read import damage_of
from hyrecall.table.schema import Schema

__all__ = [
    "batches_of",
    "dead_batch",
    "dead_rows",
    "embedded_by",
    "optional_roles",
    "roles",
    "segment_of",
    "write_batch",
]

PLANE_ROWS = 16  # rows per block of an int8 plane

_value = partial(pa.field, nullable=False)  # the engine's arrays have no nulls

_PAIR = pa.list_(_value("item", pa.uint32()), 2)
_PAIRS = pa.list_(_value("item", _PAIR))

_DOCUMENTS = pa.schema([_value("doc_length", pa.uint32()), _value("tokens", pa.large_binary())])
# By the number of bytes of a posting.
_TERMS = {
    width: pa.schema(
        [
            _value("term", pa.large_binary()),
            _value("postings", pa.large_list(_value("item", pa.binary(width)))),
            _value("runs", _PAIRS),
            _value("escapes", _PAIRS),
        ]
    )
    for width in (3, 4)
}
_DEAD = pa.schema([_value("row", pa.uint32())])

_EMBEDDED = b"embedded"  # metadata of a file of vectors, which older versions do not read

_VALUE_TYPES = {"float32": pa.float32(), "float16": pa.float16(), "bfloat16": pa.uint16()}

Numbers = npt.NDArray[Any]
Open = Callable[[str], tuple[Path, pa.RecordBatch]]


def roles(schema: Schema) -> tuple[str, ...]:
    """Return the roles of a segment's files, except that of its deleted rows."""
    dense, lexical = range(len(schema.vector_arms)), range(len(schema.text_arms))
    return (
        "rows",
        *(f"vectors-{at}" for at in dense),
        *(f"{part}-{at}" for at in lexical for part in ("documents", "terms")),
    )


def optional_roles(schema: Schema) -> tuple[str, ...]:
    """Return the roles of optional files, which make scans faster."""
    return tuple(f"plane-{at}" for at in range(len(schema.vector_arms)))


def write_batch(sink: Any, batch: pa.RecordBatch) -> None:
    """Write a batch as an Arrow IPC file."""
    options = pa.ipc.IpcWriteOptions(allow_64bit=True)  # a file may have more than 2^31 postings
    with pa.ipc.new_file(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)


# ---- segment to batches ----


def batches_of(
    segment: Segment, schema: Schema, embedded: Mapping[str, EmbeddedArm]
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield (role, batch) of each file of the segment, except that of its deleted rows."""
    names = schema.row_columns
    columns = [_numbers(segment.core.seqs, pa.int64()), *(segment.column(name) for name in names)]
    yield "rows", pa.record_batch(columns, names=["seq", *names])
    for at, arm in enumerate(schema.vector_arms):
        segment.check(arm)  # damaged rows must not be saved with a new checksum
        vectors = _vectors(segment.dense[arm])
        if arm in embedded:
            vectors = vectors.replace_schema_metadata({_EMBEDDED: _told(embedded[arm])})
        yield f"vectors-{at}", vectors
        int8_plane = segment.dense[arm].int8_plane
        if int8_plane is not None:
            yield f"plane-{at}", _plane(segment.dense[arm].dim, *int8_plane)
    for at, arm in enumerate(schema.text_arms):
        parts = segment.lexical[arm].parts()
        lengths = _numbers(parts["doc_lengths"], pa.uint32())
        forward = _array(pa.large_binary(), [parts["forward_offsets"], parts["forward_bytes"]])
        yield f"documents-{at}", pa.record_batch([lengths, forward], schema=_DOCUMENTS)
        yield f"terms-{at}", _terms(parts)


def _told(embedded: EmbeddedArm) -> str:
    return json.dumps({"model": embedded.model, "columns": embedded.columns})


def embedded_by(batch: pa.RecordBatch) -> EmbeddedArm | None:
    """Return what a file of vectors says of its embedder; None if it says nothing.

    Raises
    ------
    ValueError, TypeError, KeyError
        Something else is there.
    """
    told = (batch.schema.metadata or {}).get(_EMBEDDED)
    if told is None:
        return None
    data = json.loads(told)
    model, columns = data["model"], tuple(data["columns"])
    if not all(isinstance(one, str) for one in (model, *columns)):
        raise TypeError("an embedder without names")
    return EmbeddedArm(model, columns)


def _vector_schema(dtype: str, dim: int) -> pa.Schema:
    kind = pa.fixed_shape_tensor(_VALUE_TYPES[dtype], [dim])
    vector = _value("vector", kind, metadata={"dtype": dtype})
    return pa.schema([vector, _value("inverse_norm", pa.float32())])


def _vectors(column: _core.DenseColumn) -> pa.RecordBatch:
    schema = _vector_schema(column.dtype, column.dim)
    kind, n_rows = schema.types[0], len(column.inverse_norms)
    plane = [None, pa.py_buffer(column.rows)]
    values = pa.Array.from_buffers(kind.value_type, n_rows * column.dim, plane, 0)
    storage = pa.Array.from_buffers(kind.storage_type, n_rows, [None], 0, children=[values])
    norms = _numbers(column.inverse_norms, pa.float32())
    return pa.record_batch([pa.ExtensionArray.from_storage(kind, storage), norms], schema=schema)


def _plane_schema(dim: int) -> pa.Schema:
    floats = pa.list_(_value("item", pa.float32()), PLANE_ROWS)
    codes = pa.binary(PLANE_ROWS * 4 * -(-dim // 4))
    return pa.schema(
        [_value("codes", codes), _value("scales", floats), _value("residuals", floats)]
    )


def _plane(dim: int, codes: Numbers, scales: Numbers, residuals: Numbers) -> pa.RecordBatch:
    schema = _plane_schema(dim)
    n_blocks = len(scales) // PLANE_ROWS
    blocks = pa.Array.from_buffers(schema.types[0], n_blocks, [None, pa.py_buffer(codes)], 0)
    floats = [
        pa.Array.from_buffers(kind, n_blocks, [None], 0, children=[_numbers(of, pa.float32())])
        for kind, of in zip(schema.types[1:], (scales, residuals), strict=True)
    ]
    return pa.record_batch([blocks, *floats], schema=schema)


def _terms(parts: Mapping[str, Any]) -> pa.RecordBatch:
    schema = _TERMS[parts["posting_width"]]
    term, posting_lists, run_lists, escape_lists = schema.types
    n_postings = len(parts["postings"]) // parts["posting_width"]
    packed = [None, pa.py_buffer(parts["postings"])]
    postings = pa.Array.from_buffers(posting_lists.value_type, n_postings, packed, 0)
    columns = [
        _array(term, [parts["term_offsets"], parts["term_bytes"]]),
        _array(posting_lists, [parts["posting_offsets"]], postings),
        _array(run_lists, [parts["run_offsets"]], _pairs(parts["runs"])),
        _array(escape_lists, [parts["escape_offsets"]], _pairs(parts["escapes"])),
    ]
    return pa.record_batch(columns, schema=schema)


def _pairs(numbers: Numbers) -> pa.Array:
    values = [_numbers(numbers, pa.uint32())]
    return pa.Array.from_buffers(_PAIR, len(numbers) // 2, [None], 0, children=values)


def dead_batch(view: _core.SegmentView) -> pa.RecordBatch:
    """Return the deleted rows of a segment in ascending order."""
    return pa.record_batch([_numbers(view.dead_rows(), pa.uint32())], schema=_DEAD)


def _numbers(values: Numbers, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)], 0)


def _array(kind: pa.DataType, buffers: list[Numbers], items: pa.Array | None = None) -> pa.Array:
    """Make an array of lists or byte strings; its length follows from the offsets."""
    held = [None, *(pa.py_buffer(buffer) for buffer in buffers)]
    children = None if items is None else [items]
    return pa.Array.from_buffers(kind, len(buffers[0]) - 1, held, 0, children=children)


# ---- batches to segment ----


def segment_of(
    name: str,
    n_rows: int,
    open_role: Open,
    has_role: Callable[[str], bool],
    schema: Schema,
    dims: Mapping[str, int],
    threads: int,
) -> Segment:
    """Make a segment from its files.

    Parameters
    ----------
    name : str
    n_rows : int
        The number of rows according to the MANIFEST.
    open_role : callable
        Returns the path (for messages) and the checked batch of a role's file.
    has_role : callable
        Returns whether an optional role has a file.
    schema : Schema
    dims : mapping of str to int
    threads : int

    Raises
    ------
    CorruptIndexError
        A file whose columns or length do not fit its role, or with content that no save writes.
    """

    def take(role: str, *wanted: pa.Schema) -> tuple[Path, pa.RecordBatch]:
        path, batch = open_role(role)
        if not any(batch.schema.equals(one) for one in wanted):
            raise error(CorruptIndexError, str(path), f"columns {wanted[0]}", batch.schema)
        if role.startswith("documents") and batch.num_rows != n_rows:
            raise error(CorruptIndexError, str(path), f"{n_rows} rows", batch.num_rows)
        return path, batch

    rows_path, batch = open_role("rows")
    path = rows_path
    names = list(schema.row_columns)
    first = pa.field("seq", pa.int64())
    if batch.schema.names != ["seq", *names] or not batch.schema.field(0).equals(first):
        raise error(CorruptIndexError, str(path), f"columns seq, {names}", batch.schema)
    if batch.num_rows != n_rows:
        raise error(CorruptIndexError, str(path), f"{n_rows} rows", batch.num_rows)
    rows = pa.table(batch.columns[1:], names=names)
    dense = {}
    for at, arm in enumerate(schema.vector_arms):
        wanted = {dtype: _vector_schema(dtype, dims[arm]) for dtype in _VALUE_TYPES}
        path, vectors = open_role(f"vectors-{at}")
        dtype = next((d for d, s in wanted.items() if vectors.schema.equals(s)), None)
        if dtype is None or vectors.num_rows != n_rows:
            got = f"{vectors.num_rows} of {vectors.schema}"
            raise error(CorruptIndexError, str(path), f"{n_rows} rows of {dims[arm]} values", got)
        plane = _values(vectors.column(0).storage.values).view(np.uint8)
        norms = _values(vectors.column(1))
        int8_plane = None
        if has_role(f"plane-{at}"):
            path, blocks = take(f"plane-{at}", _plane_schema(dims[arm]))
            int8_plane = _int8_plane(blocks)
        with damage_of(path, "a part of the segment"):
            dense[arm] = _core.DenseColumn.from_parts(
                arm, dtype, dims[arm], plane, norms, int8_plane
            )
    lexical = {}
    for at, arm in enumerate(schema.text_arms):
        _, documents = take(f"documents-{at}", _DOCUMENTS)
        path, terms = take(f"terms-{at}", *_TERMS.values())
        with damage_of(path, "terms of the segment's documents"):
            lexical[arm] = _lexical(arm, documents, terms, threads)
    path = rows_path
    with damage_of(path, "rows of the schema's types"):
        seqs = _values(batch.column(0))
        made = segment_from_parts(rows, seqs, schema, lexical, dense, name=name)
    if made.core.duplicate is not None or made.column(schema.key).null_count:
        raise error(CorruptIndexError, str(path), "keys unique within a cell", "others")
    return made


def _int8_plane(batch: pa.RecordBatch) -> tuple[Numbers, Numbers, Numbers]:
    codes, scales, residuals = batch.columns
    n_bytes = len(codes) * codes.type.byte_width
    return (
        _view(codes.buffers()[1], np.uint8, n_bytes),
        _values(scales.values),
        _values(residuals.values),
    )


def _lexical(
    arm: str, documents: pa.RecordBatch, terms: pa.RecordBatch, threads: int
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
    return _core.LexicalColumn.from_parts(arm, parts, threads)


def dead_rows(
    path: Path, batch: pa.RecordBatch, n_rows: int, n_dead: int
) -> npt.NDArray[np.uint32]:
    """Return deleted rows; refuse numbers that are not ascending and below ``n_rows``."""
    if not batch.schema.equals(_DEAD) or batch.num_rows != n_dead:
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
