"""Makes a segment from its Arrow files. Layout: docs/format.md.

The engine reads the memory of the files: nothing is copied but what leads to other data. Of a file
of which only the structure was checked, each part is checked before it is first read.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from hyrecall import _core
from hyrecall.base import disk
from hyrecall.errors import CorruptIndexError, error
from hyrecall.segments.segments import (
    EmbeddedArm,
    LateBytes,
    OpenedFile,
    Segment,
    segment_from_parts,
)
from hyrecall.table.arrow_read import damage_of
from hyrecall.table.attributes import is_read_late
from hyrecall.table.schema import MaxSim, Schema, Sparse, Vector

# ---- Converts a segment to Arrow record batches, one per file. Layout: docs/format.md ----
# Each array of the engine has a natural place in a batch: offsets are offsets of a list, postings
# are the list items of a term. So saving copies nothing. ``segment_files`` has the way back.

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
SIZES = pa.schema([_value("size", pa.uint32())])
_RUN = pa.struct(
    [_value("page", pa.uint32()), _value("begin", pa.uint64()), _value("greatest", pa.float32())]
)
SPARSE = {
    dtype: pa.schema(
        [
            _value("term", pa.large_string()),
            _value("runs", pa.large_list(_value("item", _RUN))),
            _value(
                "postings",
                pa.large_list(
                    _value("item", pa.struct([_value("row", pa.uint16()), _value("weight", kind)]))
                ),
            ),
        ]
    )
    for dtype, kind in (("float32", pa.float32()), ("float16", pa.float16()))
}
DEAD = pa.schema([_value("row", pa.uint32())])
BUNDLES = pa.schema([_value("begin", pa.uint32())])

_EMBEDDED, _PIECES = b"embedded", b"pieces"  # metadata of a file of vectors

PIECE_BYTES = 1 << 16
"""A row that is scored exactly is compared with a checksum of so many bytes, not of a block."""

VALUE_TYPES = {"float32": pa.float32(), "float16": pa.float16(), "bfloat16": pa.uint16()}

Numbers = npt.NDArray[Any]


def roles(schema: Schema) -> tuple[str, ...]:
    """Return the roles of a segment's files, except that of its deleted rows."""
    dense, lexical = schema.vector_arms.values(), range(len(schema.text_arms))
    return (
        "rows",
        *(f"vectors-{at}" for at in range(len(dense))),
        *(f"bundles-{at}" for at, one in enumerate(dense) if isinstance(one, MaxSim)),
        *(f"sparse-{at}" for at, one in enumerate(dense) if isinstance(one, Sparse)),
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
        sparse = segment.dense[arm].sparse_parts()
        if sparse is not None:
            sizes = _numbers(sparse["sizes"], pa.uint32())
            yield f"vectors-{at}", pa.record_batch([sizes], schema=SIZES)
            yield f"sparse-{at}", _postings(sparse, segment.dense[arm].dtype)
            continue
        vectors = _vectors(segment.dense[arm])
        if arm in embedded:
            told = {_EMBEDDED: _told(embedded[arm])}
            vectors = vectors.replace_schema_metadata((vectors.schema.metadata or {}) | told)
        yield f"vectors-{at}", vectors
        begins = segment.dense[arm].begins
        if begins is not None:
            yield f"bundles-{at}", pa.record_batch([_numbers(begins, pa.uint32())], schema=BUNDLES)
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


def _postings(parts: Mapping[str, Any], dtype: str) -> pa.RecordBatch:
    schema = SPARSE[dtype]
    term, run_lists, posting_lists = schema.types
    columns = zip(("run_pages", "run_begins", "run_greatest"), run_lists.value_type, strict=True)
    runs = [_numbers(parts[name], field.type) for name, field in columns]
    weight = posting_lists.value_type[1].type
    n_postings, n_runs = len(parts["rows"]), len(parts["run_pages"])
    weights = pa.Array.from_buffers(weight, n_postings, [None, pa.py_buffer(parts["weights"])])
    postings = [_numbers(parts["rows"], pa.uint16()), weights]
    begins = np.append(parts["run_begins"], np.uint64(n_postings))[parts["term_runs"]]
    items = (
        pa.Array.from_buffers(run_lists.value_type, n_runs, [None], 0, children=runs),
        pa.Array.from_buffers(posting_lists.value_type, n_postings, [None], 0, children=postings),
    )
    return pa.record_batch(
        [
            _array(term, [parts["term_offsets"], parts["term_bytes"]]),
            _array(run_lists, [parts["term_runs"]], items[0]),
            _array(posting_lists, [begins], items[1]),
        ],
        schema=schema,
    )


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


# ---- Makes a segment from its Arrow files. Layout: docs/format.md ----

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
        form = type(schema.vector_arms[arm])
        column = _dense(at, arm, vectors, dims[arm], n_rows, form, take, has_role)
        dense[arm], late[arm] = column
        late_rows += vectors.late(vectors.batch.num_columns - 1)  # norms, or sizes
        apart.append(vectors.read_apart)  # of a few rows, vectors and norms
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
    form: type[Vector],
    take: Callable[..., OpenedFile],
    has_role: Callable[[str], bool],
) -> tuple[_core.DenseColumn, Callable[[], None]]:
    """Return a column of vectors, and what is left to check of it."""
    if form is Sparse:
        return _sparse(arm, file, take(f"sparse-{at}", *SPARSE.values()), n_rows)
    wanted = {dtype: vector_schema(dtype, dim) for dtype in VALUE_TYPES}
    vectors = file.batch
    dtype = next((d for d, s in wanted.items() if vectors.schema.equals(s)), None)
    begins = _begins(take(f"bundles-{at}", BUNDLES), n_rows) if form is MaxSim else None
    n_vectors = n_rows if begins is None else int(begins[-1])
    if dtype is None or vectors.num_rows != n_vectors:
        got = f"{vectors.num_rows} of {vectors.schema}"
        raise error(CorruptIndexError, str(file.path), f"{n_vectors} rows of {dim} values", got)
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
        column = _core.DenseColumn.from_parts(arm, dtype, dim, rows, norms, planes, begins)
    column.read_late(_row_checks(file), plane_checks, head_checks)
    return column, column.check


