"""Whatever a request to a door holds, the reply is a result or a typed error, and no 5xx.

A canary of another user is in the store: no reply may hold it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")
pytest.importorskip("hypothesis", reason="the extra [test] is not installed")

import httpx2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hyrecall import recipes
from hyrecall.memory import Memory
from hyrecall.serve import Caller, create_app
from laws.effort import Effort
from serve.doors.world import HOUSE, Tokens
from serve_client import BASE

CANARY = "canary-of-bob"
ROUTES: dict[str, tuple[str, ...]] = {
    "hypergraph": ("POST /api/v1/memory/recall",),
    "honeycomb": (
        "POST /api/memories/recall", "POST /api/memories", "GET /api/memories",
        "GET /api/memories/{id}", "POST /api/memories/{id}/modify",
        "POST /api/memories/{id}/forget", "GET /memory/cat", "GET /memory/grep", "GET /memory/ls",
        "GET /memory/find", "GET /memory/classify", "PUT /memory/{id}",
    ),
    "hebb": (
        "POST /api/v1/search", "POST /api/v1/memories", "POST /api/v1/memories/batch",
        "GET /api/v1/memories", "GET /api/v1/memories/{id}", "PATCH /api/v1/memories/{id}",
        "DELETE /api/v1/memories/{id}", "GET /api/v1/graph/tags", "GET /api/v1/graph/tags/{id}",
        "GET /api/v1/graph/neighbors/{id}", "GET /api/v1/graph/path",
        "GET /api/v1/graph/export", "GET /health", "GET /status",
    ),
    "default": (
        "POST /memories", "GET /memories", "DELETE /memories", "POST /search",
        "GET /memories/{id}", "PUT /memories/{id}", "DELETE /memories/{id}",
        "GET /memories/{id}/history",
    ),
}  # fmt: skip
NAMES = (
    "query", "session_id", "max_results", "force_regex", "limit", "tokenBudget", "recency", "cwd",
    "fast", "content", "type", "agentId", "reason", "visibility", "normalizedContent",
    "partition_ids", "partition_id", "tags", "top_k", "weight_recency", "weight_importance",
    "weight_relevance", "min_score", "strict_recall", "importance_score", "metadata", "source",
    "messages", "user_id", "agent_id", "run_id", "filters", "threshold", "text", "infer", "role",
    "halfLifeDaysByClass", "activationExponent", "memories", "path", "q", "prefix", "pattern",
    "from", "to", "depth", "offset", "org", "workspace",
)  # fmt: skip

odd = st.sampled_from(
    ["", " ", "ash", "(", "a" * 600, "\0", "\ud800", "%", "_", "'; DROP", '"', "🐘", "a1", "None",
     "../../etc", "/memories/../x.md", "/sessions/s1.md", "*", "[", "user", "fact", "global"]
)  # fmt: skip
texts = st.one_of(odd, st.text(max_size=20))
numbers = st.one_of(
    st.integers(-3, 300),
    st.sampled_from([2**31, 2**63, -(2**63), 10**400, 1e308, float("nan"), float("inf"), 0.5]),
)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
names = st.one_of(st.sampled_from(NAMES), texts)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=8,
)
bodies = st.one_of(
    st.dictionaries(st.sampled_from(NAMES), values, max_size=6),
    st.fixed_dictionaries(
        {},
        optional={
            "query": texts,
            "content": texts,
            "reason": texts,
            "text": texts,
            "messages": st.lists(
                st.fixed_dictionaries({"role": texts, "content": texts}), max_size=2
            ),
            "limit": numbers,
            "filters": st.dictionaries(texts, values, max_size=2),
            "metadata": st.dictionaries(texts, values, max_size=2),
            "tags": st.lists(texts, max_size=3),
            "partition_ids": st.lists(texts, max_size=2),
        },
    ),
    values,
)
parameters = st.dictionaries(st.sampled_from(NAMES), st.one_of(texts, numbers), max_size=4)


class Door:
    """An app on a loop of its own, called by a user and by an agent who are not bob."""

    def __init__(self, recipe: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.run_until_complete(self._open(recipe))

    async def _open(self, recipe: str) -> None:
        opening = Memory.in_memory(recipe=getattr(recipes, recipe), embedder=None)
        self.app = create_app(opening)
        self.lifespan = self.app.router.lifespan_context(self.app)
        await self.lifespan.__aenter__()
        rights = frozenset(("read", "write"))
        self.app.state.tokens = Tokens(
            {
                "user": Caller(user_id="ann", rights=rights, **HOUSE),
                "agent": Caller(agent="claude", rights=rights, **HOUSE),
            }
        )
        memory = self.app.state.memory._sync
        memory.set_policy("claude", **HOUSE, policy="shared")
        for user in ("ann", "claude", "bob"):
            text = CANARY if user == "bob" else "ash tree at noon"
            memory.remember(
                text, id="a1", user_id=user, tags=(text,), session_id="s1", kind="fact", **HOUSE
            )
        transport = httpx2.ASGITransport(self.app, raise_app_exceptions=False)
        self.client = httpx2.AsyncClient(transport=transport, base_url=BASE)

    def send(self, method: str, url: str, **given: Any) -> httpx2.Response:
        return self.loop.run_until_complete(self.client.request(method, url, **given))

    def close(self) -> None:
        self.loop.run_until_complete(self.client.aclose())
        self.loop.run_until_complete(self.lifespan.__aexit__(None, None, None))
        self.loop.close()


@pytest.fixture(params=list(ROUTES), scope="module")
def door(request: pytest.FixtureRequest) -> Iterator[tuple[Door, str]]:
    made = Door(request.param)
    yield made, request.param
    made.close()


def as_json(body: Any) -> bytes:
    """Write JSON with NaN and lone surrogates, which Python's own readers take."""
    return json.dumps(body).encode("utf-8", "surrogatepass")


