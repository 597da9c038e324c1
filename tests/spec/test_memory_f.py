"""Parts F (Hebb Mind) and D (l0) of the acceptance rows, through a store: paths, scores, writes."""

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from hyrecall import recipes
from hyrecall.errors import OptionError
from hyrecall.memory import Episode, MemorySync
from memory.stores import (
    DIM,
    HOUR,
    NOON,
    BrokenEmbedder,
    Clock,
    FixedEmbedder,
    episode,
    folder,
    open_store,
)
from seams import Composite, DegradedReason, IndexNotReadyError, Recipe, follower
from seams import derived_index as derived


def with_weights(**weights: float) -> Recipe:
    stages = [
        replace(stage, **weights) if isinstance(stage, Composite) else stage
        for stage in recipes.hebb.shaping
    ]
    return recipes.hebb.replace(shaping=tuple(stages))


def hebb_store(**options: Any) -> Any:
    memory = open_store(recipe=recipes.hebb, clock=options.pop("clock", Clock()), **options)
    memory.remember_batch(
        [
            episode(0, "deploy to the cluster", tags=("deploy",), importance=1.0),
            episode(1, "deploy to the cluster", tags=("cluster",), importance=9.0),
            episode(2, "coffee beans", tags=("deploy", "coffee")),
        ]
    )
    return memory


def test_F03_keywords_whatever_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(*args: Any, **options: Any) -> Any:
        raise IndexNotReadyError(DegradedReason.INDEX_NOT_READY, "being built")

    with hebb_store(embedder=BrokenEmbedder()) as memory:
        monkeypatch.setattr(follower.Follower, "ready", cannot)
        matches = memory.search("cluster", user_id="alice")
        assert {match.episode.id for match in matches} == {"e0", "e1"}
        assert [reason.reason for reason in matches.reasons] == [
            "embed_unavailable", "index_not_ready",
        ]  # fmt: skip


def test_F14_weights_of_a_recipe_reach_each_search() -> None:
    clock = Clock(NOON + 2 * HOUR)
    with hebb_store(embedder=None, clock=clock) as memory:

        def scores(**options: Any) -> dict[str, float]:
            found = memory.search("deploy cluster", user_id="alice", now=clock.now, **options)
            return {match.episode.id: match.score for match in found}

        plain = scores()
        assert plain["e1"] > plain["e0"]
        weighed = scores(recipe=with_weights(recency=0.0, relevance=0.0))
        assert (weighed["e0"], weighed["e1"]) == (0.1, 0.9)
        nothing = with_weights(recency=0.0, relevance=0.0, importance=0.0)
        assert set(scores(recipe=nothing).values()) == {0.0}
        # What the call says itself is what counts.
        found = memory.search("deploy", user_id="alice", recipe=nothing, weights={"importance": 1})
        assert found[0].score == 0.9
        assert scores() == plain


def test_E47_marks_are_set_after_authorisation() -> None:
    with open_store(recipe=recipes.honeycomb) as memory:
        memory.remember("note", id="hers", user_id="alice")
        memory.remember("note", id="his", user_id="bob")
        memory.search("note", user_id="bob", touch=True)
        with memory._store.database.reading() as connection:
            rows = connection.execute("SELECT id, access_count FROM documents ORDER BY id")
            assert list(rows) == [("hers", 0), ("his", 1)]


def test_F23_a_write_is_whole_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder()
    with open_store(path, recipe=recipes.hebb) as memory:
        memory.remember(episode(0))
        wrong = np.zeros((2, DIM + 1), np.float32)
        for vectors in (wrong, np.full((2, DIM), np.nan), [["a"] * DIM] * 2, wrong[:1]):
            with pytest.raises((ValueError, TypeError), match="vectors"):
                memory.remember_batch([episode(1), episode(2)], vectors=vectors)
        with pytest.raises(ValueError, match="e0"):
            memory.remember_batch([episode(3), episode(0)])

        def fails(*args: Any, **options: Any) -> Any:
            raise MemoryError("planted")

        with monkeypatch.context() as planted:
            planted.setattr(derived, "project", fails)
            with pytest.raises(MemoryError):
                memory.remember(episode(4))
        assert [one.id for one in memory.list(user_id="alice")] == ["e0"]
        memory.remember(episode(5))
    with open_store(path, recipe=recipes.hebb) as memory:
        assert [one.id for one in memory.list(user_id="alice")] == ["e5", "e0"]


