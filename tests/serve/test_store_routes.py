"""Routes of a store: each does what the method of the store does, for its caller."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hyrecall as hr
from hyrecall.memory import Memory, MemorySync
from hyrecall.recipe import Coefficients
from hyrecall.recipes import hebb
from hyrecall.serve import Caller, ServiceOptions, create_app
from seams import Opening, RecallReply, recall_data
from seams import serve_BatchReply as BatchReply
from serve.conftest import ANN, BOB
from serve_client import calling

USER = {"user_id": "ann"}


async def test_a_batch_of_memories_is_kept_whole_or_not_at_all(store: Opening) -> None:
    async with calling(create_app(store)) as client:
        bad = [{"text": "one", "id": "x", **USER}, {"text": "two", "id": "x", **USER}]
        assert (await client.post("/v1/memories/batch", json={"episodes": bad})).status_code == 409
        assert (await client.get("/v1/memories", params=USER)).json()["total"] == 0
        good = [{"text": "one", **USER}, {"text": "two", **USER}]
        reply = await client.post("/v1/memories/batch", json={"episodes": good})
        assert (reply.status_code, len(reply.json())) == (201, 2)


async def test_a_recall_over_http_is_that_of_the_store() -> None:
    asked = {
        "text": "replica tea", "limit": 2, "tags": ["t"], "explain": True, "highlight": True,
        "filter": {"kind": ["episodic"]}, "now": "2026-05-01T00:00:00Z", **USER,
    }  # fmt: skip
    app = create_app(Memory.in_memory(embedder=None))
    async with calling(app) as client:
        for text in ("the replica lags by 40 s", "tea at four", "replica of the tea set"):
            await client.post("/v1/memories", json={"text": text, "tags": ["t"], **USER})
        one = (await client.post("/v1/recall", json=asked)).json()
        both = {"queries": [asked, {"text": "tea", "recipe": "loom", **USER}]}
        batch = (await client.post("/v1/recall/batch", json=both)).json()
        matches = await app.state.memory.search("replica tea", limit=2, tags=["t"], **USER)
    RecallReply.model_validate(one)
    BatchReply.model_validate(batch)
    shown = [(one["episode"]["id"], one["score"]) for one in one["items"]]
    assert shown == [(match.episode.id, match.score) for match in matches]
    assert len(shown) == 2
    first = one["items"][0]
    assert first["bm25_score"] == matches[0].bm25_score
    assert first["parts"]["tiers"] == matches[0].parts.tiers
    assert first["highlights"] == [list(span) for span in matches[0].highlights()] != []
    assert first["snippet"] == matches[0].snippet()
    assert first["explanation"]["score"] == first["score"]
    assert first["explanation"]["text"] == str(matches[0].explain())
    dropped = matches.explain_dropped()
    assert one["trace"]["dropped"] == json.loads(json.dumps(dropped.to_list()))
    assert dropped.n_dropped > 0
    assert one["now"] == "2026-05-01T00:00:00Z"
    assert one["trace"]["arms"] == list(matches.trace.arms)
    again = batch["replies"][0]
    for reply in (one, again):
        for noise in ("took_ms", "trace"):
            reply.pop(noise)
    assert again == one


ANOTHER_NAME = [
    ("POST", "/v1/recall", {"text": "x", "time_range": [None, None]}, "time_range", "since"),
    ("POST", "/v1/recall/batch", {"queries": [{"text": "x", "before": "2024"}]}, "before", "until"),
    ("PATCH", "/v1/memories/m", {"output": "x"}, "output", "text"),
    (
        "POST",
        "/v1/links",
        {"participants": [], "relationship": "r", "data": {}},
        "data",
        "metadata",
    ),
    ("GET", "/v1/memories?tag=x", None, "tag", "tags"),
]


async def test_a_field_of_another_name_is_refused_with_the_right_one(store: Opening) -> None:
    async with calling(create_app(store)) as client:
        for how, path, body, given, meant in ANOTHER_NAME:
            more = {} if body is None else {"json": body}
            reply = await client.request(how, path, **more)
            told = reply.json()["error"]["message"]
            assert reply.status_code == 422, told
            assert re.search(rf"\b{given}: expected no such field.*did you mean {meant}\?", told)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"text": 7}, "text"),
    ({}, "text"),
    ({"text": "x", "limit": -1}, "limit"),
    ({"text": "x", "limit": "7"}, "limit"),
    ({"text": "x", "limit": 5.5}, "limit"),
    ({"text": "x", "limit": True}, "limit"),
    ({"text": "x", "limt": 7}, "limt"),
    ({"text": "x", "alpha": 2}, "alpha"),
    ({"text": "x", "recipe": "canary"}, "recipe"),
    ({"text": "x", "recipe": "hebb"}, "recipe"),
    ({"text": "x", "filter": {"canary": 1}}, "canary"),
    ({"text": "x", "filter": {"occurred_at": "canary"}}, "filter occurred_at"),
    ({"text": "x", "vector": [1, "canary"]}, "vector"),
    ({"text": "x", "since": "canary"}, "since"),
    ({"text": "\ud800"}, "text"),
    ({"text": "x", "around": 101}, "around"),
]


async def test_a_wrong_value_is_refused_by_name_and_not_repeated(store: Opening) -> None:
    async with calling(create_app(store)) as client:
        for body, name in WRONG:
            head = {"content-type": "application/json"}
            reply = await client.post("/v1/recall", content=json.dumps(body), headers=head)
            message = reply.json()["error"]["message"]
            assert (reply.status_code, name in message) == (422, True), (body, message)
            assert "canary" not in message or name == "canary"


async def test_a_whole_number_is_an_integer_in_bodies_and_query_strings(store: Opening) -> None:
    async with calling(create_app(store)) as client:
        for key in "abc":
            await client.post("/v1/memories", json={"text": f"tea {key}", "id": key, **USER})
        for limit in (2, 2.0):
            found = await client.post("/v1/recall", json={"text": "tea", "limit": limit, **USER})
            assert len(found.json()["items"]) == 2
            listed = await client.get("/v1/memories", params={"limit": limit, **USER})
            assert len(listed.json()["items"]) == 2


async def test_every_example_of_the_api_description_runs(store: Opening) -> None:
    async with calling(create_app(store)) as client:
        api = (await client.get("/openapi.json")).json()
        assert api["info"]["title"] == "hyrecall"
        schemas, n_run = api["components"]["schemas"], 0
        own = {path: how for path, how in api["paths"].items() if path.startswith("/v1/")}
        for path, methods in own.items():
            for method, route in methods.items():
                content = route.get("requestBody", {}).get("content", {})
                for kind, media in content.items():
                    if kind != "application/json":  # Arrow: tests/serve/test_arrow_routes.py
                        continue
                    name = media["schema"]["$ref"].rpartition("/")[2]
                    (example,) = schemas[name]["examples"]
                    key = f"m{n_run}"
                    if path.endswith("/end"):
                        fact = {"subject": "s", "predicate": key, "object": "o", "id": key}
                        begin = {"valid_from": "2020-01-01T00:00:00Z"}
                        await client.post("/v1/facts", json=fact | begin)
                    else:
                        await client.post("/v1/memories", json={"text": "the replica", "id": key})
                    url = path.replace("{id}", key)
                    reply = await client.request(method.upper(), url, json=example)
                    assert reply.status_code in (200, 201), (url, reply.text)
                    n_run += 1
                assert route["summary"], path
        assert n_run >= 10


async def test_a_store_says_which_recipes_it_serves_and_refuses_others(store: Opening) -> None:
    async with calling(create_app(store)) as client:
        told = (await client.get("/v1/info")).json()
        known = told["recipes"]
        assert (told["kind"], told["recipe"]) == ("store", "loom")
        assert ("loom" in known, "hebb" in known) == (True, False)
        for name in ("none", "hebb"):
            got = await client.post("/v1/recall", json={"text": "tea", "recipe": name})
            wish = f"recipe: expected one of {', '.join(known)}"
            assert (got.status_code, got.json()["error"]["message"]) == (422, wish)
    async with calling(create_app(Memory.in_memory(recipe=hebb, embedder=None))) as client:
        told = (await client.get("/v1/info")).json()
        assert "hebb" in told["recipes"]
        assert told["token"]["may_choose_user"] is True


# ---- whose ----

CANARY = "canary-of-ann"


def requests_of(user: str) -> list[tuple[str, str, dict[str, Any]]]:
    """A request of every route, some of which name Ann's memories by their ids."""
    me = {} if not user else {"user_id": user}
    return [
        ("POST", "/v1/recall", {"json": {"text": CANARY, "candidates": ["secret"], **me}}),
        ("POST", "/v1/recall", {"json": {"text": "", **me}}),
        ("POST", "/v1/recall/batch", {"json": {"queries": [{"text": CANARY, **me}]}}),
        ("GET", "/v1/memories", {"params": me}),
        ("GET", "/v1/memories/secret", {"params": me}),
        ("GET", "/v1/memories/secret/history", {"params": me}),
        ("GET", "/v1/memories/secret/links", {"params": me}),
        ("GET", "/v1/feedback", {"params": me}),
        ("POST", "/v1/feedback", {"json": {"query": "q", "used": ["secret"], **me}}),
        ("PATCH", "/v1/memories/secret", {"json": {"text": "mine", **me}}),
        ("PUT", "/v1/memories/secret/pin", {"json": {"pinned": False, **me}}),
        ("POST", "/v1/memories/secret/supersede", {"json": {"text": "mine", **me}}),
        ("DELETE", "/v1/memories/secret", {"params": me}),
        ("DELETE", "/v1/links/edge", {"params": me}),
        ("POST", "/v1/facts/recall", {"json": {"text": CANARY, **me}}),
        ("GET", "/v1/browse/ls", {"params": {"path": "/memories/episodic", **me}}),
        ("GET", "/v1/browse/find", {"params": me}),
        ("GET", "/v1/browse/grep", {"params": {"pattern": "canary", **me}}),
        ("GET", "/v1/browse/cat", {"params": {"path": "/memories/episodic/secret.md", **me}}),
        ("GET", "/v1/export", {"params": {"history": True, **me}}),
    ]