def _sparse(
    arm: str, sizes: OpenedFile, file: OpenedFile, n_rows: int
) -> tuple[_core.DenseColumn, Callable[[], None]]:
    if not sizes.batch.schema.equals(SIZES) or sizes.batch.num_rows != n_rows:
        got = f"{sizes.batch.num_rows} of {sizes.batch.schema}"
        raise error(CorruptIndexError, str(sizes.path), f"{n_rows} rows of {SIZES}", got)
    sizes.check()
    terms, runs, postings = file.batch.columns
    file.check()  # whole: a scan reads parts of it that nobody else would compare
    parts = {
        "sizes": _values(sizes.batch.column(0)),
        "term_runs": _offsets(runs, np.uint64),
        "run_pages": _values(runs.values.field(0)),
        "run_begins": _values(runs.values.field(1)),
        "run_greatest": _values(runs.values.field(2)),
        "rows": _values(postings.values.field(0)),
        "weights": _values(postings.values.field(1)).view(np.uint8),
    }
    dtype = next(dtype for dtype, one in SPARSE.items() if file.batch.schema.equals(one))
    with damage_of(file.path, "postings of sparse rows"):
        column = _core.DenseColumn.from_sparse_parts(arm, dtype, terms, parts)
    return column, _nothing


def _begins(file: OpenedFile, n_rows: int) -> npt.NDArray[np.uint32]:
    """Return where the vectors of each row begin, of which there are no others than these."""
    # A copy: a file that is cut beneath a reader shows zeros, and rows would have no end.
    file.check()
    begins = np.array(_values(file.batch.column(0)))
    rises = len(begins) == n_rows + 1 and begins[0] == 0 and bool((begins[1:] >= begins[:-1]).all())
    if not rises:
        wish = f"{n_rows + 1} numbers of vectors that rise from 0"
        raise error(CorruptIndexError, str(file.path), wish, "others")
    return begins


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