def plain(value: Any) -> str:
    return str(value).encode("utf-8", "replace").decode()


def check(reply: httpx2.Response) -> None:
    assert reply.status_code < 500, reply.text
    assert "Traceback" not in reply.text
    assert CANARY not in reply.text
    if reply.status_code >= 400:
        assert set(reply.json()) == {"error"}
        assert set(reply.json()["error"]) == {"type", "message"}


@pytest.mark.plain_cases(1)
@pytest.mark.filterwarnings("ignore::hyrecall.memory.IsolationWarning")
def test_H14_no_request_to_a_door_ends_in_a_fault(door: tuple[Door, str], effort: Effort) -> None:
    made, name = door

    @settings(
        max_examples=effort.cases(quick=60, full=3000),
        deadline=None,
        derandomize=not effort.full,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        route=st.sampled_from(ROUTES[name]),
        key=st.one_of(st.just("a1"), texts),
        body=bodies,
        query=parameters,
        token=st.sampled_from(["user", "agent"]),
        raw=st.one_of(st.none(), st.none(), st.none(), st.binary(max_size=20)),
    )
    def fuzz(
        route: str, key: str, body: Any, query: dict[str, Any], token: str, raw: bytes | None
    ) -> None:
        method, path = route.split()
        url = path.replace("{id}", quote(plain(key), safe="") or "a1")
        given: dict[str, Any] = {
            "headers": {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            "params": {name: plain(one) for name, one in query.items()},
        }
        if method != "GET":
            given["content"] = as_json(body) if raw is None else raw
        check(made.send(method, url, **given))

    fuzz()


def test_H14_a_fault_would_be_seen(door: tuple[Door, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: the store raises what nobody expects."""
    made, name = door

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError(CANARY)

    monkeypatch.setattr(type(made.app.state.memory._sync), "search", broken)
    route = {
        "hypergraph": "/api/v1/memory/recall", "hebb": "/api/v1/search", "default": "/search",
    }.get(name)  # fmt: skip
    if route is None:  # honeycomb recalls as an agent, whose search is another method
        from hyrecall.memory import AgentMemorySync

        monkeypatch.setattr(AgentMemorySync, "search", broken)
        route = "/api/memories/recall"
    token = "agent" if name == "honeycomb" else "user"
    reply = made.send(
        "POST", route, json={"query": "ash"}, headers={"Authorization": f"Bearer {token}"}
    )
    assert reply.status_code == 500
    assert CANARY not in reply.text
    with pytest.raises(AssertionError):
        check(reply)
