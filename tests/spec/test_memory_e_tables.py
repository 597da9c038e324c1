"""Part E of the acceptance rows, through a store: facts, summaries and dialogue as tables."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyrecall as hr
from hyrecall import recipes
from hyrecall.errors import KeyConflictError
from hyrecall.memory import Episode, Fact, Matches, MemorySync
from memory.stores import HOUR, NOON, Clock, FixedEmbedder, folder

SOURCES = ("memory", "summary", "session")
ASKED = "deploy failed"
QUERY = [1.0, 0.0]
FUSED = recipes.honeycomb.replace(shaping=())
"""What the arms say, before provenance and age."""


def opened(path: Path, recipe: Any = recipes.honeycomb, **options: Any) -> MemorySync:
    given = {"embedder": FixedEmbedder({ASKED: QUERY}), "clock": Clock(), "recall_timeout": 30.0}
    return MemorySync.open(path, recipe=recipe, **given | options)


def text_of(rank: int) -> str:
    """A text that comes in this place for the question: the shorter, the better."""
    return ASKED + " pad" * rank


def keep(memory: MemorySync, source: str, rank: int, **more: Any) -> None:
    """Keep the row of that rank in both arms of its table."""
    given = {"id": f"{source}{rank}", "text": text_of(rank), "user_id": "ann"}
    angle = 0.1 * rank
    memory.remember(
        Episode(**given | {"source": source, "occurred_at": NOON} | more),
        vector=np.array([np.cos(angle), np.sin(angle)], np.float32),
    )


@pytest.fixture
def memory() -> Iterator[MemorySync]:
    path = folder()
    with opened(path) as made:
        for source in SOURCES:
            for rank in (1, 2, 3):
                keep(made, source, rank)
        yield made
    shutil.rmtree(path, ignore_errors=True)


def scores(matches: Matches, *sources: str) -> list[tuple[str, float]]:
    return [
        (one.episode.id, one.score) for one in matches if one.episode.source in (sources or SOURCES)
    ]


def test_E01_each_table_has_arms_and_ranks_of_its_own_and_hits_name_it(memory: MemorySync) -> None:
    matches = memory.search(ASKED, user_id="ann", recipe=FUSED, limit=20)
    assert len(matches) == 9
    for one in matches:
        source, rank = one.episode.id[:-1], int(one.episode.id[-1])
        assert one.episode.source == source
        assert one.parts.tiers == {f"{source}.text": rank, f"{source}.embedding": rank}
        assert one.score == pytest.approx(2 / (60 + rank))
    assert {name: n for name, n in matches.tiers.items() if n} == {
        f"{source}.{arm}": 3 for source in SOURCES for arm in ("text", "embedding")
    }


def test_E01_dialogue_does_not_push_a_fact_down(memory: MemorySync) -> None:
    before = memory.search(ASKED, user_id="ann", recipe=FUSED, limit=50)
    for rank in range(4, 24):
        keep(memory, "session", rank, text=ASKED)  # better than any fact
    after = memory.search(ASKED, user_id="ann", recipe=FUSED, limit=50)
    assert scores(after, "memory", "summary") == scores(before, "memory", "summary")
    # The control: in one table the ranks are shared.
    mixed = FUSED.replace(tables=None)
    assert scores(memory.search(ASKED, user_id="ann", recipe=mixed, limit=50), "memory") != scores(
        after, "memory"
    )


@pytest.mark.parametrize("gone", SOURCES)
def test_E02_without_a_table_the_hits_of_the_others_stay(memory: MemorySync, gone: str) -> None:
    rest = [source for source in SOURCES if source != gone]
    before = memory.search(ASKED, user_id="ann", recipe=FUSED, limit=20)
    for rank in (1, 2, 3):
        memory.forget(f"{gone}{rank}", user_id="ann", erase=True)
    after = memory.search(ASKED, user_id="ann", recipe=FUSED, limit=20)
    assert scores(after) == scores(before, *rest)
    assert (after.degraded, after.tiers[f"{gone}.text"], after.tiers[f"{rest[0]}.text"]) == (
        False, 0, 3,
    )  # fmt: skip


def test_E02_an_arm_that_raises_is_named_and_leaves_the_others(
    memory: MemorySync, monkeypatch: pytest.MonkeyPatch
) -> None:
    recall = hr.Index.recall

    def damaged(index: hr.Index, **options: Any) -> hr.Hits:
        if options["vectors"] is not None:
            raise hr.CorruptIndexError("embedding: expected its bytes, got others")
        return recall(index, **options)

    monkeypatch.setattr(hr.Index, "recall", damaged)
    matches = memory.search(ASKED, user_id="ann", recipe=FUSED, limit=20)
    assert [str(reason) for reason in matches.reasons] == [
        "index_unavailable (embedding: CorruptIndexError)"
    ]
    assert matches.lexical_mode == "bm25"
    assert {one.parts.tiers[f"{one.episode.source}.text"] for one in matches} == {1, 2, 3}
    assert all(one.vector_score is None for one in matches)


def test_E05_similarity_is_the_cosine_on_the_unit_scale_in_each_table(memory: MemorySync) -> None:
    keep(memory, "session", 31)  # nearly opposite
    matches = memory.search(ASKED, user_id="ann", recipe=FUSED, limit=20)
    seen = set()
    for one in matches:
        cosine = np.cos(np.float64(0.1) * int(one.episode.id.strip("abcdefghijklmnopqrstuvwxyz")))
        assert one.vector_score == pytest.approx(cosine, abs=1e-6)
        assert one.parts.similarity == pytest.approx((1 + cosine) / 2, abs=1e-6)
        seen.add(one.episode.source)
    assert seen == set(SOURCES)
    assert min(one.parts.similarity or 0 for one in matches) < 0.01
    (fact,) = memory.search(ASKED, user_id="ann", alpha=0.0, limit=1, recipe=recipes.loom)
    assert fact.parts.similarity is None  # no vector was asked


def test_E15_one_hit_per_source_and_id_with_the_sum_of_its_arms() -> None:
    path = folder()
    with opened(path) as memory:
        for source in SOURCES:
            keep(memory, source, 1, id="same")
        matches = memory.search(ASKED, user_id="ann", recipe=FUSED)
        assert [(one.episode.id, one.score) for one in matches] == [("same", 2 / 61)] * 3
        assert {one.episode.source for one in matches} == set(SOURCES)
        with pytest.raises(KeyConflictError, match="id: expected an id that is free"):
            keep(memory, "summary", 1, id="same")
        assert memory.get("same", user_id="ann").source == "memory"  # type: ignore[union-attr]
        # Another source is another table: it is free, and then it is not.
        with pytest.raises(KeyConflictError):
            memory.update("same", user_id="ann", source="session")
        assert memory.forget("same", user_id="ann") == 3
        assert memory.search(ASKED, user_id="ann") == []
    shutil.rmtree(path)


def test_a_change_of_source_moves_a_memory_to_the_other_table(memory: MemorySync) -> None:
    memory.link(["session1", "memory1"], "led to", id="edge", user_id="ann")
    memory.update("session2", user_id="ann", source="memory")
    matches = memory.search(ASKED, user_id="ann", recipe=FUSED, limit=20)
    moved = [one for one in matches if one.episode.id == "session2"]
    assert [set(one.parts.tiers) for one in moved] == [{"memory.text", "memory.embedding"}]
    assert [edge.id for edge in memory.links("memory1", user_id="ann")] == ["edge"]
    memory.forget("session1", user_id="ann")
    assert memory.links("memory1", user_id="ann") == []


def test_an_edge_stays_while_a_table_has_its_end(memory: MemorySync) -> None:
    keep(memory, "summary", 1, id="session1")
    memory.link(["session1", "memory1"], "led to", id="edge", user_id="ann")
    memory.update("session2", user_id="ann", source="jira")
    keep(memory, "session", 9, id="memory1")
    memory.forget("session2", user_id="ann")
    assert [edge.id for edge in memory.links("memory1", user_id="ann")] == ["edge"]
    memory.forget("session1", user_id="ann", erase=True)
    assert memory.links("memory1", user_id="ann") == []


def test_what_was_kept_before_there_were_tables_moves_to_its_own() -> None:
    path = folder()
    with opened(path, recipes.loom) as memory:
        for source in SOURCES:
            keep(memory, source, 1)
        memory.update("memory1", user_id="ann", text=text_of(0))
        fact = {"subject": "deploy", "predicate": "failed", "user_id": "ann"}
        memory.remember_fact(Fact(object="lock", valid_from=NOON, **fact))
        memory.link(["session1", "memory1"], "led to", id="edge", user_id="ann")
        memory.export(path.parent / "before.jsonl", user_id="ann", history=True)
    with opened(path) as memory:
        matches = memory.search(ASKED, user_id="ann", recipe=FUSED)
        assert {name: n for name, n in matches.tiers.items() if n and ".text" in name} == {
            "memory.text": 2, "summary.text": 1, "session.text": 1,
        }  # fmt: skip
        assert [one.version for one in memory.history("memory1", user_id="ann")] == [1, 2]
        assert memory.links("memory1", user_id="ann")
        memory.remember_fact(Fact(object="disk", valid_from=NOON + HOUR, **fact))
        for at, held in ((NOON, "lock"), (NOON + HOUR, "disk")):
            found = memory.recall_facts("deploy", valid_at=at, user_id="ann")
            assert [one.object for one in found] == [held]  # the new one ended the old one
        keep(memory, "session", 1, id="memory1")  # an id in two tables
        # What is there already stays as it is, wherever it lies now.
        again = memory.import_(path.parent / "before.jsonl")
        assert (again.imported, again.errors) == (0, ())
        assert memory.doctor(full=True).ok
    # Every recipe reads the store, and both rows of one id.
    with opened(path, recipes.loom) as memory:
        found = memory.search(ASKED, user_id="ann", limit=20)
        assert [one.episode.id for one in found].count("memory1") == 2
    shutil.rmtree(path)


def test_a_store_with_tables_is_moved_whole(memory: MemorySync) -> None:
    keep(memory, "summary", 1, id="memory1")
    path = folder()
    lines = path.parent / "lines.jsonl"
    memory.export(lines, user_id="ann", history=True)
    with opened(path) as other:
        assert other.import_(lines).errors == ()
        asked = {"user_id": "ann", "limit": 20}
        assert scores(other.search(ASKED, **asked)) == scores(memory.search(ASKED, **asked))
        assert other.import_(lines).imported == 0
    shutil.rmtree(path)