async def test_a_token_sees_and_changes_its_own_scope_only(
    store: Opening, token_of: Callable[..., str], tmp_path: Path
) -> None:
    ann, bob = token_of(ANN), token_of(BOB)
    reader = token_of(Caller(user_id="ann"))
    keeper = token_of(Caller(rights=frozenset(("upkeep",))))
    options = ServiceOptions(tokens=tmp_path / "tokens.json")
    async with calling(create_app(store, options)) as client:

        def as_(token: str) -> dict[str, str]:
            return {"authorization": f"Bearer {token}"}

        kept = {"text": CANARY, "id": "secret", "tags": ["t"]}
        assert (await client.post("/v1/memories", json=kept, headers=as_(ann))).status_code == 201
        fact = {"subject": CANARY, "predicate": "is", "object": "x"}
        await client.post("/v1/facts", json=fact, headers=as_(ann))
        edge = {"participants": ["secret", "b"], "relationship": CANARY, "id": "edge"}
        await client.post("/v1/links", json=edge, headers=as_(ann))
        said = {"query": CANARY, "used": ["secret"]}
        await client.post("/v1/feedback", json=said, headers=as_(ann))
        before = (await client.get("/v1/export", headers=as_(ann))).text
        assert '"feedback"' in before
        for how, path, more in requests_of(""):
            reply = await client.request(how, path, **more, headers=as_(bob))
            assert reply.status_code in (200, 404), (how, path, reply.text)
            assert CANARY not in reply.text, (how, path)
        for how, path, more in requests_of("ann"):  # a body may not widen
            reply = await client.request(how, path, **more, headers=as_(bob))
            assert reply.status_code == 403, (how, path, reply.text)
        for how, path, more in requests_of(""):
            reply = await client.request(how, path, **more)
            assert reply.status_code == 401, (how, path)
        assert (await client.get("/v1/export", headers=as_(ann))).text == before
        read = await client.post("/v1/memories", json={"text": "x"}, headers=as_(reader))
        assert (read.status_code, "write" in read.text) == (403, True)
        assert (await client.get("/metrics", headers=as_(ann))).status_code == 403
        assert (await client.get("/metrics")).status_code == 401
        assert (await client.get("/metrics", headers=as_(keeper))).status_code == 200


