"""Part E of the acceptance rows (honeycomb), through a store: versions, stages, tables."""

import json
import random
import re
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest

import hyrecall as hr
from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.errors import KeyConflictError
from hyrecall.memory import Episode, Fact, Matches, MemorySync
from laws.effort import Effort
from memory.isolation.world import VIEWERS, make_world
from memory.stores import DIM, HOUR, NOON, Clock, FixedEmbedder, episode, folder, open_store
from seams import hit_episodes, recalling

# ---- versions, what is read, stages ----


def everywhere(memory: MemorySync, key: str) -> set[str]:
    """The doors that show a memory of alice's."""
    found = {
        "search": [m.episode.id for m in memory.search("note zebra", user_id="alice", limit=50)],
        "recall": [e.id for e in memory.recall("note zebra", user_id="alice", limit=50)],
        "newest": [e.id for e in memory.recall("", user_id="alice", limit=50)],
        "vector": [
            m.episode.id for m in memory.search("zebra", user_id="alice", alpha=1.0, limit=50)
        ],
        "list": [e.id for e in memory.list(user_id="alice")],
        "get": [key] if memory.get(key, user_id="alice") is not None else [],
        "export": [
            line["version"]["id"]
            for line in memory.export(user_id="alice")  # type: ignore[union-attr]
            if "version" in line
        ],
    }
    return {door for door, ids in found.items() if key in ids}


def test_E37_a_tombstone_is_gone_from_every_door_at_once() -> None:
    # Not honeycomb: its blank query lists nothing, and that is one of the seven doors.
    with open_store(recipe=recipes.loom) as memory:
        memory.remember(episode(0, "note zebra"))
        memory.remember(episode(1, "note"))
        assert len(everywhere(memory, "e0")) == 7
        assert memory.forget("e0", user_id="alice", reason="old") == 1
        assert everywhere(memory, "e0") == set()
        assert memory.forget("e0", user_id="alice") == 0
        versions = memory.history("e0", user_id="alice")
        assert [(v.version, v.status, v.reason) for v in versions] == [
            (1, "live", None), (2, "deleted", "old"),
        ]  # fmt: skip
        assert versions[0].episode is not None
        assert versions[0].episode.text == "note zebra"
        assert versions[1].episode is None
        memory.remember(episode(0, "note again"))
        assert len(memory.history("e0", user_id="alice")) == 3


def test_E41_an_old_version_never_returns_and_an_old_row_always() -> None:
    with open_store(recipe=recipes.honeycomb) as memory:
        memory.remember(episode(0, "zebra", occurred_at=NOON - timedelta(days=36_500)))
        memory.remember(episode(1, "zebra old"))
        memory.update("e1", user_id="alice", text="zebra new")
        matches = memory.search("zebra", user_id="alice", now=NOON)
        assert {m.episode.text for m in matches} == {"zebra", "zebra new"}


def test_E46_the_reply_says_for_whom_it_is() -> None:
    with open_store(recipe=recipes.honeycomb) as memory:
        memory.remember("note", user_id="ann", org="acme", workspace="west")
        scope = memory.search("note", user_id="ann", org="acme", workspace="west").scope
        assert scope is not None
        assert (scope.org, scope.workspace, scope.user, scope.policy) == (
            "acme", "west", "ann", None,
        )  # fmt: skip
        scope = memory.agent("ann", org="acme", workspace="west").search("note").scope
        assert scope is not None
        assert (scope.user, scope.policy) == ("ann", "isolated")


# ---- identifiers before content ----


class Reader:
    """Notes the cell of every row whose content is given."""

    def __init__(self) -> None:
        self.cells: set[int] = set()

    def __call__(
        self, connection: apsw.Connection, rows: Any, cells: Any, damaged: Any, **options: Any
    ) -> Any:
        episodes = self.read(connection, rows, cells, damaged, **options)
        where = "SELECT cell FROM versions WHERE row = ?"
        self.cells |= {connection.execute(where, (row,)).get for row in rows}
        return episodes

    read = staticmethod(recalling.episodes_of_rows)


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Reader:
    made = Reader()
    for module in (recalling, hit_episodes):
        monkeypatch.setattr(module, "episodes_of_rows", made)
    return made


