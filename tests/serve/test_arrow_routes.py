"""Batches as Arrow streams: the hits of the library, and nothing beyond the token's scope."""

from __future__ import annotations

import asyncio
import json
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.memory import Memory, MemorySync
from hyrecall.recipes import loom
from hyrecall.serve import Caller, ServiceOptions, create_app
from seams import ARROW, MANY, MAX_BATCHES, OF_A_STORE, Opening, RecallBody, _field, arrow_recall
from serve.conftest import ANN
from serve.test_index_routes import CELLS, SCHEMA, table
from serve_client import calling

N = 24


@pytest.fixture(scope="module")
def index() -> Iterator[hr.Index]:
    with hr.Index.build(table(), SCHEMA) as made:
        yield made


def stream(asked: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, asked.schema) as writer:
        writer.write_table(asked, max_chunksize=7)
    return sink.getvalue().to_pybytes()


def ask(
    served: Any, asked: pa.Table | bytes, token: Any = None, options: Any = None, **params: Any
) -> Any:
    body = asked if isinstance(asked, bytes) else stream(asked)

    async def run() -> Any:
        async with calling(create_app(served, options), token) as client:
            headers = {"content-type": ARROW if body else "application/json"}
            return await client.post(
                "/v1/recall/arrow", content=body, headers=headers, params=params
            )

    return asyncio.run(run())


def table_in(reply: Any) -> pa.Table:
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == ARROW
    return pa.ipc.open_stream(reply.content).read_all()


def batch(**more: Any) -> pa.Table:
    vectors = [[float(at % 5), 1.0, *[0.25] * 6] for at in range(N)]
    return pa.table(
        {
            "text": [
                None if at % 7 == 0 else ("oak sea", "tea", "elm fir")[at % 3] for at in range(N)
            ],
            "vector": pa.FixedSizeListArray.from_arrays(
                pa.array([x for row in vectors for x in row], pa.float32()), 8
            ),
            "scope": [CELLS[at % 3] for at in range(N)],
            "key": [f"q{at}" for at in range(N)],
            **more,
        }
    )