def test_F23_25_at_the_same_time_all_land() -> None:
    with open_store(recipe=recipes.hebb) as memory:
        barrier = threading.Barrier(25)
        faults: list[BaseException] = []

        def create(at: int) -> None:
            barrier.wait()
            try:
                memory.remember(Episode(id=f"m{at}", user_id="alice", text=f"note {at}"))
            except BaseException as fault:
                faults.append(fault)

        threads = [threading.Thread(target=create, args=(at,)) for at in range(25)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert faults == []
        assert len(memory.list(user_id="alice")) == 25
        found = memory.search("note", user_id="alice", limit=50)
        assert {match.episode.id for match in found} == {f"m{at}" for at in range(25)}


# ---- access marks and plain SQLite ----


DAY = timedelta(days=1)


def marks(memory: MemorySync) -> dict[str, tuple[int, int | None]]:
    with memory._store.database.reading() as connection:
        select = "SELECT id, access_count, last_accessed FROM documents"
        return {key: (count, last) for key, count, last in connection.execute(select)}


def test_F20_an_access_is_counted_when_it_is_asked_for() -> None:
    clock, path = Clock(), folder()
    with open_store(path, clock=clock, recipe=recipes.hebb) as memory:
        # No two are equal: of equals the one written last comes last, and a mark is a write.
        memory.remember_batch([episode(at, "disk " * (at + 1) + "tape") for at in range(4)])
        first = memory.search("disk", user_id="alice", alpha=0.0, limit=2)
        assert set(marks(memory).values()) == {(0, None)}
        again = memory.search("disk", user_id="alice", alpha=0.0, limit=2)
        assert [(one.episode.id, one.score) for one in again] == [
            (one.episode.id, one.score) for one in first
        ]
        assert {one.parts.recency for one in first} == {1.0}
        clock.now = NOON + timedelta(hours=1)
        for n in (1, 2):
            found = memory.search("disk", user_id="alice", alpha=0.0, limit=2, touch=True)
            micros = int(clock.now.timestamp()) * 10**6
            touched = {one.episode.id for one in found}
            assert marks(memory) == {
                f"e{at}": (n, micros) if f"e{at}" in touched else (0, None) for at in range(4)
            }
        # A later reply knows of it: the access is newer than the memory.
        after = memory.search("disk", user_id="alice", alpha=0.0, limit=2, now=NOON + DAY)
        assert [one.parts.recency for one in after] == [pytest.approx(0.99**23)] * 2
    reader = open_store(path, read_only=True, recipe=recipes.hebb)
    with reader, pytest.raises(OptionError, match="touch"):
        reader.search("disk", user_id="alice", touch=True)


def test_F21_the_file_is_plain_sqlite() -> None:
    """No extension, no virtual table: what Python ships reads and counts it."""
    path = folder()
    with open_store(path, recipe=recipes.hebb) as memory:
        memory.remember_batch([episode(at, f"disk {at}") for at in range(4)])
        with memory._store.database.reading() as connection:
            kinds = list(connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL"))
            assert not [sql for (sql,) in kinds if "VIRTUAL" in sql.upper()]
    program = (
        "import sqlite3, sys\n"
        "c = sqlite3.connect('file:' + sys.argv[1] + '?mode=ro', uri=True)\n"
        "print(c.execute('SELECT count(*), sum(length(embedding)) FROM versions').fetchone())\n"
        "print(c.execute('PRAGMA integrity_check').fetchone()[0])\n"
    )
    command = [sys.executable, "-c", program, str(path / "memory.db")]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert answer.splitlines() == [str((4, 4 * 4 * DIM)), "ok"]


# ---- paths, relevance, recency, floors ----


ASKED: dict[str, Any] = {"user_id": "alice", "limit": 50, "now": NOON}


def opened(recipe: Any, vectors: dict[str, Sequence[float]] | None = None) -> MemorySync:
    """A store of the recipe; with vectors by text, or without an embedder."""
    embedder = None if vectors is None else FixedEmbedder(vectors)
    return open_store(recipe=recipe, embedder=embedder, recall_timeout=30.0, clock=Clock())


def keep(memory: MemorySync, key: str, text: str, **fields: Any) -> None:
    memory.remember(episode(0, text, id=key, **fields))


def paths_of(matches: Any) -> dict[str, set[str]]:
    return {match.episode.id: set(match.parts.tiers) for match in matches}


def relevance_of(matches: Any) -> dict[str, float]:
    return {match.episode.id: match.parts.relevance for match in matches}


# A text without a vector here gets zeros, which have no cosine.
VECTORS: dict[str, Sequence[float]] = {"deploy": [1.0, 0.0], "roll out": [0.8, 0.6]}


@pytest.fixture
def three_paths() -> Iterator[MemorySync]:
    with opened(recipes.hebb, VECTORS) as memory:
        keep(memory, "words", "a deploy on friday")
        keep(memory, "meaning", "roll out")
        keep(memory, "linked", "cables", tags=("cluster",))
        keep(memory, "link", "cables", tags=("deploy", "cluster"))
        yield memory


def test_F01_each_path_can_be_the_only_one_to_find_a_memory(three_paths: MemorySync) -> None:
    found = paths_of(three_paths.search("deploy", **ASKED))
    only = {key: paths for key, paths in found.items() if len(paths) == 1}
    assert only == {
        "words": {"text"}, "meaning": {"embedding"}, "linked": {"tags"}, "link": {"tags"},
    }  # fmt: skip


def test_F06_tags_one_step_away_score_less() -> None:
    with opened(recipes.hebb) as memory:
        keep(memory, "direct", "cables", tags=("deploy", "cluster"))
        keep(memory, "step", "pipes", tags=("cluster", "rack"))
        keep(memory, "far", "walls", tags=("rack",))
        relevance = relevance_of(memory.search("deploy", **ASKED))
        assert set(relevance) == {"direct", "step"}  # the depth is 1
        assert 0 < relevance["step"] < relevance["direct"] <= 1


def test_F07_after_a_change_and_an_erasure_the_tags_reach_as_in_a_store_made_anew() -> None:
    with opened(recipes.hebb) as changed, opened(recipes.hebb) as anew:
        keep(changed, "gone", "cables", tags=("deploy", "rack"))
        for memory in (changed, anew):
            keep(memory, "a", "cables", tags=("deploy", "cluster"))
            keep(memory, "b", "pipes", tags=("rack",))
        keep(changed, "c", "walls", tags=("rack",))
        keep(anew, "c", "walls", tags=("cluster",))
        changed.update("c", user_id="alice", tags=("cluster",))
        changed.forget("gone", user_id="alice")
        found = [relevance_of(memory.search("deploy", **ASKED)) for memory in (changed, anew)]
        assert found[0] == found[1]
        assert set(found[0]) == {"a", "c"}


def test_F09_F10_a_memory_of_several_paths_has_the_largest_relevance_once() -> None:
    vectors: dict[str, Sequence[float]] = {
        "deploy": [1.0, 0.0], "a long deploy": [0.6, 0.8], "tea": [-1.0, 0.0],
    }  # fmt: skip
    with opened(recipes.hebb, vectors) as memory:
        keep(memory, "short", "deploy")
        keep(memory, "opposite", "tea")
        keep(memory, "both", "a long deploy")
        matches = memory.search("deploy", **ASKED)
        relevance = relevance_of(matches)
        assert [match.episode.id for match in matches].count("both") == 1
        (both,) = (match for match in matches if match.episode.id == "both")
        best = max(match.bm25_score or 0.0 for match in matches)
        assert both.vector_score == pytest.approx(0.6, abs=1e-6)
        assert relevance["both"] == pytest.approx(max(0.6, both.bm25_score / best), abs=1e-6)
        assert all(0 <= one <= 1 for one in relevance.values())
        assert relevance["opposite"] == 0  # found by its vector alone, and cut


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('"blue green deploy"', {"adjacent", "inflected"}),
        ("blue green deploy", {"adjacent", "inflected", "apart", "one"}),
        ('"blue green" "deploy today"', {"adjacent"}),
        ('"blue green deploy" coffee', {"adjacent", "inflected"}),
        ('"deploy green"', set()),
    ],
)
def test_F04_quoted_words_must_be_adjacent(query: str, expected: set[str]) -> None:
    with opened(recipes.hebb) as memory:
        keep(memory, "adjacent", "a blue green deploy today")
        keep(memory, "inflected", "Blue-Green deployed again")
        keep(memory, "apart", "blue and green, then deploy")
        keep(memory, "one", "deploy on friday")
        keep(memory, "other", "coffee")
        assert set(paths_of(memory.search(query, **ASKED))) == expected


