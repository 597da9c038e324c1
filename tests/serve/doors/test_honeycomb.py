"""Honeycomb's routes of memories: recall with its options, and changes with reasons."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")

import json

from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.serve import Caller
from seams import mounted
from serve.doors.world import HOUSE, NOON, Served, bearer, served
from spec.test_memory_e_browse import AGENTS, VISIBLE, canary

RECALL = "/api/memories/recall"


def as_agent(name: str, org: str = "acme") -> dict[str, str]:
    return {
        "x-honeycomb-org": org, "x-honeycomb-workspace": "lab", "x-honeycomb-agent": name,
    }  # fmt: skip


def fill(house: Served) -> None:
    """A fact, a summary and raw dialogue of claude."""
    for key, source, text in (
        ("raw", "session", "deploy failed deploy failed: exit 1"),
        ("fact", "memory", "the deploy failed for lack of disk"),
        ("sum", "summary", "a day on which the deploy failed"),
    ):
        house.memory.remember(
            text, id=key, source=source, user_id="claude", kind="gotcha",
            occurred_at=NOON - timedelta(days=365), **HOUSE,
        )  # fmt: skip


def ids(found: dict[str, Any]) -> list[str]:
    return [one["id"] for one in found["hits"]]


async def test_E49_the_reply_has_the_documents_shape() -> None:
    async with served(recipes.honeycomb) as house:
        fill(house)
        found = await house.post(RECALL, {"query": "deploy failed"}, headers=as_agent("claude"))
        assert set(found) == {"hits", "sources", "degraded", "scope"}
        view = house.memory.agent("claude", **HOUSE)
        same = view.search("deploy failed", recipe=recipes.honeycomb)
        assert [(one["id"], one["score"]) for one in found["hits"]] == [
            (one.episode.id, pytest.approx(one.score, rel=1e-6))
            for one in same  # a little older
        ]
        hits = {one["id"]: one for one in found["hits"]}
        assert set(hits["fact"]) == {
            "source", "id", "text", "score", "kind", "secondary", "createdAt", "freshnessScore",
            "memoryId", "memoryType", "org", "workspace", "agent", "visibility",
        }  # fmt: skip
        assert {name: one["source"] for name, one in hits.items()} == {
            "raw": "sessions", "fact": "memories", "sum": "memory",
        }  # fmt: skip
        assert [hits[one]["kind"] for one in ("raw", "fact", "sum")] == [
            "session", "memory", "memory",
        ]  # fmt: skip
        assert hits["raw"]["secondary"] is True
        assert "memoryId" not in hits["raw"]
        assert set(found["sources"]) == {"sessions", "memories", "memory"}
        assert found["degraded"] is False


async def test_E16_a_hit_says_whose_it_is_over_rest() -> None:
    async with served(recipes.honeycomb) as house:
        fill(house)
        house.memory.set_policy("codex", **HOUSE, policy="shared")
        house.memory.remember("deploy at noon", id="of codex", user_id="codex", **HOUSE)
        house.memory.remember(
            "deploy", id="shown", user_id="claude", visibility="global", source="memory", **HOUSE
        )
        found = await house.post(RECALL, {"query": "deploy"}, headers=as_agent("codex"))
        names = ("source", "org", "workspace", "agent", "visibility")
        assert {one["id"]: tuple(one[name] for name in names) for one in found["hits"]} == {
            "of codex": ("memories", "acme", "lab", "codex", "private"),
            "shown": ("memories", "acme", "lab", "claude", "global"),
        }


@pytest.mark.parametrize("blank", ["", " ", "\t"])
async def test_E35_a_blank_agent_is_isolated_and_told_so(blank: str) -> None:
    async with served(recipes.honeycomb) as house:
        for agent in ("default", "claude"):
            house.memory.remember(
                "deploy", id=agent, user_id=agent, visibility="global", source="memory", **HOUSE
            )
        headers = as_agent("default")
        assert ids(await house.post(RECALL, {"query": "deploy"}, headers=headers)) == ["default"]
        headers |= {"x-honeycomb-agent": blank}
        found = await house.post(RECALL, {"query": "deploy"}, headers=headers)
        assert found["hits"] == []
        (fault,) = found["scopeFaults"]
        assert (fault["org"], fault["workspace"]) == ("acme", "lab")
        assert fault["reason"] == "a blank agent"
        assert (await house.get("/api/memories", headers=headers))["memories"] == []
        told = await house.get("/memory/grep", params={"q": "deploy"}, headers=headers)
        assert told["hits"] == []
        await house.get("/api/memories/default", 404, headers=headers)
        body = {"content": "deploy", "reason": "x"}
        await house.post("/api/memories", {"content": "x"}, 400, headers=headers)
        await house.post("/api/memories/default/modify", body, 400, headers=headers)
        for name in ("x-honeycomb-org", "x-honeycomb-workspace"):
            other = as_agent("default") | {name: blank}
            await house.post(RECALL, {"query": "deploy"}, 400, headers=other)


async def test_E49_the_limit_is_20_and_at_most_200() -> None:
    async with served(recipes.honeycomb.replace(shaping=recipes.honeycomb.shaping[:1])) as house:
        view = house.memory.agent("claude", **HOUSE)
        for n in range(205):
            view.remember(f"deploy {n}", source="memory")
        for limit, wanted in (
            (None, 20), (0, 20), (-3, 20), (0.5, 20), (1, 1), (19, 19), (2.9, 2), (200, 200),
            (201, 200), (1e300, 200),
        ):  # fmt: skip
            body = {"query": "deploy"} | ({} if limit is None else {"limit": limit})
            found = await house.post(RECALL, body, headers=as_agent("claude"))
            assert len(found["hits"]) == wanted, limit
        headers = {**as_agent("claude"), "Content-Type": "application/json"}
        no_number = '{"query": "deploy", "limit": NaN}'
        reply = await house.client.post(RECALL, content=no_number, headers=headers)
        assert (reply.status_code, len(reply.json()["hits"])) == (200, 20)


async def test_E49_a_token_budget_and_recency_are_of_the_request() -> None:
    async with served(recipes.honeycomb) as house:
        fill(house)

        async def ask(**more: Any) -> dict[str, Any]:
            body = {"query": "deploy failed", **more}
            found: dict[str, Any] = await house.post(RECALL, body, headers=as_agent("claude"))
            return {one["id"]: one for one in found["hits"]}

        whole = await ask()
        assert len(await ask(tokenBudget=9)) == 1
        assert whole["fact"]["freshnessScore"] > 0.98
        fast = await ask(recency={"halfLifeDaysByClass": {"memories": 1, "sessions": 1e6}})
        assert fast["fact"]["freshnessScore"] < 1e-9
        assert fast["raw"]["freshnessScore"] > 0.999
        assert fast["sum"]["freshnessScore"] == pytest.approx(
            whole["sum"]["freshnessScore"], rel=1e-3
        )
        assert fast["fact"]["score"] < whole["fact"]["score"]
        none = await ask(recency={"halfLifeDaysByClass": {"memories": 1}, "activationExponent": 0})
        assert none["fact"]["freshnessScore"] == 1.0
        assert (await ask(recency={})).keys() == whole.keys()
        wrong = [
            {"tokenBudget": 0}, {"tokenBudget": 10_000_001}, {"tokenBudget": 1.5}, {"query": ""},
            {"recency": {"halfLifeDaysByClass": {"memories": 0}}},
            {"recency": {"activationExponent": -1}}, {"recency": {"halfLife": 3}}, {"k": 3},
        ]  # fmt: skip
        for more in wrong:
            body = {"query": "deploy"} | more
            await house.post(RECALL, body, 422, headers=as_agent("claude"))


async def test_fast_recall_keeps_near_duplicates() -> None:
    how: dict[str, Any] = {"embedder": HashEmbedder(dim=8), "recall_timeout": 30.0}
    async with served(recipes.honeycomb, **how) as house:
        view = house.memory.agent("claude", **HOUSE)
        for key in ("a", "b"):
            view.remember("the deploy failed", id=key, source="memory")
        for fast, n in ((False, 1), (True, 2)):
            body = {"query": "deploy", "fast": fast}
            found = await house.post(RECALL, body, headers=as_agent("claude"))
            assert len(found["hits"]) == n


async def test_E46_E49_the_reply_says_for_whom_it_is_and_what_it_lacks() -> None:
    async with served(recipes.honeycomb, embedder="off") as house:
        fill(house)
        house.memory.set_policy("codex", **HOUSE, policy="shared")
        found = await house.post(RECALL, {"query": "deploy"}, headers=as_agent("codex"))
        assert found["scope"] == {**HOUSE, "agent": "codex", "policy": "shared"}
        assert "scopeFaults" not in found
        assert "projectScopeDegraded" not in found
        for body, more in (({"cwd": "~/web"}, {}), ({}, {"x-honeycomb-cwd": "~/api"})):
            headers = {**as_agent("claude"), **more}
            found = await house.post(RECALL, {"query": "deploy", **body}, headers=headers)
            assert (found["degraded"], found["degradedReason"]) == (True, "embeddings_off")
            assert len(found["hits"]) == 3  # a directory does not narrow
            assert found["projectScopeDegraded"] is True
            assert "project" in found["warning"]


# ---- memories ----


async def test_a_memory_is_kept_modified_and_forgotten_with_reasons() -> None:
    async with served(recipes.honeycomb) as house:
        headers = as_agent("claude")
        made = await house.post(
            "/api/memories",
            {"content": "CI runs on Debian 11", "type": "convention", "normalizedContent": "ci"},
            201,
            headers=headers,
        )
        assert made["action"] == "stored"
        at = f"/api/memories/{made['id']}"
        shown = (await house.get(at, headers=headers))["memory"]
        assert (shown["type"], shown["source"], shown["agentId"], shown["visibility"]) == (
            "convention", "memories", "claude", "private",
        )  # fmt: skip
        body = {"content": "CI runs on Debian 12", "reason": "upgraded"}
        assert (await house.post(f"{at}/modify", body, headers=headers))["audited"] is True
        await house.post(f"{at}/modify", body, 404, headers=as_agent("codex"))
        await house.post(f"{at}/modify", {"content": "x"}, 422, headers=headers)
        await house.post(f"{at}/forget", {}, 422, headers=headers)
        await house.post(f"{at}/forget", {"reason": "x"}, 404, headers=as_agent("codex"))
        assert (await house.post(f"{at}/forget", {"reason": "gone"}, headers=headers)) == {
            "id": made["id"], "action": "forgotten", "audited": True,
        }  # fmt: skip
        await house.get(at, 404, headers=headers)
        versions = house.memory.agent("claude", **HOUSE).history(made["id"])
        assert [one.reason for one in versions] == [None, "upgraded", "gone"]
        for wrong in ({"content": ""}, {"content": "a", "type": "song"}, {"content": "a", "b": 1}):
            await house.post("/api/memories", wrong, 422, headers=headers)


async def test_a_store_of_another_recipe_is_answered_409() -> None:
    async with served(recipes.l0) as house:
        told = await house.post(RECALL, {"query": "a"}, 409, headers=as_agent("a"))
        assert "honeycomb" in told["error"]["message"]
        await house.post("/api/v1/search", {"query": "a"}, 409)


async def test_E50_no_text_of_a_request_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="hyrecall")

    async with served(recipes.honeycomb) as house:
        headers = as_agent("claude")
        await house.post("/api/memories", {"content": "canary-content"}, 201, headers=headers)
        await house.post(RECALL, {"query": "canary-query"}, headers=headers)
        await house.post(RECALL, {"query": "canary-query", "k": "canary-k"}, 422, headers=headers)
        await house.get("/memory/grep", params={"q": "canary-grep"}, headers=headers)
        await house.get("/api/memories/canary-id", 404, headers=headers)
    assert "canary" not in caplog.text


# ---- recall and files have one boundary ----


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
