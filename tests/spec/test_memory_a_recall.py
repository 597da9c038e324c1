"""Part A of the acceptance rows, what the index proves already: once more through a store."""

import asyncio
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from hyrecall import recipes
from hyrecall.memory import Episode, EpisodeMatch
from memory.stores import NOON, FixedEmbedder, episode, open_store

US = timedelta(microseconds=1)


def test_A17_A23_limits_and_alphas_that_are_none() -> None:
    with open_store(recipe=recipes.loom) as memory:
        memory.remember_batch([episode(at) for at in range(7)])
        assert memory.recall_scored("note", user_id="alice", limit=0) == []
        found = memory.recall_scored("note", user_id="alice", limit=10**9)
        assert len(found) == 7
        for limit in (-1, 1.5, "3", None, True, 2**40):
            with pytest.raises(ValueError, match="limit"):
                memory.recall_scored("note", user_id="alice", limit=limit)  # type: ignore[arg-type]
        for alpha in (float("nan"), -0.1, 1.1, float("inf")):
            with pytest.raises(ValueError, match="alpha"):
                memory.recall_scored("note", user_id="alice", alpha=alpha)


def test_A23_a_limit_may_be_larger_than_the_depth() -> None:
    with open_store(recipe=recipes.loom) as memory:
        memory.remember_batch([episode(at, "the same") for at in range(260)])
        found = memory.recall_scored("same", user_id="alice", limit=250)
        assert len({match.episode.id for match in found}) == 250
        with pytest.raises(ValueError, match="limit"):
            memory.search("same", user_id="alice", limit=250)


def test_A24_a_time_range_has_both_its_ends() -> None:
    with open_store(recipe=recipes.loom) as memory:
        memory.remember_batch([episode(at) for at in range(3)])

        def found(first: Any, last: Any) -> set[str]:
            asked = memory.recall_scored("note", user_id="alice", time_range=(first, last))
            return {match.episode.id for match in asked}

        one = NOON + timedelta(hours=1)
        assert found(one, one) == {"e1"} == found(one.replace(tzinfo=None), one)
        assert found(one + US, None) == {"e2"}
        assert found(None, one - US) == {"e0"}
        assert found(one, NOON) == set()
        for wrong in (one, (one,), (one, "now"), "today"):
            with pytest.raises(TypeError, match="time_range"):
                memory.recall_scored("note", user_id="alice", time_range=wrong)  # type: ignore[arg-type]


def test_A36_the_pages_threshold_finds_what_is_strong() -> None:
    embedder = FixedEmbedder({"disk full": [1, 0], "disk": [1, 0.5], "tea": [0.6, 0.8]})
    for given in (embedder, None):
        with open_store(embedder=given, recipe=recipes.loom) as memory:
            memory.remember_batch([episode(0, "disk full"), episode(1, "tea"), episode(2, "disk")])
            matches = memory.recall_scored("disk full", user_id="alice", limit=20, normalize=True)
            strong = [m for m in matches if m.score >= 0.6]
            assert strong[0].score == 1.0
            assert {m.episode.id for m in strong} >= {"e0"}
            assert all(0 <= m.score <= 1 for m in matches)
            plain = memory.recall_scored("disk full", user_id="alice", limit=20)
            assert [m.episode.id for m in matches] == [m.episode.id for m in plain]
            searched = memory.search("disk full", user_id="alice", normalize=True, min_score=0.6)
            assert {m.episode.id: m.score for m in searched} == {
                m.episode.id: m.score for m in strong
            }
            with pytest.raises(TypeError, match="normalize: expected True or False"):
                memory.recall_scored("disk", user_id="alice", normalize=1)  # type: ignore[arg-type]


# Most of a store's recipes, and what the score of a row that is first in every arm is worth.
BEST = {
    "honeycomb": (recipes.honeycomb.replace(shaping=()), 2 / 61),
    "default": (recipes.default, 1.0),
    "hebb": (recipes.hebb.replace(shaping=()), 1.0),
}


