"""Batches as Arrow IPC streams: a table of queries comes in, a table of hits goes out."""

from __future__ import annotations

import asyncio
import io
import json
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fastapi import Query, Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import Response, StreamingResponse

from hyrecall.ask.filter_json import filter_from_json
from hyrecall.ask.filters import Filter
from hyrecall.base.malformed import is_compressed
from hyrecall.distributed.batch_recall import DEGRADED, reasons_of
from hyrecall.hits.hits import Hits
from hyrecall.memory import Matches
from hyrecall.serve.bodies import RecallBody
from hyrecall.serve.errors import (
    ServiceError,
    check_hits,
    check_lists,
    check_page,
    check_size,
    options_of,
)
from hyrecall.serve.guards import ARROW
from hyrecall.serve.limits import is_deeper, read_json
from hyrecall.serve.options import Caller, ServiceOptions
from hyrecall.serve.replies import ERRORS, AnyIndex, recipe_named
from hyrecall.serve.routes.export import MOST_SECONDS
from hyrecall.serve.routes.index_recall import authorised, served_by
from hyrecall.serve.routes.recall import answer_all, check_all, check_recall
from hyrecall.serve.routing import Router
from hyrecall.serve.scoped_store import Reader
from hyrecall.table.schema import Sparse

# ---- Reads Arrow IPC streams of queries, so that few bytes never become many values ----
# A column has one of a few plain types, and its values lie in the stream itself: no compression,
# dictionary, run or view stands for more than what was sent. Types are checked before a batch is
# read, lengths before a value becomes an object of Python.

MAX_BATCHES = 4_096
"""Record batches of a stream that hold rows: each has a cost beside its bytes."""

MAX_HEADER = 1 << 20
"""Bytes of the schema, which may name many fields, and of a batch's list of buffers."""

MANY = 100
"""Lists of ``max_ids`` values whose total a stream may hold as objects of Python."""

_AS_JSON = "application/json"
_Fits = Callable[[pa.DataType], bool]


# ---- types ----


@dataclass(frozen=True)
class ColumnKind:
    """The accepted types of a column of queries."""

    wish: str
    fits: _Fits
    is_json: bool = False


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or _is_text(kind))


def _is_plain(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind) or _is_text(kind))


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def _is_cell(kind: pa.DataType) -> bool:
    if not pa.types.is_struct(kind):
        return _is_plain(kind)
    return kind.num_fields > 0 and all(_is_plain(one.type) for one in kind)


def _is_list_of(fits: _Fits) -> _Fits:
    return lambda kind: _is_list(kind) and fits(kind.value_type)


def _is_vector(kind: pa.DataType) -> bool:
    tensor = isinstance(kind, pa.FixedShapeTensorType)
    return _is_list_of(_is_number)(kind.storage_type if tensor else kind)


def _is_weights(kind: pa.DataType) -> bool:
    """Return whether it is a map of terms or ids to weights."""
    is_map = pa.types.is_map(kind)
    return (
        is_map
        and _is_number(kind.item_type)
        and (_is_text(kind.key_type) or _is_number(kind.key_type))
    )


TEXT = ColumnKind("strings", _is_text)
JSON = ColumnKind("strings of JSON", _is_text, is_json=True)
NUMBER = ColumnKind("numbers", _is_number)
FLOORS = ColumnKind(
    "numbers, or strings of JSON", lambda kind: _is_number(kind) or _is_text(kind), is_json=True
)
FLAG = ColumnKind("booleans", pa.types.is_boolean)
TIME = ColumnKind("timestamps or strings", _is_time)
PLAIN = ColumnKind("strings, numbers, booleans or times", _is_plain)
TEXTS = ColumnKind("lists of strings", _is_list_of(_is_text))
NUMBERS = ColumnKind("lists of numbers", _is_vector)
WEIGHTS = ColumnKind("maps of terms or ids to weights", _is_weights)
CELLS = ColumnKind(
    "cells (plain values, or structs of them), or lists of cells",
    lambda kind: _is_cell(kind) or _is_list_of(_is_cell)(kind),
)


def _check_types(schema: pa.Schema, wanted: Mapping[str, ColumnKind]) -> None:
    names = schema.names
    if len(set(names)) < len(names) or not set(names) <= wanted.keys():
        wish = ", ".join(sorted(wanted))
        raise ServiceError(422, "Invalid", f"columns of the table: expected each once, of {wish}")
    for field in schema:
        # A column of no type holds nulls alone, as many as it has rows.
        if not pa.types.is_null(field.type) and not wanted[field.name].fits(field.type):
            wish, got = wanted[field.name].wish, str(field.type).partition("<")[0]
            raise ServiceError(422, "Invalid", f"{field.name}: expected {wish}, got {got}")


