"""Requests to every route of the service, from its own description, with odd values and bodies.

Oracle: no status of 500 or more, and bounds of time, memory and bytes of the reply, also for bodies
above 64 KB. ``HYRECALL_FUZZ_PLANTED=1`` makes the service fail for some requests.
"""

from __future__ import annotations

import copy
import json
import os
import random
import re
import time
import urllib.parse
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from starlette.testclient import TestClient

import hyrecall as hr
from fuzz.peers import random_bytes
from hyrecall.memory import Memory
from hyrecall.recipes import loom
from hyrecall.serve import create_app
from seams import ARROW

SECONDS = 5.0
GROWN_BYTES = 300 << 20
REPLY_BYTES = 64 << 20
LARGEST_BODY = 1 << 20
ODD: tuple[Any, ...] = (
    None, True, 0, 1, -1, 1000, 1001, 2**31, 2**53, 2**63, -(2**63), 10**30, 1e308, 0.5, -0.0, "",
    " ", "tea", "\0", "\ud800", "é日本🐘", "a" * 600, "a" * 20_000, "(" * 50, "(a+)+$", "[",
    "(?:.{0,300}a.{0,300}){3}c", "*" * 60, "../..", "user", "2026-01-01T00:00:00Z", "nan", [], {},
    "9999-12-31T23:59:59.999999+23:59", "0001-01-01T00:00:00-23:59", [[]], [None], ["a"] * 1000,
    [1.0] * 1000, {"a": {"b": {"c": 1}}}, " tea" * 3000, " tea" * 60_000,
)  # fmt: skip


class Route(NamedTuple):
    """One operation of a service."""

    client: TestClient
    name: str
    method: str
    path: str
    query: list[Any]
    body: Any
    takes_arrow: bool
    spec: Any


@cache
def routes() -> list[Route]:
    """The operations of a store's service and of an index's, with some data behind both."""
    n = 60
    vectors = pa.array(list(np.ones((n, 4), np.float32)), pa.list_(pa.float32(), 4))
    table = pa.table({
        "id": [f"k{at}" for at in range(n)], "c": ["t0"] * n, "x": ["w1 filler " * 6] * n,
        "k": range(n), "v": vectors,
    })  # fmt: skip
    schema = hr.Schema(key="id", cell="c", text="x", vector="v", attributes=("k",))
    index = hr.Index.build(table, schema, threads=1, device="cpu")
    out = []
    for name, served in (("store", Memory.in_memory(recipe=loom, embedder=None)), ("index", index)):
        app = create_app(served)
        if os.environ.get("HYRECALL_FUZZ_PLANTED"):
            plant(app)
        client = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
        client.__enter__()
        for at in range(40 if name == "store" else 0):
            client.post("/v1/memories", json={"text": f"tea w{at}\nline", "id": f"m{at}"})
        spec = client.get("/openapi.json").json()
        for path, ways in spec["paths"].items():
            for method, what in ways.items():
                content = (what.get("requestBody") or {}).get("content", {})
                query = [one for one in what.get("parameters", []) if one["in"] == "query"]
                body = content.get("application/json", {}).get("schema")
                out.append(Route(client, name, method, path, query, body, ARROW in content, spec))
    return out


def plant(app: Any) -> None:
    """Let a request whose query string has a limit fail."""

    @app.middleware("http")
    async def fail(request: Any, call: Any) -> Any:
        if "limit" in request.query_params:
            raise ZeroDivisionError
        return await call(request)


def case(seed: int) -> str:
    """Send the request of a seed; returns its status."""
    draw = random.Random(seed)
    route = draw.choice(routes())
    if route.path == "/v1/export" and draw.random() < 0.8:
        return "skipped"
    ids = ["m1", "m2", "x", "..", "a/b", "é", "%00", "a" * 300]
    path = re.sub(r"\{\w+\}", lambda _: urllib.parse.quote(draw.choice(ids), safe=""), route.path)
    params = {}
    for one in route.query:
        if one.get("required") or draw.random() < 0.35:
            value = example(route.spec, one.get("schema", {}), draw)
            value = draw.choice(ODD) if draw.random() < 0.35 else value
            told = str("" if value is None else value).encode("utf-8", "replace").decode()
            params[one["name"]] = told[:4000]
    body, media_type = b"", "application/json"
    if route.takes_arrow:
        body, media_type = arrow_body(route.name, draw), ARROW
    elif route.body is not None:
        body = json_body(route, draw)
    before, began = _resident(), time.monotonic()
    reply = route.client.request(
        route.method.upper(), path, params=params, content=body,
        headers={"content-type": media_type},
    )  # fmt: skip
    took, grown = time.monotonic() - began, _resident() - before
    told = f"{route.method} {route.path} of the {route.name}, seed {seed}"
    is_waiting = reply.status_code == 503 and route.path == "/readyz"  # right behind a write
    assert reply.status_code < 500 or is_waiting, f"{reply.status_code} for {told}: {reply.text}"
    assert took < SECONDS, f"{took:.1f} s for {told}"
    assert grown < GROWN_BYTES, f"{grown >> 20} MB more for {told}"
    assert len(reply.content) < REPLY_BYTES, f"a reply of {len(reply.content):,} bytes for {told}"
    return str(reply.status_code)


