"""A last day is whole at every door, and a tool lists what happened in a time."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("mcp", reason="the extra [mcp] is not installed")
pytest.importorskip("typer", reason="the extra [cli] is not installed")
pytest.importorskip("fastapi", reason="the extra [serve] is not installed")

from mcp.client import Client
from typer.testing import CliRunner

from hyrecall import recipes
from hyrecall.memory import Memory, MemorySync
from hyrecall.serve import Caller, create_app
from hyrecall.serve.mcp import create_server
from mcp_world import data_of, refusal_of, text_of
from seams import app_app as app
from serve_client import calling

TIMES = {
    "before": "2026-11-26T23:59:59.999999Z",
    "first": "2026-11-27T00:00:00Z",
    "noon": "2026-11-28T12:00:00Z",
    "last": "2026-11-28T23:59:59.999999Z",
    "after": "2026-11-29T00:00:00Z",
}
INSIDE = ["first", "last", "noon"]
DAYS = ("2026-11-27", "2026-11-28")
FACT = {"subject": "ann", "predicate": "likes", "object": "tea"}
TEA_TIME = datetime(2026, 11, 28, 16, tzinfo=UTC)
ME = Caller(rights=frozenset(("read", "write")))


def fill(memory: MemorySync) -> None:
    for key, time in TIMES.items():
        memory.remember(f"tea {key}", id=key, occurred_at=datetime.fromisoformat(time))


def ids(matches: Any) -> list[str]:
    return sorted(one["id"] for one in matches)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/recall", {"text": "tea", "now": ...}),
        ("/v1/recall", {"text": "tea", "since": ...}),
        ("/v1/recall/batch", {"queries": [{"text": "tea", "until": ...}]}),
        ("/v1/recall", {"text": "tea", "filter": {"occurred_at": {"from": ...}}}),
        ("/v1/memories", {"text": "tea", "occurred_at": ...}),
        ("/v1/facts", FACT | {"valid_from": ...}),
        ("/v1/facts", FACT | {"valid_from": "2020-02-01", "valid_to": ...}),
        ("/v1/facts/recall", {"text": "tea", "valid_at": ...}),
        ("/v1/facts/f/end", {"at": ...}),
    ],
)
async def test_a_number_is_no_time_over_rest_and_a_date_is_its_midnight(
    path: str, body: dict[str, Any]
) -> None:
    def filled(part: Any, time: Any) -> Any:
        if isinstance(part, dict):
            return {name: filled(one, time) for name, one in part.items()}
        if isinstance(part, list):
            return [filled(one, time) for one in part]
        return time if part is ... else part

    store = Memory.in_memory(embedder=None, recipe=recipes.default)
    async with calling(create_app(store)) as client:
        begin = {"id": "f", "object": "milk", "valid_from": "2020-01-01"}
        assert (await client.post("/v1/facts", json=FACT | begin)).status_code == 201
        wrong = ["2024", "0", "20240501", "1714550400000", "1712010100000", "2024.5", "-1"]
        for time in wrong if "filter" in body else [*wrong, 0, 2024, 1.5, True]:
            got = await client.post(path, json=filled(body, time))
            assert got.status_code == 422, (time, got.text)
            wish = "an ISO 8601 time" if "filter" in body else "expected an ISO 8601 time"
            assert wish in got.text
        for time in ("2024-05-01", "2024-05-01T00:00:00Z", "2024-05-01 02:00+02:00"):
            got = await client.post(path, json=filled(body, time))
            assert got.status_code in (200, 201), (time, got.text)


async def test_a_text_of_digits_is_no_time_in_a_table_of_queries() -> None:
    store = Memory.in_memory(embedder=None, recipe=recipes.default)
    async with calling(create_app(store)) as client:
        for time, status in (("2024", 422), ("2024-05-01", 200), (TEA_TIME, 200)):
            rows = pa.Table.from_pylist(
                [{"text": "tea", "now": time, "since": time, "until": time}]
            )
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema) as stream:
                stream.write_table(rows)
            headers = {"content-type": "application/vnd.apache.arrow.stream"}
            got = await client.post(
                "/v1/recall/arrow", content=bytes(sink.getvalue()), headers=headers
            )
            assert got.status_code == status, got.text
            assert ("expected an ISO 8601 time" in got.text) == (status == 422)


def test_what_is_no_time_is_refused_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYRECALL_CONFIG", str(tmp_path / "none.json"))
    MemorySync.open(tmp_path / "m", embedder=None).close()
    for wrong in ("28.11.2026", "2026", "20261128", "1712010100000"):
        words = ["recall", "tea", "--path", str(tmp_path / "m"), "--until", wrong]
        refused = CliRunner().invoke(app, words)
        assert (refused.exit_code, refused.stderr) == (
            1, f"error: --until: expected an ISO 8601 time, got {wrong!r}\n",
        )  # fmt: skip


async def test_tools_search_and_list_what_happened_in_a_time() -> None:
    async with (
        Memory.in_memory(embedder=None, recipe=recipes.default) as memory,
        Client(create_server(memory, caller=ME)) as client,
    ):
        for key, time in TIMES.items():
            given = {"text": f"tea {key}", "id": key, "occurred_at": time}
            data_of(await client.call_tool("remember", given))
        times = {"since": DAYS[0], "until": DAYS[1]}
        found = data_of(await client.call_tool("search", {"text": "tea", **times}))
        assert ids([one["episode"] for one in found["items"]]) == INSIDE
        for query in ("*", "", " * "):
            reply = await client.call_tool("search", {"text": query, **times})
            found = data_of(reply)
            assert [one["episode"]["id"] for one in found["items"]] == ["last", "noon", "first"]
            assert {one["score"] for one in found["items"]} == {None}
            assert "Nothing" not in text_of(reply)
        page = {"text": "*", "since": DAYS[0], "limit": 1, "offset": 1, "kind": "episodic"}
        found = data_of(await client.call_tool("search", page))
        assert [one["episode"]["id"] for one in found["items"]] == ["last"]
        listed = data_of(await client.call_tool("list", times))
        assert [one["id"] for one in listed["items"]] == ["last", "noon", "first"]
        both = {"until": DAYS[1], "filter": {"occurred_at": {"from": DAYS[1]}}}
        listed = data_of(await client.call_tool("list", both))
        assert [one["id"] for one in listed["items"]] == ["last", "noon"]
        refused = await client.call_tool("search", {"text": "*", "alpha": 0.5, **times})
        assert refusal_of(refused).startswith("OptionError: alpha: expected no such option")
        refused = await client.call_tool("list", {"until": "yesterday"})
        assert refusal_of(refused) == (
            "OptionError: until: expected an ISO 8601 time, got 'yesterday'"
        )


async def test_tools_list_110_memories_of_a_day() -> None:
    async with Memory.in_memory(embedder=None, recipe=recipes.hypergraph) as memory:
        for at in range(110):
            time = datetime(2026, 11, 28, 6, at % 60, at // 60, tzinfo=UTC)
            await memory.remember(f"note {at}", occurred_at=time)
        async with Client(create_server(memory, caller=ME)) as client:
            asked = {"text": "*", "since": "2026-11-28", "until": "2026-11-28", "limit": 200}
            assert len(data_of(await client.call_tool("search", asked))["items"]) == 110
