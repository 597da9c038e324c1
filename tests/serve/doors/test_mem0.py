"""The routes of mem0's self-hosted server."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")

from hyrecall import recipes
from hyrecall.serve import Caller
from serve.doors.world import HOUSE, Served, bearer, served

ALICE = {"user_id": "alice"}


async def add(house: Served, *texts: str, **more: Any) -> list[str]:
    messages = [{"role": "user", "content": text} for text in texts]
    made = await house.post("/memories", {"messages": messages, **more})
    return [one["id"] for one in made["results"]]


def texts(found: dict[str, Any]) -> list[str]:
    return [one["memory"] for one in found["results"]]


async def test_messages_are_kept_and_searched_with_mem0s_shapes() -> None:
    async with served(recipes.default) as house:
        body = {
            "messages": [
                {"role": "user", "content": "I drink tea"},
                {"role": "assistant", "content": "noted: tea", "name": "bot"},
            ],
            **ALICE, "run_id": "r1", "agent_id": "helper", "metadata": {"topic": "drinks"},
        }  # fmt: skip
        made = (await house.post("/memories", body))["results"]
        assert [set(one) for one in made] == [
            {"id", "memory", "event", "role"}, {"id", "memory", "event", "role", "actor_id"},
        ]  # fmt: skip
        assert [(one["memory"], one["event"]) for one in made] == [
            ("I drink tea", "ADD"), ("noted: tea", "ADD"),
        ]  # fmt: skip
        found = (await house.post("/search", {"query": "tea", **ALICE}))["results"]
        same = house.memory.search("tea", user_id="alice")
        assert [(one["id"], one["score"]) for one in found] == [
            (one.episode.id, one.score) for one in same
        ]
        one = next(one for one in found if one["memory"] == "I drink tea")
        digest = hashlib.md5(b"I drink tea", usedforsecurity=False).hexdigest()
        assert (one["hash"], one["metadata"]) == (digest, {"topic": "drinks"})
        assert (one["user_id"], one["run_id"], one["agent_id"], one["role"]) == (
            "alice", "r1", "helper", "user",
        )  # fmt: skip
        shown = await house.get(f"/memories/{one['id']}", params=ALICE)
        assert set(one) - set(shown) == {"score"}
        assert (await house.post("/search", {"query": "tea", "user_id": "bob"})) == {"results": []}


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize("name", recipes.__all__)
async def test_a_search_without_a_limit_is_answered_by_every_recipe(name: str) -> None:
    async with served(getattr(recipes, name)) as house:
        await add(house, "tea one", "tea two", **ALICE)
        found = await house.post("/search", {"query": "tea", **ALICE})
        assert set(texts(found)) == {"tea one", "tea two"}


async def test_identifiers_and_filters_narrow() -> None:
    async with served(recipes.default) as house:
        await add(house, "tea one", **ALICE, run_id="r1", metadata={"n": 1})
        await add(house, "tea two", **ALICE, run_id="r2", agent_id="helper", metadata={"n": 2})
        await add(house, "tea three", user_id="bob")

        async def search(**more: Any) -> set[str]:
            return set(texts(await house.post("/search", {"query": "tea", **more})))

        assert await search(**ALICE) == {"tea one", "tea two"}
        assert await search(**ALICE, run_id="r1") == {"tea one"}
        assert await search(**ALICE, agent_id="helper") == {"tea two"}
        assert await search(filters={"user_id": "alice", "n": [2, 3]}) == {"tea two"}
        assert await search(**ALICE, filters={"n": 1}) == {"tea one"}
        assert len(await search(**ALICE, limit=1)) == 1
        assert len(await search(**ALICE, top_k=1)) == 1
        assert await search(**ALICE, threshold=1e9) == set()
        for more, status in (
            ({}, 400),
            ({"filters": {"n": 1}}, 400),
            ({**ALICE, "filters": {"user_id": "bob"}}, 422),
            ({**ALICE, "filters": {"n": {"gt": 3}}}, 422),
            ({**ALICE, "limit": 0}, 422),
            ({**ALICE, "limit": 1001}, 422),
            ({**ALICE, "rerank": True}, 422),
        ):
            await house.post("/search", {"query": "tea", **more}, status)
        found = await house.get("/memories", params={**ALICE, "run_id": "r2"})
        assert texts(found) == ["tea two"]
        assert texts(await house.get("/memories", params=ALICE)) == ["tea two", "tea one"]
        await house.get("/memories", 400)


async def test_a_memory_has_a_history_until_it_is_deleted_and_after() -> None:
    async with served(recipes.default) as house:
        (key,) = await add(house, "tea at four", **ALICE, agent_id="helper", metadata={"n": 1})
        at = f"/memories/{key}"
        for body in ({"text": "tea at five"}, {"data": "tea at six", "metadata": {"n": 2}}):
            told = await house.send("PUT", at, json=body, params=ALICE)
            assert told == {"message": "Memory updated successfully!"}
        shown = await house.get(at, params=ALICE)
        assert (shown["memory"], shown["metadata"], shown["agent_id"]) == (
            "tea at six", {"n": 2}, "helper",
        )  # fmt: skip
        assert shown["updated_at"] > shown["created_at"]
        await house.send("PUT", at, 404, json={"text": "x"}, params={"user_id": "bob"})
        await house.send("PUT", at, 422, json={}, params=ALICE)
        await house.send("DELETE", at, 404, params={"user_id": "bob"})
        assert await house.send("DELETE", at, params=ALICE) == {
            "message": "Memory deleted successfully"
        }
        await house.get(at, 404, params=ALICE)
        events = await house.get(f"{at}/history", params=ALICE)
        assert [(one["event"], one["old_memory"], one["new_memory"]) for one in events] == [
            ("ADD", None, "tea at four"),
            ("UPDATE", "tea at four", "tea at five"),
            ("UPDATE", "tea at five", "tea at six"),
            ("DELETE", "tea at six", None),
        ]
        assert {one["memory_id"] for one in events} == {key}
        assert [one["is_deleted"] for one in events] == [False, False, False, True]
        assert await house.get(f"{at}/history", params={"user_id": "bob"}) == []


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize(
    ("which", "left"),
    [
        ({}, {"bob"}),
        ({"run_id": "r1"}, {"bob", "two"}),
        ({"agent_id": "helper"}, {"bob", "one"}),
        ({"agent_id": "helper", "run_id": "r1"}, {"bob", "one", "two"}),
    ],
)
async def test_deleting_takes_those_of_the_identifiers_alone(
    which: dict[str, str], left: set[str]
) -> None:
    async with served(recipes.default) as house:
        await add(house, "one", **ALICE, run_id="r1")
        await add(house, "two", **ALICE, agent_id="helper")
        await add(house, "bob", user_id="bob")
        await house.send("DELETE", "/memories", 400)
        told = await house.send("DELETE", "/memories", params={**ALICE, **which})
        assert told == {"message": "All relevant memories deleted"}
        kept: set[str] = set()
        for user in ("alice", "bob"):
            kept |= set(texts(await house.get("/memories", params={"user_id": user})))
        assert kept == left


async def test_nothing_is_inferred_so_that_is_refused() -> None:
    async with served(recipes.default) as house:
        body = {"messages": [{"role": "user", "content": "a"}], **ALICE}
        await house.post("/memories", {**body, "infer": True}, 422)
        await house.post("/memories", {**body, "infer": False})
        for wrong in ({**ALICE}, {**body, "messages": []}, {**body, "messages": ["a"]}):
            await house.post("/memories", wrong, 422)
        await house.post("/memories", {"messages": body["messages"]}, 400)
        await house.post("/memories", {**body, "messages": body["messages"] * 257}, 422)


async def test_a_token_says_whose_memories_are_meant() -> None:
    tokens = {
        "alice": Caller(user_id="alice", rights=frozenset(("read", "write"))),
        "reader": Caller(user_id="alice"),
        "agent": Caller(agent="claude", rights=frozenset(("read", "write")), **HOUSE),
    }

    async with served(recipes.default, tokens=tokens) as house:
        given: dict[str, Any] = {"headers": bearer("alice")}
        body = {"messages": [{"role": "user", "content": "tea"}]}
        await house.post("/memories", body, 401)
        (made,) = (await house.post("/memories", body, **given))["results"]
        assert (await house.get(f"/memories/{made['id']}", **given))["user_id"] == "alice"
        await house.post("/memories", {**body, "user_id": "bob"}, 403, **given)
        await house.post("/search", {"query": "tea", "user_id": "bob"}, 403, **given)
        await house.get("/memories", 403, params={"user_id": "bob"}, **given)
        await house.send("DELETE", "/memories", 403, params={"user_id": "bob"}, **given)
        await house.post("/memories", body, 403, headers=bearer("reader"))
        for method, path in (("DELETE", "/memories"), ("DELETE", f"/memories/{made['id']}")):
            await house.send(method, path, 403, headers=bearer("reader"))
        mine: dict[str, Any] = {"headers": bearer("agent")}
        (own,) = (await house.post("/memories", body, **mine))["results"]
        assert (await house.get(f"/memories/{own['id']}", **mine))["user_id"] == "claude"
        await house.get(f"/memories/{made['id']}", 404, **mine)
        house.memory.set_policy("claude", **HOUSE, policy="shared")
        house.memory.remember("tea", id="codexs", user_id="codex", visibility="global", **HOUSE)
        assert len((await house.get("/memories", **mine))["results"]) == 2
        await house.send("DELETE", "/memories", **mine)
        left = (await house.get("/memories", **mine))["results"]
        assert [one["id"] for one in left] == ["codexs"]
