"""What is too much, from elsewhere or too slow is refused before any work."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from starlette.datastructures import Headers, State

from hyrecall.serve import ServiceOptions, create_app
from seams import (
    Opening,
    ServiceError,
    ServiceGuard,
    check_host,
    check_origin,
    is_deeper,
    n_levels,
    reading,
)
from serve.blocked import Blocked
from serve.conftest import ANN
from serve_client import calling

JSON = {"content-type": "application/json"}


def ask(
    app: Any, *requests: tuple[str, str, dict[str, Any]], token: str | None = None
) -> list[Any]:
    async def run() -> list[Any]:
        async with calling(app, token) as client:
            return [await client.request(how, path, **more) for how, path, more in requests]

    return asyncio.run(run())


# ---- from elsewhere ----

HERE, NAMED, ELSEWHERE = (
    ServiceOptions(),
    ServiceOptions(allowed_hosts=("recall.example",), allowed_origins=("https://app.example",)),
    ServiceOptions(host="0.0.0.0", tokens="tokens.json"),
)


def refusal(options: ServiceOptions, **headers: str) -> int:
    """The status of a request's refusal, 200 if it is none."""
    given = Headers({"host": "127.0.0.1:8765", **headers})
    guard = ServiceGuard(None, options=options, state=State({"index": None}))  # type: ignore[arg-type]
    try:
        check_host(guard._hosts, options, given)
        check_origin(options, {"type": "http", "scheme": "http"}, given)
    except ServiceError as fault:
        return fault.status
    return 200


@pytest.mark.parametrize(
    ("options", "host", "expected"),
    [
        (HERE, "127.0.0.1:8765", 200),
        (HERE, "localhost", 200),
        (HERE, "[::1]:80", 200),
        (HERE, "127.9.9.9", 200),
        (HERE, "evil.example", 421),
        (HERE, "evil.example:8765", 421),
        (HERE, "127.0.0.1.evil.example", 421),
        (HERE, "localhost.evil.example", 421),
        (HERE, "192.168.0.7", 421),
        (HERE, "127.0.0.1@evil.example", 421),
        (HERE, "", 421),
        (HERE, "[", 421),
        (NAMED, "recall.example", 200),
        (NAMED, "RECALL.example:443", 200),
        (NAMED, "other.recall.example", 421),
        (ELSEWHERE, "10.1.2.3:8765", 200),
        (ELSEWHERE, "evil.example", 421),
    ],
)
def test_a_request_to_another_host_is_refused(
    options: ServiceOptions, host: str, expected: int
) -> None:
    assert refusal(options, host=host) == expected


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("http://127.0.0.1:8765", 200),
        ("https://app.example", 200),
        ("https://APP.example", 200),
        ("http://app.example", 403),
        ("https://app.example.evil.example", 403),
        ("http://127.0.0.1:9999", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_a_page_of_another_origin_is_refused(origin: str, expected: int) -> None:
    assert refusal(NAMED, origin=origin) == expected


def test_a_hostile_page_is_refused_over_http_and_only_an_allowed_one_has_its_preflight(
    store: Opening,
) -> None:
    app = create_app(store, NAMED)
    how = {"access-control-request-method": "POST"}
    good, bad, rebound, twice = ask(
        app,
        ("OPTIONS", "/v1/recall", {"headers": {"origin": "https://app.example", **how}}),
        ("OPTIONS", "/v1/recall", {"headers": {"origin": "https://evil.example", **how}}),
        ("GET", "/v1/memories", {"headers": {"host": "evil.example"}}),
        ("GET", "/healthz", {"headers": [("host", "localhost"), ("host", "evil.example")]}),
    )
    assert good.headers["access-control-allow-origin"] == "https://app.example"
    assert [one.status_code for one in (bad, rebound, twice)] == [403, 421, 400]
    assert "access-control-allow-origin" not in bad.headers
    assert set(rebound.json()["error"]) == {"type", "message"}


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        (("203.0.113.5", 1), 403),
        (("::ffff:203.0.113.5", 1), 403),
        (("127.0.0.1", 1), 405),
        (("::1", 1), 405),
        (None, 405),  # a socket of this machine
        (("testclient", 1), 405),
    ],
)
def test_without_tokens_only_clients_of_this_machine_are_answered(
    client: tuple[str, int] | None, expected: int, store: Opening
) -> None:
    body = {"type": "http.request", "body": b"{}", "more_body": False}
    sent = asyncio.run(by_hand(create_app(store), [body], "/healthz", client=client))
    assert sent[0]["status"] == expected