def test_F05_the_best_match_has_relevance_1_and_others_their_share_of_its_bm25() -> None:
    with opened(recipes.hebb) as memory:
        for at in range(5):
            keep(memory, f"m{at}", "deploy" + " pad" * at)
        for at in range(10):
            keep(memory, f"other{at}", "coffee")
        matches = memory.search("deploy", **ASKED)
        bm25 = {match.episode.id: match.bm25_score for match in matches}
        relevance = relevance_of(matches)
        assert list(relevance) == [f"m{at}" for at in range(5)]
        assert relevance["m0"] == 1.0
        for key, score in bm25.items():
            assert relevance[key] == pytest.approx(score / bm25["m0"], abs=1e-6)


def test_F12_recency_falls_by_one_percent_an_hour() -> None:
    ages = {"now": 0, "day": 24, "week": 168, "future": -30}
    with opened(recipes.hebb) as memory:
        for key, hours in ages.items():
            keep(memory, key, "deploy", occurred_at=NOON - hours * HOUR)
        matches = memory.search("deploy", **ASKED)
        recency = {match.episode.id: match.parts.recency for match in matches}
        for key, hours in ages.items():
            assert recency[key] == pytest.approx(0.99 ** max(hours, 0), abs=1e-9)
        assert round(recency["day"], 4) == 0.7857