# ---- the stream ----


def read_table(
    body: bytes, wanted: Mapping[str, ColumnKind], sizes: ServiceOptions, most: int
) -> Any:
    """Read and check a stream; nothing that it says of sizes is believed."""
    try:
        messages = iter(pa.ipc.MessageReader.open_stream(pa.py_buffer(body)))
        schema = _schema(next(messages, None))
        _check_types(schema, wanted)
        table = pa.Table.from_batches(list(_batches(messages, schema, most)), schema)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, struct.error) as fault:
        got = type(fault).__name__
        raise ServiceError(422, "Invalid", f"expected an Arrow IPC stream, got {got}") from None
    if table.nbytes > len(body):
        wish = "buffers of their own"
        raise ServiceError(422, "Invalid", f"columns of the table: expected {wish}, got shared")
    for name in table.column_names:
        _check_lengths(name, table[name], wanted[name], sizes)
    return table


def _schema(message: pa.ipc.Message | None) -> pa.Schema:
    if message is None or message.type != "schema":
        raise pa.ArrowInvalid("no schema")
    check_size("schema", message.metadata.size, MAX_HEADER, "bytes")
    return pa.ipc.read_schema(message)


def _batches(
    messages: Iterator[pa.ipc.Message], schema: pa.Schema, most: int
) -> Iterator[pa.RecordBatch]:
    n_rows = n_batches = 0
    for message in messages:
        if message.type != "record batch":
            raise ServiceError(422, "Invalid", f"expected record batches, got a {message.type}")
        check_size("header", message.metadata.size, MAX_HEADER, "bytes")
        if is_compressed(message):
            raise ServiceError(422, "Invalid", "expected record batches without compression")
        batch = pa.ipc.read_record_batch(message, schema)
        n_rows += batch.num_rows
        check_size("rows", n_rows, most, "queries")
        if batch.num_rows:
            n_batches += 1
            check_size("record batches", n_batches, MAX_BATCHES, "")
            yield batch


# ---- lengths ----


def _check_lengths(
    name: str, column: pa.ChunkedArray, kind: ColumnKind, sizes: ServiceOptions
) -> None:
    if _is_text(column.type):
        check_size(name, longest(column), sizes.max_body, "bytes")
        if kind.is_json:
            _check_json(name, column, sizes)
    check_size(name, _list_lengths(column)[0], sizes.max_ids, "values")


def longest(column: pa.ChunkedArray) -> int:
    """Return the bytes of the longest text of a column; 0 of other columns."""
    if not _is_text(column.type):
        return 0
    return pc.max(pc.binary_length(column)).as_py() or 0


def _check_json(name: str, column: pa.ChunkedArray, sizes: ServiceOptions) -> None:
    """Refuse JSON that is deeper than it could be in a body, whose object is a level of its own."""
    for text in column:
        if is_deeper((text.as_py() or "").encode(), _AS_JSON, sizes.max_levels - 1):
            wish = f"at most {sizes.max_levels - 1} levels of JSON"
            raise ServiceError(422, "Invalid", f"{name}: expected {wish}")


def _list_lengths(column: pa.ChunkedArray) -> tuple[int, int]:
    """Return the length of the longest list, and of all together; 0 of other columns."""
    kind = column.type
    if isinstance(kind, pa.FixedShapeTensorType):
        size = kind.storage_type.list_size
        return size, size * len(column)
    if pa.types.is_map(kind):
        sizes = np.concatenate([np.diff(one.offsets.to_numpy()) for one in column.chunks] or [[0]])
        return int(sizes.max(initial=0)), int(sizes.sum())
    if not _is_list(kind) or not len(column):
        return 0, 0
    lengths = pc.list_value_length(column)
    return pc.max(lengths).as_py() or 0, pc.sum(lengths).as_py() or 0


def check_count(table: pa.Table, wanted: Mapping[str, ColumnKind], sizes: ServiceOptions) -> None:
    """Refuse columns whose lists and JSON hold too many values in all to become Python's
    objects.
    """
    n_values = 0
    for name in table.column_names:
        column = table[name]
        n_values += _list_lengths(column)[1]
        if wanted[name].is_json and _is_text(column.type):
            # A value stands behind a comma or a bracket; those in strings are counted too.
            n_values += pc.sum(pc.count_substring_regex(column, "[,\\[{]")).as_py() or 0
    check_size("values in lists and JSON", n_values, MANY * sizes.max_ids, "")


