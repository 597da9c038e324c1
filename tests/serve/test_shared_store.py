"""A service whose store other processes use: as its owner, as a client, after a take-over."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from hyrecall.memory import Memory, MemorySync
from hyrecall.recipes import loom
from hyrecall.serve import ServiceOptions, create_app
from serve.test_observing import numbers
from serve_client import calling


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
            reply = await client.post("/v1/recall", json={"query": "tea", "user_id": "ann"})
            assert len(reply.json()["matches"]) == 1
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