def test_F13_a_rating_of_ten_is_one_and_five_is_the_default() -> None:
    with opened(recipes.hebb) as memory:
        for key, rating in (("low", 0.0), ("high", 10.0), ("mid", 7.5)):
            keep(memory, key, "deploy", importance=rating)
        keep(memory, "unrated", "deploy")
        found = {m.episode.id: m.parts.importance for m in memory.search("deploy", **ASKED)}
        assert found == {"low": 0.0, "high": 1.0, "mid": 0.75, "unrated": 0.5}


def test_F18_up_to_five_related_memories_none_of_them_a_result_or_another_users() -> None:
    with opened(recipes.hebb) as memory:
        keep(memory, "hit", "deploy", tags=("rack",))
        for at in range(8):
            keep(memory, f"near{at}", "cables", tags=("rack",))
            keep(memory, f"bob{at}", "cables", tags=("rack",), user_id="bob")
        matches = memory.search("deploy", **ASKED)
        assert [match.episode.id for match in matches] == ["hit"]
        related = {one.id for one in matches.related}
        assert len(related) == 5
        assert related <= {f"near{at}" for at in range(8)}


def test_F18_related_memories_are_reached_by_following_tags_one_step() -> None:
    """[deploy], [deploy, gateway], [gateway]: the first leads to the second and to the third."""
    with opened(recipes.hebb) as memory:
        keep(memory, "third", "cables", tags=("gateway",))
        keep(memory, "hit", "rollout", tags=("deploy",))
        keep(memory, "second", "cables", tags=("deploy", "gateway"))
        keep(memory, "two steps", "cables", tags=("router",))
        keep(memory, "bridge", "cables", tags=("gateway", "router"))
        keep(memory, "bob", "cables", tags=("gateway",), user_id="bob")
        matches = memory.search("rollout", **ASKED)
        assert [match.episode.id for match in matches] == ["hit"]
        assert [one.id for one in matches.related] == ["second", "third", "bridge"]