@pytest.mark.filterwarnings("ignore::hyrecall.memory.data.types.IsolationWarning")
def test_E31_content_is_read_of_authorised_rows_only(reader: Reader, effort: Effort) -> None:
    rng = random.Random(31)
    world = make_world(1)
    memory = world.memory
    n_read = 0
    n_searches = effort.cases(quick=40, full=1_000)
    for _ in range(n_searches):
        viewer = rng.choice(VIEWERS)
        reader.cells.clear()
        query = " ".join(rng.choices(["oak", "ash", "disk", "tea", *list(world.secrets)[:3]], k=2))
        memory.search(
            query, kind=rng.choice([None, "note"]), limit=rng.randrange(20),
            alpha=rng.choice([0.0, 0.5, 1.0]), **viewer.place,
        )  # fmt: skip
        with memory._store.database.reading() as connection:
            for number in reader.cells:
                found = "SELECT org, workspace, user, visibility FROM cells WHERE cell = ?"
                assert viewer.may_see(connection.execute(found, (number,)).get)
                n_read += 1
    assert n_read > n_searches / 2
    memory.close()


def test_E31_a_row_of_another_cell_is_not_read_whoever_names_it() -> None:
    from seams import episodes_of_rows

    with open_store(embedder=HashEmbedder(dim=DIM), recipe=recipes.honeycomb) as memory:
        memory.remember(Episode(id="hers", user_id="alice", text="secret"))
        memory.remember(Episode(id="his", user_id="bob", text="own"))
        with memory._store.database.reading() as connection:
            rows = dict(connection.execute("SELECT id, row FROM versions"))
            cells = dict(connection.execute("SELECT user, cell FROM cells"))
            found = episodes_of_rows(connection, list(rows.values()), [cells["bob"]])
        assert list(found) == [rows["his"]]


# ---- versions, tombstones, and what a row holds ----


# A blank query lists what there is; honeycomb answers it with nothing.
LISTING = recipes.loom


def hits(memory: MemorySync, query: str, **options: Any) -> list[str]:
    return [one.episode.id for one in memory.search(query, user_id="alice", **options)]


@pytest.mark.parametrize("seed", range(4))
def test_E39_versions_in_any_order_are_as_if_only_the_highest_were_there(
    tmp_path: Path, seed: int
) -> None:
    texts = ["alpha disk disk", "beta disk", "gamma tape"]
    lines = [
        json.dumps({"version": {
            "id": "e0", "user_id": "alice", "version": at + 1, "recorded_at": NOON.isoformat(),
            "content": {"text": text, "occurred_at": NOON.isoformat()},
        }})
        for at, text in enumerate(texts)
    ]  # fmt: skip
    random.Random(seed).shuffle(lines)
    others = [episode(at, f"disk {at}") for at in range(1, 4)]
    with (
        open_store(recipe=LISTING) as memory,
        open_store(recipe=LISTING) as only,
    ):
        memory.remember_batch(others)
        for at, line in enumerate(lines):  # each is followed before the next one comes
            file = tmp_path / f"{at}.jsonl"
            file.write_text('{"format": 2}\n' + line + "\n")
            assert memory.import_(file).imported == 1
            hits(memory, "disk")
        only.remember_batch(others)
        only.remember(episode(0, texts[-1], occurred_at=NOON))
        memory.reembed(user_id="alice")
        for query in ("disk", "tape", "alpha beta gamma", ""):
            found, wish = (m.search(query, user_id="alice") for m in (memory, only))
            assert [(one.episode, one.score, one.bm25_score) for one in found] == [
                (one.episode, one.score, one.bm25_score) for one in wish
            ]


