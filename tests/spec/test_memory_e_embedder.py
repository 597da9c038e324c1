"""Part E of the acceptance rows: an embedder that goes wrong in every way there is."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from embed.fakes import Fake, hanging
from embed.stub_server import StubServer, serving
from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.memory import DegradedReason, MemorySync
from memory.stores import DIM, folder

# Not honeycomb: it has an arm for each table, so its tiers and scores have other names and values.
RECIPE = recipes.loom
TEXTS = ("green tea", "hot tea pot", "disk is full", "a cup of coffee")


@pytest.fixture(scope="module")
def server() -> Iterator[StubServer]:
    with serving() as one:
        yield one


@pytest.fixture(scope="module")
def filled() -> Path:
    """A store whose rows have vectors of ``hash-8``."""
    path = folder()
    with MemorySync.open(path, embedder=HashEmbedder(DIM), recipe=RECIPE) as memory:
        for n, text in enumerate(TEXTS):
            memory.remember(text, id=f"e{n}", user_id="ana")
    return path


@pytest.fixture(scope="module")
def by_words(filled: Path) -> list[tuple[str, float]]:
    with MemorySync.open(filled, embedder=None, recipe=RECIPE) as memory:
        return found(memory.search("tea", user_id="ana"))


def found(matches: Any) -> list[tuple[str, float]]:
    return [(match.episode.id, match.score) for match in matches]


def reasons(matches: Any) -> list[DegradedReason]:
    assert matches.degraded == bool(matches.reasons)
    return [one.reason for one in matches.reasons]


class Hashed(Fake):
    """Like the embedder of the rows, with a reply of the test's."""

    def __init__(self, reply: Callable[[Sequence[str]], object] | None = None) -> None:
        super().__init__(reply or HashEmbedder(DIM).embed, dim=DIM, model=f"hash-{DIM}")


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.005)


SECONDS = 0.2


def test_E10_an_open_breaker_says_so(filled: Path, by_words: list[Any]) -> None:
    def raises(texts: Sequence[str]) -> object:
        raise OSError

    broken = Hashed(raises)
    with MemorySync.open(filled, embedder=broken, recipe=RECIPE) as memory:
        for _ in range(8):
            matches = memory.search("tea", user_id="ana")
            assert reasons(matches) == [DegradedReason.EMBED_UNAVAILABLE]
            assert found(matches) == by_words
        assert "resting" in str(matches.reasons[0])
        plain = ["How long is a vector?"]  # whether the embedder fails whatever the text
        assert broken.calls == [["tea"]] * 5 + [plain]


def test_E11_one_that_kills_its_worker_is_asked_again(filled: Path) -> None:
    def dies(texts: Sequence[str]) -> object:
        if len(mortal.calls) < 4:
            sys.exit()
        return HashEmbedder(DIM).embed(texts)

    mortal = Hashed(dies)
    with MemorySync.open(filled, embedder=mortal, recipe=RECIPE) as memory:
        seen = [memory.search("tea", user_id="ana").degraded for _ in range(5)]
        assert seen == [True, True, True, False, False]


def test_E11_a_write_waits_no_longer_than_it_may() -> None:
    fake = hanging(DIM)
    with MemorySync.open(folder(), embedder=fake, write_timeout=0.2, recipe=RECIPE) as memory:
        begun = time.monotonic()
        kept = memory.remember("tea", id="e0", user_id="ana")
        assert time.monotonic() - begun < 5  # and not the 30 s of the embedder
        assert not kept.embedded
        assert [one.reason for one in kept.reasons] == [DegradedReason.EMBED_TIMEOUT]
        fake.release.set()
        assert memory.get("e0", user_id="ana") is not None
