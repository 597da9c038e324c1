"""The service calls a store without a user and without a warning; other calls warn as ever."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import pytest

from hyrecall.memory import IsolationWarning, Memory
from hyrecall.recipes import loom
from hyrecall.serve import create_app
from serve_client import calling


def test_only_the_requests_of_the_service_are_silent() -> None:
    async def work() -> list[Any]:
        async with Memory.in_memory(recipe=loom, embedder=None) as memory:
            await memory.remember("tea of ann", user_id="ann")
            await memory.remember("tea of nobody")
            filters = list(warnings.filters)
            async with calling(create_app(memory)) as client:
                replies = [
                    await client.post("/v1/recall", json={"query": "tea"}),
                    await client.post("/v1/recall/batch", json={"queries": [{"query": "tea"}]}),
                ]
                with pytest.warns(IsolationWarning, match="anonymous memories only"):
                    await memory.recall("tea")
                assert warnings.filters == filters
                replies.append(await client.post("/v1/recall", json={"query": "tea"}))
            with pytest.warns(IsolationWarning):
                await memory.recall("tea")
            return replies

    replies = asyncio.run(work())
    assert [one.status_code for one in replies] == [200] * 3, replies[0].text
    for one in (replies[0].json(), replies[1].json()["replies"][0]):
        assert [match["text"] for match in one["matches"]] == ["tea of nobody"]