async def test_an_agent_reads_by_its_policy_and_writes_its_own(
    store: Opening, token_of: Callable[..., str], tmp_path: Path
) -> None:
    def agent(name: str) -> str:
        rights = frozenset(("read", "write"))
        return token_of(Caller(org="acme", workspace="lab", agent=name, rights=rights))

    planner, ops = agent("planner"), agent("ops")
    options = ServiceOptions(tokens=tmp_path / "tokens.json")
    async with calling(create_app(store, options)) as client:

        async def post(token: str, path: str, body: Any) -> Any:
            head = {"authorization": f"Bearer {token}"}
            return await client.post(path, json=body, headers=head)

        await post(ops, "/v1/memories", {"text": "friday is free", "visibility": "global"})
        await post(ops, "/v1/memories", {"text": "friday is mine"})
        assert (await post(planner, "/v1/recall", {"text": "friday"})).json()["items"] == []
        memory = client._transport.app.state.memory
        await memory.set_policy("planner", org="acme", workspace="lab", policy="shared")
        seen = (await post(planner, "/v1/recall", {"text": "friday"})).json()["items"]
        assert [one["episode"]["text"] for one in seen] == ["friday is free"]
        for path, body in (
            ("/v1/facts", {"subject": "a", "predicate": "b", "object": "c"}),
            ("/v1/links", {"participants": ["a", "b"], "relationship": "r"}),
            ("/v1/recall", {"text": "friday", "user_id": "ops"}),
        ):
            assert (await post(planner, path, body)).status_code == 403


