"""Read policies of agents, set and read over REST, MCP and by the command."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client

from hyrecall import recipes
from hyrecall.memory import Memory, MemorySync
from hyrecall.serve import Caller
from hyrecall.serve.mcp import create_server
from mcp_world import data_of, refusal_of
from serve.doors.world import HOUSE, Served, bearer, run

WRITES = frozenset(("read", "write"))
TOKENS = {
    "admin": Caller(rights=WRITES, may_choose_user=True, may_choose_partition=True),
    "planner": Caller(agent="planner", rights=WRITES, **HOUSE),
    "ann": Caller(user_id="ann", rights=WRITES, **HOUSE),
    "reader": Caller(rights=frozenset(("read",)), may_choose_user=True, **HOUSE),
}
POLICY = "/v1/agents/planner/policy"


def fill(memory: MemorySync) -> None:
    memory.agent("ops", **HOUSE).remember("friday is free", visibility="global")
    memory.agent("ops", **HOUSE).remember("friday is a secret")
    memory.agent("dev", **HOUSE).remember("friday is a release", visibility="global")


@pytest.mark.parametrize(
    ("policy", "group", "seen"),
    [
        ("isolated", None, set()),
        ("shared", None, {"friday is free", "friday is a release"}),
        ("group", "crew", {"friday is free"}),
        ("group", None, set()),
    ],
)
def test_E54_an_agent_sees_what_the_policy_set_over_rest_says(
    policy: str, group: str | None, seen: set[str]
) -> None:
    async def work(house: Served) -> None:
        fill(house.memory)
        house.memory.set_policy("ops", policy="group", policy_group="crew", **HOUSE)
        default = await house.get(POLICY, params=HOUSE, headers=bearer("admin"))
        assert (default["policy"], default["policy_group"]) == ("isolated", None)
        body = {"policy": policy, "policy_group": group, **HOUSE}
        told = await house.send("PUT", POLICY, json=body, headers=bearer("admin"))
        assert told == {"agent": "planner", **HOUSE, "policy": policy, "policy_group": group}
        assert await house.get(POLICY, headers=bearer("planner")) == told
        reply = await house.post("/v1/recall", {"query": "friday"}, headers=bearer("planner"))
        assert {one["text"] for one in reply["matches"]} == seen
        over_door = {**bearer("planner")}
        reply = await house.post("/api/memories/recall", {"query": "friday"}, headers=over_door)
        assert {one["text"] for one in reply["hits"]} == seen

    run(recipes.honeycomb, work, tokens=TOKENS)


def test_E54_nobody_sets_its_own_policy_or_that_of_others_unless_it_may_name_any_user() -> None:
    async def work(house: Served) -> None:
        body = {"policy": "shared"}
        for name in ("planner", "ann", "reader"):
            await house.send("PUT", POLICY, 403, json=body, headers=bearer(name))
        await house.get(POLICY, 403, headers=bearer("ann"))
        assert (await house.get(POLICY, headers=bearer("reader")))["policy"] == "isolated"
        wrong = await house.send(
            "PUT", POLICY, 422, json={"policy": "all", **HOUSE}, headers=bearer("admin")
        )
        assert "policy" in str(wrong)

    run(recipes.default, work, tokens=TOKENS)


def test_E54_policies_are_set_and_read_over_mcp() -> None:
    async def main() -> None:
        async with Memory.in_memory(embedder=None, recipe=recipes.default) as memory:
            await asyncio.to_thread(fill, memory._sync)
            async with (
                Client(create_server(memory, caller=TOKENS["admin"])) as admin,
                Client(create_server(memory, caller=TOKENS["planner"])) as planner,
            ):
                asked = {"agent": "planner", "policy": "shared", **HOUSE}
                told = {"policy": "shared", "policy_group": None}
                refused = await planner.call_tool("set_policy", asked)
                assert refused.is_error
                own = {"agent": "planner", "policy": "shared"}
                refusal = refusal_of(await planner.call_tool("set_policy", own))
                assert refusal.startswith("ScopeError: caller: expected one that may name any user")
                assert data_of(await admin.call_tool("set_policy", asked)) == told
                assert data_of(await planner.call_tool("get_policy", {})) == told
                where = {"agent": "planner", **HOUSE}
                assert data_of(await admin.call_tool("get_policy", where)) == told
                found = data_of(await planner.call_tool("search", {"query": "friday"}))
                assert len(found["matches"]) == 2

    asyncio.run(main())


def test_E54_the_command_sets_and_shows_a_policy(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from seams import app_app as app

    path = tmp_path / "s.mem"
    with MemorySync.open(path, embedder=None, recipe=recipes.default) as memory:
        fill(memory)

    def call(*arguments: str) -> Any:
        where = ["--path", str(path), "--org", "acme", "--workspace", "lab"]
        return CliRunner().invoke(app, ["policy", "planner", *arguments, *where])

    assert call().stdout == "isolated\n"
    assert call("group", "--group", "crew").stdout == "group crew\n"
    assert call("shared").stdout == "shared\n"
    assert call("all").exit_code == 1
    assert call("--group", "crew").exit_code == 1
    with MemorySync.open(path, embedder=None, recipe=recipes.default) as memory:
        assert len(memory.agent("planner", **HOUSE).search("friday")) == 2
