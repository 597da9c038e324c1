"""Logs, metrics and spans say how the service works, and nothing of what callers say."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import hyrecall as hr
from hyrecall.embed import HashEmbedder
from hyrecall.memory import Episode, Memory, MemorySync
from hyrecall.recipes import loom
from hyrecall.serve import Caller, ServiceOptions, create_app
from seams import Opening
from serve.conftest import ANN
from serve_client import calling

SECRET = "canary"


def served(store: Any, work: Callable[..., Any], *, options: Any = None, token: Any = None) -> Any:
    async def run() -> Any:
        async with calling(create_app(store, options), token) as client:
            return await work(client)

    return asyncio.run(run())


def numbers(text: str) -> dict[str, float]:
    lines = (line.rsplit(" ", 1) for line in text.splitlines() if line[:1] not in ("#", ""))
    return {name: float(value) for name, value in lines}


async def test_no_text_query_vector_token_or_id_is_logged_at_any_level(
    store: Opening,
    token_of: Callable[..., str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for quiet in ("httpx", "httpx2", "httpcore2", "asyncio"):  # of the client, not of the service
        logging.getLogger(quiet).setLevel(logging.CRITICAL)
    caplog.set_level(logging.DEBUG)
    token = token_of(ANN)

    async with calling(
        create_app(store, ServiceOptions(tokens=tmp_path / "tokens.json")), token
    ) as client:
        vector = [0.123456789, 0.5]
        requests: list[tuple[str, str, Any]] = [
            ("POST", "/v1/memories", {"text": SECRET, "id": f"{SECRET}-id", "tags": [SECRET]}),
            ("POST", "/v1/memories", {"text": SECRET, "id": f"{SECRET}-id"}),
            ("POST", "/v1/memories", {"text": SECRET, "vector": vector}),
            ("POST", "/v1/recall", {"text": SECRET, "explain": True}),
            ("POST", "/v1/recall", {"text": SECRET, "vector": vector}),
            ("POST", "/v1/recall", {"text": SECRET, "filter": {SECRET: SECRET}}),
            ("POST", "/v1/recall", {"text": SECRET, "user_id": SECRET}),
            ("POST", "/v1/recall", {SECRET: SECRET}),
            ("PATCH", f"/v1/memories/{SECRET}-id", {"text": SECRET, "reason": SECRET}),
            ("GET", f"/v1/memories/{SECRET}-id?user_id={SECRET}", None),
            ("GET", f"/v1/memories/{SECRET}-id/history", None),
            ("GET", f"/v1/browse/grep?pattern={SECRET}", None),
            ("GET", f"/{SECRET}", None),
            ("DELETE", f"/v1/memories/{SECRET}-id?reason={SECRET}", None),
        ]
        for method, path, body in requests:
            reply = await client.request(method, path, json=body)
            assert reply.status_code < 500
        bad = {"authorization": f"Bearer {token}x"}
        assert (await client.get("/v1/memories", headers=bad)).status_code == 401
    own = [one for one in caplog.records if one.name.startswith(("hyrecall", "uvicorn"))]
    assert len([one for one in own if one.name == "hyrecall.serve.access"]) == 15
    text = "\n".join(f"{one.getMessage()} {one.args} {one.exc_info}" for one in own)
    for word in (SECRET, token.split("_", 2)[2], "0.12345"):
        assert word not in text
    assert "POST /v1/memories 201" in text
    assert f"token={token.split('_')[1]}" in text


def test_every_logger_of_the_package_is_silent_unless_it_is_asked() -> None:
    for name in ("hyrecall.memory", "hyrecall.serve"):
        handlers = logging.getLogger(name).handlers
        assert any(isinstance(one, logging.NullHandler) for one in handlers), name


def test_the_metrics_of_a_store_are_the_numbers_of_doctor() -> None:
    async def work(client: Any) -> tuple[str, Any]:
        for at in range(3):
            await client.post("/v1/memories", json={"text": f"note {at}", "user_id": "ann"})
        await client.post("/v1/recall", json={"text": "note", "user_id": "ann"})
        report = await client._transport.app.state.memory.doctor()
        return (await client.get("/metrics")).text, report

    text, report = served(Memory.in_memory(recipe=hr.recipes.loom, embedder=None), work)
    found = numbers(text)
    (check,) = [one for one in report.checks if one.name == "index"]
    told = json.loads(check.detail)
    for name in ("sequence", "behind", "documents", "edges", "rebuilds", "without_vector"):
        assert found[f"hyrecall_store_{name}"] == told[name], name
    assert found["hyrecall_store_documents"] == report.counts["memories"] == 3
    assert found['hyrecall_requests_total{method="POST",route="/v1/memories",status="201"}'] == 3
    assert found['hyrecall_request_seconds_count{route="/v1/recall"}'] == 1
    assert found["hyrecall_joined_queries"] == 1


def test_readyz_says_how_many_memories_lack_a_vector_and_the_numbers_to_an_operator(
    tmp_path: Path, token_of: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyrecall.memory.derived.backfill.FIRST_SECONDS", 3600.0)
    path = tmp_path / "agent.mem"
    with MemorySync.open(path, embedder=None) as memory:
        memory.remember_batch([Episode(text=f"tea {at}", user_id="ann") for at in range(3)])

    async def work(client: Any) -> Any:
        bare = await client.get("/readyz", headers={"Authorization": ""})
        shown = await client.get("/readyz")
        await client._transport.app.state.memory.reembed()
        return [(one.status_code, one.json()) for one in (bare, shown, await client.get("/readyz"))]

    told = {"status": "degraded", "embeddings": "3 of 3 memories have no usable vector"}
    ready = {"status": "ready"}
    opening = Memory.open(path, embedder=HashEmbedder(8))
    assert served(opening, work) == [(200, told), (200, told), (200, ready)]
    with MemorySync.open(path, embedder=None) as memory:
        memory.remember("tea 4", user_id="bob")
    options = ServiceOptions(tokens=tmp_path / "tokens.json")
    bare = {"status": "degraded", "embeddings": "memories have no usable vector"}
    told = {"status": "degraded", "embeddings": "1 of 4 memories have no usable vector"}
    token = token_of(Caller(rights=frozenset({"read", "write", "upkeep"})))
    opening = Memory.open(path, embedder=HashEmbedder(8))
    found = served(opening, work, options=options, token=token)
    assert found == [(200, bare), (200, told), (200, ready)]


@pytest.fixture(scope="session")
def spans() -> InMemorySpanExporter:
    """What was recorded; OpenTelemetry takes one provider for a process."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


