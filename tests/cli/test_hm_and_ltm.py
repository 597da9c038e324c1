"""``hyrecall hm`` and ``hyrecall ltm``: the commands of HyperMemory and l0-memory."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from mcp.client import Client

from embed.stub_server import StubServer, serving
from hyrecall import recipes
from hyrecall.errors import StoreError, WriterBusyError
from hyrecall.memory import EVERYONE, Memory, MemorySync
from hyrecall.serve.mcp import create_server
from hyrecall.systems.hypergraph import hm_recall
from hyrecall.systems.l0 import Notes
from memory.test_transfer import an_l0_file

Run = Callable[..., SimpleNamespace]
QUERY = "JWT authentication decisions"
NAMES = ("EMBEDDING_URL", "EMBEDDING_MODEL", "EMBEDDING_API_KEY", "EMBED_TIMEOUT", "EMBED_DISABLE")


# ---- hm ----


@pytest.fixture
def graph(store: Path) -> Path:
    """Three nodes of ann, and two edges."""
    with MemorySync.open(store, embedder=None, recipe=recipes.hypergraph) as memory:
        for key, kind, text in (
            ("decision_jwt", "decision", QUERY),
            ("service_auth", "service", "The auth service signs tokens"),
            ("person_ana", "person", "Ana owns the login page"),
        ):
            memory.remember(text, id=key, kind=kind, user_id="ann")
        memory.link(["decision_jwt", "service_auth"], "decided by", user_id="ann")
    return store


def timeless(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "metadata": {**answer["metadata"], "took_ms": 0}}


def test_C25_hm_recall_prints_the_json_of_the_function(run: Run, graph: Path) -> None:
    reply = run("hm", "recall", QUERY, "--user", "ann", "--json", "--session-id", "s1")
    assert (reply.code, reply.err) == (
        0,
        "note: degraded: embeddings_off (HYRECALL_EMBED_DISABLE is set)\n",
    )
    with MemorySync.open(graph, recipe=recipes.hypergraph) as memory:
        wanted = hm_recall(memory, QUERY, session_id="s2", user_id="ann")
    assert timeless(reply.data) == timeless(json.loads(json.dumps(wanted)))
    assert [one["key"] for one in reply.data["results"]] == ["decision_jwt"]
    forced = run("hm", "recall", ".*_.*", "--user", "ann", "--json", "--force-regex", "-n", 2)
    assert (forced.code, forced.data["count"]) == (0, 2)
    nothing = run("hm", "recall", "zebra", "--user", "ann", "--json")
    assert (nothing.code, nothing.data["results"]) == (0, [])


def test_C25_hm_recall_records_its_conversation(run: Run, graph: Path) -> None:
    asked = ("hm", "recall", "tokens", "--user", "ann", "--json", "--session-id", "s1")
    phases = [run(*asked).data["metadata"]["phase"] for _ in range(4)]
    assert phases == ["early", "early", "early", "mid"]


def test_C25_hm_recall_shows_nodes_with_their_neighbours(run: Run, graph: Path) -> None:
    reply = run("hm", "recall", QUERY, "--user", "ann")
    assert reply.code == 0
    assert "decision_jwt" in reply.out
    assert "decided by: service_auth" in reply.out
    assert "note: no nodes" in run("hm", "recall", "zebra", "--user", "ann").err


CODES: list[tuple[tuple[str, ...], int, str]] = [
    (("(", "--force-regex"), 6, "expected a regular expression"),
    (("  ",), 6, "query"),
    (("tea", "--session-id", ""), 6, "session_id"),
    (("tea", "-n", "0"), 2, "1 to 50"),
    (("tea", "-n", "51"), 2, "1 to 50"),
    (("tea", "-n", "many"), 2, "valid integer"),
    ((), 2, "QUERY"),
    (("tea", "--path", "none.mem"), 5, "none.mem"),
]


def test_C25_hm_recall_ends_with_the_documents_codes(
    run: Run, graph: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(graph.parent)
    for given, code, told in CODES:
        who = () if code == 5 else ("--user", "ann")
        reply = run("hm", "recall", *given, "--json", *who)
        assert (reply.code, reply.out) == (code, ""), reply.err
        assert told in reply.err
        assert "Traceback" not in reply.err


@pytest.mark.parametrize(("kind", "code"), [(WriterBusyError, 9), (StoreError, 1)])
def test_C25_hm_recall_of_a_store_that_cannot_be_opened_ends_with_9_or_1(
    run: Run, graph: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception], code: int
) -> None:
    def fails(*_: Any, **__: Any) -> MemorySync:
        raise kind("path: expected another, got one")

    monkeypatch.setattr(MemorySync, "open", fails)
    reply = run("hm", "recall", "tea", "--user", "ann")
    assert (reply.code, reply.out) == (code, "")
    assert reply.err.startswith("error: path: ")


# ---- ltm ----


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where notes will be; nothing of the environment is set but that."""
    path = tmp_path / "notes.mem"
    monkeypatch.setenv("LTM_DB", str(path))
    monkeypatch.setenv("HYRECALL_PATH", str(tmp_path / "other.mem"))
    monkeypatch.setenv("HYRECALL_CONFIG", str(tmp_path / "config.json"))
    monkeypatch.delenv("LTM_SCOPE", raising=False)
    for name in NAMES:
        monkeypatch.delenv(f"HYRECALL_{name}", raising=False)
        monkeypatch.delenv(f"LTM_{name}", raising=False)
    return path