async def test_a_version_is_an_etag_and_a_change_may_be_for_one_alone(store: Opening) -> None:
    async with calling(create_app(store)) as client:
        made = await client.post("/v1/memories", json={"text": "one", "id": "x", **USER})
        assert made.headers["etag"] == '"1"'
        got = await client.get("/v1/memories/x", params=USER)
        assert (got.headers["etag"], got.json()["version"]) == ('"1"', 1)
        one = {"If-Match": '"1"'}
        change = {"text": "two", **USER}
        done = await client.patch("/v1/memories/x", json=change, headers=one)
        assert (done.status_code, done.headers["etag"]) == (200, '"2"')
        late = await client.patch("/v1/memories/x", json=change, headers=one)
        assert (late.status_code, late.json()["error"]["type"]) == (412, "VersionConflictError")
        assert "if_version: expected 2, which it is now" in late.text
        gone = await client.delete("/v1/memories/x", params=USER, headers=one)
        assert gone.status_code == 412
        for wrong in ("1", "*", '"0"', 'W/"1"', '"1", "2"'):
            reply = await client.patch("/v1/memories/x", json=change, headers={"If-Match": wrong})
            assert reply.status_code == 422, wrong
            assert "If-Match: expected a version in quotes" in reply.text
        two = {"If-Match": '"2"'}
        gone = await client.delete("/v1/memories/x", params=USER, headers=two)
        assert gone.json() == {"forgotten": 1}


KEPT = {
    "/v1/memories": {"text": "tea at four"},
    "/v1/facts": {"subject": "ann", "predicate": "drinks", "object": "tea"},
    "/v1/memories/old/supersede": {"text": "tea at five"},
}


