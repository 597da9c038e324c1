"""Part E of the acceptance rows, through a store: distilled facts above raw dialogue, whatever ran.

The figures are the document's: rank 2 of a fact is worth 1/62, rank 1 of raw dialogue .4/61. Facts
and dialogue are tables with ranks of their own, so another fact is the first of its table.
"""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyrecall as hr
from embed.lateness import within
from hyrecall import recipes
from hyrecall.memory import Episode, Matches, MemorySync
from memory.stores import HOUR, NOON, Clock, FixedEmbedder, folder
from spec.test_memory_e_degraded import BUDGET, CAUSES

ASKED = "deploy failed"
RAW = "deploy failed"
FACT = "the deploy failed because the disk of the builder was full"
NEARER = "the deploy failed: lock"
SECOND_OF_FACTS, FIRST_OF_RAW = 1 / 62, 0.4 / 61


def opened(path: Path, embedder: Any, **options: Any) -> MemorySync:
    given = {"recipe": recipes.honeycomb, "clock": Clock(), "recall_timeout": 30.0} | options
    return MemorySync.open(path, embedder=embedder, **given)


def keep(memory: MemorySync) -> None:
    for name, source, text in (
        ("raw", "session", RAW),
        ("fact", "memory", FACT),
        ("nearer", "memory", NEARER),
    ):
        memory.remember(
            Episode(id=name, source=source, output=text, user_id="alice", occurred_at=NOON)
        )


@pytest.fixture
def path() -> Iterator[Path]:
    """A store whose rows have no vectors: its answers are of words alone, degraded or not."""
    made = folder()
    with opened(made, None) as memory:
        keep(memory)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def scores(matches: Matches) -> dict[str, float]:
    return {one.episode.id: one.score for one in matches}


ORDER = ["nearer", "fact", "raw"]
WANTED = {
    "nearer": pytest.approx(1 / 61),
    "fact": pytest.approx(SECOND_OF_FACTS),
    "raw": pytest.approx(FIRST_OF_RAW),
}


def test_E14_the_figures_of_the_document_where_the_answer_is_whole(path: Path) -> None:
    with opened(path, None) as memory:  # no vectors are wanted, so none is missing
        matches = memory.search(ASKED, user_id="alice")
    assert not matches.degraded
    assert [one.episode.id for one in matches] == ORDER
    assert scores(matches) == WANTED


@pytest.mark.parametrize("cause", CAUSES)
def test_E10_E14_a_cause_has_its_reason_and_changes_no_figure(path: Path, cause: str) -> None:
    make, reason, detail = CAUSES[cause]
    budget = BUDGET if reason == "embed_timeout" else 30.0
    with opened(path, make(), dim=8, recall_timeout=budget) as memory:
        began = time.monotonic()
        matches = memory.search(ASKED, user_id="alice")
        assert time.monotonic() - began < within(budget + 0.5)
    assert matches.degraded
    (said,) = matches.reasons
    assert said.reason == reason
    assert detail in str(said)
    assert all(one.vector_score is None for one in matches)
    assert [one.episode.id for one in matches] == ORDER
    assert scores(matches) == WANTED


def test_E14_without_an_index_facts_come_first_too(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(*_: object, **__: object) -> None:
        raise hr.CorruptIndexError("segment: expected its bytes, got others")

    with opened(path, None) as memory:
        newer = {"id": "newer", "source": "session", "occurred_at": NOON + HOUR}
        memory.remember(Episode(output=RAW, user_id="alice", **newer))
        monkeypatch.setattr("hyrecall.memory.recall.index_search.IndexSearch.__call__", unreadable)
        matches = memory.search(ASKED, user_id="alice")
        assert matches.lexical_mode == "substring"
        assert [one.episode.id for one in matches] == ["nearer", "fact", "newer", "raw"]
        first = memory.search(ASKED, user_id="alice", limit=1)
        assert [one.episode.id for one in first] == ["nearer"]


def test_E14_raw_first_in_both_arms_stays_below_a_fact_first_in_one() -> None:
    made = folder()
    with opened(made, FixedEmbedder({ASKED: [1.0, 0.0]})) as memory:
        for name, source, text, vector in (
            ("raw", "session", "deploy failed", [1.0, 0.0]),
            ("fact", "memory", "the quota of the builder", [0.0, 0.0]),
        ):
            one = Episode(id=name, source=source, output=text, user_id="alice", occurred_at=NOON)
            memory.remember(one, vector=np.array(vector, np.float32))
        (raw,) = memory.search(ASKED, user_id="alice")
        (fact,) = memory.search("quota", user_id="alice", limit=1)
    assert raw.score == pytest.approx(0.8 / 61)  # first in both arms
    assert (fact.episode.id, fact.score) == ("fact", pytest.approx(1 / 61))
    shutil.rmtree(made)


def test_a_store_that_does_not_fuse_one_arm_would_be_seen(path: Path) -> None:
    """The control: raw scores weighed by provenance put raw dialogue first."""
    with opened(path, None) as memory:
        plain = recipes.honeycomb.replace(fuse_one_arm=False)
        matches = memory.search(ASKED, user_id="alice", recipe=plain)
    assert scores(matches) != WANTED
