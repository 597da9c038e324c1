"""An index folder over HTTP: the token's cells, the newest version, the same bits in a batch."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.distributed import ShardedIndex
from hyrecall.embed import HashEmbedder
from hyrecall.serve import Caller, ServiceOptions, create_app
from seams import IndexReply, newer_versions
from serve_client import calling

WORDS = ("oak", "ash", "elm", "fir", "yew", "tea", "sea")
CELLS = ("ann", "bob", "cy")
SCHEMA = hr.Schema(
    key="id",
    cell=("user",),
    text="text",
    vector="embedding",
    attributes=("kind",),
    stored=("text",),
)


def table(n_rows: int = 120, first: int = 0) -> pa.Table:
    draw = np.random.default_rng(first + 1)
    rows = range(first, first + n_rows)
    vectors = draw.normal(size=(n_rows, 8)).astype(np.float32)
    return pa.table(
        {
            "id": [f"d{at}" for at in rows],
            "user": [CELLS[at % 3] for at in rows],
            "text": [" ".join(draw.choice(WORDS, 5)) + f" {CELLS[at % 3]}-canary" for at in rows],
            "kind": [("note", "mail")[at % 2] for at in rows],
            "embedding": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 8),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served") / "corpus.index"
    hr.Index.build(table(), SCHEMA).save(path)
    return path


def served(
    index: hr.Index | ShardedIndex, work: Callable[..., Any], options: Any = None, token: Any = None
) -> Any:
    async def run() -> Any:
        async with calling(create_app(index, options), token) as client:
            return await work(client)

    return asyncio.run(run())


def queries(n: int) -> list[dict[str, Any]]:
    draw = np.random.default_rng(7)
    made: list[dict[str, Any]] = []
    for at in range(n):
        one: dict[str, Any] = {"text": " ".join(draw.choice(WORDS, 2)), "scope": CELLS[at % 3]}
        one["limit"] = (3, 5)[at % 2]
        if at % 4 < 2:
            one["vector"] = draw.normal(size=8).tolist()
        if at % 5 == 0:
            one["filter"] = {"kind": "note"}
        if at % 7 == 0:
            one["recipe"] = "default"
        one["columns"] = ["text"]
        made.append(one)
    return made


def plain(reply: Any) -> Any:
    """A reply without what differs between two calls: times."""
    data = {name: value for name, value in reply.items() if name not in ("took_ms", "now")}
    data["trace"] = {k: v for k, v in reply["trace"].items() if k != "milliseconds"}
    return data


def test_joined_replies_are_those_of_single_calls_to_the_last_bit(folder: Path) -> None:
    asked = queries(48)
    index = hr.Index.open(folder)

    async def alone(client: Any) -> list[Any]:
        return [(await client.post("/v1/recall", json=one)).json() for one in asked]

    async def together(client: Any) -> tuple[list[Any], Any, Any]:
        replies = await asyncio.gather(*(client.post("/v1/recall", json=one) for one in asked))
        batch = (await client.post("/v1/recall/batch", json={"queries": asked})).json()["replies"]
        counts = client._transport.app.state.served_index.counts()
        return [one.json() for one in replies], batch, counts

    single = served(index, alone, ServiceOptions(join=False))
    joined, batch, counts = served(index, together)
    assert counts["batches"] < counts["queries"] == 2 * len(asked)
    assert [plain(one) for one in joined] == [plain(one) for one in single]
    assert [plain(one) for one in batch] == [plain(one) for one in single]
    assert sum(len(one["hits"]) for one in single) > 100
    for one in single:
        IndexReply.model_validate(one)
        assert one["trace"]["n_queries"] == 1


def test_a_token_reads_its_cells_and_a_scope_can_only_narrow_them(
    folder: Path, token_of: Callable[..., str], tmp_path: Path
) -> None:
    two = token_of(Caller(cells=(("ann",), ("bob",))))
    none = token_of(Caller())
    asked: list[tuple[str, Any, int, set[str]]] = [
        (two, None, 200, {"ann", "bob"}),
        (two, "bob", 200, {"bob"}),
        (two, ["ann"], 200, {"ann"}),
        (two, {"any_of": [["ann"], "bob"]}, 200, {"ann", "bob"}),
        (two, {"any_of": []}, 200, set()),
        (two, "cy", 403, set()),
        (two, {"any_of": ["ann", "cy"]}, 403, set()),
        (two, {"any_of": "ann"}, 422, set()),
        (two, {"all": True}, 422, set()),
        (two, ["ann", "bob"], 422, set()),
        (two, [["ann"]], 422, set()),
        (none, None, 200, set()),
        (none, "ann", 403, set()),
    ]

    async def work(client: Any) -> list[Any]:
        return [
            await client.post(
                "/v1/recall",
                json={"text": "oak ash elm fir", "scope": scope, "limit": 50},
                headers={"authorization": f"Bearer {token}"},
            )
            for token, scope, *_ in asked
        ]

    options = ServiceOptions(tokens=tmp_path / "tokens.json")
    replies = served(hr.Index.open(folder), work, options)
    for (_, scope, status, cells), reply in zip(asked, replies, strict=True):
        assert reply.status_code == status, (scope, reply.text)
        found = {one["cell"][0] for one in reply.json().get("hits", [])}
        assert found == cells, scope
        assert "cy" not in reply.text or status == 403
        assert "cy-canary" not in reply.text


def test_a_version_that_is_saved_anew_is_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "corpus.index"
    index = hr.Index.build(table(30), SCHEMA)
    index.save(path)

    async def work(client: Any) -> tuple[int, int, int]:
        async def count() -> int:
            asked = {"text": "ann-canary", "scope": "ann", "limit": 100}
            return len((await client.post("/v1/recall", json=asked)).json()["hits"])

        before = await count()
        index.add(table(30, first=30))
        index.save(path)
        versions = client._transport.app.state.served_index._versions
        versions._looked = time.monotonic() - newer_versions.LOOK_AGAIN  # requests go on
        await count()
        await asyncio.wrap_future(versions.loading)
        meanwhile = await count()
        index.add(table(30, first=60))
        index.save(path)
        versions._looked = -1e9  # as if the last look were long ago
        return before, meanwhile, await count()

    monkeypatch.setattr(newer_versions, "LOOK_AGAIN", 60.0)  # however busy the machine is
    assert served(hr.Index.open(path), work) == (10, 20, 30)


def test_a_lone_surrogate_is_refused_and_costs_nobody_else_a_vector(folder: Path) -> None:
    rows = table(30)
    rows = rows.drop_columns([name for name in SCHEMA.vector_arms if name in rows.column_names])
    index = hr.Index.build(rows, SCHEMA, embed=HashEmbedder(dim=8))

    async def work(client: Any) -> Any:
        async def ask(text: str) -> Any:
            body = json.dumps({"text": text, "scope": "ann"}).encode()
            head = {"content-type": "application/json"}
            return await client.post("/v1/recall", content=body, headers=head)

        return await asyncio.gather(*map(ask, ["hi \ud83d"] * 6 + ["oak"])), await ask("oak")

    *replies, after = served(index, work)
    *refused, beside = replies[0]
    assert {one.status_code for one in refused} == {422}
    told = "text[0]: expected valid Unicode"
    assert {one.json()["error"]["message"] for one in refused} == {told}
    for reply in (beside, after):
        assert (reply.status_code, reply.json()["degraded"]) == (200, False)


WRONG_QUERIES: list[tuple[dict[str, Any], str]] = [
    ({"scope": 3}, "queries[1].scope: expected a str or None for user"),
    ({"scope": ["ann", "x"]}, "queries[1].scope: expected cells of (user)"),
    ({"vector": [1.0]}, "queries[1].vectors['embedding']: expected 8 values in every query"),
    ({"limit": 5000}, "queries[1].limit: expected <= 1000"),
    ({"text": "hi \ud83d"}, "queries[1].text: expected valid Unicode"),
    ({"recipe": "none"}, "queries[1].recipe: expected one of "),
    ({"scope": True}, "queries[1].scope: expected "),
    ({"scope": None}, "queries[1].scope: expected "),
    ({"filter": {"no": 1}}, "queries[1].no: expected "),
    ({"group": "thread"}, "queries[1].group: expected "),
]


async def test_an_error_names_the_query_of_a_batch(folder: Path) -> None:
    good = {"text": "oak", "scope": "ann"}
    async with calling(create_app(hr.Index.open(folder))) as client:
        for wrong, told in WRONG_QUERIES:
            body = json.dumps({"queries": [good, {**good, **wrong}, good]}).encode()
            head = {"content-type": "application/json"}
            reply = await client.post("/v1/recall/batch", content=body, headers=head)
            assert reply.status_code in (403, 422), wrong
            assert reply.json()["error"]["message"].startswith(told), wrong


def test_an_index_is_read_only_and_has_no_memories(folder: Path) -> None:
    async def work(client: Any) -> list[Any]:
        return [
            await client.post("/v1/memories", json={"text": "x"}),
            await client.get("/v1/export"),
            await client.get("/readyz"),
            await client.get("/v1/info"),
        ]

    kept, exported, ready, info = served(hr.Index.open(folder), work)
    assert (kept.status_code, exported.status_code, ready.status_code) == (404, 404, 200)
    assert (info.json()["kind"], info.json()["cell"]) == ("index", ["user"])
    assert info.json()["text_weights"] == {}


def test_info_tells_the_weights_of_columns() -> None:
    schema = dataclasses.replace(SCHEMA, text=hr.Text("kind", "text", weights={"kind": 5}))

    async def work(client: Any) -> Any:
        return (await client.get("/v1/info")).json()["text_weights"]

    assert served(hr.Index.build(table(5), schema), work) == {"text": {"kind": 5}}


def test_readyz_says_that_the_embedder_of_an_index_is_missing(tmp_path: Path) -> None:
    hashes = HashEmbedder(dim=8)
    rows = table(30).drop_columns(["embedding"])
    for at in range(2):
        part = rows.slice(15 * at, 15)
        hr.Index.build(part, SCHEMA, embed=hashes, first_seq=15 * at).save(tmp_path / str(at))

    async def work(client: Any) -> Any:
        reply = await client.get("/readyz")
        return reply.status_code, reply.json()

    told = "texts are not embedded for embedding, whose vectors are of 'hash-8'"
    missing = (200, {"status": "degraded", "embeddings": told})
    assert served(hr.Index.open(tmp_path / "0"), work) == missing
    assert served(ShardedIndex.open(tmp_path), work) == missing
    whole = hr.Index.open(tmp_path / "0", embed=hashes)
    assert served(whole, work) == (200, {"status": "ready"})


def test_the_metrics_are_the_numbers_of_stats(folder: Path) -> None:
    index = hr.Index.open(folder)

    async def work(client: Any) -> str:
        await client.post("/v1/recall", json={"text": "oak", "scope": "ann"})
        return (await client.get("/metrics")).text

    lines = dict(
        line.rsplit(" ", 1)
        for line in served(index, work).splitlines()
        if line[:1] not in ("#", "")
    )
    stats = index.stats()
    for name in ("n_docs", "n_dead", "n_segments", "next_seq", "threads"):
        assert float(lines[f"hyrecall_index_{name}"]) == stats[name]
    assert float(lines["hyrecall_joined_queries"]) == 1
    assert (
        float(lines['hyrecall_requests_total{method="POST",route="/v1/recall",status="200"}']) == 1
    )


def test_threads_are_hits_and_rows_around_them_are_shown(tmp_path: Path) -> None:
    threads = pa.array([f"s{at // 12}" for at in range(120)])
    rows = table().append_column("session", threads).append_column("at", pa.array(range(120)))
    schema = hr.Schema(
        key="id", cell=("user",), text="text", vector="embedding", attributes=("kind",),
        stored=("text",), thread="session", place="at",
    )  # fmt: skip
    asked = {"text": "oak tea", "scope": "ann", "limit": 3, "columns": ["kind"], "explain": True}
    wish_of: list[dict[str, Any]] = [
        {"group": "thread"}, {"surrounding": 1}, {"group": "thread", "surrounding": 2}, {},
    ]  # fmt: skip

    async def work(client: Any) -> list[Any]:
        bodies = [asked | wish for wish in wish_of]
        batch = (await client.post("/v1/recall/batch", json={"queries": bodies})).json()["replies"]
        for body, reply in zip(bodies, batch, strict=True):
            alone = (await client.post("/v1/recall", json=body)).json()
            IndexReply.model_validate(alone)
            assert alone["hits"] == reply["hits"]
        parsed = {"parse": True, "text": None, "vector": [1.0, 0.0]}
        outside = ({"surrounding": -1}, {"surrounding": 101})
        for bad in ({"group": "text"}, {"per_group": 2}, *outside, parsed):
            assert (await client.post("/v1/recall", json=asked | bad)).status_code == 422
        return batch

    with hr.Index.build(rows, schema) as index:
        for wish, reply in zip(wish_of, served(index, work), strict=True):
            hits = index.recall(
                text=["oak tea"], scope="ann", limit=3, columns=("kind",), depth=100, **wish
            )[0]
            assert [one["key"] for one in reply["hits"]] == hits.keys
            for one, hit in zip(reply["hits"], hits, strict=True):
                assert [tuple(row.values()) for row in one.get("thread_rows", [])] == [
                    (row.key, row.score) for row in hit.thread_rows
                ]
                assert [tuple(row.values()) for row in one.get("surrounding", [])] == [
                    (row.key, row.step, row.text, row.values) for row in hit.surrounding
                ]
                assert bool(hit.thread_rows) == ("group" in wish)
            assert any(hit.surrounding for hit in hits) == ("surrounding" in wish)
            dropped = hits.explain_dropped()
            assert reply["trace"]["dropped"] == dropped.to_list()
            own = {row.reason for stage in dropped.stages[:-1] for row in stage.rows}
            assert own == {"group"} & set(wish) | {"surrounding"} & set(wish)


def test_words_of_the_query_are_marked_in_the_columns_that_are_asked_for() -> None:
    asked = {"text": "oak tea", "scope": "ann", "limit": 3, "highlight": True}
    wishes: list[dict[str, Any]] = [{"columns": ["text", "kind"]}, {"columns": []}]

    async def work(client: Any) -> list[Any]:
        assert (await client.get("/v1/info")).json()["highlights"] is True
        return [(await client.post("/v1/recall", json=asked | wish)).json() for wish in wishes]

    with hr.Index.build(table(), SCHEMA) as index:
        replies = served(index, work)
        hits = index.recall_one(text="oak tea", scope="ann", limit=3, vector=None)
        assert all(hit.highlights() for hit in hits)
        for wish, reply in zip(wishes, replies, strict=True):
            IndexReply.model_validate(reply)
            names = ["text"] if wish["columns"] else []
            assert [(one["highlights"], one["snippet"]) for one in reply["hits"]] == [
                ({name: [list(span) for span in hit.highlights()] for name in names}, hit.snippet())
                for hit in hits
            ]


def test_an_index_without_stored_texts_refuses_to_mark_words() -> None:
    async def work(client: Any) -> tuple[Any, Any]:
        asked = {"text": "oak", "highlight": True}
        return await client.get("/v1/info"), await client.post("/v1/recall", json=asked)

    schema = hr.Schema(key="id", cell=None, text="text", stored=())
    with hr.Index.build(table().select(["id", "text"]), schema) as index:
        info, reply = served(index, work)
    assert info.json()["highlights"] is False
    assert reply.status_code == 422
    assert "highlight: expected false" in reply.text


def test_a_page_counts_and_orders_what_the_caller_may_see(
    folder: Path, token_of: Callable[..., str], tmp_path: Path
) -> None:
    token = token_of(Caller(cells=(("ann",),)))
    page = {"sort": [["kind", "desc"]], "facets": ["kind"], "total": True, "limit": 3}
    bodies = [page, {"text": "oak", **page}, {"text": "oak", "total": True}, {"text": "oak"}]

    async def work(client: Any) -> list[Any]:
        replies = [(await client.post("/v1/recall", json=one)).json() for one in bodies]
        for reply in replies:
            IndexReply.model_validate(reply)
        for bad in (["text"], [["kind", "up"]], "kind"):
            reply = await client.post("/v1/recall", json={"sort": bad})
            assert reply.status_code == 422
        return replies

    with hr.Index.open(folder) as index:
        replies = served(index, work, ServiceOptions(tokens=tmp_path / "tokens.json"), token)
        browsed = index.recall_one(scope="ann", sort=("kind", "desc"), facets="kind", limit=3)
        total = index.recall_one(text="oak", scope="ann").total
    assert [hit["key"] for hit in replies[0]["hits"]] == browsed.keys
    assert {hit["score"] for hit in replies[0]["hits"]} == {None}
    assert replies[0]["facets"] == {
        "kind": [{"value": value, "count": count} for value, count in browsed.facets["kind"]]
    }
    assert [one.get("total") for one in replies] == [browsed.total, total, total, None]
    assert [one.get("facets") is None for one in replies] == [False, False, True, True]


def test_queries_of_many_vectors_reply_as_in_process(folder: Path) -> None:
    draw = np.random.default_rng(5)
    rows = [draw.normal(size=(n, 8)).astype(np.float32) for n in draw.integers(1, 6, 120)]
    schema = dataclasses.replace(SCHEMA, vector=hr.MaxSim("tokens"))
    index = hr.Index.build(
        table().drop_columns(["embedding"]), schema, vectors={"tokens": rows}, device="cpu"
    )
    asked = [draw.normal(size=(n, 8)).astype(np.float32) for n in (1, 4, 3)]

    async def work(client: Any) -> list[Any]:
        bodies = [{"vector": one.tolist(), "scope": "ann", "limit": 4} for one in asked]
        given = await asyncio.gather(*(client.post("/v1/recall", json=one) for one in bodies))
        return [reply.json() for reply in given]

    alone = index.recall(vectors=asked, scope=["ann"] * 3, limit=4)
    for reply, hits in zip(served(index, work), alone, strict=True):
        found = [(hit["key"], hit["score"]) for hit in reply["hits"]]
        assert found == [(hit.key, hit.score) for hit in hits]


def test_sparse_queries_reply_as_in_process(folder: Path) -> None:
    rows = [{"cat": 1.0 + at, "pet": 0.5} if at % 2 else {"car": 2.0} for at in range(120)]
    schema = dataclasses.replace(SCHEMA, vector=hr.Sparse("terms"))
    index = hr.Index.build(table().drop_columns(["embedding"]), schema, vectors={"terms": rows})
    asked = [{"cat": 1.5}, {"car": 1, "pet": 2.5}]

    async def work(client: Any) -> list[Any]:
        bodies = [{"vector": {"terms": one}, "scope": "ann", "limit": 4} for one in asked]
        given = await asyncio.gather(*(client.post("/v1/recall", json=one) for one in bodies))
        return [reply.json() for reply in given]

    alone = index.recall(vectors=asked, scope=["ann"] * 2, limit=4)
    for reply, hits in zip(served(index, work), alone, strict=True):
        found = [(hit["key"], hit["score"]) for hit in reply["hits"]]
        assert found == [(hit.key, hit.score) for hit in hits]
        assert len(found) == 4


def test_a_recall_tells_how_sure_it_is_where_it_is_asked() -> None:
    asked = {"text": "oak Nowhere", "scope": "ann", "limit": 3, "confidence": True}

    async def work(client: Any) -> list[Any]:
        alone = (await client.post("/v1/recall", json=asked)).json()
        both = {"queries": [asked, asked | {"confidence": False}]}
        batch = (await client.post("/v1/recall/batch", json=both)).json()["replies"]
        for more in ({"sort": ["kind"]}, {"text": None}):
            refused = await client.post("/v1/recall", json=asked | more)
            assert refused.status_code == 422
            assert "confidence: expected false where columns order" in refused.text
        IndexReply.model_validate(alone)
        floored = (await client.post("/v1/recall", json=asked | {"min_confidence": 0.9})).json()
        return [alone, *batch, floored]

    with hr.Index.build(table(), SCHEMA) as index:
        alone, first, second, floored = served(index, work)
        hits = index.recall_one(text="oak Nowhere", scope="ann", limit=3)
        for reply in (alone, first):
            answerable = hits.confidence >= 0.2
            assert (reply["confidence"], reply["answerable"]) == (hits.confidence, answerable)
            assert [one["confidence"] for one in reply["hits"]] == [one.confidence for one in hits]
        assert "confidence" not in second
        assert 0 < floored["confidence"] == hits.confidence < 0.9
        assert floored["hits"] == []