def values_of(column: pa.ChunkedArray | pa.Table, name: str) -> list[Any]:
    """Return a column, or the rows of a table, as values of Python."""
    try:
        made: list[Any] = column.to_pylist()
    except (pa.ArrowException, ValueError, OverflowError, LookupError, OSError):
        wish = "times of the years 1 to 9999 in a known time zone"
        raise ServiceError(422, "Invalid", f"{name}: expected {wish}") from None
    return made


# ---- Batches as Arrow IPC streams: a table of queries comes in, a table of hits goes out ----

OF_A_STORE: dict[str, ColumnKind] = {
    "text": TEXT, "limit": NUMBER, "offset": NUMBER, "depth": NUMBER, "kind": TEXT,
    "session_id": TEXT, "user_id": TEXT, "org": TEXT, "workspace": TEXT, "recipe": TEXT,
    "filter": JSON, "metadata": JSON, "weights": JSON, "alpha": NUMBER, "diversity": NUMBER,
    "min_score": FLOORS, "token_budget": NUMBER, "normalize": FLAG, "touch": FLAG,
    "include_ended": FLAG, "now": TIME, "min_confidence": NUMBER,
    "since": TIME, "until": TIME, "tags": TEXTS, "candidates": TEXTS, "vector": NUMBERS,
}  # fmt: skip
"""Columns of a store's table: the fields of a recall's body but those whose parts are no rows of a
table: ``explain``, ``highlight``, ``confidence`` and ``around``."""

MATCHES = pa.schema(
    {
        "query": pa.int32(), "rank": pa.int32(), "id": pa.string(), "score": pa.float64(),
        "vector_score": pa.float64(), "bm25_score": pa.float64(), "rerank_score": pa.float64(),
        "is_fill": pa.bool_(), "text": pa.string(), "input": pa.string(),
        "valid_to": pa.timestamp("us", "UTC"),
    }
)  # fmt: skip
"""Columns of a store's reply."""

PIECE = 2_048
"""Hits whose columns are gathered at a time for a reply."""

AT_ONCE = 8 << 20
"""Bytes of a reply that is sent whole; a longer one is measured, then made again in pieces."""

MAX_KEY = 512
"""Bytes of a query's key, which stands beside each of its hits."""


def _router() -> Router:
    return Router(prefix="/v1", responses=ERRORS)


index_router, store_router = _router(), _router()

_BINARY = {"schema": {"type": "string", "format": "binary"}}
_ROUTE: dict[str, Any] = {
    "path": "/recall/arrow",
    "summary": "Recall for a batch in an Arrow stream",
    "response_class": Response,
    "responses": {200: {"content": {ARROW: _BINARY}, "description": "A table of hits."}},
    "openapi_extra": {"requestBody": {"content": {ARROW: _BINARY}, "required": True}},
}


