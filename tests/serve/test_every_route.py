"""At every route: nothing is taken that it does not read, and nothing shown without the right.

The routes are those of the apps themselves, so that a new one is asked too.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, get_args

import pyarrow as pa
import pytest
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

import hyrecall as hr
from hyrecall.memory import Fact, Memory
from hyrecall.recipes import hebb, honeycomb, hypergraph, loom
from hyrecall.serve import Caller, create_app
from hyrecall.serve.mcp import create_server, http_app
from seams import ARROW, SYSTEMS, Route
from serve.doors.world import HOUSE, Tokens, bearer, served
from serve.test_index_routes import SCHEMA, table
from serve_client import calling

CANARY = "canary of the store"
WITHOUT_RULE = {"/", "/page/{name}", "/openapi.json"}
"""Static files, which hold nothing of anybody."""


def of_a_store(recipe: Any = loom) -> Any:
    return create_app(Memory.in_memory(recipe=recipe, embedder=None))


def of_an_index() -> Any:
    return create_app(hr.Index.build(table(), SCHEMA))


def routes(app: Any) -> Iterator[tuple[str, Route]]:
    """Every method and route of an app but those of static files."""
    for route in app.routes:
        if route.path not in WITHOUT_RULE:
            assert type(route) is Route, f"{route.path} reads more than it declares"
            yield from ((method, route) for method in sorted(route.methods or ()))


def asked(app: Any, route: APIRoute, method: str) -> dict[str, Any]:
    """A request that a route takes, or that has all that it needs at least."""
    body = route.body_field
    given: dict[str, Any] = {"headers": {"x-honeycomb-org": "acme", "x-honeycomb-agent": "ann"}}
    if not route.path.startswith(("/api/memories", "/memory")):
        given["headers"] = {}
    if body is not None:
        given["json"] = example(body.field_info.annotation)
    elif (route.openapi_extra or {}).get("requestBody"):
        given |= {"content": b"", "headers": {**given["headers"], "content-type": ARROW}}
    declared = app.openapi()["paths"].get(route.path_format, {}).get(method.lower(), {})
    needed = [one["name"] for one in declared.get("parameters", ()) if one["in"] == "query"]
    shared = {"path": "/index.md", "pattern": "x", "q": "x", "from": "a", "to": "b"}
    given["params"] = {name: one for name, one in shared.items() if name in needed}
    if "agent_id" in needed:
        given["params"]["user_id"] = "ann"
    return given


def example(model: Any) -> Any:
    if get_args(model):
        return [example(get_args(model)[0])]
    extra = model.model_config.get("json_schema_extra") or {}
    texts = {"content": "new", "reason": "why", "text": "new"}
    return next(
        iter(extra.get("examples", ())),
        {name: one for name, one in texts.items() if name in model.model_fields},
    )


def path_of(route: APIRoute) -> str:
    return route.path_format.replace("{id}", "m0").replace("{path}", "x")


APPS = {"store": of_a_store, "index": of_an_index}


# ---- what a route does not read ----


@pytest.mark.parametrize("kind", APPS)
def test_no_route_takes_a_parameter_a_body_or_a_header_that_it_does_not_read(kind: str) -> None:
    async def run() -> int:
        app, n_asked = APPS[kind](), 0
        async with calling(app) as client:

            async def refused(method: str, route: Route, given: dict[str, Any], word: str) -> None:
                got = await client.request(method, path_of(route), **given)
                told = got.json()["error"]["message"]
                assert (got.status_code, word in told) == (422, True), (method, route.path, told)

            for method, route in routes(app):
                if route.status_code == 405:  # it takes nothing at all
                    continue
                n_asked += 1
                plain = asked(app, route, method)
                query = {f.alias for f in route.dependant.query_params} | {"user_id"}
                unknown = {**plain, "params": {**plain["params"], "whose": "ann"}}
                await refused(method, route, unknown, "whose")
                for name in sorted(query):
                    twice = [*plain["params"].items(), (name, "ann"), (name, "bob")]
                    got = await client.request(method, path_of(route), **{**plain, "params": twice})
                    assert got.status_code == 422, (method, route.path, name)
                own = {f.alias for d in flat(route.dependant) for f in d.header_params}
                of_doors = {"x-graph-id", "x-honeycomb-agent", "x-honeycomb-org"}
                for header in ("x-user-id", "x-org", "x-agent-id", *sorted(of_doors - own)):
                    headers = {**plain["headers"], header: "ann"}
                    await refused(method, route, {**plain, "headers": headers}, header)
                if "json" not in plain and "content" not in plain:
                    await refused(method, route, {**plain, "json": {"user_id": "ann"}}, "body")
                if isinstance(body := plain.get("json"), dict):
                    other = {**plain, "json": {**body, "whose": "ann"}}
                    await refused(method, route, other, "whose")
                    first = next(iter(body))
                    inner = json.dumps(body)[1:]
                    twice_ = f"{{{json.dumps(first)}: {json.dumps(body[first])}, {inner}"
                    sent = {name: one for name, one in plain.items() if name != "json"}
                    sent["headers"] = {**plain["headers"], "content-type": "application/json"}
                    await refused(method, route, {**sent, "content": twice_}, first)
        return n_asked

    assert asyncio.run(run()) >= {"store": 50, "index": 7}[kind]


ASKING = (
    "X-Tenant-Id", "X-Organization-Id", "X-Organisation", "X-UserId", "X-Username", "X_User_Id",
    "X-Hyrecall-User-Id", "X-Mem0-User-Id", "Mem0-User-ID", "X-Hebb-User", "X-Account-Id",
    "X-Namespace", "X-Project-Id", "Owner", "X-User-Email",
)  # fmt: skip
OTHERS = (
    "User-Agent", "X-Request-Id", "X-Session-Id", "X-Forwarded-User", "X-Forwarded-For",
    "X-Auth-Request-User", "X-Auth-Request-Email", "Remote-User", "Mcp-Session-Id",
    "X-Client-Id", "traceparent", "From",
)  # fmt: skip
"""Headers of proxies and clients."""


async def test_a_header_that_says_who_is_asking_is_refused_however_it_is_spelt() -> None:
    async with calling(of_a_store()) as client:
        for header in ASKING:
            got = await client.get("/v1/memories/m0", headers={header: "ann"})
            told = got.json()["error"]["message"]
            assert (got.status_code, told) == (422, f"{header.lower()}: expected no such header")
        got = await client.get("/v1/memories", headers=dict.fromkeys(OTHERS, "ann"))
        assert got.status_code == 200, got.text


def flat(dependant: Any) -> Iterator[Any]:
    yield dependant
    for one in dependant.dependencies:
        yield from flat(one)


@pytest.mark.parametrize("kind", APPS)
def test_every_object_of_every_body_refuses_unknown_fields(kind: str) -> None:
    n_objects = 0
    for _, route in routes(APPS[kind]()):
        if route.body_field is None:
            continue
        schema = TypeAdapter(route.body_field.field_info.annotation).json_schema()
        for one in (schema, *schema.get("$defs", {}).values()):
            if one.get("type") == "object" and "properties" in one:
                n_objects += 1
                assert one["additionalProperties"] is False, (route.path, one["title"])
    assert n_objects >= {"store": 25, "index": 2}[kind]


MISPLACED: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/v1/memories?user_id=ann", {"json": {"text": "new"}}),
    ("PATCH", "/v1/memories/m0?user_id=ann", {"json": {"text": "new"}}),
    ("DELETE", "/v1/memories/m0", {"json": {"user_id": "ann"}}),
    ("DELETE", "/v1/memories/m0", {"content": b'{"user_id": "ann"}'}),
    ("DELETE", "/v1/memories/m0?user_id=ann&user_id=bob", {}),
    ("POST", "/api/v1/memory/recall?user_id=ann",
     {"headers": {"x-graph-id": "bob"}, "json": {"query": "x"}}),
    ("POST", "/memories?user_id=ann", {"json": {"messages": [], "user_id": "bob"}}),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::hyrecall.memory.IsolationWarning")
async def test_a_user_in_the_wrong_place_changes_nothing() -> None:
    app = of_a_store(hypergraph)
    async with calling(app) as client:
        memory = app.state.memory._sync
        for user in (None, "ann", "bob"):
            memory.remember(CANARY, id="m0", user_id=user)
        for method, path, given in MISPLACED:
            got = await client.request(method, path, **given)
            assert got.status_code == 422, (method, path, got.text)
            for user in (None, "ann", "bob"):
                assert [one.text for one in memory.list(user_id=user)] == [CANARY]


async def test_an_agent_in_a_body_and_another_in_the_header_are_refused() -> None:
    async with calling(of_a_store(honeycomb)) as client:
        head = {"x-honeycomb-org": "acme", "x-honeycomb-agent": "ann"}
        for agent, status in (("bob", 422), ("ann", 201)):
            body = {"content": "x", "agentId": agent}
            got = await client.post("/api/memories", json=body, headers=head)
            assert got.status_code == status
        told = (await client.post("/api/memories", json={"content": "x", "cwd": "/a"},
                                  headers=head)).json()  # fmt: skip
        assert told["projectScopeDegraded"] is True


async def test_a_call_over_mcp_takes_no_user_beside_its_message() -> None:
    save = {"name": "remember", "arguments": {"text": "tea"}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": save}
    twice = json.dumps(call).replace('"text"', '"id": "a", "id": "b", "text"')
    accept = {"accept": "application/json, text/event-stream", "content-type": "application/json"}

    async with (
        Memory.in_memory(embedder=None) as memory,
        calling(http_app(memory)) as client,
    ):
        for path, head, body in (
            ("/mcp?user_id=ann", {}, json.dumps(call)),
            ("/mcp", {"x-user-id": "ann"}, json.dumps(call)),
            ("/mcp", {}, twice),
        ):
            got = await client.post(path, content=body, headers={**accept, **head})
            assert got.status_code == 422, (path, head)
        assert await memory.list() == []
        got = await client.post("/mcp", json=call, headers=accept)
        assert got.status_code == 200
        assert len(await memory.list()) == 1


# ---- rights ----

RIGHTS = ("read", "write", "upkeep")
OPEN = {"/healthz", "/readyz", "/health"}
NEEDS: dict[str, tuple[str, ...]] = {
    "GET": ("read",), "PUT": ("write",), "PATCH": ("write",), "DELETE": ("write",),
    "POST": ("write",), "GET /metrics": ("upkeep",),
    "POST /memory/{path:path}": ("read",), "PUT /memory/{path:path}": ("read",),
    "PATCH /memory/{path:path}": ("read",), "DELETE /memory/{path:path}": ("read",),
    "POST /v1/feedback": ("read", "write"), "POST /api/v1/memories": ("read", "write"),
    "POST /v1/facts": ("read", "write"), "POST /v1/facts/{id:path}/end": ("read", "write"),
    "POST /api/v1/memories/batch": ("read", "write"),
    "PATCH /api/v1/memories/{id}": ("read", "write"),
    "PUT /v1/agents/{id:path}/policy": ("write",),
    **{f"POST {path}": ("read",) for path in (
        "/v1/recall", "/v1/recall/batch", "/v1/recall/arrow", "/v1/facts/recall", "/search",
        "/api/v1/search", "/api/memories/recall", "/api/v1/memory/recall",
    )},
}  # fmt: skip
"""The rights that a route needs: by its method, unless it is named."""


@pytest.mark.slow
def test_every_route_needs_its_rights_and_shows_nothing_without_read() -> None:
    rights = [{one} for one in RIGHTS] + [{"read", "write"}]

    async def run() -> int:
        app, n_asked, n_shown = of_a_store(hebb), 0, 0
        async with calling(app) as client:
            named = {"+".join(sorted(one)): one for one in rights}
            callers = {name: Caller(user_id="ann", rights=frozenset(one), **HOUSE) for name, one in
                       named.items()}  # fmt: skip
            app.state.tokens = Tokens(callers)
            memory = app.state.memory._sync
            for method, route in routes(app):
                needed = NEEDS.get(f"{method} {route.path}") or NEEDS[method]
                for name, caller in callers.items():
                    n_asked += 1
                    memory.remember(CANARY, id=f"k{n_asked}", user_id="ann", tags=["a"], **HOUSE)
                    given = asked(app, route, method)
                    given["headers"] = {**given["headers"], **bearer(name)}
                    for whole in (given["params"], given.get("json")):
                        if isinstance(whole, dict):
                            whole.pop("user_id", None)
                    path = path_of(route).replace("m0", f"k{n_asked}")
                    got = await client.request(method, path, **given)
                    is_refused = route.path not in OPEN and not caller.rights >= set(needed)
                    assert ("the right" in got.text) == is_refused, (method, path, name, got.text)
                    if "read" not in caller.rights:
                        assert CANARY not in got.text, (method, path, name)
                    n_shown += CANARY in got.text
        return n_shown

    assert asyncio.run(run()) > 10  # with the right to read


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/recall", {"text": "tea", "touch": True}),
        ("/v1/recall/batch", {"queries": [{"text": "tea"}, {"text": "tea", "touch": True}]}),
        ("/v1/recall/arrow", {"text": "tea", "touch": True}),
        ("/api/v1/search", {"query": "tea", "strict_recall": True}),
    ],
)
async def test_a_recall_that_counts_accesses_needs_the_right_to_write(
    path: str, body: dict[str, Any]
) -> None:
    app = of_a_store(hebb)
    async with calling(app) as client:
        app.state.tokens = Tokens(
            {one: Caller(user_id="ann", rights=frozenset({"read", one})) for one in RIGHTS}
        )
        app.state.memory._sync.remember("tea", user_id="ann")
        given: dict[str, Any] = {"json": body}
        if path.endswith("arrow"):
            sink, rows = pa.BufferOutputStream(), pa.Table.from_pylist([body])
            with pa.ipc.new_stream(sink, rows.schema) as stream:
                stream.write_table(rows)
            given = {"content": bytes(sink.getvalue())}
        for right, status in (("read", 403), ("write", 200)):
            kind = ARROW if "content" in given else "application/json"
            headers = {**bearer(right), "content-type": kind}
            got = await client.post(path, headers=headers, **given)
            assert got.status_code == status, got.text
            assert ("the right 'write'" in got.text) == (status == 403)


async def test_the_end_of_a_fact_tells_its_begin_to_tokens_that_may_read() -> None:
    app = of_a_store()
    async with calling(app) as client:
        app.state.tokens = Tokens(
            {one: Caller(user_id="ann", rights=frozenset({"write", one})) for one in RIGHTS}
        )
        fact = Fact(id="f", subject="ann", predicate="likes", object="tea", user_id="ann",
                    valid_from=datetime(2024, 5, 6, tzinfo=UTC))  # fmt: skip
        app.state.memory._sync.remember_fact(fact)
        for right, status in (("write", 403), ("read", 422)):
            body = {"valid_to": "2023-01-01"}
            got = await client.patch("/v1/memories/f", json=body, headers=bearer(right))
            assert (got.status_code, "2024-05-06" in got.text) == (status, right == "read")
        app.state.memory._sync.remember("tea", id="m", user_id="ann")
        body = {"text": "tea at four"}
        kept = await client.patch("/v1/memories/m", json=body, headers=bearer("write"))
        assert kept.status_code == 200, kept.text


WRITES = frozenset(("read", "write"))
POLICY_CALLERS = {
    "admin": Caller(rights=WRITES, may_choose_user=True, may_choose_partition=True),
    "planner": Caller(agent="planner", rights=WRITES, **HOUSE),
    "ann": Caller(user_id="ann", rights=WRITES, **HOUSE),
    "reader": Caller(rights=frozenset(("read",)), may_choose_user=True, **HOUSE),
}
POLICY = "/v1/agents/planner/policy"


async def test_E54_nobody_sets_a_policy_unless_it_may_name_any_user() -> None:
    async with served(hr.recipes.default, tokens=POLICY_CALLERS) as house:
        body = {"policy": "shared"}
        for name in ("planner", "ann", "reader"):
            await house.send("PUT", POLICY, 403, json=body, headers=bearer(name))
        await house.get(POLICY, 403, headers=bearer("ann"))
        assert (await house.get(POLICY, headers=bearer("reader")))["policy"] == "isolated"
        wrong = await house.send(
            "PUT", POLICY, 422, json={"policy": "all", **HOUSE}, headers=bearer("admin")
        )
        assert "policy" in str(wrong)


def test_every_tool_needs_its_rights_and_is_listed_with_them_alone() -> None:
    from mcp.client import Client

    async def run() -> None:
        for system in (None, *SYSTEMS):
            recipe = loom if system is None else getattr(hr.recipes, system)
            async with Memory.in_memory(recipe=recipe, embedder=None) as memory:
                await memory.remember(CANARY, user_id="ann")
                everything = Caller(user_id="ann", rights=frozenset(("read", "write")))
                async with Client(create_server(memory, caller=everything)) as client:
                    known = (await client.list_tools()).tools
                for rights in ({"read"}, {"write"}, {"read", "write"}):
                    caller = Caller(user_id="ann", rights=frozenset(rights))
                    await tools_of(memory, caller, known)

    async def tools_of(memory: Memory, caller: Caller, known: list[Any]) -> None:
        async with Client(create_server(memory, caller=caller)) as client:
            listed = {tool.name for tool in (await client.list_tools()).tools}
            for tool in known:
                shows = tool.name in ("feedback", "write_memory", "end_fact", "remember_fact")
                needed = {"read"} if tool.annotations.read_only_hint else {"write"}
                needed |= {"read"} if shows else set()
                assert (tool.name in listed) == (needed <= caller.rights), tool.name
                got = await client.call_tool(tool.name, {})
                text = got.content[0].text
                is_refused = "the right to" in text
                assert is_refused == (not needed <= caller.rights), (tool.name, text)

    asyncio.run(run())
