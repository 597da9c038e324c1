"""No request, however long, keeps the event loop or all threads of a store for itself."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from hyrecall.memory import Memory, MemorySync
from hyrecall.recipes import loom
from hyrecall.serve import ServiceOptions, create_app
from seams import ARROW, THREADS, CallerOf, FairSemaphore, Opening, export, recall, recall_data
from serve.blocked import Blocked
from serve.conftest import ANN
from serve.test_arrow_routes import stream
from serve_client import calling

USER = {"user_id": "ann"}


def served(store: Opening, work: Callable[[Any], Any]) -> Any:
    async def run() -> Any:
        async with calling(create_app(store)) as client:
            return await work(client)

    return asyncio.run(run())


async def test_a_service_whose_threads_are_all_taken_is_not_ready_and_still_watched(
    store: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on = threading.Semaphore(0), threading.Event()

    def held(self: MemorySync, *args: Any, **options: Any) -> Any:
        began.release()
        assert go_on.wait(20)
        return []

    monkeypatch.setattr(MemorySync, "list", held)

    async with calling(create_app(store)) as client:
        taken = [
            asyncio.create_task(client.get("/v1/memories", params=USER)) for _ in range(THREADS)
        ]
        for _ in taken:
            await asyncio.to_thread(began.acquire)
        for path, status in (("/readyz", 503), ("/metrics", 200)):
            assert (await asyncio.wait_for(client.get(path), 10)).status_code == status
        go_on.set()
        assert {(await one).status_code for one in taken} == {200}
        assert (await client.get("/readyz")).status_code == 200


class Held:
    """Searches of one user, which begin and are then held back."""

    def __init__(self, user_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.go_on = threading.Semaphore(0), threading.Event()
        self.n_running = self.most_running = 0
        plain, lock = MemorySync.search, threading.Lock()

        def search(memory: MemorySync, *args: Any, **options: Any) -> Any:
            if options["user_id"] != user_id:
                return plain(memory, *args, **options)
            with lock:
                self.n_running += 1
                self.most_running = max(self.most_running, self.n_running)
            self.began.release()
            assert self.go_on.wait(20)
            with lock:
                self.n_running -= 1
            return plain(memory, *args, **options)

        monkeypatch.setattr(MemorySync, "search", search)


def as_json(n_queries: int) -> tuple[str, dict[str, Any]]:
    return "/v1/recall/batch", {"json": {"queries": [{"text": "tea", **USER}] * n_queries}}


def as_arrow(n_queries: int) -> tuple[str, dict[str, Any]]:
    asked = pa.table({"text": ["tea"] * n_queries, "user_id": ["ann"] * n_queries})
    return "/v1/recall/arrow", {"content": stream(asked), "headers": {"content-type": ARROW}}


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize(("n_batches", "n_threads"), [(1, 4), (3, 8)])
@pytest.mark.parametrize("made", [as_json, as_arrow])
async def test_other_callers_are_answered_while_batches_are_under_way(
    made: Callable[[int], Any], n_batches: int, n_threads: int, store: Opening,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    held = Held("ann", monkeypatch)

    async with calling(create_app(store)) as client:
        await client.post("/v1/memories", json={"text": "tea", "user_id": "bob"})
        path, how = made(3 * THREADS)
        batches = [asyncio.create_task(client.post(path, **how)) for _ in range(n_batches)]
        for _ in range(n_threads):
            assert await asyncio.to_thread(held.began.acquire, timeout=20)
        asked = {"text": "tea", "user_id": "bob"}
        reply = await asyncio.wait_for(client.post("/v1/recall", json=asked), 15)
        assert len(reply.json()["items"]) == 1
        assert not any(one.done() for one in batches)
        held.go_on.set()
        assert [(await one).status_code for one in batches] == [200] * n_batches
    assert held.most_running == n_threads < THREADS


async def test_the_replies_of_a_batch_keep_the_order_of_its_queries(store: Opening) -> None:
    async with calling(create_app(store)) as client:
        kept = [{"text": f"tea{at}", "id": f"m{at}", **USER} for at in range(12)]
        await client.post("/v1/memories/batch", json={"episodes": kept})
        queries = [{"text": f"tea{at}", **USER} for at in range(12)]
        reply = await client.post("/v1/recall/batch", json={"queries": queries})
        best = [one["items"][0]["episode"]["id"] for one in reply.json()["replies"]]
        assert best == [f"m{at}" for at in range(12)]


async def test_after_a_query_that_fails_no_other_of_its_batch_begins(
    store: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held("ann", monkeypatch)
    held.go_on.set()

    async with calling(create_app(store)) as client:
        plain = {"text": "tea", **USER}
        queries = [plain, {**plain, "recipe": "none"}, {**plain, "recipe": "x"}, *[plain] * 40]
        reply = await client.post("/v1/recall/batch", json={"queries": queries})
        assert reply.status_code == 422
        assert reply.json()["error"]["message"].startswith("queries[1].recipe")
    begun = 0
    while held.began.acquire(blocking=False):
        begun += 1
    assert begun < 40


async def test_explanations_of_a_batch_are_made_on_a_thread(
    store: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_threads = []

    def made(*args: Any, **options: Any) -> Any:
        on_threads.append(threading.current_thread() is not threading.main_thread())
        return recall_data(*args, **options)

    monkeypatch.setattr(recall, "recall_data", made)

    async with calling(create_app(store)) as client:
        await client.post("/v1/memories", json={"text": "tea", **USER})
        queries = [{"text": "tea", "explain": True, **USER}] * 2
        reply = await client.post("/v1/recall/batch", json={"queries": queries})
        assert len(reply.json()["replies"]) == 2
    assert on_threads == [True, True]


async def test_exports_keep_two_threads_at_most(
    store: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on = threading.Semaphore(0), threading.Event()
    plain = MemorySync.export

    def held(self: MemorySync, *args: Any, **options: Any) -> Any:
        began.release()
        assert go_on.wait(20)
        return plain(self, *args, **options)

    monkeypatch.setattr(MemorySync, "export", held)

    async with calling(create_app(store)) as client:
        await client.post("/v1/memories", json={"text": "tea", **USER})
        under_way = [asyncio.create_task(client.get("/v1/export", params=USER)) for _ in range(2)]
        for _ in under_way:
            await asyncio.to_thread(began.acquire)
        refused = await client.get("/v1/export", params=USER)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        go_on.set()
        assert [(await one).status_code for one in under_way] == [200, 200]
        done = await client.get("/v1/export", params=USER)
        assert (done.status_code, done.headers["content-type"]) == (200, "application/x-ndjson")


def test_an_export_that_takes_too_long_breaks_off(
    store: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter([0.0, 0.0, 0.0])  # when it begins, and for its first two chunks
    clock = SimpleNamespace(monotonic=lambda: next(ticks, 2 * export.MOST_SECONDS))
    monkeypatch.setattr(export, "time", clock)

    async def work(client: Any) -> str:
        texts = [{"text": f"note {at} " + "x" * 9_000, "id": f"n{at}", **USER} for at in range(100)]
        await client.post("/v1/memories/batch", json={"episodes": texts})
        reply = await client.get("/v1/export", params=USER)
        assert reply.status_code == 200
        return str(reply.text)

    assert 0 < len(served(store, work).splitlines()) < 100


async def test_after_an_export_that_broke_off_a_new_memory_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[BaseException] = []  # as whoever looks at the fault's traceback keeps it
    plain = export._write

    def broken(*args: Any, **options: Any) -> None:
        try:
            plain(*args, **options)
        except export._SlowError as fault:
            kept.append(fault)
            raise

    monkeypatch.setattr(export, "_write", broken)
    monkeypatch.setattr(export, "MOST_SECONDS", 0.0)

    async with calling(
        create_app(Memory.open(tmp_path / "m", recipe=loom, embedder=None))
    ) as client:
        texts = [{"text": "x" * 9_000, **USER} for _ in range(100)]
        await client.post("/v1/memories/batch", json={"episodes": texts})
        await client.get("/v1/export", params=USER)
        assert len(kept) == 1
        await client.post("/v1/memories", json={"text": "tea", "id": "new", **USER})
        for _ in range(20):
            assert (await client.get("/v1/memories/new", params=USER)).status_code == 200


async def test_requests_beyond_the_queue_are_sent_away_and_the_others_are_answered(
    store: Opening,
) -> None:
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


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
async def test_requests_count_for_their_token_and_without_one_do_not_wait(
    method: str, store: Opening, token_of: Callable[..., str], tmp_path: Any
) -> None:
    mine, others = ({"authorization": f"Bearer {token_of(ANN)}"} for _ in range(2))
    options = ServiceOptions(tokens=tmp_path / "tokens.json", max_per_token=1)
    app = create_app(store, options)
    blocked = Blocked(app)
    async with calling(app) as client:

        def ask(headers: dict[str, str] | None = None) -> asyncio.Task[Any]:
            body = {} if method == "POST" else None
            asked = client.request(method, "/blocked", json=body, headers=headers)
            return asyncio.create_task(asked)

        held = ask(mine)
        await blocked.began.acquire()
        refused = await ask(mine)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert (await ask()).status_code == 401
        free = ask(others)
        await blocked.began.acquire()
        blocked.gate.set()
        assert ((await held).status_code, (await free).status_code) == (200, 200)
        for path in ("/", "/page/icon.svg", "/healthz", "/health", "/openapi.json"):
            assert (await client.get(path)).status_code != 401, path


async def test_tokens_whose_requests_wait_take_turns(
    store: Opening, token_of: Callable[..., str], tmp_path: Any
) -> None:
    """However many requests of one are in the queue, another's first is the next to run."""

    greedy, other = token_of(ANN), token_of(ANN)
    options = ServiceOptions(tokens=tmp_path / "tokens.json", max_running=4)
    app = create_app(store, options)
    began: list[str] = []
    go_on = asyncio.Semaphore(0)

    async def held(who: CallerOf) -> None:
        began.append(who.name)
        await go_on.acquire()

    app.add_api_route("/held", held)
    names = {token: token.split("_")[1] for token in (greedy, other)}
    async with calling(app) as client:

        def ask(token: str) -> asyncio.Task[Any]:
            head = {"authorization": f"Bearer {token}"}
            return asyncio.create_task(client.get("/held", headers=head))

        async def at_work(n: int) -> None:
            while len(began) < n:
                await asyncio.sleep(0)
            await asyncio.sleep(0.02)
            assert len(began) == n

        asked = [ask(greedy) for _ in range(20)]
        await at_work(3)  # one place is left to others
        asked += [ask(other) for _ in range(3)]
        await at_work(4)
        assert began == [names[greedy]] * 3 + [names[other]]
        for n in range(5, 9):
            go_on.release()  # the first that is held ends
            await at_work(n)
        assert Counter(began[4:]) == {names[greedy]: 2, names[other]: 2}
        asked[-1].cancel()
        asked[10].cancel()  # of those that wait
        for _ in asked:
            go_on.release()
        done = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(one, asyncio.CancelledError) for one in done) == 2
        go_on.release()
        assert (await ask(other)).status_code == 200


@pytest.mark.parametrize("seed", range(20))
async def test_turns_are_given_back_whoever_leaves_when(seed: int) -> None:
    draw = random.Random(seed)

    turns, most, share = FairSemaphore(3, 2), 3, 2
    inside: Counter[str] = Counter()

    async def ask(name: str) -> None:
        async with turns.turn(name):
            inside[name] += 1
            assert inside.total() <= most
            assert not name or inside[name] <= share
            for _ in range(draw.randrange(4)):
                await asyncio.sleep(0)
            inside[name] -= 1

    asked = []
    for _ in range(60):
        asked.append(asyncio.create_task(ask(draw.choice(("a", "b", "c", "")))))
        if draw.random() < 0.4:
            await asyncio.sleep(0)
        if draw.random() < 0.3:
            draw.choice(asked).cancel()
    await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 10)
    assert turns.n_waiting == 0
    assert (turns._n_inside, turns._inside, turns._waiting) == (0, Counter(), {})
