"""What the schemas of all tools say of arguments is what calls take."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra [mcp] is not installed")
pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from mcp.client import Client

from hyrecall import recipes
from hyrecall.memory import Memory
from hyrecall.serve import Caller, ServiceOptions
from hyrecall.serve.mcp import create_server
from seams import OPS

ANY = Caller(may_choose_user=True, rights=frozenset(("read", "write")))
NEEDED = {"text": "tea", "query": "tea", "content": "tea", "value": "tea", "relationship": "is",
          "id": "m", "key": "m", "participants": ["m", "n"], "used": ["m"], "path": "/index.md",
          "pattern": "tea", "reason": "old", "agent": "ann",
          "subject": "ann", "predicate": "likes", "object": "tea",
          "policy": "isolated", "changes": {"importance": 1}}  # fmt: skip
BOUNDS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")

N_PLAIN = 1 + len([op for op in OPS.values() if op.is_at("mcp")]) + 4
"""How many tools every store has, before those of a system."""

FORMS = {"since", "until", "occurred_at", "valid_from", "valid_to", "valid_at", "at", "recipe",
         "before", "expires_at", "everything"}  # fmt: skip
"""Strings of a form that no schema says."""


def kinds_of(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return list(schema.get("anyOf", [schema]))


def at_bound(name: str, kind: dict[str, Any], bound: str) -> tuple[Any, Any]:
    """A value at a bound of a schema, and one just beyond it."""
    size = kind[bound]
    beyond = size - 1 if bound.startswith("min") else size + 1
    if bound.endswith("imum"):
        return size, beyond
    if bound.endswith("Length"):
        return "x" * size, "x" * beyond
    return ["m"] * size, ["m"] * beyond


def cases(tool: Any) -> list[tuple[str, Any, bool]]:
    """Arguments of a tool with values that its schema takes, and with values that it refuses."""
    found: list[tuple[str, Any, bool]] = []
    for name, schema in tool.input_schema["properties"].items():
        is_needed = name in tool.input_schema.get("required", ())
        found.append((name, None, not is_needed))
        for kind in kinds_of(schema):
            if kind.get("type") == "integer":
                least = kind["minimum"]
                found += [(name, float(least + 1), True), (name, least + 1.5, False)]
                found += [(name, str(least + 1), False), (name, True, False)]
            for bound in BOUNDS:
                if bound in kind and name not in FORMS:
                    good, bad = at_bound(name, kind, bound)
                    found += [(name, good, True), (name, bad, False)]
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hyrecall.memory.IsolationWarning")
@pytest.mark.parametrize("recipe", ["default", "hypergraph", "l0", "honeycomb", "hebb"])
async def test_every_argument_takes_what_its_schema_says_and_nothing_beyond(recipe: str) -> None:
    """Nulls of what need not be given, 5.0 as an integer, and each bound.

    Of a system its own tools are asked: the others are those of a plain store.
    """

    async with Memory.in_memory(embedder=None, recipe=getattr(recipes, recipe)) as memory:
        options = ServiceOptions(max_ids=1_000, max_query=4_096)
        server = create_server(memory, caller=ANY, options=options)
        async with Client(server) as client:
            tools = (await client.list_tools()).tools
            tools = tools if recipe == "default" else tools[N_PLAIN:]
            await memory.remember("tea", id="m")  # to be updated: what is not there comes first
            n_cases, wrong = 0, []
            for tool in tools:
                needed = tool.input_schema.get("required", ())
                plain = {name: NEEDED[name] for name in needed}
                if tool.name == "update":  # which needs a field to change
                    plain |= {"input": "when?", "kind": "note"}
                if tool.name in ("update_many", "forget_many"):  # which need a choice
                    plain |= {"session_id": "none"}
                if tool.name == "get_policy":  # whose default is a caller with a name
                    plain |= {"agent": "ann"}
                for name, value, is_good in cases(tool):
                    if value is None and name == "session_id" and name in plain:
                        continue  # nothing else would say which memories are meant
                    if tool.name == "get_policy" and value is None:
                        continue  # by default it is that of the caller, who has no name here
                    reply = await client.call_tool(tool.name, {**plain, name: value})
                    told = str(reply.content[0].text) if reply.is_error else ""  # type: ignore[union-attr]
                    refused = told.startswith(("OptionError", "DTypeError")) and (
                        told.split(": ")[1].split("[")[0] == name
                    )
                    if refused is is_good:
                        wrong.append((tool.name, name, f"{value!r:.40}", told))
                    n_cases += 1
            assert wrong == []
            assert n_cases >= 6 * len(tools) > 0


async def test_a_page_is_bounded_by_the_recipe_that_ranks_it_and_by_the_options() -> None:
    for recipe, options, most in (
        (recipes.default, ServiceOptions(), 100),
        (recipes.default.replace(depth=40), ServiceOptions(), 40),
        (recipes.honeycomb, ServiceOptions(), 600),
        (recipes.honeycomb, ServiceOptions(max_limit=50), 50),
    ):
        async with (
            Memory.in_memory(embedder=None, recipe=recipe) as memory,
            Client(create_server(memory, options=options)) as client,
        ):
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            limit, _ = tools["search"].input_schema["properties"]["limit"]["anyOf"]
            offset, _ = tools["search"].input_schema["properties"]["offset"]["anyOf"]
            assert (limit["maximum"], offset["maximum"]) == (most, most - 1)
            listed, _ = tools["list"].input_schema["properties"]["limit"]["anyOf"]
            assert listed["maximum"] == options.max_limit
