"""Ids are free text: a slash within one is encoded, and one that is not encoded separates."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from hyrecall.memory import Memory
from hyrecall.recipes import hebb, honeycomb, loom
from hyrecall.serve import create_app
from seams import Opening, to_route
from serve_client import calling

USER = {"user_id": "ann"}
HARD = (
    "a/history", "a/links", "a/history/history", "a/pin", "a%2Fhistory", "100%", "a b/é?#;+", "/",
    "..", "a//b/", "a\n", "a\nb", "a\r\n/history\n", "a%0A", "a\u2028",
)  # fmt: skip


def one(key: str) -> str:
    """An id as one segment of a path."""
    return quote(key, safe="").replace(".", "%2E")


async def test_an_id_with_an_encoded_slash_is_an_id_and_a_plain_one_separates(
    store: Opening,
) -> None:
    async with calling(create_app(store)) as client:
        for key in ("a", *HARD):
            body = {"text": f"text of {key}", "id": key, **USER}
            assert (await client.post("/v1/memories", json=body)).status_code == 201
        for key in ("a", *HARD):
            path = f"/v1/memories/{one(key)}"
            got = await client.get(path, params=USER)
            assert (got.status_code, got.json().get("id")) == (200, key), key
            told = (await client.get(f"{path}/history", params=USER)).json()["items"]
            assert [version["episode"]["text"] for version in told] == [f"text of {key}"]
            assert (await client.get(f"{path}/links", params=USER)).json() == {"items": []}
            pinned = await client.put(f"{path}/pin", json={"pinned": True, **USER})
            assert pinned.json() == {"id": key, "pinned": True}
            changed = await client.patch(path, json={"text": "new", **USER})
            assert changed.json() == {"id": key, "version": 2, "embedded": False, "reasons": []}
        plain = (await client.get("/v1/memories/a/history", params=USER)).json()["items"]
        assert [version["episode"]["text"] for version in plain] == ["text of a", "new"]
        edge = {"participants": ["a", "100%"], "relationship": "r", "id": "e/100%", **USER}
        assert (await client.post("/v1/links", json=edge)).status_code == 201
        gone = await client.delete("/v1/links/e%2F100%25", params=USER)
        assert gone.json() == {"unlinked": True}
        for key in ("a", *HARD):
            gone = await client.delete(f"/v1/memories/{one(key)}", params=USER)
            assert gone.json() == {"forgotten": 1}
        await keep(client, "b/c", **USER)
        got = await client.get("/v1/memories/b/c", params=USER)  # no route has such an end
        assert got.json()["id"] == "b/c"


async def test_a_newline_at_the_end_of_a_path_is_no_route_and_no_other_id(store: Opening) -> None:
    async with calling(create_app(store)) as client:
        await keep(client, "a", **USER)
        for path in ("a%0A", "a/history%0A", "a%0A/history%0A", "a/links%0A"):
            got = await client.get(f"/v1/memories/{path}", params=USER)
            assert got.status_code == 404, path
        assert (await client.delete("/v1/memories/a%0A", params=USER)).status_code == 404
        assert (await client.get("/v1/memories%0A", params=USER)).status_code == 404
        assert (await client.get("/v1/memories/a", params=USER)).status_code == 200


async def keep(client: Any, key: str, **more: Any) -> None:
    body = {"text": "tea", "id": key, "tags": [key], **more}
    assert (await client.post("/v1/memories", json=body)).status_code == 201


async def test_mem0_reads_and_changes_ids_with_slashes() -> None:
    async with calling(create_app(Memory.in_memory(recipe=loom, embedder=None))) as client:
        for key in HARD:
            await keep(client, key, **USER)
            path = f"/memories/{one(key)}"
            assert (await client.get(path, params=USER)).json()["id"] == key
            (told,) = (await client.get(f"{path}/history", params=USER)).json()
            assert told["memory_id"] == key
            assert (await client.put(path, json={"text": "x"}, params=USER)).status_code == 200
            assert (await client.delete(path, params=USER)).status_code == 200
            assert (await client.get(path, params=USER)).status_code == 404


async def test_hebb_reads_and_changes_ids_with_slashes() -> None:
    async with calling(create_app(Memory.in_memory(recipe=hebb, embedder=None))) as client:
        for key in HARD:
            await keep(client, key, **USER)
            path = f"/api/v1/memories/{one(key)}"
            assert (await client.get(path, params=USER)).json()["id"] == key
            changed = await client.patch(path, json={"content": "x"}, params=USER)
            assert changed.json()["content"] == "x"
            tag = await client.get(f"/api/v1/graph/tags/{one(key)}", params=USER)
            assert tag.json()["memory_ids"] == [key]
            near = await client.get(f"/api/v1/graph/neighbors/{one(key)}", params=USER)
            assert [node["memory_ids"] for node in near.json()["nodes"]] == [[key]]
            assert (await client.delete(path, params=USER)).status_code == 204
            assert (await client.get(path, params=USER)).status_code == 404


async def test_honeycomb_reads_and_changes_ids_with_slashes() -> None:
    async with calling(create_app(Memory.in_memory(recipe=honeycomb, embedder=None))) as client:
        head = {"x-honeycomb-org": "acme", "x-honeycomb-agent": "bee"}
        for key in HARD:
            await keep(client, key, org="acme", workspace="default", user_id="bee")
            path = f"/api/memories/{one(key)}"
            assert (await client.get(path, headers=head)).json()["memory"]["id"] == key
            body = {"content": "x", "reason": "y"}
            done = await client.post(f"{path}/modify", json=body, headers=head)
            assert done.json()["id"] == key
            gone = await client.post(f"{path}/forget", json={"reason": "y"}, headers=head)
            assert gone.json()["id"] == key
            assert (await client.get(path, headers=head)).status_code == 404


def test_a_path_that_was_rewritten_before_separates_at_every_slash() -> None:
    assert to_route("/memories/a/b", None) == "/memories/a/b"
    assert to_route("/memories/a/b", b"/elsewhere/memories/a%2Fb") == "/memories/a/b"
    assert to_route("/memories/5%", b"/elsewhere") == "/memories/5%25"
    assert to_route("/memories/a/b", b"/memories/a%2fb") == "/memories/a%2Fb"
    assert to_route("/memories/a\n", b"/elsewhere") == "/memories/a%0A"
    assert to_route("/m/\ufffd/\ufffd", b"/m/%C3/%A9") == "/m/\ufffd/\ufffd"