@pytest.fixture
def server() -> Iterator[StubServer]:
    with serving() as one:
        yield one


def listed(reply: SimpleNamespace) -> Any:
    assert reply.code == 0, reply.err
    return json.loads(reply.out)


def test_D31_a_note_is_saved_shown_pinned_superseded_and_deleted(run: Run, notes: Path) -> None:
    made = run("ltm", "save", "deploy", "On Friday", "--tag", "plan", "--tag", "ops").data
    assert {**made, "created_at": 0, "updated_at": 0} == {
        "scope": "user", "key": "deploy", "value": "On Friday", "tags": ["plan", "ops"],
        "pinned": False, "archived": False, "size_bytes": 9, "created_at": 0, "updated_at": 0,
    }  # fmt: skip
    assert abs(made["created_at"] - made["updated_at"]) < 60_000
    assert run("ltm", "get", "deploy").data == made
    assert run("ltm", "pin", "deploy").data["pinned"] is True
    assert run("ltm", "get", "deploy").data["pinned"] is True
    assert run("ltm", "unpin", "deploy").data["pinned"] is False
    changed = run("ltm", "save", "deploy", "On Monday").data
    assert (changed["value"], changed["tags"]) == ("On Monday", [])
    assert changed["updated_at"] >= made["updated_at"]
    new = run("ltm", "supersede", "deploy", "release", "On Sunday").data
    assert (new["key"], new["value"]) == ("release", "On Sunday")
    assert [one["key"] for one in listed(run("ltm", "list"))] == ["release"]
    assert run("ltm", "delete", "release").data == {
        "deleted": True, "scope": "user", "key": "release",
    }  # fmt: skip
    assert listed(run("ltm", "list")) == []
    for command in (
        ("get", "x"), ("delete", "x"), ("pin", "x"), ("unpin", "x"), ("supersede", "x", "y", "z"),
    ):  # fmt: skip
        reply = run("ltm", *command)
        assert (reply.code, reply.out) == (1, "")
        assert "expected a note that is there" in reply.err


def test_D31_D29_a_search_gives_snippets_and_whole_notes_when_asked(run: Run, notes: Path) -> None:
    run("ltm", "save", "cluster", "Kubernetes runs in Frankfurt")
    run("ltm", "save", "tea", "Tea at four", "--scope", "ann")
    (hit,) = listed(run("ltm", "search", "kube frank"))
    assert hit["snippet"] == "<<Kubernetes>> runs in <<Frankfurt>>"
    assert "value" not in hit
    with MemorySync.open(notes, embedder=None, recipe=recipes.l0) as memory:
        (same,) = Notes(memory, scopes=EVERYONE).search("kube frank")
    assert (hit["key"], hit["score"]) == (same.key, same.score)
    (whole,) = listed(run("ltm", "search", "kube", "--expand"))
    assert whole["value"] == "Kubernetes runs in Frankfurt"
    assert "snippet" not in whole
    assert listed(run("ltm", "search", "tea kube")) == []
    assert len(listed(run("ltm", "list", "--limit", 1))) == 1