def test_a_stream_gets_the_table_that_the_library_returns(index: hr.Index) -> None:
    asked = batch(filter=[None, '{"kind": "note"}'] * (N // 2))
    reply = table_in(ask(index, asked, limit=4, offset=1, columns=["kind", "text"]))
    hits = index.recall(
        text=asked["text"].to_pylist(), vectors=asked["vector"], scope=asked["scope"].to_pylist(),
        filter=[None, hr.Filter(kind="note")] * (N // 2), limit=4, offset=1,
        columns=("kind", "text"), query_keys=asked["key"],
    )  # fmt: skip
    assert reply.equals(hits.to_arrow())
    assert reply.num_rows > N
    plain = asked.drop_columns(["key", "filter"])
    reply = table_in(ask(index, plain, recipe="default", limit=3))
    hits = index.recall(
        text=plain["text"].to_pylist(), vectors=plain["vector"], scope=plain["scope"].to_pylist(),
        recipe=hr.recipes.default, limit=3,
    )  # fmt: skip
    assert reply.equals(hits.to_arrow())


def test_sparse_vectors_are_maps_in_a_stream() -> None:
    rows = [{"id": at, "terms": {"tea": 1.0 + at, "oak": 0.5}} for at in range(9)]
    schema = hr.Schema(key="id", cell=None, vector=hr.Sparse("terms"))
    weights = pa.map_(pa.string(), pa.float32())
    asked = pa.table({"vector.terms": pa.array([[("tea", 2.0)], None, [("oak", 1.0)]], weights)})
    with hr.Index.build(rows, schema) as index:
        reply = table_in(ask(index, asked, limit=4))
        assert reply.equals(index.recall(vectors=asked["vector.terms"], limit=4).to_arrow())
        assert reply.num_rows == 8
        long = pa.array([[(str(at), 1.0) for at in range(IDS + 1)]], weights)
        for wrong in (pa.table({"vector.terms": long}), pa.table({"vector.terms": [[1.0]]})):
            refused = ask(index, wrong)
            assert refused.status_code == 422
            assert "vector.terms: expected" in refused.text


def test_threads_are_hits_in_a_stream_too() -> None:
    sessions = pa.array([f"s{at // 60}" for at in range(120)])
    rows = table().append_column("session", sessions)
    schema = hr.Schema(key="id", cell=("user",), text="text", vector="embedding", thread="session")
    with hr.Index.build(rows, schema) as index:
        asked = pa.table({"text": ["oak sea", "tea"], "scope": ["ann", "bob"]})
        reply = table_in(ask(index, asked, group="thread", limit=4))
        how = {"text": ["oak sea", "tea"], "scope": ["ann", "bob"], "limit": 4, "depth": 100}
        assert reply.equals(index.recall(**how, group="thread").to_arrow())
        assert not reply.equals(index.recall(**how).to_arrow())
        assert ask(index, asked, group="session").status_code == 422


def test_several_cells_are_a_list(index: hr.Index) -> None:
    asked = pa.table({"text": ["oak"], "scope": [["ann", "bob"]]})
    found = set(table_in(ask(index, asked, limit=100))["user"].to_pylist())
    assert found == {"ann", "bob"}


def test_a_token_bounds_the_scope_of_every_row(
    index: hr.Index, tmp_path: Path, token_of: Callable[..., str]
) -> None:
    options = ServiceOptions(tokens=tmp_path / "tokens.json")
    token = token_of(Caller(cells=(("ann",),), rights=frozenset(("read",))))
    own = pa.table({"text": ["oak", "tea"], "scope": pa.array([None, "ann"])})
    found = table_in(ask(index, own, token, options, columns=["text"]))
    assert set(found["user"].to_pylist()) == {"ann"}
    wider = pa.table({"text": ["oak", "tea"], "scope": ["ann", "bob"]})
    refused = ask(index, wider, token, options)
    assert refused.status_code == 403
    assert "bob" not in refused.text
    assert ask(index, own, None, options).status_code == 401


BAD = {
    "no stream": (b"no stream at all", "an Arrow IPC stream"),
    "cut": (stream(batch())[:2_000], "an Arrow IPC stream"),
    "no rows": (stream(batch().slice(0, 0)), "a query at least"),
    "unknown column": (stream(batch(other=[1] * N)), "each once"),
    "column twice": (
        stream(pa.table([["oak"], ["ann"], ["bob"]], ["text", "scope", "scope"])), "each once",
    ),
    "no query": (stream(batch().drop_columns(["text", "vector"])), "text or vector"),
    "numbers as text": (stream(pa.table({"text": [1], "scope": ["ann"]})), "expected strings"),
    "bad filter": (stream(batch(filter=["{"] * N)), "filter"),
    "no scope": (stream(batch().drop_columns(["scope"])), "scope"),
    "struct of others": (
        stream(pa.table({"text": ["oak"], "scope": [{"tenant": "ann"}]})), "a struct of (user)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_stream_is_refused_with_its_reason(index: hr.Index, name: str) -> None:
    body, told = BAD[name]
    reply = ask(index, body)
    assert reply.status_code == 422
    assert told in reply.json()["error"]["message"]


def test_a_stream_has_limits_of_its_own(index: hr.Index) -> None:
    options = ServiceOptions(max_arrow_batch=N, max_query=7, max_body=16)
    fits = batch(text=["oak sea"] * N)
    assert ask(index, fits, options=options).status_code == 200
    assert ask(index, batch(text=["oak seas"] * N), options=options).status_code == 422
    one_more = pa.concat_tables([fits, fits.slice(0, 1)])
    refused = ask(index, one_more, options=options)
    assert (refused.status_code, "rows" in refused.text) == (422, True)
    small = ServiceOptions(max_arrow_body=100)
    assert ask(index, fits, options=small).status_code == 413
    assert ask(index, fits, limit=1_001).status_code == 422
    assert ask(index, b"").status_code == 415  # another media type


def kept(store: MemorySync) -> None:
    for user in ("ann", "bob"):
        for text in ("the oak fell", "tea at four", "sea and oak"):
            store.remember(f"{text}, says {user}", user_id=user, id=f"{user} {text}")


def test_a_store_answers_a_stream_as_it_answers_each_search(tmp_path: Path) -> None:
    with MemorySync.open(tmp_path / "store", recipe=loom, embedder=None) as store:
        kept(store)
        asked = pa.table(
            {
                "text": ["oak", "tea", "oak"],
                "user_id": ["ann", "bob", "bob"],
                "limit": pa.array([2, None, 1]),
                "filter": [None, None, '{"kind": "episodic"}'],
                "min_score": [None, '{"bm25": 0.1}', None],
            }
        )
        expected = [
            [
                (at, rank, one.episode.id, one.score, one.bm25_score)
                for rank, one in enumerate(found, 1)
            ]
            for at, found in enumerate(
                (
                    store.search("oak", user_id="ann", limit=2),
                    store.search("tea", user_id="bob", min_score={"bm25": 0.1}),
                    store.search("oak", user_id="bob", limit=1),
                )
            )
        ]
    reply = table_in(ask(Memory.open(tmp_path / "store", recipe=loom, embedder=None), asked))
    columns = ("query", "rank", "id", "score", "bm25_score")
    found = list(zip(*(reply[name].to_pylist() for name in columns), strict=True))
    assert found == [row for rows in expected for row in rows]
    assert json.loads(reply.schema.metadata[b"degraded"]) == {}


def test_a_row_of_a_store_is_checked_as_a_body_and_names_its_place(
    tmp_path: Path, token_of: Callable[..., str]
) -> None:
    options = ServiceOptions(tokens=tmp_path / "tokens.json")
    token = token_of(ANN)

    def refused(asked: pa.Table) -> tuple[int, str]:
        store = Memory.in_memory(recipe=loom, embedder=None)
        reply = ask(store, asked, token, options)
        return reply.status_code, reply.json()["error"]["message"]

    status, told = refused(pa.table({"text": ["oak", "oak"], "limit": [1, -1]}))
    assert (status, told.startswith("row 1: limit:")) == (422, True)
    assert refused(pa.table({"text": ["oak"], "user_id": ["bob"]}))[0] == 403
    assert refused(pa.table({"limit": [1]}))[0] == 422
    assert refused(pa.table({"text": ["oak"], "explain": [True]}))[0] == 422


# ---- how much ----


def test_queries_times_limit_and_the_bytes_of_a_reply_are_bounded(index: hr.Index) -> None:
    asked = pa.table({"text": ["oak"] * 30, "scope": ["ann"] * 30})
    for options, limit, told in (
        (ServiceOptions(max_arrow_hits=300), 10, None),
        (ServiceOptions(max_arrow_hits=299), 10, "queries x limit: expected <= 299 hits"),
        (ServiceOptions(max_reply=100_000), 10, None),
        (ServiceOptions(max_reply=10_000), 10, "reply: expected <= 10000 bytes"),
    ):
        got = ask(index, asked, None, options, limit=limit, columns=["text"])
        if told is None:
            assert table_in(got).num_rows == 300
        else:
            assert got.status_code == 422
            assert got.json()["error"]["message"].startswith(told)


def test_few_queries_do_not_become_a_large_reply_by_default(index: hr.Index) -> None:
    asked = pa.table({"text": ["oak"] * 4_096, "scope": ["ann"] * 4_096})
    assert ask(index, asked, limit=1_000, depth=1_000).status_code == 422


@pytest.mark.parametrize("recipes", [(), ("default",)])
def test_a_long_reply_is_sent_in_pieces_and_is_the_same_table(
    recipes: tuple[str, ...], index: hr.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"recipe": recipes[0]} if recipes else {}
    asked = batch(filter=[None, '{"kind": "none"}', '{"kind": "note"}'] * (N // 3))
    params = {"limit": 5, "columns": ["text", "kind"], **more}
    whole = ask(index, asked, **params)
    monkeypatch.setattr(arrow_recall, "AT_ONCE", 0)
    monkeypatch.setattr(arrow_recall, "PIECE", 7)
    sizes: list[int] = []
    plain = arrow_recall.Hits.to_arrow

    def to_arrow(hits: hr.Hits) -> pa.Table:
        sizes.append(hits.n_hits)
        return plain(hits)

    monkeypatch.setattr(arrow_recall.Hits, "to_arrow", to_arrow)
    pieces = ask(index, asked, **params)
    assert "content-length" not in pieces.headers
    assert table_in(pieces).equals(table_in(whole))
    assert len(sizes) > 6
    assert max(sizes) <= 7
    assert sum(sizes) == 2 * table_in(whole).num_rows  # measured, then made again


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"max_hits": 40}, 200), ({"max_hits": 39}, 422),
        ({"max_store_batch": 4}, 200), ({"max_store_batch": 3}, 422),
    ],
)  # fmt: skip
def test_a_stream_to_a_store_is_bounded_too(options: dict[str, int], status: int) -> None:
    asked = pa.table({"text": ["tea"] * 4, "limit": [10] * 4})
    store = Memory.in_memory(recipe=loom, embedder=None)
    got = ask(store, asked, None, ServiceOptions(**options))
    assert got.status_code == status


# ---- streams that would grow ----


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
    return pa.table({"text": pa.array(["tea"] * n_rows), **columns})


def nothing_in_lists(n_values: int) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array([0, n_values], pa.int32()), pa.nulls(n_values))


def shared_bytes() -> bytes:
    """Let all columns of a stream lie in the bytes of the first."""
    names = ("text", "session_id", "user_id", "org", "workspace", "kind", "recipe")
    whole = bytearray(
        written(pa.table({name: ["x" * (30_000 if name == "text" else 1)] for name in names}))
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


@pytest.mark.plain_cases(7)
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
    no_columns = {"explain", "around", "highlight", "confidence"}
    assert OF_A_STORE.keys() == RecallBody.model_fields.keys() - no_columns
    reply = ask(store, of(1, around=pa.array([1])))
    assert reply.status_code == 422
    assert "columns of the table: expected each once" in reply.json()["error"]["message"]


def test_every_plain_form_of_a_column_is_taken(store: Opening) -> None:
    filters = ['{"kind": "note"}', json.dumps({"kind": ["note", "day"]}), None]
    noon = pa.array([1_700_000_000] * 3, pa.timestamp("s", "UTC"))
    asked = of(
        3, filter=pa.array(filters, pa.large_string()), tags=[["a"], [], None], now=noon,
        limit=pa.array([1, 2, None], pa.uint8()), session_id=pa.nulls(3), touch=[False, None, True],
        since=["2020-01-01T00:00:00Z"] * 3, candidates=[["a"], None, []],
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
