"""Waiting until recalls can use index and embedder: until then answers are degraded."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hyrecall.embed import HashEmbedder
from hyrecall.errors import DTypeError, OptionError
from hyrecall.memory import MemorySync
from memory.stores import DIM, folder, open_store
from seams import Off, follower
from seams import derived_index as derived

LONG = 60.0


class Loading(HashEmbedder):
    """Loads until it is told to end."""

    def __init__(self) -> None:
        super().__init__(dim=DIM)
        self.may_end = threading.Event()
        self.n_loaded = 0

    def warm(self) -> None:
        self.may_end.wait(LONG)
        self.n_loaded += 1


@pytest.fixture
def loading() -> Iterator[Loading]:
    made = Loading()
    yield made
    made.may_end.set()


@pytest.fixture
def filled() -> Path:
    path = folder()
    with open_store(path) as memory:
        for n in range(5):
            memory.remember(f"tea number {n}", id=f"e{n}", user_id="ann")
    return path


@pytest.fixture
def building(filled: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The index of the store is lost and counts as large; it is built when this is set."""
    may_end = threading.Event()
    build = derived.build

    def slow(*given: Any) -> Any:
        may_end.wait(LONG)
        return build(*given)

    (filled / "index" / "HEADER").unlink()
    monkeypatch.setattr(follower, "SMALL_STORE", 0)
    monkeypatch.setattr(derived, "build", slow)
    yield may_end
    may_end.set()


def reasons(memory: MemorySync) -> list[str]:
    return [reason.reason for reason in memory.search("tea", user_id="ann").reasons]


def test_after_waiting_for_the_model_the_first_answer_has_vectors(
    filled: Path, loading: Loading
) -> None:
    with open_store(filled, embedder=loading, recall_timeout=LONG) as memory:
        assert reasons(memory) == ["embed_not_ready"]
        assert memory.wait_until_ready(0.05) is False
        threading.Timer(0.1, loading.may_end.set).start()
        assert memory.wait_until_ready(LONG) is True
        assert reasons(memory) == []
        assert memory.wait_until_ready(0) is True
        assert loading.n_loaded == 1


def test_after_waiting_for_the_index_the_first_answer_is_ranked(
    filled: Path, building: threading.Event
) -> None:
    with open_store(filled) as memory:
        assert reasons(memory) == ["index_not_ready"]
        assert memory.wait_until_ready(0.05) is False
        threading.Timer(0.1, building.set).start()
        assert memory.wait_until_ready(LONG) is True
        assert reasons(memory) == []


@pytest.mark.parametrize("timeout", [0, 0.2])
def test_waiting_ends_with_the_timeout(
    filled: Path, building: threading.Event, loading: Loading, timeout: float
) -> None:
    with open_store(filled, embedder=loading) as memory:
        begun = time.monotonic()
        assert memory.wait_until_ready(timeout) is False
        assert timeout <= time.monotonic() - begun < timeout + 5
        building.set()  # one of two is not enough
        assert memory.wait_until_ready(0.2) is False
        loading.may_end.set()
        assert memory.wait_until_ready(LONG) is True


def test_a_model_that_was_not_to_be_loaded_is_loaded_now(filled: Path, loading: Loading) -> None:
    loading.may_end.set()
    with open_store(filled, embedder=loading, warm=False) as memory:
        assert loading.n_loaded == 0
        assert memory.wait_until_ready(LONG) is True
        assert loading.n_loaded == 1


@pytest.mark.parametrize("embedder", [None, "off", Off("because"), HashEmbedder(dim=DIM)])
def test_nothing_is_awaited_where_nothing_is_loaded(filled: Path, embedder: Any) -> None:
    with open_store(filled, embedder=embedder) as memory:
        assert memory.wait_until_ready(0) is True


def test_changes_of_the_writer_are_in_the_index_of_a_reader_that_waited(filled: Path) -> None:
    with open_store(filled) as writer, open_store(filled, read_only=True) as reader:
        writer.remember("tea at five", id="late", user_id="ann")
        assert reader.wait_until_ready(LONG) is True
        held = reader._store.follower._held
        assert held is not None
        assert held.sequence == writer._store.database.sequence()


def test_nobody_waits_for_an_index_that_cannot_be_made(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*_: Any) -> Any:
        raise MemoryError

    (filled / "index" / "HEADER").unlink()
    monkeypatch.setattr(derived, "build", cannot)
    with open_store(filled) as memory:
        begun = time.monotonic()
        assert memory.wait_until_ready(LONG) is False
        assert time.monotonic() - begun < LONG / 2
        assert reasons(memory) == ["index_unavailable"]


def test_a_timeout_that_is_none_and_a_closed_store_are_refused(filled: Path) -> None:
    memory = open_store(filled)
    for wrong in (-1, 1e6, float("nan")):
        with pytest.raises(OptionError, match=r"timeout: expected seconds in \[0, 86400\]"):
            memory.wait_until_ready(wrong)
    with pytest.raises(DTypeError, match="timeout: expected seconds"):
        memory.wait_until_ready("soon")  # type: ignore[arg-type]
    memory.close()
    with pytest.raises(OptionError, match="expected an open store"):
        memory.wait_until_ready()
