"""Part D of the acceptance rows: an embedding endpoint, against a stub on the loopback."""

import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embed.stub_server import StubServer, serving
from hyrecall import recipes
from hyrecall.embed import HttpEmbedder, StaticEmbedder
from hyrecall.errors import OptionError
from hyrecall.memory import DegradedReason, Episode, MemorySync
from memory.stores import folder, open_store

VARIABLES = ("URL", "MODEL", "API_KEY")


@pytest.fixture
def server() -> Iterator[StubServer]:
    with serving() as one:
        yield one


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for owner in ("LTM", "HYRECALL"):
        for name in VARIABLES:
            monkeypatch.delenv(f"{owner}_EMBEDDING_{name}", raising=False)
        monkeypatch.delenv(f"{owner}_EMBED_DISABLE", raising=False)
        monkeypatch.delenv(f"{owner}_EMBED_TIMEOUT", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("HYRECALL_CONFIG", str(tmp_path / "config.json"))


def opened(path: Path | None = None, *, recipe: Any = recipes.l0, **options: Any) -> MemorySync:
    """A store that chooses its embedder by the environment."""
    return MemorySync.open(folder() if path is None else path, recipe=recipe, **options)


def ids(matches: Any) -> list[tuple[str, float]]:
    return [(match.episode.id, match.score) for match in matches]


def kept_vectors(memory: MemorySync) -> list[tuple[str, bytes | None, str | None]]:
    with memory._store.database.reading() as c:
        return list(c.execute("SELECT id, embedding, embedding_model FROM versions ORDER BY row"))


def fill(memory: MemorySync) -> None:
    for n, text in enumerate(("banana bread", "a tea pot", "bread and tea", "disk is full")):
        memory.remember(text, id=f"e{n}", user_id="ana")


@pytest.fixture
def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a socket is opened")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)


@pytest.mark.usefixtures("no_sockets")
@pytest.mark.parametrize("recipe", [recipes.loom, recipes.l0], ids=lambda one: one.name)
def test_D01_without_a_url_no_socket_is_opened(recipe: Any) -> None:
    """The default is then the packaged model, in process, but of l0, which has none unasked; "off"
    gives what words alone give.
    """
    with opened(recipe=recipe) as memory:
        fill(memory)
        memory.search("bread tea", user_id="ana")
        if StaticEmbedder.available() and recipe.semantic == "default":
            memory.reembed(user_id="ana")
        else:
            with pytest.raises(OptionError, match="embedder: expected one"):
                memory.reembed(user_id="ana")
    with (
        opened(embedder="off", recipe=recipe) as off,
        opened(embedder=None, recipe=recipe) as words,
    ):
        for memory in (off, words):
            fill(memory)
        for query in ("bread", "bread tea", "full disk", "nothing of it"):
            found = off.search(query, user_id="ana")
            assert ids(found) == ids(words.search(query, user_id="ana"))
            assert [reason.reason for reason in found.reasons] == [DegradedReason.EMBEDDINGS_OFF]
        assert all(blob is None for _, blob, _ in kept_vectors(off))


def test_an_episode_without_a_text_has_no_vector_and_is_kept(server: StubServer) -> None:
    """Also before the first reply, when nobody knows how long a vector is."""
    with opened(embedder=server.url("ok")) as memory:
        assert not memory.remember("", id="e0", user_id="ana", metadata={"a": 1}).embedded
        assert server.requests == []
        batch = [Episode(id="e1", user_id="ana", text=" "), Episode(id="e2", text="tea")]
        assert [one.embedded for one in memory.remember_batch(batch)] == [False, True]
        assert [model is None for _, _, model in kept_vectors(memory)] == [True, True, False]


@pytest.mark.parametrize("mode", ["refused", "status500", "hang", "junk", "wrongsize", "nan"])
def test_D05_a_save_survives_its_embedder(
    mode: str, server: StubServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = server.url(mode)
    if mode == "refused":
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    path = folder()
    with (
        caplog.at_level(logging.WARNING, "hyrecall"),
        opened(path, embedder=HttpEmbedder(url, timeout=0.2), dim=4) as memory,
    ):
        kept = memory.remember("SECRET tea", id="e0", user_id="ana")
        assert not kept.embedded
        assert len(kept.reasons) == 1
        assert kept_vectors(memory) == [("e0", None, None)]
    lines = [record for record in caplog.records if record.name == "hyrecall.memory"]
    assert len(lines) == 1
    assert "SECRET" not in caplog.text
    with opened(path, embedder=None) as memory:
        assert [one.episode.id for one in memory.search("secret", user_id="ana")] == ["e0"]


@pytest.mark.parametrize("ending", ["", "/", "/embeddings"])
def test_D10_the_path_and_the_body(ending: str, server: StubServer) -> None:
    with opened(embedder=server.url("ok") + ending) as memory:
        memory.remember("banana", id="e0", user_id="ana")
        assert memory.search("banana", user_id="ana")[0].vector_score == pytest.approx(1)
    assert {request.path for request in server.requests} == {"/ok/v1/embeddings"}
    assert [request.json for request in server.requests] == [{"input": "banana"}] * 2
    assert {request.headers["content-type"] for request in server.requests} == {"application/json"}


@pytest.mark.parametrize("name", ["LTM_EMBEDDING_API_KEY", "OPENAI_API_KEY", None])
def test_D11_the_key_goes_as_bearer_and_nowhere_else(
    name: str | None,
    server: StubServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    key = "sk-CANARY-0123"
    monkeypatch.setenv("LTM_EMBEDDING_URL", server.url("unauthorized"))
    if name is not None:
        monkeypatch.setenv(name, key)
    path = folder()
    with caplog.at_level(logging.DEBUG), opened(path, dim=4) as memory:
        kept = memory.remember("tea", user_id="ana")
        matches = memory.search("tea", user_id="ana")
        told = [repr(memory), repr(kept), repr(matches.reasons), repr(memory.doctor())]
        monkeypatch.setenv("LTM_EMBEDDING_URL", server.url("ok"))
    sent = {request.headers.get("authorization") for request in server.requests}
    assert sent == {f"Bearer {key}" if name else None}
    assert key not in caplog.text + "".join(told)
    assert not any(key.encode() in file.read_bytes() for file in path.rglob("*") if file.is_file())


@pytest.mark.parametrize("name", ["LTM_EMBED_DISABLE", "HYRECALL_EMBED_DISABLE"])
def test_D12_the_switch_wins_over_a_url(
    name: str, server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LTM_EMBEDDING_URL", server.url("ok"))
    monkeypatch.setenv(name, "1")
    for options in ({}, {"embedder": server.url("ok")}):
        with opened(**options) as memory:
            fill(memory)
            matches = memory.search("bread", user_id="ana")
            assert [one.reason for one in matches.reasons] == [DegradedReason.EMBEDDINGS_OFF]
            with pytest.raises(ValueError, match="embedder: expected one"):
                memory.reembed(user_id="ana")
    assert server.n_connections == 0
    monkeypatch.delenv(name)
    with opened() as memory:  # the control: without the switch it is asked
        fill(memory)
    assert server.n_connections == 1


def test_D13_a_slow_server_is_left_after_the_timeout(
    server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LTM_EMBEDDING_URL", server.url("slow"))
    monkeypatch.setenv("LTM_EMBED_TIMEOUT", "50ms")
    server.seconds = 0.2
    with opened(dim=4) as memory:
        assert not memory.remember("tea", id="e0", user_id="ana").embedded
        fastest = 10.0
        for _ in range(4):  # fewer than open the breaker, with the one above
            begun = time.monotonic()
            matches = memory.search("tea", user_id="ana")
            fastest = min(fastest, time.monotonic() - begun)
            assert [one.reason for one in matches.reasons] == [DegradedReason.EMBED_TIMEOUT]
            assert [one.episode.id for one in matches] == ["e0"]
        assert 0.04 < fastest < 0.15


def test_D14_the_model_is_sent_and_kept(
    server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LTM_EMBEDDING_URL", server.url("ok"))
    monkeypatch.setenv("LTM_EMBEDDING_MODEL", "text-embedding-3-small")
    with opened() as memory:
        memory.remember("tea", id="e0", user_id="ana")
        assert server.requests[0].json == {"model": "text-embedding-3-small", "input": "tea"}
        ((_, blob, model),) = kept_vectors(memory)
        assert (model, len(blob or b"")) == ("text-embedding-3-small", 16)


def test_D20_rows_of_another_length_are_found_by_words(
    server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hyrecall.memory.derived.backfill.FIRST_SECONDS", 3600.0)
    path = folder()
    with open_store(path, recipe=recipes.l0) as memory:  # 8 numbers
        memory.remember("tea pot", id="old", user_id="ana")
    with opened(path, embedder=server.url("ok")) as memory:  # 4 numbers
        memory.remember("tea cup", id="new", user_id="ana")
        matches = memory.search("tea", user_id="ana")
        scores = {one.episode.id: one.vector_score is None for one in matches}
        assert scores == {"old": True, "new": False}
        assert [str(one) for one in matches.reasons] == [
            "embed_stale (1 of 2 memories have no usable vector)"
        ]


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize("mode", ["status500", "junk", "hang", "nan"])
def test_D26_a_recall_whose_embedder_fails_is_one_by_words(
    mode: str, server: StubServer, caplog: pytest.LogCaptureFixture
) -> None:
    path = folder()
    with opened(path, embedder=server.url("ok"), recipe=recipes.l0) as memory:
        fill(memory)
    with opened(path, embedder=None, recipe=recipes.l0) as memory:
        expected = {
            (query, limit): ids(memory.search(query, user_id="ana", limit=limit))
            for query in ("bread", "tea bread", "disk")
            for limit in (1, 10)
        }
    bad = HttpEmbedder(server.url(mode), timeout=0.1)
    for (query, limit), words in expected.items():
        with opened(path, embedder=bad, dim=4, recipe=recipes.l0) as memory:
            matches = memory.search(query, user_id="ana", limit=limit)
            assert ids(matches) == words
            assert matches.degraded
            told = [one for one in caplog.records if "by words alone" in one.message]
            assert [one.levelname for one in told] == ["WARNING"]
            assert query not in caplog.text
            caplog.clear()


@pytest.mark.parametrize("name", ["l0", "default"])
def test_D34_a_long_timeout_holds_for_writes_and_recalls(
    name: str, server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LTM_EMBEDDING_URL", server.url("slow"))
    monkeypatch.setenv("LTM_EMBED_TIMEOUT", "20s")
    server.seconds = 2.0
    with opened(dim=4, recipe=getattr(recipes, name)) as memory:
        assert (memory._store.recall_timeout, memory._store.write_timeout) == (20.0, 20.0)
        assert memory.remember("tea", id="e0", user_id="ana").embedded
        matches = memory.search("tea", user_id="ana")
        assert not matches.degraded
        assert matches[0].vector_score is not None
    with opened(dim=4, recipe=getattr(recipes, name), recall_timeout=0.2) as memory:
        (reason,) = memory.search("tea", user_id="ana").reasons
        assert reason.reason is DegradedReason.EMBED_TIMEOUT


@pytest.mark.parametrize(("name", "seconds"), [("l0", (5.0, 5.0)), ("default", (1.5, 5.0))])
def test_D13_without_the_variable_l0_waits_five_seconds_as_its_documents_say(
    name: str, seconds: tuple[float, float], server: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LTM_EMBEDDING_URL", server.url("ok"))
    monkeypatch.delenv("LTM_EMBED_TIMEOUT", raising=False)
    with opened(recipe=getattr(recipes, name)) as memory:
        assert (memory._store.recall_timeout, memory._store.write_timeout) == seconds