def test_a_recall_is_a_span_with_its_steps_and_without_content(
    spans: InMemorySpanExporter,
) -> None:
    spans.clear()
    with MemorySync.in_memory(recipe=hr.recipes.hebb, embedder=HashEmbedder(dim=8)) as memory:
        memory.wait_until_ready()
        memory.remember(SECRET, id=f"{SECRET}-id", user_id=SECRET)
        assert len(memory.search(SECRET, user_id=SECRET)) == 1
    made = spans.get_finished_spans()
    (outer,) = [one for one in made if one.name == "hyrecall.memory.recall"]
    # Making its index, the store recalls on another thread, which may end later: ours is a child.
    (inner,) = [one for one in made if one.parent and one.parent.span_id == outer.context.span_id]
    assert inner.name == "hyrecall.recall"
    assert outer.attributes == {"hyrecall.matches": 1, "hyrecall.degraded": ()}
    assert inner.attributes is not None
    assert inner.attributes["hyrecall.queries"] == 1
    names = [event.name for event in inner.events]
    assert {"hyrecall.plan", "hyrecall.candidates", "hyrecall.fusion"} <= set(names)
    assert "hyrecall.stage.Composite" in names
    times = [event.timestamp for event in inner.events]
    assert times == sorted(times)
    assert SECRET not in "".join(one.to_json() for one in made)


def test_a_recall_that_fails_marks_its_span_without_the_message(
    spans: InMemorySpanExporter,
) -> None:
    spans.clear()
    table = pa.table({"id": ["a"], "text": ["oak"]})
    index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))
    with pytest.raises(hr.OptionError, match=SECRET):
        index.recall(text=["oak"], filter=hr.Filter(**{SECRET: 1}))
    (one,) = spans.get_finished_spans()
    assert one.attributes == {"error.type": "OptionError"}
    assert not one.status.is_ok
    assert SECRET not in one.to_json()


# ---- a store that other processes use too ----


def numbers_of(folder: Path, *, join: bool, is_client: bool) -> list[dict[str, float]]:
    """Return the service's numbers before and after it searched as the owner of its store."""

    async def run() -> list[dict[str, float]]:
        before = MemorySync.open(folder, recipe=loom, embedder=None) if is_client else None
        app = create_app(Memory.open(folder, recipe=loom, embedder=None), ServiceOptions(join=join))
        async with calling(app) as client:
            found = [await scraped(client)]
            if before is not None:
                await asyncio.to_thread(before.close)
            body = {"text": "tea at four", "user_id": "ann"}
            assert (await client.post("/v1/memories", json=body)).status_code == 201
            reply = await client.post("/v1/recall", json={"text": "tea", "user_id": "ann"})
            assert len(reply.json()["items"]) == 1
            return [*found, await scraped(client)]

    return asyncio.run(run())


async def scraped(client: Any) -> dict[str, float]:
    reply = await client.get("/metrics")
    assert reply.status_code == 200, reply.text
    return numbers(reply.text)


@pytest.mark.parametrize("join", [True, False])
@pytest.mark.parametrize("is_client", [False, True])
def test_a_service_that_must_not_join_does_not_after_a_take_over_either(
    tmp_path: Path, join: bool, is_client: bool
) -> None:
    before, after = numbers_of(tmp_path / "s", join=join, is_client=is_client)
    assert before["hyrecall_store_is_owner"] == (not is_client)
    assert after["hyrecall_store_is_owner"] == 1
    assert after["hyrecall_store_documents"] == 1
    assert after["hyrecall_joined_queries"] == join
    assert ("hyrecall_store_documents" in before) is not is_client  # a client has other numbers
    assert before["hyrecall_store_database_bytes"] > 0