def test_E40_the_history_of_what_moved_is_of_where_it_is() -> None:
    with open_store(recipe=LISTING) as memory:
        memory.remember(episode(0, "one"))

        def said() -> list[tuple[int, str, str | None]]:
            return [
                (one.version, one.status, one.reason)
                for one in memory.history("e0", user_id="alice")
            ]

        memory.update("e0", user_id="alice", visibility="global", reason="for all")
        kept = memory.get("e0", user_id="alice")
        assert kept is not None
        assert kept.visibility == "global"
        assert said() == [(1, "live", None)]
        memory.update("e0", user_id="alice", visibility="private", reason="for me")
        assert said() == [(1, "live", None), (2, "deleted", "for all"), (3, "live", None)]
        memory.update("e0", user_id="alice", visibility="global", reason="for all again")
        memory.forget("e0", user_id="alice", reason="asked")
        assert said()[-1] == (4, "deleted", "asked")  # and not that it was moved
        # Where both are there, the private one is meant, as by get.
        memory.remember(episode(0, "two"))
        memory.remember(episode(0, "three", visibility="global"))
        assert said()[-1] == (5, "live", None)
        assert memory.history("e0", user_id="alice")[-1].episode == episode(0, "two")


def files_with(held: bytes, path: Path) -> set[str]:
    """Names of all files of a store, at any depth, that contain these bytes."""
    files = (one for one in path.rglob("*") if one.is_file())
    return {one.relative_to(path).as_posix() for one in files if held in one.read_bytes()}


def test_E52_a_vector_is_a_column_beside_its_text_and_both_are_erased_from_every_file() -> None:
    path = folder()
    with open_store(path, recipe=recipes.honeycomb) as memory:
        texts = [f"disk number{at}th" for at in range(3)]
        memory.remember_batch([episode(at, text) for at, text in enumerate(texts)])
        (vector,) = HashEmbedder(dim=DIM).embed(texts[1:2])
        both = vector.astype("<f4").tobytes(), b"number1th"
        database = memory._store.database
        with database.reading() as c:
            select = "SELECT cell, output, embedding, embedding_model FROM versions WHERE id = 'e1'"
            assert c.execute(select).get == (1, texts[1], both[0], "hash-8")
            holds = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'index')"
            tables = [name for (name,) in c.execute(holds)]
        assert not [name for name in tables if "vec" in name or "embed" in name]

        # Control: before the erase, the database and the saved index hold both.
        assert memory.snapshot()
        for held, part in zip(both, ("vectors-0", "rows"), strict=True):
            found = files_with(held, path)
            assert any(one.startswith("memory.db") for one in found)
            assert any(re.fullmatch(rf"index/nodes/.+-{part}\.arrow", one) for one in found)

        assert memory.forget("e1", user_id="alice", erase=True) == 1
        with database.reading() as c:
            assert [row for (row,) in c.execute("SELECT id FROM versions ORDER BY id")] == [
                "e0", "e2",
            ]  # fmt: skip
        assert [files_with(held, path) for held in both] == [set(), set()]
    assert [files_with(held, path) for held in both] == [set(), set()]
    assert files_with(b"number2th", path)  # the other rows are still there


# ---- one fusion, stages, age, identity ----


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


def test_A38_E21_a_reranker_that_fails_or_is_late_keeps_the_order_and_is_told_of() -> None:
    released = threading.Event()

    def late(query: str, texts: Sequence[str]) -> list[float]:
        released.wait(10)
        return [0.0] * len(texts)

    def fails(query: str, texts: Sequence[str]) -> list[float]:
        raise ConnectionError("private text")

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
            assert [reason.reason for reason in matches.reasons] == ["rerank"]
            assert "private text" not in str(matches.reasons)
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


# ---- facts, summaries and dialogue as tables ----

TABLES_ASKED = "deploy failed"
QUERY = [1.0, 0.0]
TABLES_FUSED = recipes.honeycomb.replace(shaping=())
"""What the arms say, before provenance and age."""


def tables_opened(path: Path, recipe: Any = recipes.honeycomb, **options: Any) -> MemorySync:
    given = {
        "embedder": FixedEmbedder({TABLES_ASKED: QUERY}),
        "clock": Clock(),
        "recall_timeout": 30.0,
    }
    return MemorySync.open(path, recipe=recipe, **given | options)


def text_of(rank: int) -> str:
    """A text that comes in this place for the question: the shorter, the better."""
    return TABLES_ASKED + " pad" * rank


def tables_keep(memory: MemorySync, source: str, rank: int, **more: Any) -> None:
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
    with tables_opened(path) as made:
        for source in SOURCES:
            for rank in (1, 2, 3):
                tables_keep(made, source, rank)
        yield made
    shutil.rmtree(path, ignore_errors=True)


