"""Converts a segment to Arrow record batches, one per file. Layout: docs/format.md.

Each array of the engine has a natural place in a batch: offsets are offsets of a list, postings are
the list items of a term. So saving copies nothing. ``segment_files`` has the way back.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from hyrecall import _core
from hyrecall.base import disk
from hyrecall.segments.facts import EmbeddedArm
from hyrecall.segments.segments import Segment
from hyrecall.table.schema import Schema

__all__ = [
    "DEAD",
    "DOCUMENTS",
    "LEAST_PIECE",
    "TERMS",
    "VALUE_TYPES",
    "batches_of",
    "dead_batch",
    "directions_schema",
    "embedded_by",
    "heads_schemas",
    "optional_roles",
    "piece_sums",
    "plane_schema",
    "roles",
    "vector_schema",
    "write_batch",
]

PLANE_ROWS = 16  # rows per block of a plane
REST = 4  # elements of a head beside one for each direction
_LINE_BYTES = 64  # of a block: some elements of each of its rows
_LINE_STEPS = (4, 8)  # elements of a row in a line, of codes of 8 bits and of 4

_value = partial(pa.field, nullable=False)  # the engine's arrays have no nulls

_PAIR = pa.list_(_value("item", pa.uint32()), 2)
_PAIRS = pa.list_(_value("item", _PAIR))

DOCUMENTS = pa.schema([_value("doc_length", pa.uint32()), _value("tokens", pa.large_binary())])
TERMS = {  # by the number of bytes of a posting
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
DEAD = pa.schema([_value("row", pa.uint32())])

_EMBEDDED, _PIECES = b"embedded", b"pieces"  # metadata of a file of vectors

PIECE_BYTES = 1 << 16
"""A row that is scored exactly is compared with a checksum of so many bytes, not of a block."""

VALUE_TYPES = {"float32": pa.float32(), "float16": pa.float16(), "bfloat16": pa.uint16()}

Numbers = npt.NDArray[Any]


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
    arms = range(len(schema.vector_arms))
    return tuple(f"{part}-{at}" for at in arms for part in ("plane", "directions", "heads"))


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
        segment.check_whole(arm)  # damaged rows must not be saved with a new checksum
        vectors = _vectors(segment.dense[arm])
        if arm in embedded:
            told = {_EMBEDDED: _told(embedded[arm])}
            vectors = vectors.replace_schema_metadata((vectors.schema.metadata or {}) | told)
        yield f"vectors-{at}", vectors
        int8_plane = segment.dense[arm].int8_plane
        if int8_plane is not None:
            yield f"plane-{at}", _plane(plane_schema(segment.dense[arm].dim), *int8_plane)
        head = segment.dense[arm].head
        if head is not None:
            yield f"directions-{at}", _directions(segment.dense[arm].dim, head[0])
            wide, narrow = heads_schemas(len(head[0]) // segment.dense[arm].dim)
            codes, scales, _ = head[1]
            is_wide = len(codes) * PLANE_ROWS == len(scales) * wide.field("codes").type.byte_width
            yield f"heads-{at}", _plane(wide if is_wide else narrow, *head[1])
    for at, arm in enumerate(schema.text_arms):
        segment.check_whole(arm)
        parts = segment.lexical[arm].parts()
        lengths = _numbers(parts["doc_lengths"], pa.uint32())
        forward = _array(pa.large_binary(), [parts["forward_offsets"], parts["forward_bytes"]])
        yield f"documents-{at}", pa.record_batch([lengths, forward], schema=DOCUMENTS)
        yield f"terms-{at}", _terms(parts)
    segment.read_apart()  # it stays open, and is searched again


def _told(embedded: EmbeddedArm) -> str:
    return json.dumps({"model": embedded.model, "columns": embedded.columns})


def embedded_by(batch: pa.RecordBatch) -> EmbeddedArm | None:
    """Return what a file of vectors says of its embedder; None if it says nothing."""
    told = (batch.schema.metadata or {}).get(_EMBEDDED)
    if told is None:
        return None
    data = json.loads(told)
    model, columns = data["model"], tuple(data["columns"])
    if not all(isinstance(one, str) for one in (model, *columns)):
        raise TypeError("an embedder without names")
    return EmbeddedArm(model, columns)


def vector_schema(dtype: str, dim: int) -> pa.Schema:
    """Return the columns of a file of vectors."""
    kind = pa.fixed_shape_tensor(VALUE_TYPES[dtype], [dim])
    vector = _value("vector", kind, metadata={"dtype": dtype})
    return pa.schema([vector, _value("inverse_norm", pa.float32())])


def _vectors(column: _core.DenseColumn) -> pa.RecordBatch:
    schema = vector_schema(column.dtype, column.dim)
    kind, n_rows = schema.types[0], len(column.inverse_norms)
    plane = [None, pa.py_buffer(column.rows)]
    values = pa.Array.from_buffers(kind.value_type, n_rows * column.dim, plane, 0)
    storage = pa.Array.from_buffers(kind.storage_type, n_rows, [None], 0, children=[values])
    norms = _numbers(column.inverse_norms, pa.float32())
    made = pa.record_batch([pa.ExtensionArray.from_storage(kind, storage), norms], schema=schema)
    sums = _piece_sums(plane[1])
    return made.replace_schema_metadata(sums) if sums else made


LEAST_PIECE = 1024  # shorter inputs than 241 bytes are hashed in another way


def _piece_sums(values: pa.Buffer) -> dict[bytes, bytes]:
    """Return the checksums of a column's vectors in pieces, as metadata of its file."""
    if values.size <= PIECE_BYTES or disk.BLOCK_BYTES <= PIECE_BYTES:
        return {}
    view = memoryview(values)
    sums = (
        xxhash.xxh3_64_intdigest(view[at : at + PIECE_BYTES])
        for at in range(0, len(view), PIECE_BYTES)
    )
    told = np.fromiter(sums, "<u8").tobytes()
    return {_PIECES: f"{PIECE_BYTES} {base64.b64encode(told).decode()}".encode()}


