"""Packs a header and arrays into the bytes of an Arrow stream, and back; no pickle.

The stream has one row. Each column is a list of numbers or a binary value; the header is JSON in
the metadata of its schema. A checksum follows the stream.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from datetime import date, datetime, time, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from hyrecall.ask import queries
from hyrecall.ask.filters import Filter, restore_filter
from hyrecall.ask.predicates import AllOf, AnyOf, Between, Equal, IsNull, NoneOf, NotNull, Predicate
from hyrecall.ask.recipe import from_data, known_parts, to_data
from hyrecall.ask.scope import ANY, Scope, ScopePattern
from hyrecall.ask.scoring import DBSF, RRF, Max, WeightedSum
from hyrecall.base.arguments import as_list, check_hashes, python_scalar
from hyrecall.base.malformed import MALFORMED, is_compressed
from hyrecall.errors import DTypeError, OptionError, UnknownOptionError, error
from hyrecall.stages.session import Session

VERSION = 1
"""Increased by each change of the bytes; a reader refuses another one."""

_SEAL_BYTES = 8  # the checksum after the stream
_NOTHING = "none"  # the column of a batch without arrays
_KIND, _HEADER = b"hyrecall.kind", b"hyrecall.header"

Array = npt.NDArray[Any]


@contextmanager
def reading(wish: str) -> Iterator[None]:
    """Refuse what a peer sent with :class:`OptionError`, whatever its bytes break in a reader."""
    # ``wish`` says what the bytes should be. An :class:`OptionError` of the body passes as it is.
    try:
        yield
    except (*MALFORMED, OSError) as fault:
        if isinstance(fault, OptionError) and not isinstance(fault, UnknownOptionError):
            raise
        raise error(OptionError, "data", wish, "others") from fault


def pack(kind: str, header: Mapping[str, Any], arrays: Mapping[str, Array | bytes]) -> bytes:
    """Return the bytes of a header and named arrays, each bytes or 1-D numbers (not bools)."""
    columns = [_column(array) for array in arrays.values()]
    fields = [pa.field(name, one.type) for name, one in zip(arrays, columns, strict=True)]
    told = {_KIND: f"{kind} {VERSION}".encode(), _HEADER: json.dumps(header).encode()}
    if not columns:  # an Arrow batch without columns has no rows
        columns, fields = [pa.nulls(1)], [pa.field(_NOTHING, pa.null())]
    schema = pa.schema(fields, metadata=told)
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch)
    body = sink.getvalue()
    return b"".join((body, xxhash.xxh3_64_digest(body)))


def _column(array: Array | bytes) -> pa.Array:
    """Return numbers or bytes as a column of one row, without a copy."""
    # It is built from buffers: with Arrow constructors, packing an answer takes a third longer.
    ends = pa.py_buffer(np.array([0, len(array)], np.int64))
    if isinstance(array, bytes):
        return pa.Array.from_buffers(pa.large_binary(), 1, [None, ends, pa.py_buffer(array)])
    kind = pa.from_numpy_dtype(array.dtype)
    buffers = [None, pa.py_buffer(np.ascontiguousarray(array))]
    values = pa.Array.from_buffers(kind, len(array), buffers)
    return pa.Array.from_buffers(pa.large_list(kind), 1, [None, ends], children=[values])


def unpack(kind: str, data: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the header and the arrays that :func:`pack` packed, as views of the bytes."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise error(DTypeError, "data", "bytes", type(data).__name__)
    wish = f"the bytes of a {kind} of version {VERSION}"
    given = memoryview(data).toreadonly()
    body, seal = given[:-_SEAL_BYTES], given[-_SEAL_BYTES:]
    if xxhash.xxh3_64_digest(body) != seal:
        raise error(OptionError, "data", wish, "others, or damaged ones")
    with reading(wish):
        _check_plain(pa.py_buffer(body))
        with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
            told = reader.schema.metadata or {}
            found = told.get(_KIND, b"").decode()
            if found != f"{kind} {VERSION}":
                raise error(OptionError, "data", wish, found or "others")
            batch = reader.read_next_batch()
            batch.validate(full=True)
            if batch.num_rows != 1:
                raise error(OptionError, "data", wish, f"{batch.num_rows} rows")
            header = json.loads(told[_HEADER])
            names = [name for name in batch.schema.names if name != _NOTHING]
            arrays = {name: _value(batch.column(name)) for name in names}
    return header, arrays


def _check_plain(stream: pa.Buffer) -> None:
    """Refuse compressed messages: a few bytes could expand to very many."""
    for message in pa.ipc.MessageReader.open_stream(stream):
        if is_compressed(message):
            wish = "record batches without compression, as they are packed here"
            raise error(OptionError, "data", wish, "compressed ones")


def _value(column: pa.Array) -> Array | bytes:
    if column.null_count or not pa.types.is_large_binary(column.type):
        if column.null_count or not pa.types.is_large_list(column.type):
            raise ValueError("neither numbers nor bytes")
        return np.asarray(column[0].values.to_numpy(zero_copy_only=True))
    return bytes(column[0].as_buffer())


def pack_table(table: pa.Table) -> bytes:
    """Return a table as an Arrow stream of one batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def unpack_table(data: bytes) -> pa.Table:
    """Return the table that :func:`pack_table` packed, checked."""
    with reading("the bytes of a table"):
        _check_plain(pa.py_buffer(data))
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            table = reader.read_all()
        table.validate(full=True)
        return table.combine_chunks()


