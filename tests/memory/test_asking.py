"""Every recipe takes every option of a call, with vectors and without."""

import itertools
import threading
import time
from typing import Any

import pytest

from hyrecall import recipes
from hyrecall.errors import OptionError
from hyrecall.memory import Degradation, DegradedReason, EpisodeMatch, Matches
from memory.stores import NOON, FixedEmbedder, episode, open_store
from seams import EVERYONE, AskedBy, Bounded, Found, read_ask

NAMES = ("loom", "default", "honeycomb", "hebb", "l0", "hypergraph")
# By words the first is best, by vectors the last; nothing else is like the query.
TEXTS = ("disk disk full", "full of tea", "storage at its end")
VECTORS = {
    "disk full": [1.0, 0.0], TEXTS[0]: [0.5, 0.866], TEXTS[1]: [0.4, 0.917],
    TEXTS[2]: [0.995, 0.0998],
}  # fmt: skip


def stores(name: str, embedder: Any) -> Any:
    memory = open_store(recipe=getattr(recipes, name), embedder=embedder, dim=2)
    memory.remember_batch([episode(at, text) for at, text in enumerate(TEXTS)])
    return memory


@pytest.mark.parametrize("name", NAMES)
def test_alpha_is_words_at_0_and_vectors_at_1(name: str) -> None:
    with stores(name, FixedEmbedder(VECTORS)) as memory:

        def first(alpha: float) -> str:
            matches = memory.search("disk full", user_id="alice", alpha=alpha, now=NOON)
            assert not matches.degraded
            best: str = matches[0].episode.id
            return best

        assert first(0.0) == "e0"
        assert first(1.0) == "e2"
        plain = memory.search("disk full", user_id="alice", now=NOON)
        half = memory.search("disk full", user_id="alice", alpha=0.5, now=NOON)
        assert [(m.episode.id, m.score) for m in plain] == [(m.episode.id, m.score) for m in half]


@pytest.mark.plain_cases(4)
@pytest.mark.parametrize(("name", "with_vectors"), list(itertools.product(NAMES, (True, False))))
def test_options_go_together(name: str, with_vectors: bool) -> None:
    with stores(name, FixedEmbedder(VECTORS) if with_vectors else None) as memory:
        chosen: dict[str, tuple[Any, ...]] = {
            "alpha": (None, 0.0, 0.7, 1.0),
            "diversity": (None, 0.3),
            "normalize": (False, True),
            "min_score": (None, 0.0),
            "reranker": (None, lambda query, texts: [float(len(text)) for text in texts]),
        }
        for values in itertools.product(*chosen.values()):
            options = dict(zip(chosen, values, strict=True))
            matches = memory.search("disk full", user_id="alice", **options)
            assert matches, options
            assert not matches.degraded
            for at, match in enumerate(matches):
                if matches.origins[at] == "hit":
                    assert matches.explain(at).score == match.score


def test_a_vector_may_stand_for_words() -> None:
    with stores("loom", FixedEmbedder(VECTORS)) as memory:
        matches = memory.search("", user_id="alice", vector=[1.0, 0.0])
        assert matches[0].episode.id == "e2"
        assert matches[0].bm25_score is None
    with stores("hebb", None) as memory:
        assert memory.search("", user_id="alice", vector=[1.0, 0.0]) is not None
        with pytest.raises(OptionError, match="query"):
            memory.search("", user_id="alice")


def test_another_recipe_must_share_the_index() -> None:
    with stores("loom", None) as memory:
        for name in ("default", "honeycomb"):
            assert memory.search("disk", user_id="alice", recipe=getattr(recipes, name))
        for name in ("l0", "hebb", "hypergraph"):
            with pytest.raises(OptionError, match=r"recipe=") as caught:
                memory.search("disk", user_id="alice", recipe=getattr(recipes, name))
            assert "Memory.open(path, recipe=...)" in str(caught.value)


def test_everyone_cannot_recall() -> None:
    with pytest.raises(OptionError, match="user_id"):
        read_ask("note", AskedBy(user=EVERYONE), recipes.loom)
    with open_store() as memory:
        for call in (memory.search, memory.recall, memory.recall_scored, memory.recall_facts):
            with pytest.raises((OptionError, TypeError), match="user_id"):
                call("note", user_id=EVERYONE)
        with pytest.raises((OptionError, TypeError), match="user_id"):
            memory.forget(user_id=EVERYONE)  # type: ignore[arg-type]


def test_matches_say_how_they_came_about() -> None:
    why = Degradation(DegradedReason.INDEX_NOT_READY, "being built")
    one = EpisodeMatch(episode=episode(0), score=0.25)
    matches = Matches([one], Found(reasons=(why,), origins=("hit",)))
    assert isinstance(matches, list)
    assert matches == [one]
    assert matches.degraded
    more = matches.with_reasons(why, Degradation(DegradedReason.RERANK))
    assert [str(reason) for reason in more.reasons] == [
        "index_not_ready (being built)", "rerank",
    ]  # fmt: skip
    assert list(more) == list(matches)
    assert repr(matches) == (
        "<Matches: 1 of 'e0': 0.2500, degraded: index_not_ready (being built)>"
    )
    with pytest.raises(OptionError, match="an index ranked"):
        matches.explain(0)


def test_bounded_calls_give_raise_or_are_left() -> None:
    bounded = Bounded("test", most=2)
    assert bounded.call(lambda: 5, timeout=5.0) == 5
    with pytest.raises(KeyError, match="own"):
        bounded.call(lambda: {}["own"], timeout=5.0)

    def leaves() -> None:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match="SystemExit"):
        bounded.call(leaves, timeout=5.0)
    free = threading.Event()
    for _ in range(2):
        with pytest.raises(TimeoutError, match="in time"):
            bounded.call(free.wait, timeout=0.01)
    with pytest.raises(TimeoutError, match="hang"):
        bounded.call(lambda: 5, timeout=5.0)
    free.set()
    for _ in range(100):
        try:
            assert bounded.call(lambda: 6, timeout=5.0) == 6
            break
        except TimeoutError:
            time.sleep(0.02)
    else:
        raise AssertionError("nothing came free")
