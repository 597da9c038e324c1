"""Recency, importance, relevance: weighed by settings, or by one request; tags lead further."""

import os
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hyrecall.memory import MemorySync
from hyrecall.recipes import hebb
from hyrecall.settings import set_setting
from hyrecall.shaping import Composite

NOW = datetime.now(UTC)


def weighed(**weights: float) -> object:
    """The recipe with the weights of one request."""
    stages = [replace(s, **weights) if isinstance(s, Composite) else s for s in hebb.shaping]
    return hebb.replace(shaping=tuple(stages))


with tempfile.TemporaryDirectory() as temporary:
    before = os.environ.get("HYRECALL_CONFIG")
    os.environ["HYRECALL_CONFIG"] = str(Path(temporary, "config.json"))
    # embedding_enabled: false, so that words and tags answer.
    with MemorySync.in_memory(recipe=hebb, embedder="off") as memory:
        for key, text, days, tags in (
            ("old", "deployment issues, deployment issues again", 200, ("deploy",)),
            ("new", "recent deployment went well", 0, ("deploy", "cluster")),
            ("near", "the cluster was upgraded", 3, ("cluster",)),
        ):
            memory.remember(
                text, id=key, user_id="ann", tags=tags, importance=5,
                occurred_at=NOW - timedelta(days=days),
            )  # fmt: skip

        def first() -> str:
            """Name what comes first."""
            return memory.search("deployment issues", user_id="ann")[0].episode.id

        # hyrecall config set weight_relevance 2.0, and so on: emphasise relevance ...
        for name, value in (("relevance", 2.0), ("importance", 1.0), ("recency", 0.5)):
            set_setting(f"weight_{name}", value)
        print("by relevance:", first())
        assert first() == "old"
        # ... or recency.
        for name, value in (("recency", 2.0), ("relevance", 1.0), ("importance", 1.0)):
            set_setting(f"weight_{name}", value)
        print("by recency:", first())
        assert first() == "new"

        # One request has weights of its own.
        recipe = weighed(recency=3.0, relevance=1.0, importance=1.0)
        matches = memory.search("recent deployment issues", user_id="ann", limit=2, recipe=recipe)
        print([match.episode.id for match in matches])
        print("beside them:", [episode.id for episode in matches.related])
        assert {match.episode.id for match in matches} == {"new", "old"}
        assert [episode.id for episode in matches.related] == ["near"]
        print("degraded:", *matches.reasons)
        assert matches.degraded
    if before is None:
        del os.environ["HYRECALL_CONFIG"]
    else:
        os.environ["HYRECALL_CONFIG"] = before