def tables_scores(matches: Matches, *sources: str) -> list[tuple[str, float]]:
    return [
        (one.episode.id, one.score) for one in matches if one.episode.source in (sources or SOURCES)
    ]


def test_E01_each_table_has_arms_and_ranks_of_its_own_and_hits_name_it(memory: MemorySync) -> None:
    matches = memory.search(TABLES_ASKED, user_id="ann", recipe=TABLES_FUSED, limit=20)
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
    before = memory.search(TABLES_ASKED, user_id="ann", recipe=TABLES_FUSED, limit=50)
    for rank in range(4, 24):
        tables_keep(memory, "session", rank, text=TABLES_ASKED)  # better than any fact
    after = memory.search(TABLES_ASKED, user_id="ann", recipe=TABLES_FUSED, limit=50)
    assert tables_scores(after, "memory", "summary") == tables_scores(before, "memory", "summary")
    # The control: in one table the ranks are shared.
    mixed = TABLES_FUSED.replace(tables=None)
    assert tables_scores(
        memory.search(TABLES_ASKED, user_id="ann", recipe=mixed, limit=50), "memory"
    ) != tables_scores(after, "memory")


@pytest.mark.parametrize("gone", SOURCES)
def test_E02_without_a_table_the_hits_of_the_others_stay(memory: MemorySync, gone: str) -> None:
    rest = [source for source in SOURCES if source != gone]
    before = memory.search(TABLES_ASKED, user_id="ann", recipe=TABLES_FUSED, limit=20)
    for rank in (1, 2, 3):
        memory.forget(f"{gone}{rank}", user_id="ann", erase=True)
    after = memory.search(TABLES_ASKED, user_id="ann", recipe=TABLES_FUSED, limit=20)
    assert tables_scores(after) == tables_scores(before, *rest)
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
    matches = memory.search(TABLES_ASKED, user_id="ann", recipe=TABLES_FUSED, limit=20)
    assert [str(reason) for reason in matches.reasons] == [
        "index_unavailable (embedding: CorruptIndexError)"
    ]
    assert matches.lexical_mode == "bm25"
    assert {one.parts.tiers[f"{one.episode.source}.text"] for one in matches} == {1, 2, 3}
    assert all(one.vector_score is None for one in matches)


def test_E05_similarity_is_the_cosine_on_the_unit_scale_in_each_table(memory: MemorySync) -> None:
    tables_keep(memory, "session", 31)  # nearly opposite
    matches = memory.search(TABLES_ASKED, user_id="ann", recipe=TABLES_FUSED, limit=20)
    seen = set()
    for one in matches:
        cosine = np.cos(np.float64(0.1) * int(one.episode.id.strip("abcdefghijklmnopqrstuvwxyz")))
        assert one.vector_score == pytest.approx(cosine, abs=1e-6)
        assert one.parts.similarity == pytest.approx((1 + cosine) / 2, abs=1e-6)
        seen.add(one.episode.source)
    assert seen == set(SOURCES)
    assert min(one.parts.similarity or 0 for one in matches) < 0.01
    (fact,) = memory.search(TABLES_ASKED, user_id="ann", alpha=0.0, limit=1, recipe=recipes.loom)
    assert fact.parts.similarity is None  # no vector was asked


def test_E15_one_hit_per_source_and_id_with_the_sum_of_its_arms() -> None:
    path = folder()
    with tables_opened(path) as memory:
        for source in SOURCES:
            tables_keep(memory, source, 1, id="same")
        matches = memory.search(TABLES_ASKED, user_id="ann", recipe=TABLES_FUSED)
        assert [(one.episode.id, one.score) for one in matches] == [("same", 2 / 61)] * 3
        assert {one.episode.source for one in matches} == set(SOURCES)
        with pytest.raises(KeyConflictError, match="id: expected an id that is free"):
            tables_keep(memory, "summary", 1, id="same")
        assert memory.get("same", user_id="ann").source == "memory"  # type: ignore[union-attr]
        # Another source is another table: it is free, and then it is not.
        with pytest.raises(KeyConflictError):
            memory.update("same", user_id="ann", source="session")
        assert memory.forget("same", user_id="ann") == 3
        assert memory.search(TABLES_ASKED, user_id="ann") == []
    shutil.rmtree(path)


