"""Part F of the acceptance rows, through a store: off by setting, weights, marks, atomic writes."""

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hyrecall import recipes
from hyrecall.memory import Episode
from memory.stores import DIM, HOUR, NOON, BrokenEmbedder, Clock, episode, folder, open_store
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


def test_F02_off_by_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LTM_EMBED_DISABLE", "1")
    with hebb_store(embedder="http://127.0.0.1:9/v1") as memory:
        matches = memory.search("deploy", user_id="alice")
        assert [reason.reason for reason in matches.reasons] == ["embeddings_off"]
        assert matches.degraded
        assert {match.episode.id for match in matches} == {"e0", "e1", "e2"}
        assert {match.vector_score for match in matches} == {None}
        assert memory._store.guard.state()["calls"] == 0


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
                memory.remember(Episode(id=f"m{at}", user_id="alice", output=f"note {at}"))
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