def test_F19_a_floor_acts_on_the_score_and_0_is_none() -> None:
    with opened(recipes.hebb) as memory:
        for at in range(6):
            keep(memory, f"m{at}", "deploy", importance=2.0 * at, occurred_at=NOON - at * HOUR)
        every = {m.episode.id: m.score for m in memory.search("deploy", min_score=0.0, **ASKED)}
        assert len(every) == 6
        floor = sorted(every.values())[3]
        cut = {m.episode.id: m.score for m in memory.search("deploy", min_score=floor, **ASKED)}
        assert cut == {key: score for key, score in every.items() if score >= floor}


ODD = [
    "*", '"', "'", "NOT", "AND OR NOT", "NEAR(a b)", "NEAR(deploy, 5", "-deploy", ")", "{deploy}",
    "[deploy]", "deploy~2", 'un"closed', '"" deploy', '"""', "deploy;DROP TABLE memories", "\\",
    "%", "_", "\x00", "🙂", "̈", "a" * 10_000, '"deploy" OR "x', "||", "&&", "!", "?",
]  # fmt: skip


def test_F25_no_character_is_an_operator_and_words_after_the_32nd_are_cut() -> None:
    with opened(recipes.hebb) as memory:
        keep(memory, "m", "deploy")
        keep(memory, "n", "OR else")
        for query in ODD:
            memory.search(query, **ASKED)
        for query in ("deploy*", "^deploy", "(-deploy", "deploy AND", "a:deploy", "+deploy"):
            assert set(paths_of(memory.search(query, **ASKED))) == {"m"}, query
        assert set(paths_of(memory.search("OR", **ASKED))) == {"n"}  # a word as any other
        pads = " ".join(f"pad{at}" for at in range(31))
        assert set(paths_of(memory.search(f"{pads} deploy", **ASKED))) == {"m"}
        assert memory.search(f"{pads} pad deploy", **ASKED) == []


def test_D06_ranks_of_words_and_vectors_are_summed_over_the_union() -> None:
    vectors: dict[str, Sequence[float]] = {
        "disk": [1.0, 0.0], "disk full": [0.8, 0.6],
        "storage": [0.9, 0.1],
    }  # fmt: skip
    with opened(recipes.l0, vectors) as memory:
        keep(memory, "word", "disk failure")
        keep(memory, "both", "disk full")
        keep(memory, "meaning", "storage")
        matches = memory.search("disk", **ASKED)
        assert {match.episode.id for match in matches} == {"word", "both", "meaning"}
        for match in matches:
            ranks = match.parts.tiers.values()
            assert match.score == pytest.approx(sum(1 / (60 + rank) for rank in ranks), abs=1e-12)
        assert len(memory.search("disk", **(ASKED | {"limit": 2}))) == 2


def test_D07_a_vector_finds_a_row_that_shares_no_word() -> None:
    query = "idee per migliorare la memoria"
    vectors: dict[str, Sequence[float]] = {query: [1.0, 0.0], "better recall": [0.9, 0.1]}
    with opened(recipes.l0, vectors) as memory:
        keep(memory, "english", "better recall")
        keep(memory, "other", "tea")
        assert memory.search(query, **ASKED)[0].episode.id == "english"
    with opened(recipes.l0) as memory:
        keep(memory, "english", "better recall")
        assert memory.search(query, **ASKED) == []
