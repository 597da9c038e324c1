"""Calls an app in process: a client without sockets, whose lifespan runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2 as httpx

BASE = "http://127.0.0.1:8765"


@asynccontextmanager
async def calling(app: Any, token: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """Run an app's lifespan, and give a client of it."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url=BASE, headers=headers) as client,
    ):
        yield client