def test_D31_a_scope_holds_its_own_notes_and_no_scope_means_all(
    run: Run, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("ltm", "save", "tea", "Tea at four", "--scope", "ann")
    run("ltm", "save", "tea", "Tea at five")
    assert run("ltm", "get", "tea").data["value"] == "Tea at five"
    assert run("ltm", "get", "tea", "--scope", "ann").data["value"] == "Tea at four"

    def scopes(*command: str) -> set[str]:
        return {one["scope"] for one in listed(run("ltm", *command))}

    assert scopes("list") == scopes("search", "tea") == {"user", "ann"}
    assert scopes("list", "--scope", "ann") == scopes("search", "tea", "--scope", "ann") == {"ann"}
    monkeypatch.setenv("LTM_SCOPE", "ann")
    assert scopes("list") == scopes("search", "tea") == {"ann"}
    assert run("ltm", "get", "tea").data["value"] == "Tea at four"
    assert run("ltm", "delete", "tea").code == 0
    monkeypatch.delenv("LTM_SCOPE")
    assert scopes("list") == {"user"}


def test_D31_a_dash_reads_stdin_and_path_names_the_store(
    notes: Path, process: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    from typer.testing import CliRunner

    from seams import app_app as app

    reply = CliRunner().invoke(app, ["ltm", "save", "song", "-"], input="two\nlines\n")
    assert json.loads(reply.stdout)["value"] == "two\nlines"
    assert run("ltm", "path").data == {"path": str(notes)}
    assert run("ltm", "path", "--path", "here").data == {"path": "here"}
    monkeypatch.delenv("LTM_DB")
    assert run("ltm", "path").data["path"].endswith("other.mem")
    assert run("ltm", "list", "--path", notes.parent / "none.mem").code == 1


def test_D31_D15_D16_reembed_fills_what_is_missing_then_all_by_force(
    run: Run, notes: Path, server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        run("ltm", "save", f"k{n}", f"tea {n}", "--scope", "ann" if n else "user")
    refused = run("ltm", "reembed")
    assert (refused.code, refused.out) == (1, "")
    assert "LTM_EMBEDDING_URL" in refused.err
    monkeypatch.setenv("LTM_EMBEDDING_URL", server.url("ok"))
    monkeypatch.setenv("LTM_EMBEDDING_MODEL", "small")
    assert run("ltm", "reembed", "--scope", "ann").data == {
        "scanned": 2, "embedded": 2, "skipped": 0, "errors": 0,
    }  # fmt: skip
    assert run("ltm", "reembed").data["embedded"] == 1
    server.requests.clear()
    assert run("ltm", "reembed").data["skipped"] == 3
    assert server.requests == []
    assert run("ltm", "reembed", "--force").data["embedded"] == 3
    assert run("ltm", "save", "k9", "tea 9").code == 0
    assert run("ltm", "reembed").data["skipped"] == 4  # a save embeds
    monkeypatch.setenv("LTM_EMBED_DISABLE", "1")
    assert run("ltm", "reembed").code == 1


def test_D31_D17_reembed_names_what_failed(
    run: Run, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("ltm", "save", "tea", "Tea at four")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    monkeypatch.setenv("LTM_EMBEDDING_URL", f"http://127.0.0.1:{port}/v1")
    reply = run("ltm", "reembed")
    assert reply.code == 1
    assert reply.data["embedded"] == 0
    assert reply.data["error_detail"]
    assert "error: " in reply.err


# ---- l0's own database ----


@pytest.mark.parametrize("schema", ["v0.1", "v0.6"])
def test_D35_notes_of_an_imported_database_are_notes(
    run: Run, notes: Path, tmp_path: Path, schema: str
) -> None:
    path = an_l0_file(tmp_path / "l0.db", schema)
    run("import", path, "--from", "l0", "--path", notes)
    there = {"key 0", "key 1", "key 4"}
    listed = json.loads(run("ltm", "list", "--scope", "user").out)
    assert there <= {one["key"] for one in listed}
    found = json.loads(run("ltm", "search", "value", "--scope", "user").out)
    assert there <= {one["key"] for one in found}
    assert run("ltm", "get", "key 0").data["value"] == "value 0"
    assert run("ltm", "save", "key 0", "another").code == 0
    with MemorySync.open(notes, recipe=recipes.l0, embedder=None) as memory:
        kept = Notes(memory)
        assert kept.get("key 0").value == "another"  # type: ignore[union-attr]
        assert {"key 1", "key 4"} <= {one.key for one in kept.list()}
        kept.save("key 1", "third")
        assert kept.search("third")[0].key == "key 1"
    reply = asyncio.run(_searched(notes))
    assert there - {"key 0", "key 1"} <= {one["key"] for one in reply["results"]}


async def _searched(path: Path) -> Any:
    async with (
        Memory.open(path, recipe=recipes.l0, embedder=None) as memory,
        Client(create_server(memory)) as client,
    ):
        reply = await client.call_tool("memory_search", {"query": "value", "scope": "user"})
        return reply.structured_content


@pytest.mark.parametrize(("timeout", "is_used"), [("20s", True), ("100ms", False)])
def test_D34_a_search_waits_for_the_endpoint_as_long_as_the_variable_says(
    run: Run, notes: Path, monkeypatch: pytest.MonkeyPatch, timeout: str, is_used: bool
) -> None:
    with serving() as server:
        server.seconds = 0.0
        monkeypatch.setenv("LTM_EMBEDDING_URL", server.url("slow"))
        assert run("ltm", "save", "k", "green tea").code == 0
        server.seconds = 2.0
        monkeypatch.setenv("LTM_EMBED_TIMEOUT", timeout)
        found = json.loads(run("ltm", "search", "coffee").out)
        assert [one["key"] for one in found] == (["k"] if is_used else [])  # by its vector alone
        asked = ("recall", "coffee", "--path", notes, "--user", "user", "--recipe", "l0", "--json")
        told = run(*asked)
        assert told.data["degraded"] is not is_used
        assert ("embed_timeout" in told.err) is not is_used
        assert [one["reason"] for one in told.data["reasons"]] == (
            [] if is_used else ["embed_timeout"]
        )
