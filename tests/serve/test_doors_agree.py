"""The same query has the same ids and scores, whichever way it is asked.

``DOORS`` has a way to ask by name: the Python method, the socket of a second handle, the command, a
tool of MCP, and every route that takes any recipe. Another one is a function more: it gets the
store that is served and the question, and gives None where the recipe has no such door.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
pytest.importorskip("typer", reason="the extra [cli] is not installed")
pytest.importorskip("mcp", reason="the extra [mcp] is not installed")

import httpx2
from fastapi import FastAPI
from mcp.client import Client

from hyrecall import errors, recipes
from hyrecall.embed import HashEmbedder
from hyrecall.memory import Episode, Memory, MemorySync
from hyrecall.serve import Caller, create_app
from hyrecall.serve.mcp import create_server
from laws.effort import Effort
from mcp_world import data_of
from memory.sharing.handles import is_owner
from memory.stores import NOON
from seams import install, judged_by_cli, told_by_mcp
from serve_client import calling

WORDS = ["oak", "ash", "elm", "fir", "yew", "bay", "fig", "nut", "hop", "rye", "ivy", "tea"]
ANN = {"user_id": "ann"}
LIMIT = 10
Found = list[tuple[str, float]]
Command = Callable[..., SimpleNamespace]


@dataclass(frozen=True)
class House:
    """A store that is served, and the ways to it."""

    name: str
    memory: MemorySync
    second: MemorySync
    client: httpx2.AsyncClient
    host: Client
    run: Command


async def by_python(house: House, query: str) -> Found:
    found = house.memory.search(query, limit=LIMIT, **ANN)
    return [(one.episode.id, one.score) for one in found]


async def by_socket(house: House, query: str) -> Found:
    found = await asyncio.to_thread(house.second.search, query, limit=LIMIT, **ANN)
    return [(one.episode.id, one.score) for one in found]


async def by_tool(house: House, query: str) -> Found:
    found = data_of(await house.host.call_tool("search", {"text": query, "limit": LIMIT}))
    return [(one["episode"]["id"], one["score"]) for one in found["items"]]


async def by_command(house: House, query: str) -> Found:
    asked = ("recall", query, "--user", "ann", "--recipe", house.name, "--limit", LIMIT, "--json")
    reply = await asyncio.to_thread(house.run, *asked)
    assert reply.code == 0, reply.err
    return [(one["episode"]["id"], one["score"]) for one in reply.data["items"]]


async def by_recall_route(house: House, query: str) -> Found:
    reply = await house.client.post("/v1/recall", json={"text": query, "limit": LIMIT, **ANN})
    assert reply.status_code == 200, reply.text
    return [(one["episode"]["id"], one["score"]) for one in reply.json()["items"]]


async def by_mem0s_route(house: House, query: str) -> Found:
    reply = await house.client.post("/search", json={"query": query, "limit": LIMIT, **ANN})
    assert reply.status_code == 200, reply.text
    return [(one["id"], one["score"]) for one in reply.json()["results"]]


async def by_hebbs_route(house: House, query: str) -> Found | None:
    if house.name != "hebb":
        return None
    asked = {"query": query, "top_k": LIMIT}
    reply = await house.client.post("/api/v1/search", json=asked, params=ANN)
    assert reply.status_code == 200, reply.text
    return [(one["memory"]["id"], one["score"]) for one in reply.json()["results"]]


DOORS: dict[str, Callable[[House, str], Awaitable[Found | None]]] = {
    "python": by_python,
    "socket": by_socket,
    "tool": by_tool,
    "command": by_command,
    "recall route": by_recall_route,
    "mem0's route": by_mem0s_route,
    "hebb's route": by_hebbs_route,
}


def episodes() -> Iterator[Episode]:
    rng = np.random.default_rng(5)
    for n in range(80):
        yield Episode(
            id=f"e{n}",
            user_id="bob" if n % 5 == 4 else "ann",
            text=" ".join(rng.choice(WORDS, int(rng.integers(3, 12)))),
            occurred_at=NOON - timedelta(hours=int(rng.integers(0, 500))),
            importance=float(n % 11),
            tags=tuple(rng.choice(WORDS, 2).tolist()),
            source=(None, "memory", "summary", "session")[n % 4],
            pinned=n % 7 == 0,
        )


def questions(n: int) -> list[str]:
    rng = np.random.default_rng(6)
    return [" ".join(rng.choice(WORDS, int(rng.integers(1, 4)))) for _ in range(n)]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command, with the clock and the embedder of the store that is served."""
    from cli.conftest import runner

    monkeypatch.setenv("HYRECALL_PATH", str(tmp_path / "agent.mem"))
    monkeypatch.setenv("HYRECALL_CONFIG", str(tmp_path / "config.json"))
    monkeypatch.setattr("hyrecall.memory.store._now", now)
    chosen = SimpleNamespace(embedder=lambda **_: embedder())
    monkeypatch.setattr("hyrecall.cli.settings.choose", chosen)
    return runner(monkeypatch)


def now() -> datetime:
    return NOON


def embedder() -> HashEmbedder:
    return HashEmbedder(dim=8)


async def compared(name: str, path: Path, run: Command, n_questions: int) -> None:
    recipe = getattr(recipes, name)
    opening = Memory.open(
        path, recipe=recipe, embedder=embedder(), clock=now, recall_timeout=30.0, warm=False
    )
    app = create_app(opening)
    async with calling(app) as client, AsyncExitStack() as stack:
        memory = app.state.memory._sync
        memory.remember_batch(episodes())
        memory.snapshot()
        second = stack.enter_context(
            MemorySync.open(path, recipe=recipe, embedder=embedder(), clock=now, warm=False)
        )
        assert is_owner(memory)
        assert not is_owner(second)
        tools = create_server(app.state.memory, caller=Caller(user_id="ann"))
        host = await stack.enter_async_context(Client(tools))
        house = House(name, memory, second, client, host, run)
        is_found = False
        for query in questions(n_questions):
            wanted = await by_python(house, query)
            is_found |= bool(wanted)
            for door, ask in DOORS.items():
                found = await ask(house, query)
                assert found is None or found == wanted, (door, query)
        assert is_found


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize("name", recipes.__all__)
def test_H13_every_door_gives_the_same_ids_and_scores(
    name: str, tmp_path: Path, command: Command, effort: Effort
) -> None:
    n_questions = effort.cases(quick=3, full=100)
    asyncio.run(compared(name, tmp_path / "agent.mem", command, n_questions))


KINDS = [getattr(errors, name) for name in errors.__all__ if name != "error"]


@pytest.mark.parametrize("kind", KINDS)
async def test_an_error_is_told_over_http_where_it_is_told_over_mcp(
    kind: type[errors.HyrecallError],
) -> None:
    fault = errors.error(kind, "query", "a wish", "a-value", "a_remedy()")
    app = FastAPI()
    install(app)

    @app.get("/fail")
    async def fail() -> None:
        raise fault

    async with calling(app) as client:
        found = await client.get("/fail")
    by_http, by_mcp = found.json()["error"], told_by_mcp(fault, "a call")
    code, by_cli = judged_by_cli(fault)
    assert by_http["type"] == kind.__name__ == by_mcp.partition(":")[0]
    assert ("a wish" in by_http["message"]) == ("a wish" in by_mcp) == (found.status_code < 500)
    assert "a-value" not in found.text
    assert "a_remedy" not in found.text + by_mcp + by_cli
    assert "a wish" in by_cli
    assert (code == 4) == (kind is errors.InternalError)
    assert (found.status_code == 422) <= (code == 1)
