"""Our recipe ``hebb`` beside the scoring, merging and tag graph of hebb-mind 0.1 itself.

Compared, with the package's own code: recency, importance and composite; merging by the largest
relevance of three paths (its ``MemorySearcher`` over a store that hands out the relevances our
arms give); which memories the tag graph reaches, and the relevance of those whose tag is named.

What differs on purpose, and is not compared: relevance by words (there 1 / (1 + BM25), by which the
best match gets least; here BM25 / best BM25), relevance by vectors (there 1 / (1 + distance), here
the positive cosine), neighbours' tags (there worth as much as the tags named, here half a hop), a
query of many words (there it must be a part of a tag as a whole, here word by word), phrases
(there syntax of FTS5, here quotes), filters by tags (there after the cut). Hebb's lists depend on
the order of a set; ours do not. hebb-mind 0.3 joins by reciprocal ranks and is not compared.
"""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import recipes
from parity.installed import graphs, models, needs_hebb, scorer, searcher
from spec.episodes import NOW, times

pytestmark = needs_hebb

TAGS = ("backup", "deploy", "invoice", "kafka", "lunch", "proxy", "router", "zebra")
WORDS = (*TAGS, "blue", "green", "slow", "night")


def memories(n: int, seed: int) -> list[Any]:
    """Random memories, some of them without a tag, accessed in the past or the future."""
    rng = np.random.default_rng(seed)
    return [
        models.Memory(
            id=f"m{at:03}",
            content=" ".join(rng.choice(WORDS, rng.integers(2, 9))),
            importance_score=float(rng.integers(-2, 14)),
            tags=[str(tag) for tag in rng.choice(TAGS, rng.integers(0, 3), replace=False)],
            last_accessed_at=NOW - timedelta(hours=float(rng.integers(-20, 400)) / 4),
        )
        for at in range(n)
    ]


def index_of(found: list[Any], vectors: Any) -> hr.Index:
    table = pa.table(
        {
            "id": [one.id for one in found],
            "text": [one.content for one in found],
            "importance": [one.importance_score for one in found],
            "last_accessed": times(
                [(NOW - one.last_accessed_at).total_seconds() / 3600 for one in found]
            ),
            "tags": [one.tags for one in found],
        }
    )
    columns = ("importance", "last_accessed", "tags")
    schema = hr.Schema(key="id", cell=None, text="text", vector="v", attributes=columns)
    porter = hr.Analyzer("porter")
    return hr.Index.build(table, schema, vectors={"v": vectors}, analyzer=porter)


@pytest.mark.parametrize("seed", range(5))
def test_F11_F12_F13_G07_the_scores_are_those_of_hebb(seed: int) -> None:
    found = memories(60, seed)
    rng = np.random.default_rng(seed)
    weights = dict(zip(("recency", "importance", "relevance"), rng.uniform(0, 3, 3), strict=True))
    (stage,) = recipes.hebb.shaping
    changed = {name: float(weight) for name, weight in weights.items()}
    recipe = recipes.hebb.replace(shaping=(type(stage)(**(vars(stage) | changed)),))
    index = index_of(found, rng.standard_normal((60, 8)).astype(np.float32))
    hits = index.recall(
        text=["backup slow"], vectors=rng.standard_normal((1, 8)).astype(np.float32),
        recipe=recipe, limit=60, now=NOW,
    )  # fmt: skip
    rows = hits.to_arrow().to_pylist()
    assert len(rows) > 30
    by_id = {one.id: one for one in found}
    for row in rows:
        memory = by_id[row["key"]]
        recency = scorer.compute_recency_score(memory.last_accessed_at, NOW)
        importance = scorer.compute_importance_score(memory.importance_score)
        assert row["recency_score"] == pytest.approx(recency, rel=1e-9)
        assert row["importance_score"] == pytest.approx(importance, rel=1e-9)
        score = scorer.compute_composite_score(
            recency, importance, row["relevance_score"],
            **{f"weight_{name}": weight for name, weight in changed.items()},
        )  # fmt: skip
        assert row["score"] == pytest.approx(score, rel=1e-9)


class Paths:
    """A store and embedder that hand out the relevances of our arms."""

    def __init__(self, found: list[Any], words: dict[str, float], cosines: dict[str, float]):
        self.by_id = {one.id: one for one in found}
        self.words, self.cosines = words, cosines

    def pairs(self, relevance: dict[str, float]) -> list[tuple[Any, float]]:
        """Memories with their relevance."""
        return [(self.by_id[key], value) for key, value in relevance.items()]

    async def embed(self, text: str) -> list[float]:
        """Anything but nothing."""
        return [1.0]

    async def search_by_vector(self, **_: Any) -> list[tuple[Any, float]]:
        """The vector path."""
        return self.pairs(self.cosines)

    async def search_by_keyword(self, **_: Any) -> list[tuple[Any, float]]:
        """The keyword path."""
        return self.pairs(self.words)


class FixedClock(datetime):
    """NOW, whatever the time."""

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        """Return NOW."""
        return NOW


@pytest.mark.parametrize("seed", range(20))
def test_F09_F11_G07_paths_are_merged_as_hebb_merges(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words and vectors; without the graph, which has relevances of its own."""
    monkeypatch.setattr(searcher, "datetime", FixedClock)
    found = memories(80, seed)
    rng = np.random.default_rng(seed)
    index = index_of(found, rng.standard_normal((80, 4)).astype(np.float32))
    query = rng.standard_normal((1, 4)).astype(np.float32)
    text = " ".join(rng.choice(WORDS, 3))
    asked: dict[str, Any] = {"text": [text], "vectors": query, "limit": 80, "now": NOW}
    recipe = recipes.hebb.replace(more=())
    hits = index.recall(recipe=recipe, **asked)
    rows = hits.to_arrow().to_pylist()
    best = max(row["text_score"] for row in rows)
    words = {row["key"]: row["text_score"] / best for row in rows if row["text_rank"]}
    cosines = {row["key"]: max(row["v_score"], 0.0) for row in rows if row["v_rank"]}
    paths = Paths(found, words, cosines)
    theirs = asyncio.run(
        searcher.MemorySearcher(paths, paths).search(models.MemoryQuery(query=text, top_k=80))
    ).results
    assert len(theirs) == len(rows) > 60
    expected = {one.memory.id: one for one in theirs}
    for row in rows:
        one = expected[row["key"]]
        assert row["relevance_score"] == pytest.approx(one.relevance_score, rel=1e-6, abs=1e-9)
        assert row["score"] == pytest.approx(one.score, rel=1e-6)
    order = [expected[row["key"]].score for row in rows]
    assert order == pytest.approx(sorted(order, reverse=True), rel=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_F06_F07_G07_the_tag_graph_reaches_what_hebb_reaches(seed: int, tmp_path: Path) -> None:
    found = memories(40, seed)
    graph = graphs.KnowledgeGraph(tmp_path / "graph.json")
    for memory in found:
        graph.update_from_tags(memory.tags, memory.id)
    index = index_of(found, np.ones((40, 2), np.float32))
    for tag in TAGS:
        (named,) = graph.search_tags(tag)
        near = {id_ for node in graph.query_neighbors(tag, 1).nodes for id_ in node.memory_ids}
        hits = index.recall_one(text={"tags": tag}, arms=hr.arms.Tags("tags"), limit=40, depth=40)
        assert set(hits.keys) == near
        relevance = min(0.5 + 0.5 * (named.weight / max(named.weight, 5.0)), 0.9)
        for hit in hits:
            hops = 0 if hit.key in named.memory_ids else 1
            assert hit.score == pytest.approx(relevance * 0.5**hops, rel=1e-6)
