"""Honeycomb's routes have one boundary for recall and files, and files are read-only."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")

from hyrecall import recipes
from hyrecall.serve import Caller
from seams import mounted
from serve.doors.world import HOUSE, Served, bearer, served
from spec.test_memory_e_browse import AGENTS, VISIBLE, canary

RECALL = "/api/memories/recall"


def as_agent(name: str, org: str = "acme") -> dict[str, str]:
    return {
        "x-honeycomb-org": org, "x-honeycomb-workspace": "lab", "x-honeycomb-agent": name,
    }  # fmt: skip


# ---- the boundary ----


def settle(house: Served) -> None:
    """Agents of each policy, in the house and in the next one."""
    for org in ("acme", "bolt"):
        for agent in (*AGENTS, "fellow"):
            policy, group = ("group", "blue") if agent in ("group", "fellow") else (agent, None)
            house.memory.set_policy(
                agent, org=org, workspace="lab", policy=policy, policy_group=group
            )
            for visibility in ("private", "global"):
                text = canary(agent, visibility) if org == "acme" else f"canary-bolt-{agent}"
                house.memory.remember(
                    text, id=f"{agent}-{visibility}", user_id=agent, org=org, workspace="lab",
                    visibility=visibility, session_id=f"s-{agent}-{visibility}", pinned=True,
                )  # fmt: skip


TEXTS = {canary(whose, one) for whose in (*AGENTS, "fellow") for one in ("private", "global")}


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize("agent", AGENTS)
async def test_E34_E36_recall_and_files_have_one_boundary_over_rest(agent: str) -> None:
    wanted = {canary(*one) for one in VISIBLE[agent]}

    async with served(recipes.honeycomb) as house:
        settle(house)
        headers = as_agent(agent)
        found = await house.post(RECALL, {"query": "canary", "limit": 200}, headers=headers)
        assert {one["text"] for one in found["hits"]} == wanted
        told = [json.dumps(found)]
        lines = await house.get("/memory/grep", params={"q": "canary"}, headers=headers)
        assert {one["content"] for one in lines["hits"]} == wanted
        named = await house.get("/memory/find", params={"pattern": "*-*.md"}, headers=headers)
        paths = {one["path"] for one in named["matches"]}
        listed = {"/index.md"}
        for folder in ("/", "/memories/", "/shared/", "/sessions/", "/pinned/"):
            for one in (await house.get("/memory/ls", params={"prefix": folder}, headers=headers))[
                "entries"
            ]:
                listed.add(one["path"])
        for whose in (*AGENTS, "fellow"):
            for visibility in ("private", "global"):
                name = f"{whose}-{visibility}.md"
                listed |= {f"/memories/episodic/{name}", f"/shared/{whose}/episodic/{name}"}
                listed |= {f"/sessions/s-{name}"}
        for path in sorted(paths | listed):
            if not path.endswith("/"):
                got = await house.get("/memory/cat", params={"path": path}, headers=headers)
                told.append(json.dumps(got))
        seen = "\n".join(told)
        assert {text for text in TEXTS if text in seen} == wanted
        assert "bolt" not in seen
        kept = await house.get("/api/memories", params={"limit": 200}, headers=headers)
        assert {one["content"] for one in kept["memories"]} == wanted
        for whose in (*AGENTS, "fellow"):
            for visibility in ("private", "global"):
                status = 200 if (whose, visibility) in VISIBLE[agent] else 404
                await house.get(f"/api/memories/{whose}-{visibility}", status, headers=headers)


async def test_headers_repeat_a_token_and_never_widen_it() -> None:
    tokens = {
        "agent": Caller(agent="shared", **HOUSE),
        "user": Caller(user_id="isolated", **HOUSE),
        "house": Caller(may_choose_user=True, **HOUSE),
        "reader": Caller(agent="shared", rights=frozenset(("read",)), **HOUSE),
    }

    async with served(recipes.honeycomb, tokens=tokens) as house:
        settle(house)

        async def ask(token: str, status: int = 200, **headers: str) -> Any:
            given = {**bearer(token), **headers}
            return await house.post(RECALL, {"query": "canary"}, status, headers=given)

        await house.post(RECALL, {"query": "canary"}, 401, headers=as_agent("shared"))
        assert {one["text"] for one in (await ask("agent"))["hits"]} == {
            canary(*one) for one in VISIBLE["shared"]
        }
        assert (await ask("agent", **as_agent("shared")))["hits"]
        await ask("agent", 403, **as_agent("group"))
        await ask("agent", 403, **as_agent("shared", org="bolt"))
        own = {canary("isolated", one) for one in ("private", "global")}
        assert {one["text"] for one in (await ask("user"))["hits"]} == own
        await ask("user", 403, **as_agent("shared"))
        assert {one["text"] for one in (await ask("house", **as_agent("isolated")))["hits"]} == own
        await ask("house", 403, **as_agent("isolated", org="bolt"))
        body = {"content": "tea"}
        await house.post("/api/memories", body, 403, headers=bearer("reader"))
        for agent in ("group", "fellow"):
            more = {**body, "agentId": agent}
            await house.post("/api/memories", more, 403, headers=bearer("agent"))


async def test_without_an_organisation_or_a_parameter_it_answers_400() -> None:
    async with served(recipes.honeycomb) as house:
        await house.post(RECALL, {"query": "deploy"}, 400)
        await house.get("/memory/ls", 400)
        await house.get("/api/memories", 400)
        for path in ("cat", "grep", "find", "classify"):
            told = await house.get(f"/memory/{path}", 400, headers=as_agent("a"))
            assert "parameter" in told["error"]["message"]


# ---- files ----


async def test_E42_files_over_rest_are_literal_capped_and_empty_where_missing() -> None:
    async with served(recipes.honeycomb) as house:
        view, headers = house.memory.agent("claude", **HOUSE), as_agent("claude")
        for n in range(205):
            view.remember(f"line {n} has 100% of it", id=f"m_{n}")
        view.remember("line without", id="mx0")

        async def get(name: str, **params: str) -> Any:
            return await house.get(f"/memory/{name}", params=params, headers=headers)

        missing = await get("cat", path="/memories/episodic/none.md")
        assert missing == {"path": "/memories/episodic/none.md", "found": False, "content": ""}
        assert (await get("cat", path="/memories/episodic/mx0.md"))["found"] is True
        assert len((await get("grep", q="100%"))["hits"]) == 50
        assert (await get("grep", q="1%0"))["hits"] == []
        assert (await get("grep", q="l_ne"))["hits"] == []
        assert len((await get("ls", prefix="/memories/episodic/"))["entries"]) == 200
        assert len((await get("find", pattern="m_"))["matches"]) == 200
        assert [one["filename"] for one in (await get("find", pattern="x0"))["matches"]] == [
            "mx0.md"
        ]
        assert (await get("find", pattern="m%"))["matches"] == []
        whole = "~/.honeycomb/memory/memories/episodic/mx0.md"
        assert (await get("cat", path=whole))["found"] is True
        told = await get("classify", path="/sessions/s1.md")
        assert told == {"path": "/sessions/s1.md", "pathClass": "session"}
        roots = [one["path"] for one in (await get("ls"))["entries"]]
        assert "/index.md" in roots
        assert "/memories/" in roots


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_E43_a_write_to_a_file_is_answered_405(method: str) -> None:
    async with served(recipes.honeycomb) as house:
        view, headers = house.memory.agent("claude", **HOUSE), as_agent("claude")
        view.remember("tea", id="a", session_id="s1")
        before = await house.get("/memory/cat", params={"path": "/sessions/s1.md"}, headers=headers)
        for path in ("/memory/sessions/s1.md", "/memory/cat", "/memory/memories/episodic/a.md"):
            reply = await house.client.request(method, path, headers=headers, content="x")
            assert (reply.status_code, reply.headers["Allow"]) == (405, "GET")
            assert "POST /api/memories" in reply.json()["error"]["message"]
        after = await house.get("/memory/cat", params={"path": "/sessions/s1.md"}, headers=headers)
        assert before == after


def test_paths_of_a_mount_lose_their_front() -> None:
    assert mounted("/x/memory/y/memory/index.md") == "/index.md"
    assert mounted("/memories/memory/a.md") == "/memories/memory/a.md"
    assert mounted("/memory/sessions/s.md") == "/sessions/s.md"
    assert mounted("") == ""
