"""Apps over small stores, with tokens that are given by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx2

from hyrecall.memory import Memory, MemorySync
from hyrecall.serve import Caller, create_app
from seams import Recipe
from serve_client import calling

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUSE = {"org": "acme", "workspace": "lab"}


@dataclass(frozen=True)
class Tokens:
    """Tokens and their callers."""

    by_token: Mapping[str, Caller] = field(default_factory=dict)

    def find(self, token: str) -> Caller | None:
        return self.by_token.get(token)


@dataclass(frozen=True)
class Served:
    """A client of an app, and the store behind it."""

    client: httpx2.AsyncClient
    memory: MemorySync

    async def send(self, method: str, path: str, status: int = 200, **given: Any) -> Any:
        """Send a request, and return the reply's JSON after a look at its status."""
        reply = await self.client.request(method, path, **given)
        assert reply.status_code == status, (reply.status_code, reply.text)
        return reply.json() if reply.content else None

    async def post(self, path: str, body: Any, status: int = 200, **given: Any) -> Any:
        return await self.send("POST", path, status, json=body, **given)

    async def get(self, path: str, status: int = 200, **given: Any) -> Any:
        return await self.send("GET", path, status, **given)


@asynccontextmanager
async def served(
    recipe: Recipe, tokens: Mapping[str, Caller] | None = None, **options: Any
) -> AsyncIterator[Served]:
    """Serve a new store in memory, without vectors unless an embedder is given."""
    given = {"embedder": None} | options
    app = create_app(Memory.in_memory(recipe=recipe, **given))
    if tokens is not None:
        app.state.tokens = Tokens(tokens)
    async with calling(app) as client:
        yield Served(client, app.state.memory._sync)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
