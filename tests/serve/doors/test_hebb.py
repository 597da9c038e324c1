"""Hebb Mind's routes: search with its weights, memories, and the graph of tags."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")

from hyrecall import recipes
from hyrecall.memory import Episode
from hyrecall.serve import Caller
from seams import Composite, hebb_graph, tag_graph
from serve.doors.world import NOON, Served, bearer, served

SEARCH = "/api/v1/search"
CY = {"user_id": "cy"}
PAGE = {
    "query": "recent deployment issues", "top_k": 10, "weight_recency": 3.0,
    "weight_relevance": 1.0, "weight_importance": 1.0,
}  # fmt: skip
MEMORY = {
    "id", "partition_id", "content", "importance_score", "tags", "metadata", "source", "created_at",
    "updated_at", "last_accessed_at", "access_count", "expires_at",
}  # fmt: skip


def fill(house: Served) -> None:
    """Three memories of cy, two with a common tag, and one of dee."""
    for key, text, rating, tags in (
        ("issues", "Recent deployment issues on the cluster", 8, ("cluster", "deploy")),
        ("proxy", "The proxy was restarted", 5, ("cluster",)),
        ("invoices", "Issues with invoices", 2, ("billing",)),
    ):
        house.memory.remember(text, id=key, importance=rating, tags=tags, kind="mem_work", **CY)
    house.memory.remember("deployment issues of dee", id="dees", user_id="dee", tags=("cluster",))


def ids(found: dict[str, Any]) -> list[str]:
    return [one["memory"]["id"] for one in found["results"]]


async def test_a_graph_of_too_many_pairs_is_refused_and_made_on_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_threads = []

    def made(episodes: Any) -> Any:
        on_threads.append(threading.current_thread() is not threading.main_thread())
        return tag_graph(episodes)

    monkeypatch.setattr(hebb_graph, "tag_graph", made)

    async with served(recipes.hebb) as house:
        tags = tuple(f"tag{at}" for at in range(100))
        house.memory.remember("many", id="many", tags=tags, **CY)
        for most, status in ((4_950, 200), (4_949, 422)):  # a hundred tags have 4,950 pairs
            monkeypatch.setattr(hebb_graph, "MOST_PAIRS", most)
            for path in ("tags", "tags/tag1", "neighbors/tag1", "export", "path"):
                asked = {"from": "tag1", "to": "tag2"} if path == "path" else {}
                await house.get(f"/api/v1/graph/{path}", status, params={**CY, **asked})
    assert on_threads == [True] * 10


async def test_F16_the_pages_curl_has_the_pages_reply() -> None:
    async with served(recipes.hebb) as house:
        fill(house)
        found = await house.post(SEARCH, PAGE, params=CY)
        assert set(found) == {"results", "related"}
        assert ids(found) == ["issues", "invoices"]
        first = found["results"][0]
        assert set(first) == {
            "memory", "score", "recency_score", "importance_score_normalized", "relevance_score",
        }  # fmt: skip
        assert set(first["memory"]) == MEMORY
        total = 3 * first["recency_score"] + first["importance_score_normalized"]
        assert first["score"] == pytest.approx((total + first["relevance_score"]) / 5)
        assert first["importance_score_normalized"] == 0.8
        assert [one["id"] for one in found["related"]] == ["proxy"]
        same = house.memory.search(
            PAGE["query"], weights={"recency": 3.0, "relevance": 1.0, "importance": 1.0}, **CY
        )
        assert ids(found) == [one.episode.id for one in same]


async def test_a_store_of_another_recipe_answers_if_it_has_hebbs_analyzer() -> None:
    for analyzer, status in ((None, 409), ("porter", 200)):
        async with served(recipes.default, analyzer=analyzer) as house:
            kept = await house.post("/api/v1/memories", {"content": "tea at four"}, 201)
            found = await house.post("/api/v1/search", {"query": "teas"}, status)
            ids = [one["memory"]["id"] for one in found.get("results", [])]
            assert ids == [kept["id"]] * (status == 200)


async def test_F16_what_a_search_may_be() -> None:
    async with served(recipes.hebb) as house:
        for n in range(12):
            house.memory.remember(f"a deployment {n}", **CY)
        found = await house.post(SEARCH, {"query": "deployment"}, params=CY)
        assert len(found["results"]) == 10  # without top_k
        for most, n_found in ((1, 1), (100, 12)):
            asked = {"query": "deployment", "top_k": most}
            assert len((await house.post(SEARCH, asked, params=CY))["results"]) == n_found
        for query in ("   ", "zzzz"):
            found = await house.post(SEARCH, {"query": query}, params=CY)
            assert found == {"results": [], "related": []}
        for wrong in (
            {"query": ""}, {"top_k": 0}, {"top_k": 101}, {"weight_recency": -1},
            {"min_score": 1.5}, {"prev_turns": 2},
        ):  # fmt: skip
            await house.post(SEARCH, {"query": "a"} | wrong, 422, params=CY)
        await house.post(SEARCH, {}, 422, params=CY)


async def test_F15_weights_of_a_request_leave_the_others_to_the_served_recipe() -> None:
    (composite,) = recipes.hebb.shaping
    assert isinstance(composite, Composite)
    recipe = recipes.hebb.replace(shaping=(replace(composite, importance=0.0),))

    async with served(recipe) as house:
        fill(house)

        async def first(**weights: float) -> dict[str, Any]:
            asked = {"query": PAGE["query"], **weights}
            found: dict[str, Any] = (await house.post(SEARCH, asked, params=CY))["results"][0]
            return found

        def mean(one: dict[str, Any], recency: float, importance: float) -> Any:
            parts = one["recency_score"], one["importance_score_normalized"], one["relevance_score"]
            total = recency * parts[0] + importance * parts[1] + parts[2]
            return pytest.approx(total / (recency + importance + 1))

        unset, asked = await first(weight_recency=3.0), await first(weight_importance=2.0)
        assert unset["score"] == mean(unset, 3, 0)
        assert asked["score"] == mean(asked, 1, 2)
        zeros = dict.fromkeys(("weight_recency", "weight_importance", "weight_relevance"), 0.0)
        assert (await first(**zeros))["score"] == 0.0
        again = await first(weight_recency=3.0)
        assert again["score"] == pytest.approx(unset["score"])  # of one request only


async def test_partitions_and_tags_narrow_by_any() -> None:
    async with served(recipes.hebb) as house:
        fill(house)
        house.memory.remember("issues elsewhere", id="else", kind="mem_home", **CY)
        asked = {"query": "issues"}
        for more, wanted in (
            ({"partition_ids": []}, {"issues", "invoices", "else"}),
            ({"partition_ids": ["mem_home"]}, {"else"}),
            ({"partition_ids": ["mem_home", "mem_work"]}, {"issues", "invoices", "else"}),
            ({"partition_ids": ["unknown"]}, set()),
            ({"tags": ["billing", "none"]}, {"invoices"}),
        ):
            found = await house.post(SEARCH, asked | more, params=CY)
            assert set(ids(found)) == wanted, more


async def test_strict_recall_has_a_floor_and_counts_accesses() -> None:
    async with served(recipes.hebb) as house:
        for key, rating in (("high", 10), ("low", 0)):
            house.memory.remember(
                "deploy", id=key, importance=rating, occurred_at=NOON - timedelta(days=30), **CY
            )
        asked = {"query": "deploy", "weight_recency": 0.0}
        found = await house.post(SEARCH, asked, params=CY)
        assert {one["memory"]["id"]: one["score"] for one in found["results"]} == {
            "high": 1.0, "low": 0.5,
        }  # fmt: skip
        strict = await house.post(SEARCH, asked | {"strict_recall": True}, params=CY)
        assert ids(strict) == ["high"]
        found = await house.post(SEARCH, {"query": "deploy"}, params=CY)
        recency = {one["memory"]["id"]: one["recency_score"] for one in found["results"]}
        assert recency["high"] > 0.9
        assert recency["low"] < 0.1


async def test_a_memory_is_kept_read_changed_and_forgotten() -> None:
    async with served(recipes.hebb) as house:
        made = await house.post(
            "/api/v1/memories",
            {"content": "tea at four", "tags": ["plan"], "importance_score": 7, "source": "api"},
            201,
            params=CY,
        )
        assert set(made) == MEMORY
        assert (made["partition_id"], made["importance_score"]) == ("mem_hippocampus", 7)
        at = f"/api/v1/memories/{made['id']}"
        assert await house.get(at, params=CY) == made
        await house.get(at, 404, params={"user_id": "dee"})
        changed = await house.send("PATCH", at, json={"content": "tea at five"}, params=CY)
        assert (changed["content"], changed["tags"]) == ("tea at five", ["plan"])
        assert changed["updated_at"] > made["updated_at"]
        assert await house.send("PATCH", at, json={}, params=CY) == changed
        await house.send("PATCH", at, 422, json={"partition_id": "b"}, params=CY)
        await house.send("DELETE", at, 404, params={"user_id": "dee"})
        await house.send("DELETE", at, 204, params=CY)
        await house.send("DELETE", at, 404, params=CY)
        await house.get(at, 404, params=CY)
        for wrong in ({"content": ""}, {"content": "a" * 10_001}, {"content": "a", "id": "b"}):
            await house.post("/api/v1/memories", wrong, 422, params=CY)


async def test_memories_are_listed_in_pages() -> None:
    async with served(recipes.hebb) as house:
        body = [{"content": f"tea {n}", "tags": ["even"][: 1 - n % 2]} for n in range(5)]
        made = await house.post("/api/v1/memories/batch", body, 201, params=CY)
        assert [one["content"] for one in made] == [one["content"] for one in body]
        page = await house.get("/api/v1/memories", params={**CY, "limit": 2, "offset": 1})
        assert [one["content"] for one in page["items"]] == ["tea 3", "tea 2"]
        assert (page["total"], page["offset"], page["limit"]) == (5, 1, 2)
        last = await house.get("/api/v1/memories", params={**CY, "limit": 2, "offset": 4})
        assert (len(last["items"]), last["total"]) == (1, 5)
        even = await house.get("/api/v1/memories", params={**CY, "tags": "even, none"})
        assert even["total"] == 3
        other = await house.get("/api/v1/memories", params={**CY, "partition_id": "b"})
        assert (other["items"], other["total"]) == ([], 0)
        await house.get("/api/v1/memories", 422, params={**CY, "limit": 201})
        await house.post("/api/v1/memories/batch", [{"content": "a"}] * 257, 422, params=CY)
        many = {"query": "a", "tags": ["a"] * 10_001}
        await house.post(SEARCH, many, 422, params=CY)


async def test_the_graph_of_tags_is_that_of_the_caller() -> None:
    async with served(recipes.hebb) as house:
        fill(house)
        house.memory.remember("one", id="m1", tags=("deploy", "night"), **CY)
        tags = await house.get("/api/v1/graph/tags", params=CY)
        assert [(one["id"], one["weight"]) for one in tags] == [
            ("cluster", 2), ("deploy", 2), ("billing", 1), ("night", 1),
        ]  # fmt: skip
        assert tags[0]["memory_ids"] == ["issues", "proxy"]
        found = await house.get("/api/v1/graph/tags", params={**CY, "q": "LUS"})
        assert [one["id"] for one in found] == ["cluster"]
        assert (await house.get("/api/v1/graph/tags/Cluster", params=CY))["weight"] == 2
        await house.get("/api/v1/graph/tags/none", 404, params=CY)
        near = await house.get("/api/v1/graph/neighbors/cluster", params=CY)
        assert [one["id"] for one in near["nodes"]] == ["cluster", "deploy"]
        assert near["edges"] == [
            {"source": "cluster", "target": "deploy", "relation": "related", "weight": 1}
        ]
        near = await house.get("/api/v1/graph/neighbors/cluster", params={**CY, "depth": 2})
        assert {one["id"] for one in near["nodes"]} == {"cluster", "deploy", "night"}
        await house.get("/api/v1/graph/neighbors/cluster", 422, params={**CY, "depth": 6})
        path = await house.get(
            "/api/v1/graph/path", params={**CY, "from": "cluster", "to": "night"}
        )
        assert path["paths"] == [["cluster", "deploy", "night"]]
        path = await house.get(
            "/api/v1/graph/path", params={**CY, "from": "cluster", "to": "billing"}
        )
        assert path == {"nodes": [], "edges": [], "paths": []}
        whole = await house.get("/api/v1/graph/export", params=CY)
        assert (len(whole["nodes"]), len(whole["edges"])) == (4, 2)
        of_dee = await house.get("/api/v1/graph/export", params={"user_id": "dee"})
        assert [one["id"] for one in of_dee["nodes"]] == ["cluster"]


def test_a_tag_graph_counts_a_memory_once() -> None:
    graph = tag_graph([Episode(id="a", text="x", tags=("Tea", "tea ", "cup"))])
    assert graph.memories == {"cup": ["a"], "tea": ["a"]}
    assert graph.edges == {("cup", "tea"): 1}
    assert graph.path("tea", "tea") == ["tea"]
    assert graph.path("tea", "none") == [] == graph.path("none", "tea")


async def test_health_needs_no_token_and_status_does() -> None:
    async with served(recipes.hebb, tokens={"a": Caller(user_id="cy")}) as house:
        assert (await house.get("/health"))["status"] == "ok"
        await house.get("/status", 401)
        told = await house.get("/status", headers=bearer("a"))
        assert told["recipe"] == "hebb"
        assert told["embedding"] == {
            "enabled": False, "model": None, "dimension": None, "available": False,
        }  # fmt: skip


async def test_a_degraded_search_says_so_in_a_header() -> None:
    async with served(recipes.hebb, embedder="off") as house:
        fill(house)
        reply = await house.client.post(SEARCH, json={"query": "issues"}, params=CY)
        assert reply.headers["X-Hyrecall-Degraded"] == "embeddings_off"
        assert ids(reply.json())


async def test_accesses_are_told_of_results_and_memories() -> None:
    async with served(recipes.hebb, clock=lambda: NOON) as house:
        fill(house)
        ask = {"query": "issues", "strict_recall": True, "min_score": 0.0}
        every = [one["memory"] for one in (await house.post(SEARCH, ask, params=CY))["results"]]
        assert {(one["access_count"], one["last_accessed_at"]) for one in every} == {
            (1, NOON.isoformat())
        }
        one = await house.get("/api/v1/memories/issues", params=CY)
        met = {found["id"] for found in every}
        assert (one["access_count"], one["last_accessed_at"]) == (
            (1, NOON.isoformat()) if "issues" in met else (0, None)
        )
        listed = (await house.get("/api/v1/memories", params=CY))["items"]
        counts = {one["id"]: one["access_count"] for one in listed}
        assert counts == {key: int(key in met) for key in counts}
        assert met