def test_a_change_of_source_moves_a_memory_to_the_other_table(memory: MemorySync) -> None:
    memory.link(["session1", "memory1"], "led to", id="edge", user_id="ann")
    memory.update("session2", user_id="ann", source="memory")
    matches = memory.search(TABLES_ASKED, user_id="ann", recipe=TABLES_FUSED, limit=20)
    moved = [one for one in matches if one.episode.id == "session2"]
    assert [set(one.parts.tiers) for one in moved] == [{"memory.text", "memory.embedding"}]
    assert [edge.id for edge in memory.links("memory1", user_id="ann")] == ["edge"]
    memory.forget("session1", user_id="ann")
    assert memory.links("memory1", user_id="ann") == []


def test_an_edge_stays_while_a_table_has_its_end(memory: MemorySync) -> None:
    tables_keep(memory, "summary", 1, id="session1")
    memory.link(["session1", "memory1"], "led to", id="edge", user_id="ann")
    memory.update("session2", user_id="ann", source="jira")
    tables_keep(memory, "session", 9, id="memory1")
    memory.forget("session2", user_id="ann")
    assert [edge.id for edge in memory.links("memory1", user_id="ann")] == ["edge"]
    memory.forget("session1", user_id="ann", erase=True)
    assert memory.links("memory1", user_id="ann") == []


def test_what_was_kept_before_there_were_tables_moves_to_its_own() -> None:
    path = folder()
    with tables_opened(path, recipes.loom) as memory:
        for source in SOURCES:
            tables_keep(memory, source, 1)
        memory.update("memory1", user_id="ann", text=text_of(0))
        fact = {"subject": "deploy", "predicate": "failed", "user_id": "ann"}
        memory.remember_fact(Fact(object="lock", valid_from=NOON, **fact))
        memory.link(["session1", "memory1"], "led to", id="edge", user_id="ann")
        memory.export(path.parent / "before.jsonl", user_id="ann", history=True)
    with tables_opened(path) as memory:
        matches = memory.search(TABLES_ASKED, user_id="ann", recipe=TABLES_FUSED)
        assert {name: n for name, n in matches.tiers.items() if n and ".text" in name} == {
            "memory.text": 2, "summary.text": 1, "session.text": 1,
        }  # fmt: skip
        assert [one.version for one in memory.history("memory1", user_id="ann")] == [1, 2]
        assert memory.links("memory1", user_id="ann")
        memory.remember_fact(Fact(object="disk", valid_from=NOON + HOUR, **fact))
        for at, held in ((NOON, "lock"), (NOON + HOUR, "disk")):
            found = memory.recall_facts("deploy", valid_at=at, user_id="ann")
            assert [one.object for one in found] == [held]  # the new one ended the old one
        tables_keep(memory, "session", 1, id="memory1")  # an id in two tables
        # What is there already stays as it is, wherever it lies now.
        again = memory.import_(path.parent / "before.jsonl")
        assert (again.imported, again.errors) == (0, ())
        assert memory.doctor(full=True).ok
    # Every recipe reads the store, and both rows of one id.
    with tables_opened(path, recipes.loom) as memory:
        found = memory.search(TABLES_ASKED, user_id="ann", limit=20)
        assert [one.episode.id for one in found].count("memory1") == 2
    shutil.rmtree(path)


def test_a_store_with_tables_is_moved_whole(memory: MemorySync) -> None:
    tables_keep(memory, "summary", 1, id="memory1")
    path = folder()
    lines = path.parent / "lines.jsonl"
    memory.export(lines, user_id="ann", history=True)
    with tables_opened(path) as other:
        assert other.import_(lines).errors == ()
        asked = {"user_id": "ann", "limit": 20}
        assert tables_scores(other.search(TABLES_ASKED, **asked)) == tables_scores(
            memory.search(TABLES_ASKED, **asked)
        )
        assert other.import_(lines).imported == 0
    shutil.rmtree(path)
