"""HyperMemory's route answers as ``hm_recall`` does, on behalf of who calls."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")

from hyrecall import Recipe, recipes
from hyrecall.serve import Caller
from hyrecall.systems.hypergraph import hm_recall
from serve.doors.world import HOUSE, Served, bearer, served

PATH = "/api/v1/memory/recall"
PAGE = {"query": "JWT authentication decisions"}


def fill(house: Served, **place: Any) -> None:
    """Three nodes of alice, and two edges."""
    given = {"user_id": "alice"} | place
    for key, kind, text in (
        ("decision_jwt", "decision", "JWT authentication decisions"),
        ("service_auth", "service", "The auth service signs tokens"),
        ("person_ana", "person", "Ana owns the login page"),
    ):
        house.memory.remember(text, id=key, kind=kind, **given)
    house.memory.link(["decision_jwt", "service_auth"], "decided by", **given)
    house.memory.link(["person_ana", "service_auth"], "works on", **given)


def timeless(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "metadata": {**answer["metadata"], "took_ms": 0}}


@pytest.mark.parametrize("recipe", [recipes.hypergraph, recipes.default], ids=["own", "default"])
async def test_C24_the_route_answers_the_pages_body_as_the_function_does(recipe: Recipe) -> None:
    async with served(recipe) as house:
        fill(house)
        # The same conversation has another phase at each call, so each asks in its own.
        asked = {**PAGE, "session_id": "s1"}
        found = await house.post(PATH, asked, params={"user_id": "alice"})
        wanted = hm_recall(house.memory, **{**asked, "session_id": "s2"}, user_id="alice")
        assert timeless(found) == timeless(wanted)
        assert [one["key"] for one in found["results"]] == ["decision_jwt"]
        assert [one["relationship"] for one in found["edges"]] == ["decided by"]
        by_header = await house.post(PATH, PAGE, headers={"X-Graph-Id": "alice"})
        assert by_header["count"] == 1
        forced = {"query": "PERSON_.*", "force_regex": True, "max_results": 1}
        found = await house.post(PATH, forced, params={"user_id": "alice"})
        assert [one["key"] for one in found["results"]] == ["person_ana"]


async def test_C24_a_conversation_has_its_phases_over_rest() -> None:
    async with served(recipes.hypergraph) as house:
        fill(house)
        asked = {"query": "tokens", "session_id": "s1"}
        phases = [
            (await house.post(PATH, asked, params={"user_id": "alice"}))["metadata"]["phase"]
            for _ in range(11)
        ]
        assert [phases[at] for at in (0, 2, 3, 9, 10)] == ["early", "early", "mid", "mid", "deep"]


async def test_C24_without_the_token_it_answers_401_and_another_graph_403() -> None:
    alice = Caller(user_id="alice")
    writer = Caller(user_id="alice", rights=frozenset(("write",)))

    async with served(recipes.hypergraph, tokens={"alices": alice, "writes": writer}) as house:
        fill(house)
        house.memory.remember("JWT authentication of bob", id="bobs", user_id="bob")
        refused = await house.post(PATH, PAGE, 401)
        assert refused["error"]["type"] == "Unauthorized"
        await house.post(PATH, PAGE, 401, headers=bearer("wrong"))
        await house.post(PATH, PAGE, 403, headers=bearer("writes"))
        found = await house.post(PATH, PAGE, headers=bearer("alices"))
        assert [one["key"] for one in found["results"]] == ["decision_jwt"]
        for more in ({"params": {"user_id": "bob"}}, {"params": {"org": "acme"}}):
            await house.post(PATH, PAGE, 403, headers=bearer("alices"), **more)
        told = await house.post(PATH, PAGE, 403, headers={**bearer("alices"), "X-Graph-Id": "bob"})
        assert "bob" not in str(told)


WRONG: list[Any] = [
    {}, {"query": ""}, {"query": "  "}, {"query": 3}, {"query": "a", "max_results": 0},
    {"query": "a", "max_results": 51}, {"query": "a", "max_results": "5"},
    {"query": "a", "force_regex": "yes"}, {"query": "(", "force_regex": True},
    {"query": "a", "session_id": ""}, {"query": "a", "depth": 3}, {"query": "a" * (32 * 1024 + 1)},
    [], "a",
]  # fmt: skip


async def test_C24_a_body_that_cannot_be_is_answered_422() -> None:
    async with served(recipes.hypergraph) as house:
        fill(house)
        for body in WRONG:
            refused = await house.post(PATH, body, 422, params={"user_id": "alice"})
            assert set(refused) == {"error"}
            assert set(refused["error"]) == {"type", "message"}
        for most in (1, 50):
            asked = {"query": "the", "max_results": most}
            found = await house.post(PATH, asked, params={"user_id": "alice"})
            assert 0 < found["count"] <= most
        await house.post(PATH, {"query": "a" * (32 * 1024)})


async def test_C24_openapi_documents_the_errors() -> None:
    async with served(recipes.hypergraph) as house:
        api = await house.get("/openapi.json")
        shown = api["paths"][PATH]["post"]["responses"]
        assert {"200", "401", "422", "429", "500"} <= set(shown)
        for status in ("401", "429", "500"):
            schema = shown[status]["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/ErrorBody"}


async def test_a_store_of_memories_answers_as_one_of_nodes_does() -> None:
    """All but patterns in the data, of which such a store has no text."""
    asked = [
        {"query": "the tokens"}, {"query": "decision_.*", "force_regex": True},
        {"query": "person|zzz"}, {"query": "works", "max_results": 2},
    ]  # fmt: skip
    told = []
    for recipe in (recipes.hypergraph, recipes.default):
        async with served(recipe) as house:
            fill(house)
            told.append(
                [
                    [one["key"] for one in (await house.post(
                        PATH, {**one, "session_id": f"s{at}"}, params={"user_id": "alice"}
                    ))["results"]]
                    for at, one in enumerate(asked)
                ]
            )  # fmt: skip
    assert told[0] == told[1]
    assert any(told[0])


async def test_an_agent_sees_the_nodes_that_its_policy_admits() -> None:
    tokens = {"codex": Caller(agent="codex", **HOUSE), "claude": Caller(agent="claude", **HOUSE)}

    async with served(recipes.hypergraph, tokens=tokens) as house:
        house.memory.set_policy("codex", **HOUSE, policy="shared")
        for key, visibility in (("open", "global"), ("own", "private")):
            house.memory.remember(
                f"JWT {key}", id=key, user_id="claude", visibility=visibility, **HOUSE
            )
        found = await house.post(PATH, {"query": "JWT"}, headers=bearer("codex"))
        assert [one["key"] for one in found["results"]] == ["open"]
        found = await house.post(PATH, {"query": "JWT"}, headers=bearer("claude"))
        assert {one["key"] for one in found["results"]} == {"open", "own"}
        await house.post(
            PATH, {"query": "JWT"}, 403, headers=bearer("codex"), params={"user_id": "claude"}
        )
