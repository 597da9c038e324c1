"""Our recipe ``loom`` beside the ranking of loomflow itself, where that is installed.

Compared: its own ``recall_scored`` in memory, with a fake embedder and without one, without time
or kind filters (Loom counts BM25's statistics after these, hyrecall before).

What differs, and is not compared: Loom breaks equal fused scores by the vector arm's order, we by
time and id, so an episode that ties with the tenth is as good as the tenth. Its lists end where
nothing matches, the recipe's ``fill`` (left out here) goes on with the newest. alpha weighs by
whole lists there: ``alpha_mode="votes"``.
"""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import hyrecall as hr
from hyrecall import recipes
from parity.installed import loom_memory, loomflow, needs_loom
from spec.episodes import NOW, Stores, stores
from spec.loom_by_definition import assert_same_order, overlap

pytestmark = needs_loom

N_STORES = 200
ALPHAS = (0.0, 0.1, 0.3, 0.45, 0.5, 0.56, 0.7, 0.9, 1.0)


class Fixed:
    """An embedder that knows the vectors of these texts."""

    def __init__(self, vectors: dict[str, list[float]]) -> None:
        self.vectors = vectors
        self.dimensions = len(next(iter(vectors.values())))
        self.name = "fixed"

    async def embed(self, text: str) -> list[float]:
        """Look up."""
        return self.vectors[text]

    async def embed_batch(self, texts: list[str]) -> list[list[float]]:
        """Look up."""
        return [self.vectors[text] for text in texts]


@pytest.fixture(scope="module")
def made() -> Stores:
    return stores(N_STORES, seed=200)


def marked(made: Stores, key: int) -> str:
    """A document's text, told from its clones by a sign that is no word."""
    return made.texts[key] + " " * (key + 1) + "."


async def loom_ranking(made: Stores, store: int, memory: Any, alphas: Any) -> list[Any]:
    """What Loom finds for the store's query: (place, score), for each alpha."""
    keys = made.documents(store)
    for key in keys:
        await memory.remember(
            loomflow.Episode(
                id=str(key), session_id="s", user_id="u", input=marked(made, key), output="",
                occurred_at=NOW - timedelta(hours=made.hours_ago[key]),
            )
        )  # fmt: skip
    out = []
    for alpha in alphas:
        found = await memory.recall_scored(
            made.queries[store], limit=len(keys), user_id="u", alpha=alpha
        )
        out.append([(int(one.episode.id) - keys.start, one.score, one) for one in found])
    return out


def ours(alpha: float) -> Any:
    fusion = hr.RRF(alpha=alpha, alpha_mode="votes")
    return recipes.loom.replace(fusion=fusion, fill=None, on_empty="empty")


def compare(made: Stores, theirs: list[Any], hits: hr.Hits) -> int:
    """Each store's list beside Loom's; the number of hits compared."""
    n = 0
    for store, one in enumerate(hits):
        first = made.first[store]
        expected = [(at, score) for at, score, _ in theirs[store] if score > 0]
        found = [key - first for key in one.keys]
        assert sorted(found) == sorted(at for at, _ in expected), store
        assert overlap(found, expected) == 1.0
        assert_same_order(found, expected)
        n += len(found)
    return n


def test_A16_G07_the_ranking_is_that_of_loom(made: Stores) -> None:
    theirs = []
    for store in range(N_STORES):
        keys = made.documents(store)
        vectors = {marked(made, key): made.vectors[key].astype(float).tolist() for key in keys}
        vectors[made.queries[store]] = made.query_vectors[store].astype(float).tolist()
        memory = loom_memory.VectorMemory(embedder=Fixed(vectors))
        theirs.append(asyncio.run(loom_ranking(made, store, memory, ALPHAS)))
    for at, alpha in enumerate(ALPHAS):
        hits = made.ask(recipe=ours(alpha), limit=30)
        of_alpha = [one[at] for one in theirs]
        assert compare(made, of_alpha, hits) > 1000
        if alpha != 0.5:
            continue
        for store, one in enumerate(hits):
            known = {place: match for place, _, match in of_alpha[store]}
            for hit in one:
                match = known[hit.key - made.first[store]]
                assert hit.score == pytest.approx(match.score, rel=1e-12)
                if match.bm25_score is not None:
                    assert hit.bm25_score == pytest.approx(match.bm25_score, rel=1e-6)
                if match.vector_score is not None:
                    assert hit.vector_score == pytest.approx(match.vector_score, rel=1e-5, abs=1e-6)


def test_A08_G07_without_an_embedder_the_ranking_is_that_of_loom(made: Stores) -> None:
    theirs = []
    for store in range(N_STORES):
        memory = loom_memory.InMemoryMemory()
        (found,) = asyncio.run(loom_ranking(made, store, memory, [0.5]))
        # One list has no fused score: what ties by BM25 stands by time here, as it came there.
        theirs.append([(at, match.bm25_score or 0.0, match) for at, _, match in found])
    hits = made.ask(vector=False, recipe=ours(0.5), limit=30)
    assert compare(made, theirs, hits) > 1000