def piece_sums(batch: pa.RecordBatch) -> tuple[int, npt.NDArray[np.uint64]] | None:
    """Return the bytes of a piece and each piece's checksum; None where a file has none."""
    told = (batch.schema.metadata or {}).get(_PIECES)
    if told is None:
        return None
    values = batch.column(0).storage.values.buffers()[1]
    n_bytes = 0 if values is None else values.size
    size, _, sums = told.partition(b" ")
    try:
        piece, found = int(size), np.frombuffer(base64.b64decode(sums, validate=True), "<u8")
    except ValueError:
        piece, found = 0, np.zeros(0, "<u8")
    if piece < LEAST_PIECE or len(found) != -(-n_bytes // piece):
        raise ValueError("checksums of pieces that no save writes")
    return piece, found


def plane_schema(dim: int, line_step: int = _LINE_STEPS[0]) -> pa.Schema:
    """Return the columns of a file with a plane of codes, by default of 8 bits."""
    floats = pa.list_(_value("item", pa.float32()), PLANE_ROWS)
    codes = pa.binary(_LINE_BYTES * -(-dim // line_step))
    return pa.schema(
        [_value("codes", codes), _value("scales", floats), _value("residuals", floats)]
    )


def heads_schemas(n_directions: int) -> tuple[pa.Schema, pa.Schema]:
    """Return the columns of a file with heads, with codes of 8 bits and of 4."""
    wide, narrow = (plane_schema(n_directions + REST, step) for step in _LINE_STEPS)
    return wide, narrow


def _plane(
    schema: pa.Schema, codes: Numbers, scales: Numbers, residuals: Numbers
) -> pa.RecordBatch:
    n_blocks = len(scales) // PLANE_ROWS
    blocks = pa.Array.from_buffers(schema.types[0], n_blocks, [None, pa.py_buffer(codes)], 0)
    floats = [
        pa.Array.from_buffers(kind, n_blocks, [None], 0, children=[_numbers(of, pa.float32())])
        for kind, of in zip(schema.types[1:], (scales, residuals), strict=True)
    ]
    return pa.record_batch([blocks, *floats], schema=schema)


def directions_schema(dim: int) -> pa.Schema:
    """Return the columns of a file with the directions of heads."""
    return pa.schema([_value("direction", pa.fixed_shape_tensor(pa.float32(), [dim]))])


def _directions(dim: int, values: Numbers) -> pa.RecordBatch:
    schema = directions_schema(dim)
    kind = schema.types[0]
    n_directions = len(values) // dim
    storage = pa.Array.from_buffers(
        kind.storage_type, n_directions, [None], 0, children=[_numbers(values, pa.float32())]
    )
    return pa.record_batch([pa.ExtensionArray.from_storage(kind, storage)], schema=schema)


def _terms(parts: Mapping[str, Any]) -> pa.RecordBatch:
    schema = TERMS[parts["posting_width"]]
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
    return pa.record_batch([_numbers(view.dead_rows(), pa.uint32())], schema=DEAD)


def _numbers(values: Numbers, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)], 0)


def _array(kind: pa.DataType, buffers: list[Numbers], items: pa.Array | None = None) -> pa.Array:
    """Make an array of lists or byte strings; its length follows from the offsets."""
    held = [None, *(pa.py_buffer(buffer) for buffer in buffers)]
    children = None if items is None else [items]
    return pa.Array.from_buffers(kind, len(buffers[0]) - 1, held, 0, children=children)