@pytest.mark.parametrize("name", BEST)
def test_A15_alpha_changes_no_scale_and_makes_no_jump(name: str) -> None:
    recipe, best = BEST[name]
    texts = {f"tea {'cup ' * at}": [1.0, 0.2 * at] for at in range(6)}
    ask = "tea"
    with open_store(recipe=recipe, embedder=FixedEmbedder(texts | {ask: [1.0, 0.0]})) as memory:
        for at, text in enumerate(texts):
            memory.remember(episode(at, text))

        def scores(alpha: float) -> dict[str, float]:
            found = memory.search(ask, user_id="alice", alpha=alpha)
            assert found[0].score == pytest.approx(best), alpha
            return {match.episode.id: match.score for match in found}

        for alpha in (0.0, 0.25, 0.48, 0.51, 0.75, 0.98, 0.99):
            one, next_to_it = scores(alpha), scores(alpha + 0.01)
            assert one.keys() == next_to_it.keys()
            assert all(abs(one[key] - next_to_it[key]) <= 0.03 * best for key in one)
        scores(0.5)  # where a recipe may balance its arms by itself


def test_A12_A13_A15_the_ends_of_alpha_rank_by_one_arm_and_no_score_jumps() -> None:
    texts = {f"tea {'cup ' * at}": [1.0, 0.2 * (5 - at)] for at in range(6)}
    with open_store(
        embedder=FixedEmbedder(texts | {"tea": [1.0, 0.0]}), recipe=recipes.loom
    ) as memory:
        for at, text in enumerate(texts):
            memory.remember(episode(at, text))
        step = 0.01
        before: dict[str, float] = {}
        for alpha in np.linspace(0.0, 1.0, 101):
            found = memory.recall_scored("tea", user_id="alice", alpha=float(alpha), limit=6)
            scores = {match.episode.id: match.score for match in found}
            for key in scores.keys() & before.keys():
                assert abs(scores[key] - before[key]) <= 2.001 * step / 61
            before = scores
        words = memory.recall_scored("tea", user_id="alice", alpha=0.0, limit=6)
        assert [m.score for m in words] == pytest.approx([2 / (61 + at) for at in range(6)])
        alone = [m.bm25_score or 0.0 for m in words]
        assert alone == sorted(alone, reverse=True)
        assert {m.vector_score for m in words} == {None}
        vectors = memory.recall_scored("tea", user_id="alice", alpha=1.0, limit=6)
        assert [m.score for m in vectors] == pytest.approx([2 / (61 + at) for at in range(6)])
        assert [m.episode.id for m in vectors] == [m.episode.id for m in reversed(words)]
        assert {m.bm25_score for m in vectors} == {None}


def test_A37_the_pages_reranking_snippet() -> None:
    with open_store(recipe=recipes.loom) as memory:
        memory.remember_batch([episode(at, "tea " * (at + 1)) for at in range(9)])
        matches = memory.recall_scored("tea", user_id="alice", limit=9)
        scores = [float(len(match.episode.output)) for match in matches]
        reranked = [
            EpisodeMatch(**{**match.model_dump(), "score": score, "rerank_score": score})
            for match, score in zip(matches, scores, strict=True)
        ]
        top = sorted(reranked, key=lambda match: -match.score)[:5]
        assert [match.episode.id for match in top] == ["e8", "e7", "e6", "e5", "e4"]
        assert all(isinstance(match.episode, Episode) for match in top)


def test_A38_a_reranker_reorders_or_is_told_of() -> None:
    with open_store(recipe=recipes.loom) as memory:
        memory.remember_batch([episode(at, f"tea {'x' * at}") for at in range(4)])

        def longest(query: str, texts: list[str]) -> list[float]:
            assert query == "tea"
            return [float(len(text)) for text in texts]

        async def slowly(query: str, texts: list[str]) -> list[float]:
            await asyncio.sleep(0.001)
            return longest(query, texts)

        for reranker in (longest, slowly):
            found = memory.search("tea", user_id="alice", reranker=reranker)
            assert [match.episode.id for match in found] == ["e3", "e2", "e1", "e0"]
            ranks = [match.rerank_score or 0.0 for match in found]
            assert all(a > b for a, b in pairwise(ranks))
            assert not found.degraded

        def broken(query: str, texts: list[str]) -> list[float]:
            raise RuntimeError("private text")

        def hangs(query: str, texts: list[str]) -> list[float]:
            import time

            time.sleep(2.5)
            return []

        plain = memory.search("tea", user_id="alice")
        for reranker in (broken, hangs):
            found = memory.search("tea", user_id="alice", reranker=reranker)
            assert [m.episode.id for m in found] == [m.episode.id for m in plain]
            assert {match.rerank_score for match in found} == {None}
            assert [reason.reason for reason in found.reasons] == ["rerank"]
            assert "private text" not in str(found.reasons)
        with pytest.raises(TypeError, match="reranker"):
            memory.search("tea", user_id="alice", reranker="longest")  # type: ignore[arg-type]
