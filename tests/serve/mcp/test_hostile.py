"""Hostile arguments: whatever is asked, a reply in its schema or a typed refusal, and no leak."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra [mcp] is not installed")
pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from jsonschema import Draft202012Validator
from mcp.client import Client

from hyrecall import errors, recipes
from hyrecall.memory import Memory
from hyrecall.serve import Caller
from hyrecall.serve.mcp import create_server
from laws.effort import Effort
from mcp_world import refusal_of, text_of

CANARY = "qzxcanaryqzx"
BOB = Caller(user_id="bob", rights=frozenset(("read", "write")))
KINDS = {*errors.__all__, "BusyError"} - {"InternalError", "error"}
TEXTS = (
    "", " ", "x", "tea", "m1", "ann", "\0", "\n", "é" * 5, "数据库", "\U0001f600", "a" * 600,
    "%", "*", "(", "[a-", "(a+)+$", "../../etc/passwd", "/memories/episodic/c.md", "' OR 1=1 --",
    "/shared/ann/episodic/c.md", "/index.md", "default", "loom", "l0", "2026-06-01", "metadata.a",
    "https://x", "NEAR(a b)", '"', "\\", "AND", "\u202e", "NaN", "-1", "true", "null", "ls",
)  # fmt: skip
NUMBERS = (0, 1, -1, 2, 5, 10, 100, 101, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308, 5e-324)


def value(rng: random.Random, depth: int = 0) -> Any:
    """Draw a value of JSON."""
    kind = rng.randrange(9 if depth < 3 else 6)
    if kind < 3:
        return rng.choice(TEXTS)
    if kind == 3:
        return rng.choice(NUMBERS)
    if kind == 4:
        return rng.choice((True, False))
    if kind == 5:
        return None
    if kind < 8:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(TEXTS): value(rng, depth + 1) for _ in range(rng.randrange(4))}


def fitting(rng: random.Random, schema: dict[str, Any]) -> Any:  # noqa: PLR0911
    """Draw a value that a schema may take: mostly of its type, sometimes not."""
    if "anyOf" in schema:
        return fitting(rng, rng.choice(schema["anyOf"]))
    if rng.random() < 0.1:
        return value(rng)
    if "enum" in schema:
        return rng.choice(schema["enum"])
    match schema.get("type"):
        case "string":
            return rng.choice(TEXTS)
        case "integer":
            return rng.choice([one for one in NUMBERS if isinstance(one, int)])
        case "number":
            return rng.choice(NUMBERS)
        case "boolean":
            return rng.choice((True, False))
        case "array":
            return [fitting(rng, schema["items"]) for _ in range(rng.randrange(4))]
        case "null":
            return None
    return value(rng)


def arguments(rng: random.Random, schema: dict[str, Any]) -> dict[str, Any]:
    """Draw the arguments of a call."""
    required = set(schema.get("required", ()))
    given = {
        name: fitting(rng, one)
        for name, one in schema["properties"].items()
        if rng.random() < (0.97 if name in required else 0.25)
    }
    if rng.random() < 0.05:
        given[rng.choice(TEXTS)] = value(rng)
    return given


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize("name", ["default", "hypergraph", "l0", "honeycomb", "hebb"])
def test_any_arguments_get_a_result_or_a_typed_refusal(name: str, effort: Effort) -> None:
    """As bob, with ann's memories in the store, whose text no reply holds."""
    n_calls = 20_000 if effort.full else 150
    rng = random.Random(f"mcp {name}")

    async def main() -> tuple[int, int]:
        n_good = n_refused = 0
        async with Memory.in_memory(embedder=None, recipe=getattr(recipes, name)) as memory:
            for key in ("c", "m1"):
                await memory.remember(
                    CANARY, id=key, user_id="ann", tags=(CANARY,), pinned=True, kind="note",
                    metadata={"a": CANARY}, session_id=CANARY, visibility="private",
                )  # fmt: skip
            await memory.link(["c", "m1"], CANARY, user_id="ann")
            await memory.remember("tea", id="m1", user_id="bob")
            async with Client(create_server(memory, caller=BOB)) as client:
                tools = (await client.list_tools()).tools
                checks = {one.name: Draft202012Validator(one.output_schema or {}) for one in tools}
                for _ in range(n_calls):
                    tool = rng.choice(tools)
                    given = arguments(rng, tool.input_schema)
                    reply = await client.call_tool(tool.name, given)
                    if reply.is_error:
                        told = refusal_of(reply)
                        assert told.partition(":")[0] in KINDS, (tool.name, given, told)
                        n_refused += 1
                    else:
                        checks[tool.name].validate(reply.structured_content)
                        json.dumps(reply.structured_content, allow_nan=False)
                        told = text_of(reply)
                        n_good += 1
                    shown = f"{told} {reply.structured_content}"
                    assert CANARY not in shown, (tool.name, given)
                    assert "Traceback" not in shown
            kept = await memory.get("c", user_id="ann")
            assert kept is not None
            assert kept.text == CANARY
        return n_good, n_refused

    n_good, n_refused = asyncio.run(main())
    assert min(n_good, n_refused) > n_calls // 10  # both ways are taken