class BatchOptions(BaseModel):
    """The options that all queries of an index's batch share."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    limit: Annotated[int, Field(ge=0)] = 10
    offset: Annotated[int, Field(ge=0)] = 0
    depth: Annotated[int, Field(ge=1)] = 100
    recipe: str | None = None
    normalize: bool = False
    group: Literal["thread"] | None = None
    columns: list[str] = []


# ---- an index ----


@index_router.post(**_ROUTE)
async def recall_index(
    request: Request, who: Reader, options: Annotated[BatchOptions, Query()]
) -> Response:
    """Rank the documents of each query's cells.

    Columns of the table: ``text`` and ``vector``, or ``text.ARM`` and ``vector.ARM``; ``scope``, a
    cell of each query (a struct if cells have several columns), or a list of cells, by default all
    of the token; ``filter``, JSON; ``key``, which comes back as ``query_key``. The schema of the
    reply says under ``degraded`` which queries were, and why, as JSON.
    """
    served, sizes = served_by(request), options_of(request)
    wanted = _of_an_index(served.index)
    table = await _read(request, sizes, wanted, sizes.max_arrow_batch)
    check_page(sizes, options.limit, options.offset)
    check_size("depth", options.depth, sizes.max_limit, "")
    check_hits(sizes.max_arrow_hits, [options.limit * table.num_rows])
    asked = await asyncio.to_thread(_index_arguments, served.index, sizes, who, table, options)
    hits = await served.run(asked)
    return await _written(lambda: _pieces(hits), sizes.max_reply)


def _index_arguments(
    index: AnyIndex, sizes: ServiceOptions, who: Caller, table: pa.Table, options: BatchOptions
) -> dict[str, Any]:
    """Return the arguments of :meth:`hyrecall.Index.recall`."""
    read_here = table.select([name for name in ("scope", "filter") if name in table.column_names])
    check_count(read_here, _of_an_index(index), sizes)
    by_arm = {kind: _by_arm(table, kind, names) for kind, names in _arms(index).items()}
    for texts in by_arm["text"].values():
        check_size("text", longest(texts), sizes.max_query, "bytes")
    if "key" in table.column_names:
        check_size("key", longest(table["key"]), MAX_KEY, "bytes")
    if not any(by_arm.values()):
        raise ServiceError(422, "Invalid", "expected a column text or vector")
    for name in options.columns:
        if name not in index.schema.row_columns:
            raise ServiceError(422, "Invalid", "columns: expected columns that the index returns")
    types = index._facts.row_types
    asked: dict[str, Any] = {
        "text": by_arm["text"] or None,
        "vectors": by_arm["vector"] or None,
        "filter": [_filter(sizes, value, types) for value in _values(table, "filter")],
        **options.model_dump(exclude={"recipe", "columns"}),
        "columns": tuple(options.columns),
    }
    if index.schema.cell_columns:
        names = index.schema.cell_columns
        scopes = [_scope(value, names) for value in _values(table, "scope")]
        asked["scope"] = [authorised(index, who, one) for one in scopes]
    elif "scope" in table.column_names:
        raise ServiceError(422, "Invalid", "scope: expected none (the index has one audience)")
    if options.recipe is not None:
        asked["recipe"] = recipe_named(options.recipe)
    if "key" in table.column_names:
        asked["query_keys"] = table["key"]
    return {name: value for name, value in asked.items() if value is not None}


def _of_an_index(index: AnyIndex) -> dict[str, ColumnKind]:
    """Return the columns that an index's table may have."""
    sparse = {arm for arm, one in index.schema.vector_arms.items() if isinstance(one, Sparse)}
    vectors = {arm: WEIGHTS if arm in sparse else NUMBERS for arm in index.schema.vector_arms}
    every = WEIGHTS if sparse and len(sparse) == len(vectors) else NUMBERS
    own = {f"text.{arm}": TEXT for arm in index.schema.text_arms}
    own |= {f"vector.{arm}": kind for arm, kind in vectors.items()}
    return {"scope": CELLS, "filter": JSON, "key": PLAIN, "text": TEXT, "vector": every, **own}


def _arms(index: AnyIndex) -> dict[str, tuple[str, ...]]:
    return {"text": tuple(index.schema.text_arms), "vector": tuple(index.schema.vector_arms)}