def example(spec: Any, node: Any, draw: random.Random, depth: int = 0) -> Any:
    """Draw a value that a schema of OpenAPI allows."""
    while True:
        if "$ref" in node:
            at = spec
            for part in node["$ref"][2:].split("/"):
                at = at[part]
            node = at
        elif choices := node.get("anyOf") or node.get("oneOf") or node.get("allOf"):
            node = draw.choice(choices)
        else:
            break
    if "const" in node or "enum" in node:
        return copy.deepcopy(draw.choice(node.get("enum", [node.get("const")])))
    kind = node.get("type")
    kind = draw.choice(kind) if isinstance(kind, list) else kind
    if depth > 6:
        return None
    if kind == "object" or "properties" in node:
        need = node.get("required", ())
        out = {
            name: example(spec, one, draw, depth + 1)
            for name, one in node.get("properties", {}).items()
            if name in need or draw.random() < 0.25
        }
        more = node.get("additionalProperties")
        if isinstance(more, dict) and draw.random() < 0.5:
            out[draw.choice(["a", "k", "kind", "x", "c"])] = example(spec, more, draw, depth + 1)
        return out
    if kind == "array":
        n = draw.choice([0, 1, 2, 3, 30]) if depth < 3 else draw.randrange(2)
        return [example(spec, node.get("items", {}), draw, depth + 1) for _ in range(n)]
    plain: dict[Any, tuple[Any, ...]] = {
        "integer": (1, 5, 10, node.get("maximum", 100), node.get("minimum", 0)),
        "number": (0.5, 1.0, 0, 2), "boolean": (True, False),
        "string": ("tea", "m1", "w1", "x", "user", "2026-01-01T00:00:00Z", "t0", "a"),
    }  # fmt: skip
    return draw.choice(plain.get(kind, (1, "tea", None, True, {"from": 1}, ["a"], [1, 2])))


def json_body(route: Route, draw: random.Random) -> bytes:
    """Draw a body, most often with something odd in it."""
    body = example(route.spec, route.body, draw)
    for _ in range(draw.choice([0, 0, 1, 1, 1, 2, 4])):
        body = changed(body, draw)
    text = json.dumps(body).encode()
    return (random_bytes(text, LARGEST_BODY, draw) if draw.random() < 0.08 else text)[:LARGEST_BODY]


def changed(value: Any, draw: random.Random) -> Any:
    """Change one place of a JSON value."""
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        keys = list(node) if isinstance(node, dict) else range(len(node))
        for key in list(keys)[:40]:
            places.append((node, key))
            if isinstance(node[key], dict | list):
                walk(node[key])

    if not isinstance(value, dict | list) or not value:
        return draw.choice(ODD)
    walk(value)
    holder, key = draw.choice(places)
    old, how = holder[key], draw.randrange(5)
    if how == 0 and isinstance(holder, dict):
        del holder[key]
    elif how == 1:
        holder[key] = [old] * draw.choice([2, 50, 200, 2000])
    elif how == 2:
        holder[key] = {draw.choice(["from", "to", "not", "any", "all", "a", "$gt", ""]): old}
    elif how == 3 and isinstance(old, str):
        holder[key] = old * draw.choice([10, 300, 3000])
    else:
        holder[key] = copy.deepcopy(draw.choice(ODD))
    return value


def arrow_body(name: str, draw: random.Random) -> bytes:
    """Draw an Arrow stream of queries, whose bytes may be changed."""
    n = draw.choice([1, 2, 3, 30, 300, 1_000])

    def drawn(values: list[Any], kind: pa.DataType | None = None) -> pa.Array:
        return pa.array([draw.choice(values) for _ in range(n)], kind)

    if name == "index":
        filters = ['{"k":{"from":1}}', None, '{"k":[1,2]}', "[" * 30, '{"k":1}']
        columns = {
            "text": drawn(["w1", "filler", None, "tea w1"]), "scope": drawn(["t0", "t1"]),
            "vector": drawn([[1.0, 2.0, 3.0, 4.0], None], pa.list_(pa.float32())),
            "filter": drawn(filters, pa.string()), "key": pa.array(range(n)),
        }  # fmt: skip
    else:
        columns = {
            "query": drawn(["tea", "x", "", "w1 " * 50]), "limit": drawn([1, 2, 1000, -1, None]),
            "filter": drawn(['{"kind":"note"}', None, "{}", "[]", "1"], pa.string()),
            "tags": drawn([["a"], None, []], pa.list_(pa.string())),
            "now": drawn([0, 10**15, -(2**62), None], pa.timestamp("us", tz="UTC")),
            "normalize": drawn([True, None]),
        }  # fmt: skip
    kept = [key for key in columns if draw.random() < 0.5] or [next(iter(columns))]
    table = pa.table({key: columns[key] for key in kept})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    data = sink.getvalue().to_pybytes()
    return data if draw.random() < 0.3 else random_bytes(data, LARGEST_BODY, draw)


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