@pytest.mark.parametrize("path", KEPT)
async def test_the_same_call_again_keeps_nothing_more(store: Opening, path: str) -> None:
    async with calling(create_app(store)) as client:
        for user in ("ann", "bob"):
            await client.post("/v1/memories", json={"text": "old", "id": "old", "user_id": user})
        key = {"Idempotency-Key": "k1"}
        body = {**KEPT[path], **USER}
        first = await client.post(path, json=body, headers=key)
        again = await client.post(path, json=body, headers=key)
        assert (first.status_code, again.json()) == (201, first.json())
        other = {**body, "text" if "text" in body else "object": "another"}
        reply = await client.post(path, json=other, headers=key)
        assert reply.status_code == 422
        assert "Idempotency-Key: expected another one for another call" in reply.text
        of_bob = await client.post(path, json={**body, "user_id": "bob"}, headers=key)
        assert (of_bob.status_code, of_bob.json()["id"] != first.json()["id"]) == (201, True)
        kept = (await client.get("/v1/memories", params=USER)).json()
        assert kept["total"] == (1 if "supersede" in path else 2)


async def test_a_call_that_comes_late_is_told_what_was_kept(store: Opening) -> None:
    async with calling(create_app(store)) as client:
        body, key = {"text": "tea", "id": None, **USER}, {"Idempotency-Key": "k"}
        first = (await client.post("/v1/memories", json=body, headers=key)).json()
        made = first["id"]
        await client.patch(f"/v1/memories/{made}", json={"text": "coffee", **USER})
        assert (await client.post("/v1/memories", json=body, headers=key)).json() == first
        other = {**body, "visibility": "global"}
        assert (await client.post("/v1/memories", json=other, headers=key)).status_code == 422
        await client.delete(f"/v1/memories/{made}", params=USER)
        assert (await client.post("/v1/memories", json=body, headers=key)).json() == first
        assert (await client.get("/v1/memories", params=USER)).json()["total"] == 0
        wrong = {**body, "id": " "}
        reply = await client.post("/v1/memories", json=wrong, headers=key)
        assert "id: expected 1 to 512 bytes, not blank" in reply.text


async def test_a_batch_that_comes_twice_is_kept_once(store: Opening) -> None:
    async with calling(create_app(store)) as client:
        body = {"episodes": [{"text": "tea", **USER}, {"text": "tea", **USER}]}
        key = {"Idempotency-Key": "k"}
        both = [await client.post("/v1/memories/batch", json=body, headers=key) for _ in range(2)]
        assert both[0].json() == both[1].json()
        assert (await client.get("/v1/memories", params=USER)).json()["total"] == 2
        pinned = await client.put("/v1/memories/x/pin", json=USER, headers={"If-Match": '"1"'})
        assert (pinned.status_code, "expected no such header" in pinned.text) == (422, True)


@pytest.mark.parametrize(
    "changes", [{"expires_at": 5}, {"pinned": "yes"}, {"importance": "3"}, {"occurred_at": 0}]
)
async def test_changes_of_many_are_read_as_those_of_one(
    store: Opening, changes: dict[str, Any]
) -> None:
    async with calling(create_app(store)) as client:
        await client.post("/v1/memories", json={"text": "one", "id": "x", **USER})
        body = {"changes": changes, "id": ["x"], **USER}
        many = await client.post("/v1/memories/update", json=body)
        one = await client.patch("/v1/memories/x", json={**changes, **USER})
        assert (many.status_code, one.status_code) == (422, 422)
        assert next(iter(changes)) in many.text


async def test_the_same_call_twice_at_once_keeps_one(store: Opening) -> None:
    async with calling(create_app(store)) as client:
        body, key = {"text": "tea", **USER}, {"Idempotency-Key": "k"}
        both = await asyncio.gather(
            *(client.post("/v1/memories", json=body, headers=key) for _ in range(8))
        )
        assert {one.status_code for one in both} == {201}
        assert len({one.json()["id"] for one in both}) == 1
        assert (await client.get("/v1/memories", params=USER)).json()["total"] == 1


