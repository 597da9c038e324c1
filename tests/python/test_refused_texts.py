"""A text that asks for too much is not searched: its own query says so, at every door."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import hyrecall as hr
from hyrecall.distributed import BatchRecall, ShardedIndex, recall_dataset
from hyrecall.memory import MemorySync
from hyrecall.serve import ServiceOptions, create_app
from seams import app_app as app
from serve_client import calling

SCHEMA = hr.Schema(key="id", cell="user", text="t", vector="v")
MANY = " ".join(f"a{at:04}" for at in range(3000))
TERMS = " ".join(f"w{at}" for at in range(65_537))
TOO_MANY_TERMS = "was not searched: it has more than 65,536 distinct terms"
TOO_LONG = "was not searched: it has a phrase of more than 4,096 tokens"
TOO_WIDE = "was not searched: a prefix stands for more than 1,024 terms of its scope"


def rows() -> pa.Table:
    return pa.table(
        {
            "id": ["pie", "words", "cake"],
            "user": ["alice", "bob", "alice"],
            "t": ["apple pie", MANY, "apple cake"],
            "v": pa.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]]),
        }
    )


@pytest.fixture(scope="module", params=["index", "shards"])
def index(request: pytest.FixtureRequest) -> Any:
    table = rows()
    if request.param == "index":
        return hr.Index.build(table, SCHEMA)
    return ShardedIndex.build([table.slice(0, 1), table.slice(1, 1), table.slice(2)], SCHEMA)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("refused") / "t.index"
    hr.Index.build(rows(), SCHEMA).save(path)
    return path


def rows_of(hits: Any, query: int) -> list[Any]:
    return [
        {name: value for name, value in row.items() if name != "query"}
        for row in hits.to_arrow().to_pylist()
        if row["query"] == query
    ]


def test_a_text_that_asks_for_too_much_degrades_its_own_query_alone(index: Any) -> None:
    texts = [hr.Prefix("a"), TERMS, "apple", hr.Phrase("x " * 5000), hr.All("x", hr.Prefix("a"))]
    scopes = ["bob", "alice", "alice", "alice", hr.Scope(["alice", "bob"])]
    hits = index.recall(text=texts, scope=scopes)
    told = {0: TOO_WIDE, 1: TOO_MANY_TERMS, 3: TOO_LONG, 4: TOO_WIDE}
    assert hits.trace.degraded == tuple(f"t[{at}] {told[at]}" for at in (0, 1, 3, 4))
    for at, (text, scope) in enumerate(zip(texts, scopes, strict=True)):
        alone = index.recall(text=[text], scope=scope)
        assert rows_of(hits, at) == rows_of(alone, 0)
        assert hits[at].trace.degraded == alone[0].trace.degraded
        assert alone[0].trace.degraded == ((f"t {told[at]}",) if at in told else ())
        assert hits[at].degraded == (at in told)
    assert [len(one) for one in hits] == [0, 0, 2, 0, 0]


def test_the_other_arms_of_a_refused_text_answer_and_its_score_is_null(index: Any) -> None:
    vectors = np.array([[1.0, 0.0]] * 2, np.float32)
    hits = index.recall(text=[hr.Prefix("a"), "apple"], vectors=vectors, scope=["bob", "alice"])
    without = index.recall(text=[None], vectors=vectors[:1], scope="bob")
    assert rows_of(hits, 0) == rows_of(without, 0)
    assert [row["t_score"] for row in rows_of(hits, 0)] == [None]
    assert all(row["t_score"] is not None for row in rows_of(hits, 1))


def test_what_no_query_may_be_names_its_number(index: Any) -> None:
    for text, told in (
        (3, r"^text\[2\]: expected a str, .*got int 3"),
        (hr.Boost(hr.Boost("x", 2.0**20), 2.0), r"^text\[2\]: expected nested boosts"),
    ):
        with pytest.raises((hr.DTypeError, hr.OptionError), match=told):
            index.recall(text=["a", "b", text], scope="alice")


def queries() -> pa.Table:
    return pa.table(
        {"q": ["k0", "k1", "k2"], "text": ["apple", TERMS, "pie"], "who": ["alice"] * 3}
    )


def test_a_batch_of_files_is_not_lost_by_one_text(folder: Path, tmp_path: Path) -> None:
    pq.write_table(queries(), tmp_path / "q.parquet")
    roles: Any = {"key": "q", "text": "text", "scope": "who"}
    told = {"k1": [f"t {TOO_MANY_TERMS}"]}
    made = BatchRecall(folder, **roles)(queries())
    assert made["query_key"].to_pylist() == ["k0", "k0", "k2"]
    assert json.loads(made.schema.metadata[b"degraded"]) == told
    done = recall_dataset(BatchRecall(folder, **roles), tmp_path / "q.parquet", tmp_path / "out")
    assert (done.n_queries, done.n_hits, done.n_refused) == (3, 3, 0)
    assert json.loads(pq.read_metadata(done.files[0]).metadata[b"degraded"]) == told


def test_a_column_of_errors_has_the_reason_beside_the_hits(folder: Path) -> None:
    recall = BatchRecall(
        folder, key="q", text="text", vectors="v", scope="who", on_error="column", limit=1
    )
    table = queries().append_column("v", pa.array([[1.0, 0.0]] * 3))
    made = recall(table).select(["query_key", "key", "error"]).to_pylist()
    assert [(row["query_key"], row["key"]) for row in made] == [
        ("k0", "pie"), ("k1", "pie"), ("k1", None), ("k2", "pie")
    ]  # fmt: skip
    assert [row["error"] for row in made] == [None, None, f"t {TOO_MANY_TERMS}", None]


def test_the_command_batch_answers_the_others_and_names_the_query(
    folder: Path, tmp_path: Path
) -> None:
    pq.write_table(queries(), tmp_path / "q.parquet")
    command = ["batch", folder, tmp_path / "q.parquet", "--query-text", "text"]
    command += ["--query-scope", "who", "--output", tmp_path / "h.parquet"]
    run = CliRunner().invoke(app, list(map(str, command)))
    assert run.exit_code == 0, run.stderr
    said = " ".join((run.stderr + run.stdout).split())
    assert f"note: query 1: t {TOO_MANY_TERMS}" in said
    hits = pq.read_table(tmp_path / "h.parquet").to_pylist()
    assert [row["query"] for row in hits] == [0, 0, 1, 2]
    assert [row["degraded"] for row in hits] == [None, None, f"t {TOO_MANY_TERMS}", None]
    lone = {name for name, value in hits[2].items() if value is not None}
    assert lone == {"query", "degraded"}, "a row without a hit has nothing of one"
    assert "3 hits" in said


def test_the_service_answers_the_others_and_says_which_was_degraded(folder: Path) -> None:
    sizes = ServiceOptions(max_query=2_000_000, max_body=4_000_000)
    asked = [{"text": text, "scope": "alice"} for text in ("apple", TERMS, "pie")]

    async def work(client: Any) -> tuple[Any, bytes]:
        batch = await client.post("/v1/recall/batch", json={"queries": asked})
        assert batch.status_code == 200, batch.text
        table = pa.table({"text": [one["text"] for one in asked], "scope": ["alice"] * 3})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        headers = {"content-type": "application/vnd.apache.arrow.stream"}
        arrow = await client.post(
            "/v1/recall/arrow", content=sink.getvalue().to_pybytes(), headers=headers
        )
        assert arrow.status_code == 200, arrow.text
        return batch.json()["replies"], arrow.content

    async def run() -> Any:
        async with calling(create_app(hr.Index.open(folder), sizes), None) as client:
            return await work(client)

    replies, content = asyncio.run(run())
    assert [len(one["hits"]) for one in replies] == [2, 0, 1]
    assert [one["degraded"] for one in replies] == [False, True, False]
    assert replies[1]["reasons"] == [{"reason": "degraded", "detail": f"t {TOO_MANY_TERMS}"}]
    schema = pa.ipc.open_stream(content).schema
    assert json.loads(schema.metadata[b"degraded"]) == {"1": [f"t {TOO_MANY_TERMS}"]}


def test_a_search_of_a_store_says_that_its_text_was_too_large(tmp_path: Path) -> None:
    with MemorySync.open(tmp_path / "store", recipe=hr.recipes.l0) as store:
        for first in range(0, 1200, 300):
            text = " ".join(f"a{at:04}" for at in range(first, first + 300))
            store.remember(text, user_id="bob")
        found = store.search("a", user_id="bob")
        assert (len(found), found.degraded) == (0, True)
        assert [str(one.reason) for one in found.reasons] == ["query_too_large"]
        assert not store.search("a0001", user_id="bob").degraded