# ---- The arguments of a call as plain data for JSON, and back ----

_PLAIN = (bool, int, float, str)
_SCALARS = frozenset((*_PLAIN, type(None)))
_QUERIES = (queries.Phrase, queries.Prefix, queries.Boost)
_GROUPS = (queries.All, queries.Any)
_PREDICATES: tuple[Any, ...] = (AllOf, AnyOf, Between, Equal, IsNull, NoneOf, NotNull)
_FUSIONS = (RRF, WeightedSum, Max, DBSF)
_TIMES = (datetime, date, time)


def _made_of(kind: Any) -> Callable[[Any], Any]:
    return lambda parts: kind(*parts)


def _made_with(kind: Any) -> Callable[[Any], Any]:
    return lambda settings: kind(**settings)


def _settings(fusion: Any) -> dict[str, Any]:
    """Return the arguments that recreate a fusion, which stores mappings as pairs."""
    out = {}
    for one in fields(fusion):
        value = getattr(fusion, one.name)
        if one.init and value != one.default:
            out[one.name] = dict(value) if isinstance(value, tuple) else value
    return out


def _dict(pairs: Any) -> dict[Any, Any]:
    check_hashes([key for key, _ in pairs])
    return dict(pairs)


def _fields(query: Any) -> list[Any]:
    return [getattr(query, one.name) for one in fields(query)]


def _filter(op: Any, tests: Any, parts: Any) -> Filter:
    """Make a filter from its contents, checked."""
    is_sound = op in ("test", "and", "or", "not") and (op == "test") == (not parts)
    is_sound &= all(isinstance(test, Predicate) for _, test in tests)
    is_sound &= all(isinstance(one, Filter) for one in parts) and (op != "not" or len(parts) == 1)
    if not is_sound:
        raise ValueError("parts that make no filter")
    return restore_filter(op, tuple((str(name), test) for name, test in tests), tuple(parts))


# What encode() takes of a value, by its class, and how decode() makes the value of it.
_Code = Callable[[Any], Any]
_CODES: dict[type, tuple[_Code, _Code]] = {
    tuple: (list, tuple),
    dict: (lambda value: [list(pair) for pair in value.items()], _dict),
    Scope: (lambda value: list(value.cells), Scope),
    ScopePattern: (lambda value: list(value.parts), lambda parts: ScopePattern(tuple(parts))),
    Session: (lambda value: [dict(value.accessed), value.n_recalls], _made_of(Session)),
    timedelta: (lambda value: [value.days, value.seconds, value.microseconds], _made_of(timedelta)),
    Filter: (
        lambda value: [value.op, list(value.predicates), list(value.parts)],
        _made_of(_filter),
    ),
    **{one: (_settings, _made_with(one)) for one in _FUSIONS},
    **{one: (one.isoformat, one.fromisoformat) for one in _TIMES},
    **{one: (lambda value: list(value.values), _made_of(one)) for one in _PREDICATES},
    **{one: (lambda value: list(value.queries), _made_of(one)) for one in _GROUPS},
    **{one: (_fields, _made_of(one)) for one in _QUERIES},
}
_MADE = {kind.__name__: made for kind, (_, made) in _CODES.items()}
# hr.Any is a query, the engine's AnyOf a predicate: no two classes here share a name.
_CONTAINERS = frozenset((list, dict))
_PLAIN_KIND, _OF, _PART, _EVERY = "kind", "of", "part", "ANY"


def encode(argument: str, value: Any) -> Any:
    """Return an argument of a call as plain data."""
    value = python_scalar(as_list(value))
    if isinstance(value, np.ndarray) and value.ndim == 1:
        value = value.tolist()
    if value is None or isinstance(value, _PLAIN):
        return value
    if isinstance(value, list):
        if _SCALARS.issuperset(map(type, value)):
            return value
        return [encode(argument, one) for one in value]
    if value is ANY:
        return {_PLAIN_KIND: _EVERY}
    kind = dict if isinstance(value, Mapping) else type(value)
    if kind in _CODES:
        return {_PLAIN_KIND: kind.__name__, _OF: encode(argument, _CODES[kind][0](value))}
    if kind in known_parts().values():
        return {_PLAIN_KIND: _PART, _OF: to_data(value)}
    wish = "plain data that another process can read (no function, no graph)"
    raise error(DTypeError, argument, wish, repr(value)[:80])


def decode(argument: str, data: Any) -> Any:
    """Return the argument that :func:`encode` encoded."""
    try:
        return _decode(argument, data)
    except OptionError:
        raise
    except (
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
        OverflowError,
        RecursionError,
    ) as fault:
        raise error(OptionError, argument, "the data of a request", repr(data)[:80]) from fault


def _decode(argument: str, data: Any) -> Any:
    if isinstance(data, list):
        if _CONTAINERS.isdisjoint(map(type, data)):  # texts or scopes of a batch
            return data
        return [_decode(argument, one) for one in data]
    if not isinstance(data, dict):
        return data
    if data[_PLAIN_KIND] == _EVERY:
        return ANY
    if data[_PLAIN_KIND] == _PART:
        return from_data(data[_OF], argument, known_parts())
    return _MADE[data[_PLAIN_KIND]](_decode(argument, data[_OF]))
