"""A folder of shards that is rebalanced or built anew is taken up by the service over it."""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

import hyrecall as hr
from distributed.generation_worlds import SCHEMA, USERS, documents, make
from hyrecall.distributed import ShardedIndex, rebalance
from serve.test_index_routes import served


async def hits_of_all(client: Any) -> list[list[tuple[int, float]]]:
    replies = []
    for user in USERS:
        asked = {"text": "tea", "scope": user, "limit": 100}
        reply = (await client.post("/v1/recall", json=asked)).json()
        assert not reply["degraded"], reply["reasons"]
        replies.append([(hit["key"], hit["score"]) for hit in reply["hits"]])
    return replies


async def look_again(client: Any) -> None:
    """Let the next request look at the folder, as if the last look were long ago."""
    versions = client._transport.app.state.served_index._versions
    versions._looked = -1e9
    await client.post("/v1/recall", json={"text": "tea", "scope": USERS[0]})
    await asyncio.wrap_future(versions.loading)


def want(seed: int) -> list[list[tuple[Any, float]]]:
    one = hr.Index.build(documents(seed), SCHEMA, device="cpu")
    asked = {"text": ["tea"] * 12, "scope": USERS, "limit": 100}
    return [[(hit.key, hit.score) for hit in hits] for hits in one.recall(**asked)]


def test_new_generations_are_taken_up(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = make(tmp_path, 1)

    async def work(client: Any) -> list[Any]:
        seen = [await hits_of_all(client)]
        rebalance(folder, shards=3, threads=1)
        seen.append(await hits_of_all(client))
        await look_again(client)
        seen.append([len(index), await hits_of_all(client)])
        shutil.rmtree(folder)
        await look_again(client)
        seen.append(await hits_of_all(client))
        make(tmp_path, 2)
        await look_again(client)
        seen.append([len(index), await hits_of_all(client)])
        assert (await client.get("/readyz")).json() == {"status": "ready"}
        return seen

    caplog.set_level(logging.INFO, "hyrecall.serve")
    with ShardedIndex.open(folder, device="cpu", threads=1) as index:
        assert served(index, work) == [want(1), want(1), [3, want(1)], want(1), [2, want(2)]]
    told = [one.message for one in caplog.records if one.message.startswith("index:")]
    assert told == [
        "index: took up the version that was saved anew",
        "index: the new version cannot be read (IndexNotFoundError)",
        "index: took up the version that was saved anew",
    ]
