"""Weights learnt from what one user of a store said that helped, and from nobody else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("apsw", reason="the extra [memory] is not installed")
pytest.importorskip("ir_measures", reason="the extra [evaluate] is not installed")
pytest.importorskip("scipy", reason="the extra [evaluate] is not installed")

import hyrecall as hr
from hyrecall.embed import EmbedError, HashEmbedder
from hyrecall.errors import OptionError
from hyrecall.evaluate import Learnt, learn_from_feedback
from hyrecall.memory import Episode, MemorySync
from memory.stores import BrokenEmbedder, open_store

WORDS = ("amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "haven")
N_QUERIES = 80
DIM = 16


def memories(user: str, *, with_sessions: bool = False) -> list[Episode]:
    """Four memories for each query, of which two are notes."""
    random = np.random.default_rng(11)
    return [
        Episode(
            id=f"m{at}",
            user_id=user,
            output=" ".join(random.choice(WORDS, 3)) + f" t{at // 4}",
            kind=("episodic", "note")[at % 2],
            session_id=f"s{at // 4}" if with_sessions else None,
            visibility=("private", "global")[at % 3 == 0],
        )
        for at in range(4 * N_QUERIES)
    ]


def fill(memory: MemorySync, user: str, *, kind: str, **how: Any) -> None:
    """Keep memories, and say that those of a kind helped."""
    memory.remember_batch(memories(user, **how))
    random = np.random.default_rng(5)
    for query in range(N_QUERIES):
        at = 4 * query + 2 * int(random.integers(2)) + (kind == "note")
        memory.feedback(used=[f"m{at}"], query=f"what of t{query}?", user_id=user)


def store(path: Path | None = None, **options: Any) -> MemorySync:
    given: dict[str, Any] = {"embedder": HashEmbedder(dim=DIM), "recipe": hr.recipes.default}
    return open_store(path, **(given | options))


@pytest.fixture(scope="module")
def memory() -> Iterator[MemorySync]:
    with store() as made:
        fill(made, "ann", kind="note")
        yield made


FEATURE = ("kind=note",)


@pytest.fixture(scope="module")
def learnt(memory: MemorySync) -> Learnt:
    return learn_from_feedback(memory, user_id="ann", features=FEATURE, measure="RR@10")


def test_what_helped_is_learnt_and_a_search_by_it_is_better(
    memory: MemorySync, learnt: Learnt
) -> None:
    assert learnt.is_better
    assert learnt.weights["kind=note"] > 0.1
    assert [one.name for one in learnt.report.settings] == [
        "default", "bm25", "dense", "default learnt",
    ]  # fmt: skip
    recipe = hr.Recipe.from_json(learnt.recipe.to_json())
    found = memory.search("what of t3?", user_id="ann", recipe=recipe, limit=2)
    assert {one.episode.kind for one in found} == {"note"}
    assert "kind=note" in str(found.explain(0))


def test_the_scores_measured_are_those_of_a_search(memory: MemorySync, learnt: Learnt) -> None:
    """The user's own index replies as that of the store, in the user's scope."""
    kept = {one.query: one.used for one in memory.list_feedback(user_id="ann")}
    for setting, scores in zip(learnt.report.settings, learnt.report.scores, strict=True):
        if "recipe" not in setting.options:
            continue
        for query, value in zip(scores.queries, scores.values["RR@10"], strict=True):
            found = memory.search(query, user_id="ann", recipe=setting.options["recipe"], limit=10)
            ranks = [n for n, one in enumerate(found, 1) if one.episode.id in kept[query]]
            assert value == (1 / ranks[0] if ranks else 0)


def test_rows_that_only_fill_a_list_teach_nothing() -> None:
    with store(embedder=None, recipe=hr.recipes.loom) as memory:
        fill(memory, "ann", kind="note")
        learnt = learn_from_feedback(memory, user_id="ann", features=FEATURE, measure="RR@10")
        assert learnt.is_better
        assert learnt.weights["kind=note"] > 0
        assert learnt.recipe.fill == hr.recipes.loom.fill


@pytest.mark.slow
def test_nothing_of_others_is_learnt(memory: MemorySync) -> None:
    before = learn_from_feedback(memory, user_id="ann", features=FEATURE)
    with store() as other:
        for user in ("bob", "ann", "cy"):  # others kept theirs before and after
            fill(other, user, kind="note" if user == "ann" else "episodic")
        after = learn_from_feedback(other, user_id="ann", features=FEATURE)
        assert after.weights == before.weights
        assert after.against_base == before.against_base
        assert learn_from_feedback(other, user_id="bob", features=FEATURE).weights["kind=note"] < 0
        with pytest.raises(OptionError, match=r"feedback: expected at least 20 queries .*, got 0"):
            learn_from_feedback(other, user_id="nobody")
        with pytest.raises(OptionError, match="got 0"):
            learn_from_feedback(other)  # the anonymous user is not everybody


def test_too_few_queries_are_too_few() -> None:
    with store() as memory:
        memory.remember("tea", id="tea", user_id="ann")
        for at in range(19):
            memory.feedback(used=["tea"], query=f"q{at}", user_id="ann")
        with pytest.raises(OptionError, match=r"at least 20 queries .*, got 19"):
            learn_from_feedback(memory, user_id="ann")


def test_sessions_are_threads_and_words_alone_may_be_learnt(tmp_path: Path) -> None:
    with store(tmp_path / "store", embedder=None) as memory:
        fill(memory, "ann", kind="note", with_sessions=True)
    with store(tmp_path / "store", embedder=None, read_only=True) as memory:
        learnt = learn_from_feedback(memory, user_id="ann", features=FEATURE)
        assert learnt.base.thread == "session_id"
        assert learnt.base.arms == ("text",)
        assert (
            {"fused", "kind=note"}
            <= set(learnt.weights)
            <= {
                *("fused", "text_score", "neighbour_1", "neighbour_2", "thread", "length"),
                *(f"text_{side}_{n}" for side in ("before", "after") for n in (1, 2, 3)),
                "kind=note",
            }
        )
        found = memory.search("what of t3?", user_id="ann", recipe=learnt.recipe)
        assert found[0].episode.kind == "note"
    with store(tmp_path / "store", embedder=None, recipe=learnt.recipe) as memory:
        again = memory.search("what of t3?", user_id="ann")
        assert [one.episode.id for one in again] == [one.episode.id for one in found]


def test_a_broken_embedder_is_named() -> None:
    with store(embedder=None) as memory:
        fill(memory, "ann", kind="note")
        path = memory._store.database.folder
    broken = store(path, embedder=BrokenEmbedder())
    with broken, pytest.raises(EmbedError, match="vectors of 64 texts, got crashed"):
        learn_from_feedback(broken, user_id="ann")


def test_a_recipe_with_a_graph_is_refused() -> None:
    memory = store(recipe=hr.recipes.hypergraph, embedder=None)
    with memory, pytest.raises(OptionError, match="recipe: expected a recipe without a graph"):
        learn_from_feedback(memory, user_id="ann")