def _by_arm(table: pa.Table, kind: str, arms: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    shared = dict.fromkeys(arms, table[kind]) if kind in table.column_names else {}
    own = {arm: table[f"{kind}.{arm}"] for arm in arms if f"{kind}.{arm}" in table.column_names}
    return {**shared, **own}


def _scope(value: Any, names: Sequence[str]) -> Any:
    """Return a cell, or a list of cells, as a request of JSON names it."""
    if isinstance(value, dict):
        if value.keys() != set(names):
            wish = f"a struct of ({', '.join(names)})"
            raise ServiceError(422, "Invalid", f"scope: expected {wish}")
        return [value[name] for name in names]
    if isinstance(value, list):
        return {"any_of": [_scope(cell, names) for cell in value]}
    return value


def _filter(sizes: ServiceOptions, value: str | None, types: Any) -> Filter | None:
    if value is None:
        return None
    given = _parsed("filter", value)
    check_lists(sizes, filter=given)
    return filter_from_json(given, types, "filter")


# ---- a store ----


@store_router.post(**_ROUTE)
async def recall_store(request: Request, who: Reader) -> Response:
    """Rank each query's memories.

    Columns of the table are fields of the body of ``POST /v1/recall``, ``text`` at least; a null
    is a field that is not given; ``filter``, ``metadata`` and ``weights`` are JSON, and
    ``min_score`` may be. The schema of the reply says under ``degraded`` which queries were, and
    why, as JSON.
    """
    sizes = options_of(request)
    most = min(sizes.max_store_batch, sizes.max_arrow_batch)
    table = await _read(request, sizes, OF_A_STORE, most)
    queries = await asyncio.to_thread(_bodies, sizes, table)
    check_all(sizes, queries)
    found = await answer_all(request, who, queries)
    return await _written(lambda: iter([_table_of(found)]), sizes.max_reply)


def _bodies(sizes: ServiceOptions, table: pa.Table) -> list[RecallBody]:
    check_count(table, OF_A_STORE, sizes)
    bodies = []
    for at, row in enumerate(values_of(table, "now, since, until")):
        given = {
            name: _parsed(name, value)
            if OF_A_STORE[name].is_json and isinstance(value, str)
            else value
            for name, value in row.items()
            if value is not None
        }
        try:
            body = RecallBody(**given)
        except ValidationError as fault:
            first = fault.errors(include_url=False, include_context=False, include_input=False)[0]
            field = ".".join(map(str, first["loc"]))
            told = str(first["msg"]).replace("Input should be", "expected", 1)
            raise ServiceError(422, "Invalid", f"row {at}: {field}: {told}") from None
        check_recall(sizes, body, f"row {at}: ")
        bodies.append(body)
    return bodies


def _table_of(found: Sequence[Matches]) -> pa.Table:
    rows = [
        {
            "query": at, "rank": rank, "id": one.episode.id, "score": one.score,
            "vector_score": one.vector_score, "bm25_score": one.bm25_score,
            "rerank_score": one.rerank_score, "is_fill": one.is_fill, "text": one.episode.text,
            "input": one.episode.input, "valid_to": one.valid_to,
        }
        for at, matches in enumerate(found)
        for rank, one in enumerate(matches, 1)
    ]  # fmt: skip
    reasons = {
        at: [str(why) for why in one.reasons] for at, one in enumerate(found) if one.degraded
    }
    told = {"degraded": json.dumps(reasons)}
    return pa.Table.from_pylist(rows, MATCHES).replace_schema_metadata(told)


# ---- streams ----


async def _read(
    request: Request, sizes: ServiceOptions, wanted: Mapping[str, ColumnKind], most: int
) -> pa.Table:
    """Read the table of a request."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != ARROW:
        raise ServiceError(415, "UnsupportedMediaType", f"expected {ARROW}")
    body = await request.body()
    table = await asyncio.to_thread(read_table, body, wanted, sizes, most)
    if not table.num_rows:
        raise ServiceError(422, "Invalid", "expected a query at least")
    return table


def _values(table: pa.Table, name: str) -> list[Any]:
    if name not in table.column_names:
        return [None] * table.num_rows
    return values_of(table[name], name)


def _parsed(name: str, value: Any) -> Any:
    try:
        return read_json(value) if isinstance(value, str) else value
    except (TypeError, ValueError, RecursionError):
        raise ServiceError(422, "Invalid", f"{name}: expected JSON in a text") from None


def _pieces(hits: Hits) -> Iterator[pa.Table]:
    """Yield the table of hits, some queries at a time, so that few values are gathered at once."""
    told = {DEGRADED: json.dumps(reasons_of(hits))}
    rest = [(hits, 0, len(hits))]
    while rest:
        part, begin, end = rest.pop()
        if part.n_hits <= PIECE or end - begin <= 1:
            yield part.to_arrow().replace_schema_metadata(told)
            continue
        middle, queries = (begin + end) // 2, np.arange(len(hits))
        rest.append((part.only(queries >= middle), middle, end))
        rest.append((part.only(queries < middle), begin, middle))


class _ReplyBuffer(io.RawIOBase):
    """A file object that collects output until the reply sends it."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        self.parts.append(bytes(part))
        return len(self.parts[-1])

    def take(self) -> bytes:
        parts, self.parts = self.parts, []
        return b"".join(parts)


def _stream(pieces: Iterator[pa.Table]) -> Iterator[bytes]:
    """Yield an Arrow stream, a piece at a time."""
    first, sink = next(pieces), _ReplyBuffer()
    with pa.ipc.new_stream(sink, first.schema) as writer:
        for piece in chain([first], pieces):
            writer.write_table(piece)
            yield sink.take()
    yield sink.take()


async def _written(make: Callable[[], Iterator[pa.Table]], most: int) -> Response:
    """Return the pieces of a table as a response, which never lies in memory whole if it is
    long.
    """

    def first_look() -> bytes | None:
        kept, n_bytes = [], 0
        for part in _stream(make()):
            n_bytes += len(part)
            check_size("reply", n_bytes, most, "bytes")
            if n_bytes <= AT_ONCE:
                kept.append(part)
        return b"".join(kept) if n_bytes <= AT_ONCE else None

    whole = await asyncio.to_thread(first_look)
    if whole is not None:
        return Response(whole, media_type=ARROW)

    async def parts() -> AsyncIterator[bytes]:
        made, until = _stream(make()), time.monotonic() + MOST_SECONDS
        while (part := await asyncio.to_thread(next, made, None)) is not None:
            if time.monotonic() > until:
                raise TimeoutError
            yield part

    return StreamingResponse(parts(), media_type=ARROW)
