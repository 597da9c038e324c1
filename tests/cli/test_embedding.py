"""Commands on a store beside an endpoint that works, refuses a row, or is not there."""

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from hyrecall import recipes

pytest.importorskip("apsw", reason="the extra [memory] is not installed")

from embed.stub_server import Request, StubServer, serving
from hyrecall.memory import MemorySync

Run = Callable[..., SimpleNamespace]
PICKY = "tea 2"
NAMES = ("EMBEDDING_URL", "EMBEDDING_MODEL", "EMBEDDING_API_KEY", "EMBED_TIMEOUT", "EMBED_DISABLE")


@pytest.fixture
def server() -> Iterator[StubServer]:
    with serving() as one:
        yield one


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of five memories without vectors: ann's ``e0`` to ``e3``, and bob's ``e4``."""
    path = tmp_path / "agent.mem"
    monkeypatch.setenv("HYRECALL_PATH", str(path))
    monkeypatch.setenv("HYRECALL_CONFIG", str(tmp_path / "config.json"))
    for name in NAMES:
        monkeypatch.delenv(f"HYRECALL_{name}", raising=False)
        monkeypatch.delenv(f"LTM_{name}", raising=False)
    with MemorySync.open(path, embedder=None, recipe=recipes.l0) as memory:
        for n in range(5):
            memory.remember(f"tea {n}", id=f"e{n}", user_id="bob" if n == 4 else "ann")
    return path


def models(path: Path) -> dict[str, str | None]:
    with (
        MemorySync.open(path, embedder=None, read_only=True, recipe=recipes.l0) as memory,
        memory._store.database.reading() as c,
    ):
        return dict(c.execute("SELECT id, embedding_model FROM versions ORDER BY row"))


def counts(reply: SimpleNamespace) -> tuple[int, int, int]:
    return reply.data["scanned"], reply.data["embedded"], reply.data["skipped"]


def nobody() -> str:
    """A URL at which nobody answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


# ---- reembed ----


def test_D16_reembed_with_force_takes_all_of_one_user(
    run: Run, store: Path, server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LTM_EMBEDDING_URL", server.url("ok"))
    monkeypatch.setenv("LTM_EMBEDDING_MODEL", "old")
    assert run("reembed").code == 0
    monkeypatch.setenv("LTM_EMBEDDING_MODEL", "new")
    assert counts(run("reembed", "--user", "bob", "--json")) == (1, 1, 0)  # of another model
    assert counts(run("reembed", "--user", "bob", "--json")) == (1, 0, 1)
    monkeypatch.setenv("LTM_EMBEDDING_MODEL", "newer")
    forced = run("reembed", "--force", "--user", "ann", "--json")
    assert (forced.code, counts(forced)) == (0, (4, 4, 0))
    assert models(store) == {f"e{n}": "new" if n == 4 else "newer" for n in range(5)}


def test_D17_reembed_names_a_row_that_fails_and_keeps_the_others(
    run: Run, store: Path, server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def picky(self: StubServer, connection: socket.socket, request: Request) -> bool:
        return (self.do_junk if PICKY in request.texts else self.do_ok)(connection, request)

    monkeypatch.setattr(StubServer, "do_picky", picky, raising=False)
    monkeypatch.setenv("LTM_EMBEDDING_URL", server.url("picky"))
    monkeypatch.setenv("LTM_EMBEDDING_MODEL", "small")
    reply = run("reembed", "--json")
    assert (reply.code, counts(reply)[:2]) == (1, (5, 4))
    assert [one["id"] for one in reply.data["errors"]] == ["e2"]
    (line,) = [line for line in reply.err.splitlines() if line.startswith("error: ")]
    assert line.startswith("error: e2: malformed")
    assert PICKY not in reply.err
    assert models(store) == {f"e{n}": None if n == 2 else "small" for n in range(5)}
    assert "1 errors" in run("reembed").out


# ---- an endpoint that is not there ----


def test_D05_a_save_without_its_endpoint_is_one_line_on_stderr(
    run: Run, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LTM_EMBEDDING_URL", nobody())
    assert run("remember", "tea of dawn", "--user", "ann").code == 0  # its index has changed
    reply = run("remember", "tea of noon", "--id", "noon", "--user", "ann")
    assert (reply.code, reply.out) == (0, "noon\n")
    (line,) = reply.err.splitlines()
    assert line.startswith("note: degraded: embed_unavailable (unreachable")
    assert "noon" not in line
    assert models(store)["noon"] is None


def test_D26_recall_without_its_endpoint_is_by_words_and_one_line_on_stderr(
    run: Run, store: Path, server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LTM_EMBEDDING_URL", server.url("ok"))
    monkeypatch.setenv("LTM_EMBEDDING_MODEL", "small")
    assert run("reembed").code == 0
    assert run("remember", "tea 5", "--user", "ann").code == 0  # saves the index with vectors
    asked = ("recall", "tea", "--user", "ann", "--limit", 3, "--json")
    by_words = run(*asked, "--alpha", 0)
    monkeypatch.setenv("LTM_EMBEDDING_URL", nobody())
    reply = run(*asked)
    assert (by_words.code, reply.code) == (0, 0)
    (line,) = reply.err.splitlines()
    assert line.startswith("note: degraded: embed_unavailable (unreachable")

    def found(data: dict[str, object]) -> list[str]:
        return [one["episode"]["id"] for one in data["items"]]  # type: ignore[attr-defined]

    assert found(reply.data) == found(by_words.data)
    assert len(found(reply.data)) == 3


@pytest.mark.parametrize("answer", ["nobody", "status500", "junk"])
def test_D05_D26_notes_without_their_endpoint_are_kept_found_and_told(
    run: Run, store: Path, server: StubServer, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    """A line on stderr, fields of the JSON, and exit code 0: the note is kept and found."""
    assert run("ltm", "save", "dawn", "tea of dawn").code == 0
    url = nobody() if answer == "nobody" else server.url(answer)
    monkeypatch.setenv("LTM_EMBEDDING_URL", url)
    assert run("ltm", "search", "tea").code == 0  # its index has changed
    saved = run("ltm", "save", "noon", "tea of noon")
    next_one = run("ltm", "supersede", "noon", "five", "tea of five")
    found = run("ltm", "search", "tea five")
    for reply, told in (
        (saved, saved.data), (next_one, next_one.data), (found, json.loads(found.out)[0]),
    ):  # fmt: skip
        assert reply.code == 0
        (line,) = [one for one in reply.err.splitlines() if "built anew" not in one]
        assert line.startswith("note: degraded: embed_"), reply.err
        assert told["degraded"] == [line.removeprefix("note: degraded: ")]
    assert (saved.data["embedded"], next_one.data["embedded"]) == (False, False)
    assert [one["key"] for one in json.loads(found.out)] == ["five"]


def test_what_a_store_logs_is_a_note(run: Run, store: Path) -> None:
    with MemorySync.open(store, embedder="off") as memory:
        memory.search("tea", user_id="ann")
    for path in (store / "index").rglob("*"):
        if path.is_file():
            path.write_bytes(b"")
    reply = run("recall", "tea", "--user", "ann")
    assert reply.code == 0
    assert "note: the index of the store is built anew" in reply.err
