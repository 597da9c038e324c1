"""Batches as Arrow streams: the hits of the library, and nothing beyond the token's scope."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.memory import Memory, MemorySync
from hyrecall.recipes import loom
from hyrecall.serve import Caller, ServiceOptions, create_app
from seams import ARROW, arrow_recall
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
                "query": ["oak", "tea", "oak"],
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

    status, told = refused(pa.table({"query": ["oak", "oak"], "limit": [1, -1]}))
    assert (status, told.startswith("row 1: limit:")) == (422, True)
    assert refused(pa.table({"query": ["oak"], "user_id": ["bob"]}))[0] == 403
    assert refused(pa.table({"limit": [1]}))[0] == 422
    assert refused(pa.table({"query": ["oak"], "explain": [True]}))[0] == 422


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
    asked = pa.table({"query": ["tea"] * 4, "limit": [10] * 4})
    store = Memory.in_memory(recipe=loom, embedder=None)
    got = ask(store, asked, None, ServiceOptions(**options))
    assert got.status_code == status
