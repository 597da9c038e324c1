"""No request, however long, keeps the event loop or all threads of a store for itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from hyrecall.memory import MemorySync
from hyrecall.memory.memory import THREADS, Opening
from hyrecall.serve import ServiceOptions, create_app
from hyrecall.serve.replies import recall_data
from hyrecall.serve.routes import export, recall
from serve.blocked import Blocked
from serve.conftest import ANN
from serve_client import calling

USER = {"user_id": "ann"}


def served(store: Opening, work: Callable[[Any], Any]) -> Any:
    async def run() -> Any:
        async with calling(create_app(store)) as client:
            return await work(client)

    return asyncio.run(run())


def test_a_service_whose_threads_are_all_taken_is_still_watched(
    store: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on = threading.Semaphore(0), threading.Event()

    def held(self: MemorySync, *args: Any, **options: Any) -> Any:
        began.release()
        assert go_on.wait(20)
        return []

    monkeypatch.setattr(MemorySync, "list", held)

    async def work(client: Any) -> None:
        taken = [
            asyncio.create_task(client.get("/v1/memories", params=USER)) for _ in range(THREADS)
        ]
        for _ in taken:
            await asyncio.to_thread(began.acquire)
        for path in ("/readyz", "/metrics"):
            assert (await asyncio.wait_for(client.get(path), 10)).status_code == 200
        go_on.set()
        assert {(await one).status_code for one in taken} == {200}

    served(store, work)


def test_explanations_of_a_batch_are_made_on_a_thread(
    store: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_threads = []

    def made(*args: Any, **options: Any) -> Any:
        on_threads.append(threading.current_thread() is not threading.main_thread())
        return recall_data(*args, **options)

    monkeypatch.setattr(recall, "recall_data", made)

    async def work(client: Any) -> None:
        await client.post("/v1/memories", json={"text": "tea", **USER})
        queries = [{"query": "tea", "explain": True, **USER}] * 2
        reply = await client.post("/v1/recall/batch", json={"queries": queries})
        assert len(reply.json()["replies"]) == 2

    served(store, work)
    assert on_threads == [True, True]


def test_exports_keep_two_threads_at_most(store: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    began, go_on = threading.Semaphore(0), threading.Event()
    plain = MemorySync.export

    def held(self: MemorySync, *args: Any, **options: Any) -> Any:
        began.release()
        assert go_on.wait(20)
        return plain(self, *args, **options)

    monkeypatch.setattr(MemorySync, "export", held)

    async def work(client: Any) -> None:
        await client.post("/v1/memories", json={"text": "tea", **USER})
        under_way = [asyncio.create_task(client.get("/v1/export", params=USER)) for _ in range(2)]
        for _ in under_way:
            await asyncio.to_thread(began.acquire)
        refused = await client.get("/v1/export", params=USER)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        go_on.set()
        assert [(await one).status_code for one in under_way] == [200, 200]
        assert (await client.get("/v1/export", params=USER)).status_code == 200

    served(store, work)


def test_an_export_that_takes_too_long_breaks_off(
    store: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter([0.0, 0.0, 0.0])  # when it begins, and for its first two chunks
    clock = SimpleNamespace(monotonic=lambda: next(ticks, 2 * export.MOST_SECONDS))
    monkeypatch.setattr(export, "time", clock)

    async def work(client: Any) -> str:
        texts = [{"text": f"note {at} " + "x" * 9_000, "id": f"n{at}", **USER} for at in range(100)]
        await client.post("/v1/memories/batch", json={"memories": texts})
        reply = await client.get("/v1/export", params=USER)
        assert reply.status_code == 200
        return str(reply.text)

    assert 0 < len(served(store, work).splitlines()) < 100


def test_requests_beyond_the_queue_are_sent_away_and_the_others_are_answered(
    store: Opening,
) -> None:
    async def run() -> None:
        app = create_app(store, ServiceOptions(max_running=2, max_waiting=1))
        blocked = Blocked(app)
        async with calling(app) as client:
            running = [asyncio.create_task(client.get("/blocked")) for _ in range(2)]
            await blocked.began.acquire()
            await blocked.began.acquire()
            waiting = asyncio.create_task(client.get("/blocked"))
            await asyncio.sleep(0.05)
            refused = await client.get("/blocked")
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            assert (await client.get("/healthz")).status_code == 200
            blocked.gate.set()
            assert [(await one).status_code for one in (*running, waiting)] == [200] * 3
            assert (await client.get("/blocked")).status_code == 200

    asyncio.run(run())


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_requests_without_a_body_count_for_their_token_and_without_one_do_not_wait(
    method: str, store: Opening, token_of: Callable[..., str], tmp_path: Any
) -> None:
    async def run() -> None:
        token = token_of(ANN)
        options = ServiceOptions(tokens=tmp_path / "tokens.json", max_per_token=1)
        app = create_app(store, options)
        blocked = Blocked(app)
        async with calling(app) as client:
            mine = {"authorization": f"Bearer {token}"}
            held = asyncio.create_task(client.request(method, "/blocked", headers=mine))
            await blocked.began.acquire()
            assert (await client.request(method, "/blocked", headers=mine)).status_code == 429
            assert (await client.request(method, "/blocked")).status_code == 401
            blocked.gate.set()
            assert (await held).status_code == 200
            for path in ("/", "/page/icon.svg", "/healthz", "/health", "/openapi.json"):
                assert (await client.get(path)).status_code != 401, path

    asyncio.run(run())


def test_one_token_cannot_take_the_whole_queue(
    store: Opening, token_of: Callable[..., str], tmp_path: Any
) -> None:
    async def run() -> None:
        first, second = token_of(ANN), token_of(ANN)
        options = ServiceOptions(tokens=tmp_path / "tokens.json", max_per_token=1)
        app = create_app(store, options)
        blocked = Blocked(app)
        async with calling(app, first) as client:
            held = asyncio.create_task(client.post("/blocked", json={}))
            await blocked.began.acquire()
            refused = await client.post("/blocked", json={})
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            other = {"authorization": f"Bearer {second}"}
            free = asyncio.create_task(client.post("/blocked", json={}, headers=other))
            await blocked.began.acquire()
            blocked.gate.set()
            assert ((await held).status_code, (await free).status_code) == (200, 200)

    asyncio.run(run())
