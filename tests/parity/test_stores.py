"""A store beside the systems that its recipe follows: the first ten of each, asked as users ask.

What differs on purpose is named in ``test_loom.py`` and ``test_hebb.py``.
"""

import asyncio
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from hyrecall import recipes
from hyrecall.memory import Episode, MemorySync
from memory.stores import FixedEmbedder, folder
from parity import test_hebb, test_loom
from parity.installed import loom_memory, models, needs_hebb, needs_loom, searcher
from spec.episodes import NOW, Stores, stores
from spec.loom_by_definition import overlap

N_STORES = 60
LEAST_OVERLAP = 0.95


# ---- Loom ----


@pytest.fixture(scope="module")
def made() -> Stores:
    return stores(N_STORES, seed=7)


def kept(made: Stores, embedder: Any) -> MemorySync:
    """One store in which each of the random stores is a user's."""
    memory = MemorySync.open(folder(), recipe=recipes.loom, embedder=embedder, recall_timeout=30.0)
    memory.remember_batch(
        [
            Episode(
                id=str(key), user_id=user, text=test_loom.marked(made, key),
                occurred_at=NOW - timedelta(hours=made.hours_ago[key]),
            )
            for at, user in enumerate(made.users)
            for key in made.documents(at)
        ]
    )  # fmt: skip
    return memory


@needs_loom
def test_G07_with_vectors_a_store_finds_what_loom_finds(made: Stores) -> None:
    fixed = {made.queries[at]: made.query_vectors[at] for at in range(N_STORES)}
    fixed |= {test_loom.marked(made, key): row for key, row in enumerate(made.vectors)}
    n_asked = 0
    with kept(made, FixedEmbedder(fixed, dim=made.vectors.shape[1])) as memory:
        for at, user in enumerate(made.users):
            vectors = {text: row.astype(float).tolist() for text, row in fixed.items()}
            theirs = loom_memory.VectorMemory(embedder=test_loom.Fixed(vectors))
            found = asyncio.run(test_loom.loom_ranking(made, at, theirs, test_loom.ALPHAS))
            for alpha, ranking in zip(test_loom.ALPHAS, found, strict=True):
                expected = [(place, score) for place, score, _ in ranking if score > 0]
                matches = memory.search(
                    made.queries[at], user_id=user, recipe=test_loom.ours(alpha), limit=10, now=NOW
                )
                assert not matches.degraded
                ours = [int(one.episode.id) - made.first[at] for one in matches]
                assert overlap(ours, expected) >= LEAST_OVERLAP
                n_asked += bool(expected)
    assert n_asked > 400


@needs_loom
def test_G07_without_an_embedder_too(made: Stores) -> None:
    with kept(made, None) as memory:
        for at, user in enumerate(made.users):
            theirs = loom_memory.InMemoryMemory()
            (found,) = asyncio.run(test_loom.loom_ranking(made, at, theirs, [0.5]))
            expected = [(place, one.bm25_score or 0.0) for place, score, one in found if score > 0]
            matches = memory.recall_scored(made.queries[at], user_id=user, limit=10)
            ours = [int(one.episode.id) - made.first[at] for one in matches if one.score > 0]
            assert overlap(ours, expected) >= LEAST_OVERLAP


# ---- Hebb Mind ----


@needs_hebb
@pytest.mark.parametrize("seed", range(10))
def test_G07_a_store_finds_what_hebb_finds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searcher, "datetime", test_hebb.FixedClock)
    found = test_hebb.memories(80, seed)
    for one in found:  # what a store would refuse
        one.importance_score = min(max(one.importance_score, 0.0), 10.0)
    rng = np.random.default_rng(seed)
    text = " ".join(rng.choice(test_hebb.WORDS, 3))
    vectors = rng.standard_normal((81, 4)).astype(np.float32)
    fixed = {one.content: row for one, row in zip(found, vectors, strict=False)}
    embedder = FixedEmbedder({**fixed, text: vectors[-1]}, dim=4)
    recipe = recipes.hebb.replace(more=())  # the graph has relevances of its own
    with MemorySync.open(
        folder(), recipe=recipes.hebb, embedder=embedder, recall_timeout=30.0
    ) as memory:
        memory.remember_batch(
            [
                Episode(
                    id=one.id, text=one.content, tags=tuple(one.tags),
                    importance=one.importance_score, occurred_at=one.last_accessed_at,
                )
                for one in found
            ]
        )  # fmt: skip
        asked: dict[str, Any] = {"recipe": recipe, "now": NOW}
        every = memory.search(text, limit=80, **asked)
        first = memory.search(text, limit=10, **asked)
    best = max(one.bm25_score or 0.0 for one in every)
    words = {one.episode.id: one.bm25_score / best for one in every if one.bm25_score}
    cosines = {
        one.episode.id: max(one.vector_score, 0.0) for one in every if one.vector_score is not None
    }
    paths = test_hebb.Paths(found, words, cosines)
    query = models.MemoryQuery(query=text, top_k=80)
    theirs = asyncio.run(searcher.MemorySearcher(paths, paths).search(query)).results
    places = {one.id: at for at, one in enumerate(found)}
    expected = [(places[one.memory.id], one.score) for one in theirs]
    assert overlap([places[one.episode.id] for one in first], expected) >= LEAST_OVERLAP
    scores = {one.memory.id: one.score for one in theirs}
    for match in first:
        assert match.score == pytest.approx(scores[match.episode.id], rel=1e-6)