# ---- too much ----

SMALL = ServiceOptions(
    max_body=2_000, max_query=100, max_limit=20, max_batch=3, max_levels=4, max_ids=10
)


def body_of(n_bytes: int) -> bytes:
    frame = len(json.dumps({"text": ""}))
    return json.dumps({"text": "x" * (n_bytes - frame)}).encode()


def chunks(size: int) -> dict[str, Any]:
    async def parts() -> AsyncIterator[bytes]:
        whole = body_of(size)
        for at in range(0, len(whole), 700):
            yield whole[at : at + 700]

    return {"content": parts(), "headers": JSON}


def nested(levels: int) -> dict[str, Any]:
    made: Any = 1
    for _ in range(levels - 1):
        made = {"x": made}
    return {"text": "x", "metadata": made}


BOUNDARIES: list[tuple[str, str, Callable[[int], Any], int, int, int]] = [
    # path, what is counted, the body of so much, the limit, the status up to it and beyond it
    ("/v1/memories", "body", lambda n: {"content": body_of(n), "headers": JSON}, 2_000, 201, 413),
    ("/v1/memories", "body in chunks", chunks, 2_000, 201, 413),
    ("/v1/memories", "levels", lambda n: {"json": nested(n)}, 4, 201, 422),
    ("/v1/memories", "ids", lambda n: {"json": {"text": "x", "tags": ["t"] * n}}, 10, 201, 422),
    ("/v1/recall", "text", lambda n: {"json": {"text": "x" * n}}, 100, 200, 422),
    ("/v1/recall", "query in bytes", lambda n: {"json": {"text": "é" * (n // 2)}}, 100, 200, 422),
    ("/v1/recall", "limit", lambda n: {"json": {"text": "x", "limit": n}}, 20, 200, 422),
    (
        "/v1/recall", "limit + offset",
        lambda n: {"json": {"text": "x", "limit": 5, "offset": n - 5}}, 20, 200, 422,
    ),
    ("/v1/recall", "depth", lambda n: {"json": {"text": "x", "depth": n}}, 20, 200, 422),
    (
        "/v1/recall", "ids in a filter",
        lambda n: {"json": {"text": "x", "filter": {"kind": ["k"] * n}}}, 10, 200, 422,
    ),
    (
        "/v1/recall", "candidates",
        lambda n: {"json": {"text": "x", "candidates": [f"m{i}" for i in range(n)]}}, 10, 200, 422,
    ),
    (
        "/v1/recall/batch", "batch",
        lambda n: {"json": {"queries": [{"text": "x"}] * n}}, 3, 200, 422,
    ),
    (
        "/v1/memories/batch", "batch",
        lambda n: {"json": {"episodes": [{"text": "x"}] * n}}, 3, 201, 422,
    ),
    ("/v1/facts/recall", "text", lambda n: {"json": {"text": "x" * n}}, 100, 200, 422),
]  # fmt: skip


def test_every_limit_holds_to_the_last_unit(store: Opening) -> None:
    def sizes(limit: int, make: Callable[[int], Any]) -> tuple[int, int, int]:
        step = 2 if "é" in str(make(limit)) else 1
        return limit - step, limit, limit + step

    requests = [
        ("POST", path, make(size))
        for path, _, make, limit, *_ in BOUNDARIES
        for size in sizes(limit, make)
    ]
    got = [one.status_code for one in ask(create_app(store, SMALL), *requests)]
    names = [f"{path} {what}" for path, what, *_ in BOUNDARIES]
    assert dict(zip(names, zip(*[iter(got)] * 3, strict=True), strict=True)) == {
        name: (within, within, beyond)
        for name, (*_, within, beyond) in zip(names, BOUNDARIES, strict=True)
    }


@pytest.fixture
def n_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the versions that a store reads with their texts for a reply."""
    counted, take_room = [0], reading._take_room

    def seen(room: Any, checked: Any) -> None:
        counted[0] += 1
        take_room(room, checked)

    monkeypatch.setattr(reading, "_take_room", seen)
    return counted


@pytest.mark.plain_cases(3)
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/memories?limit=40", None),
        ("GET", "/v1/memories/m0/history", None),
        ("POST", "/v1/recall", {"text": "tea", "limit": 40}),
        ("POST", "/v1/recall/batch", {"queries": [{"text": "tea", "limit": 40}]}),
        ("GET", "/memories?run_id=s", None),
        ("GET", "/memories/m0/history", None),
        ("GET", "/api/v1/memories?limit=40", None),
        ("GET", "/v1/memories/m0", None),
        ("GET", "/memories/m0", None),
    ],
)
async def test_a_reply_that_is_too_long_is_refused_before_all_of_it_is_read(
    method: str, path: str, body: Any, store: Opening, n_read: list[int]
) -> None:
    async with calling(app := create_app(store, ServiceOptions(max_reply=5_000))) as client:
        memory = app.state.memory._sync
        for at in range(40):
            memory.remember("tea " * 250, id=f"m{at}", session_id="s")
            memory.update("m0", text=f"tea {at} " * 1_000)
        assert memory.wait_until_ready(timeout=60)
        n_read[0] = 0
        reply = await client.request(method, path, json=body)
        assert reply.status_code == 422, reply.text
        told = reply.json()["error"]["message"]
        assert told.startswith("reply: expected <= 5000 bytes")
        assert "tea" not in told
        assert n_read[0] < 10


async def test_what_is_counted_or_removed_is_not_held_to_the_length_of_a_reply(
    store: Opening, n_read: list[int]
) -> None:
    async with calling(app := create_app(store, ServiceOptions(max_reply=5_000))) as client:
        memory = app.state.memory._sync
        for at in range(40):
            keys = {"agent_id": "bee"}
            memory.remember("tea " * 250, id=f"m{at}", tags=["tea"], metadata=keys)
        n_read[0] = 0
        listed = (await client.get("/api/v1/memories?limit=1&offset=2&tags=tea")).json()
        assert (listed["total"], len(listed["items"]), n_read[0]) == (40, 1, 1)
        (tag,) = (await client.get("/api/v1/graph/tags")).json()
        assert tag["weight"] == 40
        lines = await client.get("/v1/browse/grep?pattern=tea")  # which are shown
        assert (lines.status_code, "expected <= 5000 bytes" in lines.text) == (422, True)
        gone = await client.delete("/memories?agent_id=bee")
        assert (gone.status_code, memory.list()) == (200, [])


def test_what_is_shown_around_a_hit_counts_for_the_hits_of_a_request(store: Opening) -> None:
    asked = {"text": "x", "limit": 10, "around": 2}
    more = {"queries": [asked, {**asked, "around": 0}]}
    replies = ask(
        create_app(store, ServiceOptions(max_hits=50)),
        ("POST", "/v1/recall", {"json": asked}),
        ("POST", "/v1/recall", {"json": {**asked, "around": 3}}),
        ("POST", "/v1/recall/batch", {"json": more}),
    )
    assert [one.status_code for one in replies] == [200, 422, 422]


def test_a_refusal_does_not_repeat_a_number_of_the_request(store: Opening) -> None:
    n_beyond = 81_726
    many = {"messages": [{"role": "r", "content": "x"}] * 4, "user_id": "u"}
    for one in ask(
        create_app(store, SMALL),
        ("POST", "/v1/recall", {"json": {"text": "x", "limit": n_beyond}}),
        ("POST", "/v1/recall", {"json": {"text": "x", "depth": n_beyond}}),
        ("POST", "/v1/recall", {"json": {"text": "x", "offset": n_beyond}}),
        ("GET", f"/v1/memories?limit={n_beyond}", {}),
        ("GET", f"/v1/browse/ls?limit={n_beyond}", {}),
        ("POST", "/v1/recall", {"json": {"text": "x", "alpha": n_beyond}}),
        ("POST", "/v1/recall", {"json": {"text": "x", "around": n_beyond}}),
        ("POST", "/v1/memories", {"json": {"text": "x", "importance": n_beyond}}),
        ("POST", "/memories", {"json": many}),
    ):
        assert one.status_code == 422
        assert str(n_beyond) not in one.text
        assert "got" not in one.text


# ---- HEAD, Allow, other origins, last slashes, empty texts ----


def test_head_is_get_without_a_body(store: Opening) -> None:
    paths = ("/healthz", "/readyz", "/v1/memories", "/v1/info", "/openapi.json", "/")
    replies = ask(
        create_app(store),
        *((method, path, {}) for path in paths for method in ("GET", "HEAD")),
        ("HEAD", "/v1/memories/none", {}),
        ("HEAD", "/v1/recall", {}),
    )
    for get, head in zip(replies[:-2:2], replies[1:-2:2], strict=True):
        assert (get.status_code, head.status_code, head.content) == (200, 200, b"")
        assert head.headers["content-length"] == get.headers["content-length"]
    missing, wrong = replies[-2:]
    assert (missing.status_code, missing.content) == (404, b"")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")


def test_a_wrong_method_learns_all_that_the_path_takes(store: Opening) -> None:
    wanted = {
        ("PUT", "/v1/memories"): "GET, HEAD, POST",
        ("POST", "/v1/memories/m0"): "DELETE, GET, HEAD, PATCH",
        ("GET", "/v1/recall"): "POST",
        ("PATCH", "/memories"): "DELETE, GET, HEAD, POST",
        ("DELETE", "/healthz"): "GET, HEAD",
    }
    replies = ask(create_app(store), *((*one, {}) for one in wanted))
    assert [one.status_code for one in replies] == [405] * len(wanted)
    assert [one.headers["allow"] for one in replies] == list(wanted.values())


def test_every_reply_to_a_page_of_an_allowed_origin_can_be_read_by_it(
    store: Opening, token_of: Callable[..., str], tmp_path: Any
) -> None:
    page = {"origin": "https://app.example"}
    mine = {**page, "authorization": f"Bearer {token_of(ANN)}"}
    how = {
        **page, "access-control-request-method": "PATCH",
        "access-control-request-headers": "authorization, x-graph-id",
    }  # fmt: skip
    options = ServiceOptions(
        tokens=tmp_path / "tokens.json", allowed_origins=("https://app.example",)
    )
    *replies, preflight = ask(
        create_app(store, options),
        ("GET", "/v1/memories", {"headers": page}),
        ("GET", "/healthz", {"headers": page}),
        ("GET", "/none", {"headers": mine}),
        ("GET", "/v1/memories", {"headers": mine}),
        ("GET", "/v1/memories", {"headers": {**mine, "content-encoding": "gzip"}}),
        ("OPTIONS", "/v1/memories/m", {"headers": how}),
    )
    assert [one.status_code for one in replies] == [401, 200, 404, 200, 415]
    for one in (*replies, preflight):
        assert one.headers["access-control-allow-origin"] == "https://app.example"
        assert one.headers["vary"] == "Origin"
    assert preflight.status_code == 204
    assert "PATCH" in preflight.headers["access-control-allow-methods"]
    assert preflight.headers["access-control-allow-headers"] == "authorization, x-graph-id"


def test_a_last_slash_changes_nothing_but_never_forgets_a_list(store: Opening) -> None:
    kept = {"text": "tea", "id": "a/", "user_id": "ann"}
    replies = ask(
        create_app(store),
        ("POST", "/v1/memories/", {"json": kept}),
        ("GET", "/v1/memories/?user_id=ann", {}),
        ("GET", "/v1/memories/a%2F?user_id=ann", {}),
        ("POST", "/v1/recall/", {"json": {"text": "tea", "user_id": "ann"}}),
        ("DELETE", "/memories/?user_id=ann", {}),
        ("DELETE", "/v1/memories/?user_id=ann", {}),
        ("GET", "/none/", {}),
        ("GET", "/v1/memories?user_id=ann", {}),
    )
    assert [one.status_code for one in replies] == [201, 200, 200, 200, 404, 404, 404, 200]
    assert [one["id"] for one in replies[-1].json()["items"]] == ["a/"]


def test_a_last_slash_after_what_is_asked_of_a_memory_changes_nothing(store: Opening) -> None:
    kept = {"text": "tea", "id": "a", "user_id": "ann"}
    whose = {"json": {"user_id": "ann"}}
    replies = ask(
        create_app(store),
        ("POST", "/v1/memories", {"json": kept}),
        ("POST", "/v1/memories", {"json": {**kept, "id": "a/history/"}}),
        ("GET", "/v1/memories/a/history/?user_id=ann", {}),
        ("GET", "/v1/memories/a/links/?user_id=ann", {}),
        ("PUT", "/v1/memories/a/pin/", whose),
        (
            "POST",
            "/v1/memories/a/supersede/",
            {"json": {"text": "tea", "user_id": "ann", "new_id": "b"}},
        ),
        ("GET", "/v1/memories/a%2Fhistory%2F?user_id=ann", {}),
        ("GET", "/v1/memories/b/?user_id=ann", {}),  # the id may be b/
        ("GET", "/v1/memories//?user_id=ann", {}),
    )
    assert [one.status_code for one in replies] == [201, 201, 200, 200, 200, 201, 200, 404, 404]
    assert [one["version"] for one in replies[2].json()["items"]] == [1]
    assert replies[-3].json()["id"] == "a/history/"


@pytest.mark.parametrize("text", ["", " ", "\n\t", None])
def test_an_empty_text_is_refused_at_every_door(text: str | None, store: Opening) -> None:
    wish = "expected a valid string" if text is None else "expected a non-empty string"
    whose = {"user_id": "ann"}
    bodies = (
        ("POST", "/v1/memories", {"text": text, **whose}),
        ("POST", "/v1/memories/batch", {"episodes": [{"text": text, **whose}]}),
        ("PATCH", "/v1/memories/m0", {"text": text, **whose}),
        ("POST", "/v1/memories/m0/supersede", {"text": text, **whose}),
        ("POST", "/memories", {"messages": [{"role": "user", "content": text}], **whose}),
        ("PUT", "/memories/m0?user_id=ann", {"text": text}),
        ("POST", "/api/v1/memories?user_id=ann", {"content": text}),
        ("POST", "/api/v1/memories/batch?user_id=ann", [{"content": text}]),
        ("POST", "/api/memories", {"content": text}),
        ("POST", "/api/memories/m0/modify", {"content": text, "reason": "x"}),
    )
    replies = ask(create_app(store), *((how, path, {"json": body}) for how, path, body in bodies))
    for (_, path, _), got in zip(bodies, replies, strict=True):
        told = got.json()["error"]["message"]
        assert (got.status_code, wish in told) == (422, True), (path, told)
        assert "output" not in told


def test_an_encoded_body_a_form_and_a_false_length_are_refused(store: Opening) -> None:
    replies = ask(
        create_app(store, SMALL),
        ("POST", "/v1/memories", {"content": b"x", "headers": {"content-encoding": "gzip"}}),
        ("POST", "/v1/memories", {"data": {"text": "x"}}),
        ("POST", "/v1/memories", {"content": b"{}", "headers": {**JSON, "content-length": "-1"}}),
        ("POST", "/v1/memories", {"content": b"{", "headers": JSON}),
        ("POST", "/v1/memories", {"content": b'{"text": NaN}', "headers": JSON}),
    )
    assert [one.status_code for one in replies] == [415, 422, 400, 422, 422]


def test_a_length_beside_chunks_is_refused_and_the_connection_closed(store: Opening) -> None:
    both = {**JSON, "content-length": "12", "transfer-encoding": "chunked"}
    app = create_app(store)
    refused, fine = ask(
        app,
        ("POST", "/v1/memories", {"content": b'{"text":"x"}', "headers": both}),
        ("POST", "/v1/memories", {"content": b'{"text":"x"}', "headers": JSON}),
    )
    assert (refused.status_code, refused.headers["connection"]) == (400, "close")
    assert fine.status_code == 201


# ---- too many, too slow ----


async def test_a_request_beyond_its_deadline_is_cancelled_and_answered(store: Opening) -> None:
    app = create_app(store, ServiceOptions(deadline=0.05))
    blocked = Blocked(app)
    async with calling(app) as client:
        reply = await client.get("/blocked")
        assert (reply.status_code, reply.json()["error"]["type"]) == (503, "Timeout")
        assert blocked.cancelled == 1


async def by_hand(
    app: Any, messages: list[Any], path: str = "/blocked", *, client: Any = ("127.0.0.1", 1)
) -> list[dict[str, Any]]:
    """Call an app with messages of a client: those that are callable are awaited."""
    sent: list[dict[str, Any]] = []

    async def receive() -> Any:
        message = messages.pop(0) if messages else asyncio.Event().wait
        return await message() if callable(message) else message

    async def send(message: Any) -> None:
        sent.append(dict(message))

    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(),
        "query_string": b"", "root_path": "", "scheme": "http", "http_version": "1.1",
        "headers": [(b"host", b"127.0.0.1"), (b"content-length", b"2")],
        "client": client, "server": ("127.0.0.1", 2), "app": app, "state": {},
    }  # fmt: skip
    await app(scope, receive, send)
    return sent


def test_a_body_that_does_not_end_is_refused_in_time(store: Opening) -> None:
    app = create_app(store, ServiceOptions(slow=0.05))
    first = {"type": "http.request", "body": b"{", "more_body": True}
    sent = asyncio.run(by_hand(app, [first]))
    assert sent[0]["status"] == 408
    assert (b"connection", b"close") in [(k.lower(), v) for k, v in sent[0]["headers"]]


async def test_a_client_that_leaves_cancels_its_request_at_work_and_in_the_queue(
    store: Opening,
) -> None:
    app = create_app(store, ServiceOptions(max_running=1))
    blocked = Blocked(app)
    body = {"type": "http.request", "body": b"{}", "more_body": False}

    def client(leaves: asyncio.Event) -> asyncio.Task[Any]:
        async def leave() -> Any:
            await leaves.wait()
            return {"type": "http.disconnect"}

        return asyncio.create_task(by_hand(app, [body, leave]))

    first_leaves, second_leaves = asyncio.Event(), asyncio.Event()
    first = client(first_leaves)
    await blocked.began.acquire()
    second = client(second_leaves)
    await asyncio.sleep(0.02)
    second_leaves.set()
    assert await second == []
    first_leaves.set()
    assert await first == []
    assert blocked.cancelled == 1
    blocked.gate.set()
    third = await by_hand(app, [body])  # its slot was given back
    assert third[0]["status"] == 200


def test_the_token_of_a_request_is_checked_before_its_body_is_read(
    store: Opening, token_of: Callable[..., str], tmp_path: Any
) -> None:
    token_of(ANN)
    app = create_app(store, ServiceOptions(tokens=tmp_path / "tokens.json"))

    async def never() -> Any:
        raise AssertionError("the body was read")

    sent = asyncio.run(by_hand(app, [never], "/v1/recall"))
    assert sent[0]["status"] == 401


# ---- levels of JSON ----


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("", 0),
        ("1", 0),
        ("[]", 1),
        ('{"a": [1, {"b": 2}]}', 3),
        ('["[[[["]', 1),
        (r'["\"[[[["]', 1),
        (r'["\\", [[]]]', 3),
        ('["[[[[', 1),
        ('"\\', 0),
        ("[" * 1_000, 1_000),
        ("]]]][", 0),
    ],
)
def test_levels_of_json_are_counted_outside_of_strings(text: str, levels: int) -> None:
    body, kind = text.encode(), "application/json"
    assert n_levels(body, kind) == levels
    assert [is_deeper(body, kind, most) for most in (levels - 1, levels)] == [True, False]


@pytest.mark.parametrize(
    "media_type", ["application/JSON", "Application/Json; charset=utf-8", "application/x+JSON"]
)
def test_the_case_of_a_media_type_does_not_matter_to_levels(media_type: str) -> None:
    assert n_levels(b"[[[1]]]", media_type) == 3
    assert is_deeper(b"[[[1]]]", media_type, 2)


QUOTE_LIKE = "\u0122"
"""In UTF-16 one of its bytes is that of a quote, which hides all that follows."""


def test_deep_json_under_another_name_or_encoding_is_refused_before_it_is_parsed(
    store: Opening,
) -> None:
    def sent(levels: int, encoding: str, media_type: str) -> tuple[str, str, dict[str, Any]]:
        text = json.dumps({"source": QUOTE_LIKE, **nested(levels)}, ensure_ascii=False)
        content, headers = text.encode(encoding), {"content-type": media_type}
        return "POST", "/v1/memories", {"content": content, "headers": headers}

    plain = "application/json"
    deep, shallow = SMALL.max_levels + 1, SMALL.max_levels
    replies = ask(
        create_app(store, SMALL),
        sent(deep, "utf-8", "application/JSON"),
        sent(deep, "utf-8", "APPLICATION/X+JSON"),
        *(sent(deep, name, plain) for name in ("utf-16-le", "utf-16-be", "utf-16", "utf-32")),
        sent(shallow, "utf-16-le", plain),
        sent(shallow, "utf-8", "application/JSON"),
        sent(shallow, "utf-8", plain),
    )
    assert [one.status_code for one in replies] == [422] * 7 + [201] * 2
    told = [one.json()["error"]["message"] for one in replies[:7]]
    assert told[:2] == ["expected at most 4 levels of JSON"] * 2
    assert all("UTF-8" in one for one in told[2:])


@pytest.mark.parametrize(
    ("content", "wish"),
    [
        (b'{"text": "\xe9"}', "JSON in UTF-8"),
        (
            b'{"importance": ' + b"9" * 5_000 + b"}",
            "integers of at most 4300 digits",
        ),
    ],
    ids=["Latin-1", "5,000 digits"],
)
@pytest.mark.parametrize("path", ["/v1/memories", "/v1/recall"])
def test_json_that_python_does_not_read_is_told_why(
    store: Opening, path: str, content: bytes, wish: str
) -> None:
    sent = {"content": content, "headers": {"content-type": "application/json"}}
    (reply,) = ask(create_app(store, ServiceOptions()), ("POST", path, sent))
    assert reply.status_code == 422
    assert reply.json()["error"] == {"type": "Invalid", "message": f"body: expected {wish}"}


def test_counting_levels_reads_each_character_once() -> None:
    # Quadratic in any of these, it would take hours.
    for hostile in (b'"\\"' * 300_000, b'["' * 500_000, b'"' + b"\\" * 999_999, b"[]" * 500_000):
        assert n_levels(hostile, "application/json") >= 0
