"""Options of one search, with every recipe, with vectors and without; and the list of matches."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hyrecall as hr
from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.errors import DTypeError, OptionError
from hyrecall.memory import (
    Degradation,
    DegradedReason,
    Episode,
    EpisodeMatch,
    Matches,
    MemorySync,
    Partition,
)
from memory.stores import HOUR, NOON, Clock, FixedEmbedder, episode, folder, open_store
from seams import EVERYONE, AskedBy, Composite, RecallReport, read_ask

DAY = 24 * HOUR


def opened(recipe: Any, embedder: Any = None, **options: Any) -> MemorySync:
    given = {"clock": Clock(NOON), "recall_timeout": 30.0} | options
    return MemorySync.open(folder(), recipe=recipe, embedder=embedder, **given)


def keep(memory: MemorySync, key: str, text: str, **fields: Any) -> None:
    given = {"user_id": "ann", "occurred_at": NOON} | fields
    memory.remember(Episode(id=key, text=text, **given))


def ids(matches: Any) -> list[str]:
    return [one.episode.id for one in matches]


# ---- weights ----


@pytest.fixture
def rated() -> Iterator[MemorySync]:
    """Two memories: one a day old and important, one new and not."""
    with opened(recipes.hebb) as memory:
        keep(memory, "old", "deploy the cluster", importance=10.0, occurred_at=NOON - DAY)
        keep(memory, "new", "deploy the cluster", importance=0.0)
        yield memory


def composites(memory: Any, **options: Any) -> dict[str, float]:
    return {m.episode.id: m.score for m in memory.search("deploy", user_id="ann", **options)}


def test_F15_a_request_says_its_weights_the_rest_are_the_recipes(
    rated: MemorySync,
) -> None:
    recency, importance = {"old": 0.99**24, "new": 1.0}, {"old": 1.0, "new": 0.0}

    def expected(r: float, i: float, v: float) -> dict[str, Any]:
        return {
            key: pytest.approx((r * recency[key] + i * importance[key] + v) / (r + i + v), abs=1e-9)
            for key in ("old", "new")
        }

    assert composites(rated) == expected(1, 1, 1)
    assert composites(rated, weights={"recency": 3}) == expected(3, 1, 1)
    assert composites(rated) == expected(1, 1, 1)  # for that request only
    stages = [
        replace(stage, relevance=2.0) if isinstance(stage, Composite) else stage
        for stage in recipes.hebb.shaping
    ]
    changed = recipes.hebb.replace(shaping=tuple(stages))
    assert composites(rated, recipe=changed) == expected(1, 1, 2)
    # Recipe relevance 2, request recency 3: (2 relevance + 3 recency + importance) / 6.
    assert composites(rated, recipe=changed, weights={"recency": 3}) == expected(3, 1, 2)
    nothing = dict.fromkeys(("recency", "importance", "relevance"), 0)
    assert set(composites(rated, weights=nothing).values()) == {0.0}


def test_weights_without_a_composite_score_are_refused() -> None:
    with opened(recipes.loom) as memory:
        wish = "weights: expected a recipe with a Composite stage, as recipes.hebb has, got loom"
        with pytest.raises(OptionError, match=wish):
            memory.search("deploy", user_id="ann", weights={"recency": 1})


# ---- tokens ----

CLONE = "the deploy failed as the disk was full"  # 38 characters: 10 tokens
OTHER = "the deploy waits for people of the whole network"


@pytest.fixture
def clones() -> Iterator[MemorySync]:
    """Three that are near each other, and one that is not."""
    texts = {f"{CLONE} {at}": [1.0, -0.05 * at] for at in range(3)} | {OTHER: [-0.3, 1.0]}
    vectors = FixedEmbedder(texts | {"deploy": [1.0, 1.0]})
    with opened(recipes.honeycomb.replace(shaping=()), vectors) as memory:
        for at, text in enumerate(texts):
            keep(memory, f"m{at}", text)
        yield memory


def test_E30_the_recipes_mmr_chooses_within_the_budget(clones: MemorySync) -> None:
    assert recipes.honeycomb.budget_mmr is not None
    assert ids(clones.search("deploy", user_id="ann", limit=3)) == ["m0", "m1", "m2"]
    found = ids(clones.search("deploy", user_id="ann", token_budget=25))
    assert found == ["m0", "m3"]  # and not the next clone
    plain = recipes.honeycomb.replace(shaping=(), budget_mmr=None)
    greedy = clones.search("deploy", user_id="ann", token_budget=25, recipe=plain)
    assert ids(greedy) == ["m0", "m1"]


def test_a_budget_makes_what_fills_step_aside() -> None:
    with opened(recipes.loom) as memory:
        for at in range(5):
            keep(memory, f"m{at}", "deploy" if at == 0 else "tea " * 40)
        assert len(memory.search("deploy", user_id="ann")) == 5
        found = memory.search("deploy", user_id="ann", token_budget=50)
        assert ids(found) == ["m0"]
        assert "fill has no effect: a Budget bounds the lists" in found.trace.notes
        assert len(memory.search("", user_id="ann")) == 5
        assert ids(memory.search("", user_id="ann", token_budget=50)) == []


def test_a_recipes_own_budget_and_reranker_read_whole_memories() -> None:
    heard: list[str] = []

    def longest(query: str, texts: list[str]) -> list[float]:
        heard.extend(texts)
        return [float(len(text)) for text in texts]

    stages = (hr.RerankBy(longest, timeout="30s"), hr.Budget(16))
    for recipe in (recipes.loom, recipes.honeycomb, recipes.l0):
        with opened(recipe.replace(shaping=stages, budget_mmr=None)) as memory:
            for at in range(3):
                said = Episode(id=f"m{at}", input="deploy?", text="deploy " * at, user_id="ann")
                memory.remember(said)
            found = memory.search("deploy", user_id="ann")
        assert ids(found)[0] == "m2"
        spent = [-(-len(one.episode.full_text.strip()) // 4) for one in found]
        assert [one.parts.tokens for one in found] == spent
        assert len(found) == 1 or sum(spent) <= 16
        assert {"deploy?", "deploy?\ndeploy ", "deploy?\ndeploy deploy "} == set(heard)
        heard.clear()


def test_without_an_index_a_budget_holds_too(
    clones: MemorySync, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hyrecall.errors import CorruptIndexError

    def unreadable(*_: object) -> None:
        raise CorruptIndexError("segment: expected its bytes, got others")

    monkeypatch.setattr("hyrecall.memory.recall.index_search.IndexSearch._search", unreadable)
    assert len(clones.search("deploy", user_id="ann")) == 4
    found = clones.search("deploy", user_id="ann", token_budget=25)
    assert found.lexical_mode == "substring"
    assert len(found) == 2
    assert len(clones.search("deploy", user_id="ann", token_budget=1)) == 1
    words = hr.Budget(17, estimate=lambda texts: [len(text.split()) for text in texts])
    own = recipes.honeycomb.replace(shaping=(words,), budget_mmr=None)
    by_words = clones.search("deploy", user_id="ann", recipe=own)
    assert [len(one.episode.text.split()) for one in by_words] == [9]


# ---- hints ----


def test_E48_hints_are_ids_and_fused_like_the_others() -> None:
    with opened(recipes.honeycomb) as memory:
        keep(memory, "word", "deploy on friday")
        keep(memory, "hint", "the quota of the builder")
        keep(memory, "theirs", "deploy", user_id="bob")
        assert ids(memory.search("deploy", user_id="ann")) == ["word"]
        found = memory.search("deploy", user_id="ann", candidates=["theirs", "hint", "nowhere"])
        assert sorted(ids(found)) == ["hint", "word"]
        by_id = {m.episode.id: m.score for m in found}
        # A list of one: what the user may not see leaves no gap in the ranks.
        assert by_id == {"word": pytest.approx(1 / 61), "hint": pytest.approx(1 / 61)}
        assert found.tiers["hints"] == 1
        both = memory.search("deploy", user_id="ann", candidates={"word": 2.0, "hint": 1.0})
        assert {m.episode.id: m.score for m in both} == {
            "word": pytest.approx(2 / 61),
            "hint": pytest.approx(1 / 62),
        }


# ---- partitions ----


def test_F17_several_partitions_are_ranked_as_one() -> None:
    with opened(recipes.hebb) as memory:
        for place, n in (("home", 1), ("work", 2), ("lab", 3)):
            keep(memory, place, "deploy " * n, org="acme", workspace=place)
        home, work, nowhere = (
            Partition("ann", org="acme", workspace=name) for name in ("home", "work", "nowhere")
        )
        found = memory.search("deploy", partitions=[home, work, home, nowhere])
        assert sorted(ids(found)) == ["home", "work"]
        assert [one.workspace for one in found.scopes] == ["home", "work", "nowhere"]
        alone = memory.search("deploy", partitions=[home])
        assert ids(alone) == ids(
            memory.search("deploy", user_id="ann", org="acme", workspace="home")
        )
        assert not memory.search("deploy", partitions=[nowhere])
        with pytest.raises(OptionError, match="partitions: expected one or more, got none"):
            memory.search("deploy", partitions=[])
        with pytest.raises(OptionError, match="partitions: expected none beside user_id="):
            memory.search("deploy", partitions=[home], user_id="ann")
        for wrong in ("home", [("ann", "acme", "home")]):
            with pytest.raises(DTypeError, match="partitions: expected a sequence of Partition"):
                memory.search("deploy", partitions=wrong)  # type: ignore[arg-type]


# ---- floors ----


class _ByWord(HashEmbedder):
    """Cosine 1 for texts about tea, .6 for texts about coffee, 0 for all others, with a query."""

    def embed(self, texts: Sequence[str]) -> Any:
        at = [0 if "tea" in text else 1 if "coffee" in text else 2 for text in texts]
        rows = np.array([[1, 0, 0], [0.6, 0.8, 0], [0, 0, 1]], np.float32)
        return np.pad(rows[at], ((0, 0), (0, self.dim - 3)))


@pytest.fixture
def drinks() -> Iterator[MemorySync]:
    with opened(None, _ByWord(8)) as memory:
        for key, text in (("tea", "tea at four"), ("coffee", "coffee"), ("car", "a red car")):
            keep(memory, key, text, session_id="s")
        yield memory


def _matched(memory: Any, query: str, floors: Any, **options: Any) -> list[str]:
    return sorted(ids(memory.search(query, user_id="ann", min_score=floors, **options)))


def test_floors_of_a_store_are_absolute_and_leave_nothing_where_nothing_is_relevant(
    drinks: MemorySync,
) -> None:
    query = "quantum chromodynamics"
    assert drinks.search(query, user_id="ann", min_score=0.9)  # relative to the best of the reply
    vector = drinks._store.guard._embedder.embed(["tea"])[0]  # type: ignore[union-attr]
    asked = {"vector": vector}
    assert _matched(drinks, query, {"cosine": 0.3}, **asked) == ["coffee", "tea"]
    assert _matched(drinks, query, {"cosine": 0.7}, **asked) == ["tea"]
    assert _matched(drinks, query, {"cosine": hr.Above(1.0)}, **asked) == []
    assert _matched(drinks, "red tea", {"cosine": 0.7}, **asked) == ["car", "tea"]
    assert _matched(drinks, "red tea", {"cosine": 0.7, "bm25": 100.0}, **asked) == ["tea"]
    assert _matched(drinks, "red tea", {"cosine": 0.7, "bm25": 0.01}, **asked) == ["car", "tea"]


@pytest.mark.parametrize("recipe", [None, *(getattr(recipes, n) for n in ("loom", "hypergraph"))])
def test_floors_let_no_row_in_that_no_arm_lists(recipe: Any) -> None:
    with opened(recipe, _ByWord(8)) as memory:
        for key, text in (("tea", "tea at four"), ("car", "a red car"), ("bus", "a red bus")):
            keep(memory, key, text, session_id="s")
        floors = {"bm25": 1e6, "cosine": 0.9}
        assert _matched(memory, "tea", floors) == ["tea"]
        assert _matched(memory, "red", floors) == ["bus", "car"]  # all others have cosine 1 here
        assert _matched(memory, "coffee", {"bm25": 1e6, "cosine": hr.Above(1.0)}) == []
        keep(memory, "paid", "INV-2026-0042 is paid", session_id="s")
        assert _matched(memory, "INV-2026-0042", {"bm25": 1e6, "cosine": hr.Above(1.0)}) == []
        assert _matched(memory, "INV-2026-0042", {"bm25": 0.1, "cosine": hr.Above(1.0)}) == ["paid"]


def test_a_floor_above_a_score_leaves_out_that_score(drinks: MemorySync) -> None:
    first, *rest = (one.score for one in drinks.search("tea", user_id="ann"))
    assert rest
    assert len(drinks.search("tea", user_id="ann", min_score=first)) >= 1
    assert drinks.search("tea", user_id="ann", min_score=hr.Above(first)) == []
    lowest = hr.Above(min(rest))
    kept = [one.score for one in drinks.search("tea", user_id="ann", min_score=lowest)]
    assert kept == [score for score in (first, *rest) if score > min(rest)]


def test_a_floor_of_cosines_needs_an_embedder_or_a_vector() -> None:
    with opened(None) as memory:
        keep(memory, "tea", "tea at four")
        assert _matched(memory, "tea", {"bm25": 0.01}) == ["tea"]
        with pytest.raises(OptionError, match=r"min_score\['cosine'\]: expected an embedder"):
            memory.search("tea", user_id="ann", min_score={"cosine": 0.3})


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
        with pytest.raises(OptionError, match="text"):
            memory.search("", user_id="alice")


def test_another_recipe_must_share_the_index() -> None:
    with stores("loom", None) as memory:
        for name in ("default", "honeycomb", "hypergraph"):
            assert memory.search("disk", user_id="alice", recipe=getattr(recipes, name))
        for name in ("l0", "hebb"):
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
    matches = Matches([one], RecallReport(reasons=(why,), origins=("hit",)))
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
