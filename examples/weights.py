"""Recency, importance, relevance: weights of a recipe or of one request; related memories."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hyrecall import Composite, Recipe
from hyrecall.memory import MemorySync
from hyrecall import recipes as hebb

NOW = datetime.now(UTC)


def weighed(**weights: float) -> Recipe:
    """Return the recipe with other weights."""
    stages = [replace(s, **weights) if isinstance(s, Composite) else s for s in hebb.shaping]
    return hebb.replace(shaping=tuple(stages))


# The embedder is off, so words and tags answer. The recipe of the store emphasises relevance;
# for commands `hyrecall config set weight_relevance 2.0` does the same ...
by_relevance = weighed(relevance=2.0, importance=1.0, recency=0.5)
with MemorySync.in_memory(recipe=by_relevance, embedder="off") as memory:
    for key, text, days, tags in (
        ("old", "deployment issues, deployment issues again", 200, ("deploy",)),
        ("new", "recent deployment went well", 0, ("deploy", "cluster")),
        ("near", "the cluster was upgraded", 3, ("cluster",)),
    ):
        memory.remember(
            text, id=key, user_id="ann", tags=tags, importance=5,
            occurred_at=NOW - timedelta(days=days),
        )  # fmt: skip

    first = memory.search("deployment issues", user_id="ann")[0].episode.id
    print("by relevance:", first)
    assert first == "old"
    # ... and another recipe emphasises recency.
    by_recency = weighed(recency=2.0, relevance=1.0, importance=1.0)
    first = memory.search("deployment issues", user_id="ann", recipe=by_recency)[0].episode.id
    print("by recency:", first)
    assert first == "new"

    # One request may have its own weights.
    weights = {"recency": 3.0, "relevance": 1.0, "importance": 1.0}
    matches = memory.search("recent deployment issues", user_id="ann", limit=2, weights=weights)
    print([match.episode.id for match in matches])
    print("beside them:", [episode.id for episode in matches.related])
    assert {match.episode.id for match in matches} == {"new", "old"}
    assert [episode.id for episode in matches.related] == ["near"]
    print("degraded:", *matches.reasons)
    assert matches.degraded
