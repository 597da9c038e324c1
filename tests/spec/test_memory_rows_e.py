"""Rows of part E (honeycomb) through a store: one fusion, stages, age, identity."""

import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import hyrecall as hr
from hyrecall import recipes
from hyrecall.memory import MemorySync
from memory.stores import NOON, Clock, FixedEmbedder, episode, open_store

DAY = timedelta(days=1)
ASKED: dict[str, Any] = {"user_id": "alice", "limit": 50, "now": NOON}
HONEYCOMB = recipes.honeycomb
PROVENANCE, DEDUP, RECENCY = HONEYCOMB.shaping
FUSED = HONEYCOMB.replace(shaping=())
SOURCES = ("memory", "summary", "session")


def opened() -> MemorySync:
    """A store of honeycomb; the query "tea" has the vector (1, 0)."""
    embedder = FixedEmbedder({"tea": [1.0, 0.0]})
    return open_store(
        recipe=recipes.honeycomb, embedder=embedder, recall_timeout=30.0, clock=Clock()
    )


def keep(
    memory: MemorySync, key: str, text: str, vector: Sequence[float] | None = None, **fields: Any
) -> None:
    given = {"id": key, "source": "memory"} | fields
    array = None if vector is None else np.array(vector, np.float32)
    memory.remember(episode(0, text, **given), vector=array)


def scores(matches: Any) -> list[tuple[str, float]]:
    return [(match.episode.id, match.score) for match in matches]


def ids(matches: Any) -> list[str]:
    return [match.episode.id for match in matches]


def shaped(*stages: Any) -> hr.Recipe:
    return HONEYCOMB.replace(shaping=stages)


def fill(memory: MemorySync, n: int = 30) -> None:
    """Rows of all sources, some without vectors; no two have near vectors."""
    for at in range(n):
        angle = 0.1 + at * 2.9 / n
        vector = [np.cos(angle), np.sin(angle)] if at % 3 else None
        source = SOURCES[at % 3]
        keep(memory, f"m{at:02}", "tea" + " pad" * ((at * 7) % n), vector, source=source)


def test_E13_all_scores_come_from_one_fusion_whatever_the_order_of_arms() -> None:
    with opened() as memory:
        fill(memory)
        plain = memory.search("tea", recipe=FUSED, **ASKED)
        for match in plain:
            ranks = match.parts.tiers.values()
            assert match.score == pytest.approx(sum(1 / (60 + rank) for rank in ranks), abs=1e-12)
        turned = FUSED.replace(arms=tuple(reversed(FUSED.arms)))
        assert scores(memory.search("tea", recipe=turned, **ASKED)) == scores(plain)


def test_E16_every_hit_says_where_it_is_from() -> None:
    place = {"org": "acme", "workspace": "west"}
    with opened() as memory:
        keep(memory, "a", "tea", source="summary", visibility="global", **place)
        (match,) = memory.search("tea", **place, **ASKED)
        found = match.episode
        assert (found.source, found.id, found.org, found.workspace, found.user_id) == (
            "summary", "a", "acme", "west", "alice",
        )  # fmt: skip
        assert found.visibility == "global"


def test_E18_stages_run_in_one_order_and_the_trace_counts_them() -> None:
    with opened() as memory:
        fill(memory)
        # Without MMR, which a budget adds in honeycomb and which is no stage of this row.
        recipe = shaped(PROVENANCE, hr.Rerank(50), DEDUP, RECENCY).replace(budget_mmr=None)
        matches = memory.search("tea", recipe=recipe, token_budget=100, **ASKED)
        stages = matches.trace.stages
        assert [one.stage for one in stages] == [
            "Provenance", "Rerank", "Dedup", "Recency", "Budget",
        ]  # fmt: skip
        assert all(one.n_out == after.n_in for one, after in pairwise(stages))
        assert stages[-1].n_in > stages[-1].n_out >= 1


def test_E19_no_reranking_by_default() -> None:
    with opened() as memory:
        keep(memory, "words", "tea", [0.0, 1.0])
        keep(memory, "near", "tea pad", [1.0, 0.0])
        matches = memory.search("tea", **ASKED)
        assert scores(matches) == scores(memory.search("tea", recipe=FUSED, **ASKED))
        assert not any("Rerank" in one.stage for one in matches.trace.stages)
        assert all(match.rerank_score is None for match in matches)


def test_E20_rows_with_vectors_are_put_in_order_of_cosine_and_others_keep_their_slots() -> None:
    with opened() as memory:
        fill(memory)
        assert hr.Rerank().window == 50
        before = list(memory.search("tea", recipe=shaped(PROVENANCE), **ASKED))
        after = list(memory.search("tea", recipe=shaped(PROVENANCE, hr.Rerank(20)), **ASKED))
        moving = [at for at in range(20) if before[at].vector_score is not None]
        nearest = sorted(moving, key=lambda at: -before[at].vector_score)
        assert nearest != moving
        assert ids(after[at] for at in moving) == ids(before[at] for at in nearest)
        still = [at for at in range(len(before)) if at not in moving]
        assert ids(after[at] for at in still) == ids(before[at] for at in still)


