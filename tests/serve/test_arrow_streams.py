"""A small Arrow stream stays small: what would grow as it is read is refused before."""

from __future__ import annotations

import json
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.serve import ServiceOptions
from seams import MANY, MAX_BATCHES, OF_A_STORE, Opening, RecallBody, _field
from serve.test_arrow_routes import ask, batch, table_in
from serve.test_index_routes import SCHEMA, table

MANY_BYTES = 64 << 20
"""What a stream of the tests stands for."""

FEW_BYTES = 24 << 20
"""What may be allocated to refuse it; a request's own work is within it."""


def written(asked: pa.Table, rows: int | None = None, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    how = pa.ipc.IpcWriteOptions(**options)
    with pa.ipc.new_stream(sink, asked.schema, options=how) as writer:
        writer.write_table(asked, max_chunksize=rows)
    return sink.getvalue().to_pybytes()


def of(n_rows: int = 1, **columns: Any) -> pa.Table:
    return pa.table({"query": pa.array(["tea"] * n_rows), **columns})


def nothing_in_lists(n_values: int) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, n_values], pa.int32()), pa.nulls(n_values))


def shared_bytes() -> bytes:
    """Let all columns of a stream lie in the bytes of the first."""
    names = ("query", "session_id", "user_id", "org", "workspace", "kind", "recipe")
    whole = bytearray(
        written(pa.table({name: ["x" * (30_000 if name == "query" else 1)] for name in names}))
    )
    reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(whole))
    reader.read_next_message()
    data = memoryview(reader.read_next_message().metadata)
    header = _field(data, *struct.unpack_from("<I", data), 2)
    table_at = header + struct.unpack_from("<I", data, header)[0]
    vector = _field(data, table_at, 2)  # RecordBatch.buffers
    begin = vector + struct.unpack_from("<I", data, vector)[0] + 4
    begin += whole.index(bytes(data))
    for at in range(1, len(names)):
        for buffer in range(3):
            source = begin + 16 * buffer
            target = begin + 16 * (3 * at + buffer)
            whole[target : target + 16] = whole[source : source + 16]
    return bytes(whole)


LONG = "a" * MANY_BYTES
N_ROWS = 4_000
REPEATED = pa.array(["a" * 20_000])
RUNS = pa.RunEndEncodedArray.from_arrays(pa.array([N_ROWS], pa.int32()), REPEATED)
WORDS = pa.DictionaryArray.from_arrays(pa.array([0] * N_ROWS, pa.int32()), REPEATED)
WORD = pa.dictionary(pa.int32(), pa.string())
SECONDS = pa.timestamp("s")
IDS, LEVELS = ServiceOptions().max_ids, ServiceOptions().max_levels
DEEP = "[" * LEVELS + "]" * LEVELS


def rows_of(n_rows: int, n_values: int) -> pa.Table:
    return of(n_rows, vector=pa.array([[0] * n_values] * n_rows, pa.list_(pa.int8())))


GROWING: dict[str, tuple[Callable[[], bytes], str]] = {
    "zstd": (
        lambda: written(of(session_id=[LONG]), compression="zstd"), "without compression",
    ),
    "lz4": (
        lambda: written(of(session_id=[LONG]), compression="lz4"), "without compression",
    ),
    "dictionary": (
        lambda: written(of(N_ROWS, session_id=WORDS)), "session_id: expected strings, got dict",
    ),
    "runs": (
        lambda: written(of(N_ROWS, session_id=RUNS)), "session_id: expected strings, got run_end",
    ),
    "views": (
        lambda: written(of(session_id=pa.array(["a"], pa.string_view()))), "got string_view",
    ),
    "nulls in a list": (
        lambda: written(of(tags=nothing_in_lists(8_000_000))), "tags: expected lists of strings",
    ),
    "a dictionary in a list": (
        lambda: written(of(tags=pa.array([["a"]], pa.list_(WORD)))), "tags: expected lists of str",
    ),
    "a view of a list": (
        lambda: written(of(tags=pa.array([["a"]], pa.list_view(pa.string())))), "expected lists",
    ),
    "a list of lists": (
        lambda: written(of(tags=[[["a"]]])), "tags: expected lists of strings",
    ),
    "nulls of a fixed number": (
        lambda: written(of(vector=pa.array([None], pa.list_(pa.null(), 1 << 30)))),
        "vector: expected lists of numbers",
    ),
    "a long list": (
        lambda: written(of(tags=[["a"] * (IDS + 1)])), f"tags: expected <= {IDS} values",
    ),
    "a long row": (
        lambda: written(of(vector=pa.array([[0] * (IDS + 1)], pa.list_(pa.int8(), IDS + 1)))),
        f"vector: expected <= {IDS} values",
    ),
    "many lists": (
        lambda: written(rows_of(MANY + 1, IDS)), f"lists and JSON: expected <= {MANY * IDS}",
    ),
    "much JSON": (
        lambda: written(of(4, metadata=["[" + "[]," * 340_000 + "0]"] * 4)), "values in lists and",
    ),
    "long JSON": (
        lambda: written(of(filter=[" " * (1 << 20) + "{}"])), "filter: expected <= 1048576 bytes",
    ),
    "deep JSON": (
        lambda: written(of(filter=[DEEP])), f"filter: expected at most {LEVELS - 1} levels",
    ),
    "many batches": (
        lambda: written(of(MAX_BATCHES + 1), rows=1), f"record batches: expected <= {MAX_BATCHES}",
    ),
    "a large schema": (
        lambda: written(of().replace_schema_metadata({"a": "a" * (1 << 20)})), "schema: expected",
    ),
    "shared bytes": (
        shared_bytes, "buffers of their own",
    ),
    "a time beyond Python's": (
        lambda: written(of(now=pa.array([1 << 60], SECONDS))), "expected times of the years",
    ),
    "an unknown time zone": (
        lambda: written(of(now=pa.array([0], pa.timestamp("s", "Nowhere/At_all")))),
        "expected times of the years",
    ),
}  # fmt: skip


