"""How far facts stand above dialogue in a honeycomb store: the figures that its pages name."""

import numpy as np
import pytest

from hyrecall import recipes
from hyrecall.memory import Episode, MemorySync
from memory.stores import NOON, FixedEmbedder, folder

ASKED = "deploy"
N_FACTS = 120


def facts() -> list[Episode]:
    """Facts that hold the word in longer and longer texts: their ranks are 1 to N_FACTS."""
    return [
        Episode(
            id=f"f{at:03}", source="memory", output=" ".join(["deploy", *["on disk"] * (at + 1)]),
            user_id="ann", occurred_at=NOON,
        )
        for at in range(N_FACTS)
    ]  # fmt: skip


def dialogue() -> Episode:
    return Episode(id="raw", source="session", output=ASKED, user_id="ann", occurred_at=NOON)


@pytest.mark.parametrize("embedder", [None, "off"])
def test_dialogue_that_is_first_by_words_comes_after_the_first_92_facts(
    embedder: str | None,
) -> None:
    with MemorySync.open(folder(), recipe=recipes.honeycomb, embedder=embedder) as memory:
        memory.remember_batch([*facts(), dialogue()])
        matches = memory.search(ASKED, user_id="ann", limit=N_FACTS)
    ids = [one.episode.id for one in matches]
    assert ids[:92] == [f"f{at:03}" for at in range(92)]
    assert ids[92] == "raw"
    assert matches.degraded == (embedder == "off")


def test_dialogue_that_is_first_in_both_arms_comes_after_the_first_16_facts_of_one() -> None:
    embedder = FixedEmbedder({ASKED: [1.0, 0.0]})
    options = {"recipe": recipes.honeycomb, "embedder": embedder, "recall_timeout": 30.0}
    with MemorySync.open(folder(), **options) as memory:  # type: ignore[arg-type]
        memory.remember(dialogue(), vector=np.array([1.0, 0.0], np.float32))
        memory.remember_batch(facts())  # the embedder has no vector for them
        matches = memory.search(ASKED, user_id="ann", limit=N_FACTS)
    assert not matches.degraded
    assert [one.episode.id for one in matches].index("raw") == 16
