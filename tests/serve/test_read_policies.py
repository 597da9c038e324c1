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