@pytest.fixture
def allocated() -> Iterator[Callable[[], int]]:
    """Return the most bytes that Arrow and Python had at a time."""
    plain = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(plain)
    pa.set_memory_pool(counted)
    tracemalloc.start()
    try:
        yield lambda: counted.max_memory() + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(plain)


@pytest.mark.parametrize("name", GROWING)
def test_a_stream_that_would_grow_is_refused_before_it_does(
    name: str, store: Opening, request: pytest.FixtureRequest
) -> None:
    make, told = GROWING[name]
    body = make()
    assert len(body) < 5 << 20
    allocated = request.getfixturevalue("allocated")  # not what the test itself makes
    many_rows = ServiceOptions(max_store_batch=2 * MAX_BATCHES)  # another limit than these
    reply = ask(store, body, options=many_rows)
    assert reply.status_code == 422, reply.text[:300]
    assert told in reply.json()["error"]["message"]
    assert allocated() < FEW_BYTES


def test_the_columns_of_a_store_are_the_fields_of_a_recall(store: Opening) -> None:
    assert OF_A_STORE.keys() == RecallBody.model_fields.keys() - {"explain", "around"}
    reply = ask(store, of(1, around=pa.array([1])))
    assert reply.status_code == 422
    assert "columns of the table: expected each once" in reply.json()["error"]["message"]


def test_every_plain_form_of_a_column_is_taken(store: Opening) -> None:
    filters = ['{"kind": "note"}', json.dumps({"kind": ["note", "day"]}), None]
    noon = pa.array([1_700_000_000] * 3, pa.timestamp("s", "UTC"))
    asked = of(
        3, filter=pa.array(filters, pa.large_string()), tags=[["a"], [], None], now=noon,
        limit=pa.array([1, 2, None], pa.uint8()), session_id=pa.nulls(3), touch=[False, None, True],
        time_range=[["2020-01-01T00:00:00Z", None]] * 3, candidates=[["a"], None, []],
        min_score=pa.array([0.5, None, 0.1], pa.float32()),
    )  # fmt: skip
    assert table_in(ask(store, written(asked))).num_rows == 0


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.large_list(pa.float32())])
def test_an_index_takes_vectors_as_lists_of_any_kind(kind: pa.DataType) -> None:
    asked = batch()
    rows = pa.array(asked["vector"].to_pylist(), kind)
    as_lists = asked.set_column(asked.column_names.index("vector"), "vector", rows)
    with hr.Index.build(table(), SCHEMA) as index:
        assert table_in(ask(index, as_lists)).equals(table_in(ask(index, asked)))


OF_AN_INDEX = {
    "nulls in a scope": ({"scope": nothing_in_lists(8_000_000)}, "scope: expected cells"),
    "nothing in a scope": (
        {"scope": pa.array([[{}] * 9], pa.list_(pa.struct([])))}, "scope: expected cells",
    ),
    "a long scope": ({"scope": [["ann"] * (IDS + 1)]}, f"scope: expected <= {IDS} values"),
    "a long key": ({"key": ["k" * 513]}, "key: expected <= 512 bytes"),
    "a deep filter": ({"filter": [DEEP]}, "levels of JSON"),
    "a long list in a filter": (
        {"filter": [json.dumps({"kind": ["a"] * (IDS + 1)})]}, "filter: expected <= 10000 entries",
    ),
    "binary keys": ({"key": [b"key"]}, "key: expected strings, numbers"),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_AN_INDEX)
def test_a_stream_to_an_index_is_held_to_the_same_limits(name: str) -> None:
    columns, told = OF_AN_INDEX[name]
    with hr.Index.build(table(), SCHEMA) as index:
        reply = ask(index, written(pa.table({"text": ["oak"], "scope": ["ann"], **columns})))
    assert reply.status_code == 422, reply.text[:300]
    assert told in reply.json()["error"]["message"]