def test_E21_a_reranker_that_fails_or_is_late_keeps_the_order() -> None:
    released = threading.Event()

    def late(query: str, texts: Sequence[str]) -> list[float]:
        released.wait(10)
        return [0.0] * len(texts)

    def fails(query: str, texts: Sequence[str]) -> list[float]:
        raise ConnectionError("no model")

    assert hr.RerankBy(late).timeout == "300ms"
    with opened() as memory:
        fill(memory)
        before = scores(memory.search("tea", **ASKED))
        for reranker in (late, fails):
            stage = hr.RerankBy(reranker, column="text")
            recipe = shaped(PROVENANCE, stage, DEDUP, RECENCY)
            began = time.perf_counter()
            matches = memory.search("tea", recipe=recipe, **ASKED)
            assert time.perf_counter() - began < 3.0
            assert scores(matches) == before
            assert all(match.rerank_score is None for match in matches)
        released.set()


@pytest.mark.parametrize("order", [SOURCES, SOURCES[::-1], ("summary", "session", "memory")])
def test_E22_of_near_duplicates_the_copy_of_the_best_source_stays(order: tuple[str, ...]) -> None:
    with opened() as memory:
        for at, source in enumerate(order):  # the first has the best words
            keep(memory, source, "tea" + " pad" * at, [1.0, 0.0], source=source)
        keep(memory, "other", "tea pad pad pad", [0.0, 1.0])
        assert set(ids(memory.search("tea", **ASKED))) == {"memory", "other"}


def test_E23_the_threshold_is_strict_on_the_unit_scale_and_a_setting() -> None:
    for second, n in (([3.999, 3.0], 2), ([4.0, 3.0], 2), ([4.001, 3.0], 1)):
        with opened() as memory:
            keep(memory, "first", "tea", [5.0, 0.0])
            keep(memory, "second", "tea", second)
            assert len(memory.search("tea", **ASKED)) == n
            loose = shaped(hr.Dedup(0.95, scale="unit"))
            assert len(memory.search("tea", recipe=loose, **ASKED)) == 2
            tight = shaped(hr.Dedup(0.85, scale="unit"))
            assert len(memory.search("tea", recipe=tight, **ASKED)) == 1


def test_E24_rows_without_vectors_are_not_deduplicated_and_it_can_be_off() -> None:
    with opened() as memory:
        for source in SOURCES:
            # "tea" alone would get the query's vector; these words get zeros.
            vector = [1.0, 0.0] if source == "memory" else None
            keep(memory, source, "tea pad", vector, source=source)
        assert len(memory.search("tea", **ASKED)) == 3
    with opened() as memory:
        for source in SOURCES:
            keep(memory, source, "tea", [1.0, 0.0], source=source)
        assert len(memory.search("tea", **ASKED)) == 1
        assert len(memory.search("tea", recipe=shaped(PROVENANCE, RECENCY), **ASKED)) == 3


def test_E25_by_default_a_year_costs_less_than_seven_thousandths() -> None:
    with opened() as memory:
        keep(memory, "old", "tea", [0.0, 1.0], occurred_at=NOON - 365 * DAY)
        keep(memory, "new", "tea pad", [-1.0, 0.0])
        found = {match.episode.id: match.parts.recency for match in memory.search("tea", **ASKED)}
        assert 0 < 1 - found["old"] < 0.007
        assert found["new"] == 1.0


def test_E26_age_multiplies_the_score_and_drops_nothing() -> None:
    ages = {"now": 0, "day": 1, "half": 30, "whole": 60, "century": 36_500, "future": -400}
    with opened() as memory:
        for key, days in ages.items():
            keep(memory, key, "tea", occurred_at=NOON - days * DAY)
        plain = dict(scores(memory.search("tea", recipe=shaped(PROVENANCE), **ASKED)))
        monthly = shaped(PROVENANCE, hr.Recency("created_at", half_life="30d"))
        matches = memory.search("tea", recipe=monthly, **ASKED)
        found = {match.episode.id: match.parts.recency for match in matches}
        assert found == {
            key: pytest.approx(0.5 ** (max(days, 0) / 30)) for key, days in ages.items()
        }
        assert found["half"] == 0.5
        assert dict(scores(matches)) == {key: plain[key] * found[key] for key in plain}


def test_E27_each_class_has_its_half_life() -> None:
    days = {"memory": 180, "summary": 45, "session": 10}
    stage = hr.Recency("created_at", by="source", half_lives={s: f"{n}d" for s, n in days.items()})
    with opened() as memory:
        for source in SOURCES:
            keep(memory, source, "tea", source=source, occurred_at=NOON - 90 * DAY)
        matches = memory.search("tea", recipe=shaped(PROVENANCE, stage), **ASKED)
        found = {match.episode.id: match.parts.recency for match in matches}
        assert found == {source: pytest.approx(0.5 ** (90 / n)) for source, n in days.items()}


def test_E29_a_token_is_four_characters_of_the_trimmed_text() -> None:
    texts = {"a": "tea", "b": "tea and", "c": "  tea and milk  ", "d": "tea " + "x" * 100}
    with opened() as memory:
        for key, text in texts.items():
            keep(memory, key, text)
        matches = memory.search("tea", token_budget=1_000, **ASKED)
        found = {match.episode.id: match.parts.tokens for match in matches}
        assert found == {key: -(-len(text.strip()) // 4) for key, text in texts.items()}
