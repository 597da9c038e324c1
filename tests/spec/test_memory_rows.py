"""Rows of part A (Loom) through a store: ranks, scores, fills and partitions."""

import random
import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from hyrecall import recipes
from hyrecall.memory import IsolationWarning, MemorySync
from laws.effort import Effort
from memory.stores import NOON, FixedEmbedder, episode, open_store

QUERY = "oak"
WORDS = ("oak", "ash", "elm", "fir", "yew", "tea", "rye")


def loom(vectors: dict[str, Sequence[float]] | None = None) -> MemorySync:
    """A store of loom; with vectors by text, or without an embedder."""
    embedder = None if vectors is None else FixedEmbedder(vectors)
    return open_store(recipe=recipes.loom, embedder=embedder, recall_timeout=30.0)


def ids(matches: Any) -> list[str]:
    return [match.episode.id for match in matches]


def scored(memory: MemorySync, **options: Any) -> list[tuple[str, float]]:
    found = memory.recall_scored(QUERY, **({"user_id": "alice", "limit": 50} | options))
    return [(match.episode.id, match.score) for match in found]


# Words rank them e0, e1, e2; vectors rank them e2, e1 and do not rank e0 (a cosine of -0.6).
HYBRID: dict[str, Sequence[float]] = {
    QUERY: [1.0, 0.0],
    "oak oak oak": [-0.6, 0.8],
    "oak oak ash": [0.6, 0.8],
    "oak ash ash": [0.8, 0.6],
}


def hybrid() -> MemorySync:
    memory = loom(HYBRID)
    for at, text in enumerate(list(HYBRID)[1:]):
        memory.remember(episode(at, text))
    return memory


def test_A07_order_is_by_score_then_newer_then_id() -> None:
    rng = random.Random(7)
    with loom() as memory:
        memory.remember_batch(
            [
                episode(at, " ".join(rng.choices(WORDS, k=3)), occurred_at=_hour(at % 4))
                for at in range(40)
            ]
        )
        for _ in range(50):
            query = " ".join(rng.choices(WORDS, k=rng.randint(1, 3)))
            found = memory.recall_scored(query, user_id="alice", limit=40)
            order = [(-m.score, -m.episode.occurred_at.timestamp(), m.episode.id) for m in found]
            assert order == sorted(order)
            assert memory.recall_scored(query, user_id="alice", limit=40) == found


def _hour(n: int) -> Any:
    return NOON + timedelta(hours=n)


def test_A11_A14_A19_a_hybrid_hit_has_both_components_and_the_sum_of_its_ranks() -> None:
    with hybrid() as memory:
        found = {m.episode.id: m for m in memory.recall_scored(QUERY, user_id="alice")}
        alone = memory.search(QUERY, user_id="alice", alpha=0.0)
        words = {m.episode.id: m.bm25_score or 0.0 for m in alone}
        assert sorted(words, key=lambda key: -words[key]) == ["e0", "e1", "e2"]
        for key, cosine in (("e0", -0.6), ("e1", 0.6), ("e2", 0.8)):
            assert found[key].vector_score == pytest.approx(cosine, abs=1e-5)
            assert found[key].bm25_score == pytest.approx(words[key], abs=1e-6)
        expected = {"e0": 1 / 61, "e1": 1 / 62 + 1 / 62, "e2": 1 / 63 + 1 / 61}
        assert {key: found[key].score for key in found} == pytest.approx(expected, abs=1e-15)


def test_A22_A27_an_unknown_user_gets_nothing_and_nobody_sees_the_anonymous_bucket() -> None:
    with loom() as memory, warnings.catch_warnings():
        warnings.simplefilter("ignore", IsolationWarning)
        memory.remember(episode(0, "oak"))
        memory.remember(episode(1, "oak", user_id=None))
        assert scored(memory, user_id="carol") == []
        assert [key for key, _ in scored(memory, user_id=None)] == ["e1"]
        assert [key for key, _ in scored(memory)] == ["e0"]


@pytest.mark.slow
def test_A26_no_row_of_another_user_with_any_alpha_or_fallback(effort: Effort) -> None:
    rng = random.Random(26)
    users = ("alice", "bob", "", None, "carol")
    owner: dict[str, str | None] = {}
    vectors = {word: [rng.uniform(-1, 1), rng.uniform(-1, 1)] for word in WORDS}
    with loom(vectors) as memory, warnings.catch_warnings():
        warnings.simplefilter("ignore", IsolationWarning)
        for at in range(60):
            owner[f"e{at}"] = rng.choice(users)
            memory.remember(episode(at, rng.choice(WORDS), user_id=owner[f"e{at}"]))
        for _ in range(effort.cases(quick=200, full=10_000)):
            user, query = rng.choice(users), rng.choice((*WORDS, "", "nothing of it"))
            alpha, limit = rng.choice((0.0, 0.3, 0.5, 1.0)), rng.randint(1, 60)
            found = memory.recall_scored(query, user_id=user, alpha=alpha, limit=limit)
            assert found
            assert {owner[key] for key in ids(found)} == {user}


def test_A41_a_paraphrase_is_found_by_its_vector_only() -> None:
    vectors: dict[str, Sequence[float]] = {
        "how do I get my money back": [1.0, 0.0], "refund policy": [0.9, 0.1],
    }  # fmt: skip
    with loom(vectors) as memory:
        memory.remember(episode(0, "refund policy"))
        for at in range(1, 9):
            memory.remember(episode(at, f"note {at}"))
        asked = {"user_id": "alice", "kind": None}
        assert ids(memory.search("how do I get my money back", **asked))[0] == "e0"
        by_words = memory.search("how do I get my money back", alpha=0.0, **asked)
        assert all(match.score == 0.0 for match in by_words)  # fills, if any


def test_A42_longer_vectors_change_no_fused_order() -> None:
    with (
        hybrid() as memory,
        loom({text: [7 * x for x in vector] for text, vector in HYBRID.items()}) as other,
    ):
        for at, text in enumerate(list(HYBRID)[1:]):
            other.remember(episode(at, text))
        assert scored(other) == scored(memory)


def test_A47_two_second_places_beat_one_first() -> None:
    with hybrid() as memory:
        by_score = dict(scored(memory))
        assert by_score["e1"] == pytest.approx(2 / 62, abs=1e-15)
        assert by_score["e1"] > by_score["e0"] == pytest.approx(1 / 61, abs=1e-15)