async def test_users_are_listed_for_who_may_name_any(
    store: Opening, token_of: Callable[..., str], tmp_path: Path
) -> None:
    both = frozenset(("read", "write"))
    callers = Caller(may_choose_user=True, rights=both), Caller(user_id="ann", rights=both)
    options = ServiceOptions(tokens=tmp_path / "tokens.json")
    anybody, ann = ({"Authorization": f"Bearer {token_of(one)}"} for one in callers)
    async with calling(create_app(store, options)) as client:
        for user in ("ann", "bob", "ann"):
            body = {"text": "tea", "user_id": user}
            await client.post("/v1/memories", json=body, headers=anybody)
        found = (await client.get("/v1/users", headers=anybody)).json()["items"]
        assert [(one["user_id"], one["memories"]) for one in found] == [("ann", 2), ("bob", 1)]
        for path in ("/v1/users", "/v1/agents"):
            assert (await client.get(path, headers=ann)).status_code == 403, path
        assert (await client.get("/v1/sessions", headers=ann)).json() == {"items": []}


async def test_a_recall_tells_how_sure_it_is_where_it_is_asked() -> None:
    app = create_app(Memory.in_memory(embedder=None))
    async with calling(app) as client:
        for text in ("the replica lags by 40 s", "tea at four"):
            await client.post("/v1/memories", json={"text": text, **USER})
        asked = {"text": "the tea of Bob", "confidence": True, **USER}
        one = (await client.post("/v1/recall", json=asked)).json()
        batch = (await client.post("/v1/recall/batch", json={"queries": [asked]})).json()
        plain = (await client.post("/v1/recall", json={"text": "tea", **USER})).json()
        floored = (await client.post("/v1/recall", json=asked | {"min_confidence": 0.2})).json()
        matches = await app.state.memory.search("the tea of Bob", **USER)
    RecallReply.model_validate(one)
    for reply in (one, batch["replies"][0]):
        assert (reply["confidence"], reply["answerable"]) == (matches.confidence, False)
        assert [m["confidence"] for m in reply["items"]] == [m.confidence for m in matches]
    assert matches.confidence > 0
    assert floored["items"] == []
    assert floored["confidence"] == matches.confidence
    assert "confidence" not in plain
    assert "confidence" not in plain["items"][0]


async def test_a_service_judges_by_the_coefficients_of_its_stores_recipe() -> None:
    constant = {"base": 2.0, "names": 0.0}  # 1 / (1 + e^-2) for all that is found
    own = Coefficients(query=constant, hit={"base": 0.0})
    recipe = hr.recipes.default.replace(confidence=own)
    async with calling(create_app(Memory.in_memory(recipe=recipe, embedder=None))) as client:
        await client.post("/v1/memories", json={"text": "tea at four", **USER})
        asked = {"text": "the tea of Bob", "confidence": True, **USER}
        reply = (await client.post("/v1/recall", json=asked)).json()
    assert reply["confidence"] == pytest.approx(1 / (1 + math.exp(-2)))
    assert reply["answerable"]
    assert [one["confidence"] for one in reply["items"]] == [0.5]


def test_a_service_judges_a_reply_once_and_tells_null_where_the_store_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        MemorySync.open(tmp_path / "m", embedder=None) as owner,
        MemorySync.open(tmp_path / "m", embedder=None) as other,
    ):
        for text in ("Ann drinks green tea", "Ann bought a car"):
            owner.remember(text, user_id="ann")
        matches = other.search("Ann drinks green tea", user_id="ann")
        ranked, judged = type(matches._ranked), []
        judge = ranked.judge
        monkeypatch.setattr(ranked, "judge", lambda self: judged.append(1) or judge(self))
        told = recall_data(matches, explain=False, began=0.0, confidence=True)
        assert len(judged) == 1 < len(matches)
        assert told["confidence"] == matches.confidence
        assert [one["confidence"] for one in told["items"]] == [one.confidence for one in matches]
        owner.remember("Ann drinks green tea again", user_id="ann")
        told = recall_data(matches, explain=False, began=0.0, confidence=True)
        assert (told["confidence"], told["answerable"]) == (None, None)
        assert [one["confidence"] for one in told["items"]] == [None] * len(matches)
