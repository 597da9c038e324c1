"""Memories without a usable vector: replies count them, and the store embeds them by itself."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from embed.fakes import wait_until
from embed.stub_server import StubServer, serving
from hyrecall.embed import EmbedFault, HashEmbedder, HttpEmbedder
from hyrecall.memory import Episode, MemorySync
from seams import embed_error, filling

N = 50


class Named(HashEmbedder):
    """An embedder of a name, which can be down, and refuses texts with a word."""

    def __init__(self, model: str = "new") -> None:
        super().__init__(16)
        self.model = model
        self.is_down = False
        self.calls: list[list[str]] = []
        self.waits: threading.Event | None = None

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        self.calls.append(list(texts))
        if self.waits is not None:
            self.waits.wait(30)
        if self.is_down:
            raise embed_error(EmbedFault.UNREACHABLE, "status 200", "status 503")
        if any("endless" in text for text in texts):
            raise embed_error(EmbedFault.REFUSED, "status 200", "status 400", "too long")
        return super().embed(texts)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin at once, and try again soon."""
    monkeypatch.setattr(filling, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(filling, "LONGEST_WAIT", 0.2)


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "FIRST_SECONDS", 3600.0)


@pytest.fixture
def server() -> Iterator[StubServer]:
    with serving() as made:
        yield made


def reasons(memory: MemorySync, user: str = "ann") -> list[str]:
    return [str(one) for one in memory.search("tea", user_id=user).reasons]


def embeddings(memory: MemorySync) -> tuple[bool, str]:
    report = memory.doctor()
    (check,) = (one for one in report.checks if one.name == "embeddings")
    assert report.ok == check.ok
    return check.ok, check.detail


def keep_old(path: Path) -> None:
    with MemorySync.open(path, embedder=Named("old")) as memory:
        memory.remember_batch([Episode(text=f"tea number {at}", user_id="ann") for at in range(N)])
        memory.remember("tea of bob", user_id="bob")


def test_replies_and_the_doctor_count_what_has_no_usable_vector(
    tmp_path: Path, never: None
) -> None:
    keep_old(tmp_path)
    with MemorySync.open(tmp_path, embedder=Named()) as memory:
        memory.remember("new tea", user_id="ann")
        told = "50 of 51 memories have no usable vector"
        assert reasons(memory) == [f"embed_stale ({told})"]
        assert reasons(memory, "bob") == ["embed_stale (1 of 1 memories have no usable vector)"]
        assert reasons(memory, "nobody") == []
        assert embeddings(memory) == (False, "51 of 52 memories have no usable vector")
        memory.reembed(user_id="ann")
        assert reasons(memory) == []
        assert embeddings(memory) == (False, "1 of 52 memories have no usable vector")


def test_memories_of_another_model_are_embedded_by_themselves(tmp_path: Path) -> None:
    keep_old(tmp_path)
    with MemorySync.open(tmp_path, embedder=Named()) as memory:
        wait_until(lambda: not reasons(memory))
        wait_until(lambda: embeddings(memory)[0])
        found = memory.search("tea number 7", user_id="ann")
        assert not found.degraded
        assert all(one.vector_score is not None for one in found)
        assert embeddings(memory) == (True, "")


def test_what_was_kept_while_the_embedder_was_down_is_embedded_when_it_is_back() -> None:
    embedder = Named()
    with MemorySync.in_memory(embedder=embedder) as memory:
        embedder.is_down = True
        for at in range(20):
            memory.remember(f"tea {at}", user_id="ann")
        wait_until(lambda: "tried again" in embeddings(memory)[1])
        assert "20 of 20 memories have no usable vector" in embeddings(memory)[1]
        assert "status 503" in embeddings(memory)[1]
        embedder.is_down = False
        wait_until(lambda: embeddings(memory)[0])
        assert reasons(memory) == []  # the breaker is closed too


def test_embedding_goes_on_where_it_was_when_the_store_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_old(tmp_path)
    monkeypatch.setattr(filling, "MOST_FILLED", 10)
    monkeypatch.setattr(filling, "LONGEST_REST", 3600.0)  # rests after the first page
    monkeypatch.setattr(filling, "time", _Slow())
    with MemorySync.open(tmp_path, embedder=Named()) as memory:
        wait_until(lambda: "10 embedded so far" in embeddings(memory)[1])
        assert (
            embeddings(memory)[1] == "41 of 51 memories have no usable vector; 10 embedded so far"
        )
    monkeypatch.undo()
    monkeypatch.setattr(filling, "FIRST_SECONDS", 0.0)
    embedder = Named()
    with MemorySync.open(tmp_path, embedder=embedder) as memory:
        wait_until(lambda: embeddings(memory)[0])
        texts = [text for call in embedder.calls for text in call if text != "tea"]
        assert len(texts) == len(set(texts)) == 41


class _Slow:
    """A clock on which every step takes an hour."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 3600.0
        return self.now


def test_writers_and_searches_do_not_wait_while_memories_are_embedded(tmp_path: Path) -> None:
    keep_old(tmp_path)
    embedder = Named()
    embedder.waits = threading.Event()
    with MemorySync.open(tmp_path, embedder=embedder) as memory:
        wait_until(lambda: bool(embedder.calls))  # and it hangs
        for at in range(5):
            vector = np.ones(16)
            memory.remember(f"more tea {at}", user_id="ann", vector=vector)
            assert len(memory.search("tea", user_id="ann", vector=vector)) == 10
        embedder.waits.set()
        wait_until(lambda: embeddings(memory)[0])


def test_a_text_that_is_refused_stays_alone_without_a_vector_and_is_not_asked_for_again() -> None:
    embedder = Named()
    with MemorySync.in_memory(embedder=embedder) as memory:
        kept = memory.remember_batch(
            [
                Episode(id=f"e{at}", text="endless tea" if at == 4 else f"tea {at}", user_id="ann")
                for at in range(10)
            ]
        )
        assert [one.id for one in kept if not one.embedded] == ["e4"]
        (reason,) = kept[4].reasons
        assert str(reason) == "embed_refused (expected status 200, got status 400 (too long))"
        assert all(one.reasons == () for one in kept if one.embedded)
        wait_until(lambda: "1 refused by the embedder" in embeddings(memory)[1])
        n_calls = sum("endless tea" in call for call in embedder.calls)
        memory.remember("more tea", user_id="ann")
        wait_until(lambda: reasons(memory) != [])
        assert sum("endless tea" in call for call in embedder.calls) == n_calls
        assert reasons(memory) == ["embed_stale (1 of 11 memories have no usable vector)"]
        assert memory.reembed().errors[0].error.endswith("(too long)")


def test_ten_long_texts_of_one_user_leave_meaning_on_for_all_others(
    server: StubServer, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "the diagnosis of Ann is what she feared; " * 10
    with (
        caplog.at_level(logging.DEBUG),
        MemorySync.in_memory(embedder=HttpEmbedder(server.url("picky"))) as memory,
    ):
        memory.remember("tea", user_id="bob")
        for at in range(10):
            kept = memory.remember(f"{secret}{at}", user_id="ann")
            assert not kept.embedded
            asked = memory.search(secret, user_id="ann")
            assert [one.reason for one in asked.reasons] == ["embed_refused"]
            told = "got status 400 (no more than 100 characters, got: [...])"
            assert told in kept.reasons[0].detail
            assert told in asked.reasons[0].detail
            assert reasons(memory, "bob") == []
        wait_until(lambda: "10 refused" in embeddings(memory)[1])
    assert "status 400" in caplog.text
    assert "diagnosis" not in caplog.text
    assert "no more than" not in caplog.text  # nor what the endpoint said of it
