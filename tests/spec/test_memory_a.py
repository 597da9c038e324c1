"""Part A of the acceptance rows (Loom), through a store: types, users, scores, erasing, facts."""

import asyncio
import inspect
import random
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import numpy as np
import pydantic
import pytest

import hyrecall as hr
from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.memory import (
    ANONYMOUS,
    Agent,
    DegradedReason,
    Episode,
    EpisodeMatch,
    Fact,
    Facts,
    IsolationWarning,
    Memory,
    MemorySync,
)
from hyrecall.systems.loom import VectorStore
from laws.effort import Effort
from memory.stores import DIM, NOON, BrokenEmbedder, FixedEmbedder, episode, folder, open_store
from seams import Follower, IndexNotReadyError

# ---- types, users, scores, erasing ----


def test_A01_the_signature_of_recall_scored() -> None:
    signature = inspect.signature(Memory.recall_scored)
    told = {name: one.default for name, one in list(signature.parameters.items())[2:]}
    page = {"kind": "episodic", "limit": 5, "time_range": None, "user_id": None, "alpha": 0.5}
    assert told == page | {"normalize": False}  # ours, for the page's ``score >= 0.6``
    assert list(signature.parameters)[:2] == ["self", "query"]
    assert signature.parameters["query"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert {one.kind for one in list(signature.parameters.values())[2:]} == {
        inspect.Parameter.KEYWORD_ONLY
    }
    assert inspect.iscoroutinefunction(Memory.recall_scored)

    async def run() -> Any:
        async with Memory.open(folder(), embedder=None, recipe=recipes.loom) as memory:
            await memory.remember(episode(0))
            return await memory.recall_scored("note", user_id="alice")

    matches = asyncio.run(run())
    assert isinstance(matches, list)
    assert [type(match) for match in matches] == [EpisodeMatch]


@pytest.mark.filterwarnings("ignore::hyrecall.memory.data.types.IsolationWarning")
@pytest.mark.parametrize("verb", ["recall", "recall_scored", "search", "list"])
def test_A29_reserved_and_wrong_users(verb: str) -> None:
    with open_store(recipe=recipes.loom) as memory:
        call = getattr(memory, verb)
        args = () if verb == "list" else ("note",)
        for reserved in (ANONYMOUS, "__jeeves_anon_user__"):
            with pytest.raises(ValueError, match="user_id"):
                call(*args, user_id=reserved)
        for wrong in (5, b"alice", ["alice"], object()):
            with pytest.raises(TypeError, match="user_id"):
                call(*args, user_id=wrong)
        memory.remember("mine", user_id="")
        assert [e.output for e in memory.list(user_id="")] == ["mine"]
        assert memory.list(user_id=None) == []


def test_A30_a_warning_where_named_users_are() -> None:
    with open_store(recipe=recipes.loom) as memory:
        memory.remember("nobody's")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(memory.recall("nobody")) == 1
        memory.remember("hers", user_id="alice")
        for call in (memory.recall, memory.search, lambda _: memory.list()):
            with pytest.warns(IsolationWarning, match="user_id"):
                assert [e.output for e in _plain(call("nobody"))] == ["nobody's"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            memory.recall("hers", user_id="alice")
            memory.search("nobody", org="elsewhere")
        with warnings.catch_warnings():
            warnings.simplefilter("error", IsolationWarning)
            with pytest.raises(IsolationWarning):
                memory.recall("nobody")


def _plain(found: Any) -> list[Episode]:
    return [getattr(one, "episode", one) for one in found]


def test_A31_recall_gives_the_episodes_of_recall_scored() -> None:
    rng = random.Random(31)
    words = ["disk", "tea", "note", "green", "full"]
    with open_store(recipe=recipes.loom) as memory:
        memory.remember_batch([episode(at, " ".join(rng.choices(words, k=4))) for at in range(40)])
        for _ in range(60):
            query = " ".join(rng.choices(words, k=rng.randrange(3)))
            options = {
                "user_id": "alice",
                "limit": rng.randrange(12),
                "alpha": rng.choice([0.0, 0.3, 0.5, 1.0]),
                "time_range": rng.choice([None, (NOON + timedelta(hours=9), None)]),
                "kind": rng.choice(["episodic", None, "other"]),
            }
            scored = memory.recall_scored(query, **options)
            assert memory.recall(query, **options) == [match.episode for match in scored]


def test_A45_the_agent_holds_its_memory() -> None:
    async def run() -> None:
        async with Memory.open(folder(), embedder=None, recipe=recipes.loom) as memory:
            agent = Agent("You know our servers.", model="any-model", memory=memory)
            assert agent.memory is memory
            kept = Episode(user_id="alice", output="pg-eu-2 is full")
            await agent.memory.remember(kept)
            assert await memory.recall("pg-eu-2", user_id="alice") == [kept]

    asyncio.run(run())


@pytest.mark.slow
def test_A46_one_fusion_code() -> None:
    rng = np.random.default_rng(46)
    words = np.array(["disk", "tea", "note", "green", "full", "pg-eu-2"])
    for _ in range(12):
        n = int(rng.integers(1, 40))
        texts = [" ".join(rng.choice(words, rng.integers(1, 6))) for _ in range(n)]
        vectors = rng.standard_normal((n, DIM)).astype(np.float32)
        store = VectorStore(HashEmbedder(dim=DIM))
        ids = [f"m{at:02}" for at in rng.permutation(n)]
        store.add(texts, ids=ids, vectors=vectors)
        with open_store(embedder=HashEmbedder(dim=DIM), recipe=recipes.loom) as memory:
            memory.remember_batch(
                [
                    Episode(id=key, user_id="alice", output=text, occurred_at=NOON)
                    for key, text in zip(ids, texts, strict=True)
                ],
                vectors=vectors,
            )
            for alpha in (0.0, 0.25, 0.5, 1.0):
                query = " ".join(rng.choice(words, 2))
                left = store.search_hybrid(query, k=10, alpha=alpha)
                right = memory.recall_scored(query, limit=10, user_id="alice", alpha=alpha)
                assert {(f.id, f.score, f.vector_score, f.bm25_score) for f in left} == {
                    (m.episode.id, m.score, m.vector_score, m.bm25_score) for m in right
                }


def test_A46_a_filter_narrows_and_ids_are_unique() -> None:
    store = VectorStore(HashEmbedder(dim=DIM))
    store.add(["tea", "tea too"], metadatas=[{"lang": "en"}, {"lang": "de"}], ids=["a", "b"])
    assert [one.id for one in store.search_hybrid("tea", filter={"lang": "de"})] == ["b"]
    assert store.search_hybrid("tea", filter={"none": None}) == []
    with pytest.raises(hr.OptionError, match="ids"):
        store.add(["again"], ids=["a"])
    with pytest.raises(hr.OptionError, match="k"):
        store.search_hybrid("tea", k="4")  # type: ignore[arg-type]


def test_async_and_sync_have_the_same_methods() -> None:
    def methods(kind: type) -> dict[str, Any]:
        return {
            name: inspect.signature(getattr(kind, name))
            for name in dir(kind)
            if not name.startswith("_") and callable(getattr(kind, name)) and name != "open"
        }

    ours, theirs = methods(Memory), methods(MemorySync)
    assert set(ours) == set(theirs)
    for name, signature in ours.items():
        one, two = (
            [(p.name, p.kind, p.default) for p in s.parameters.values()]
            for s in (signature, theirs[name])
        )
        assert one == two, name
        # A view is given at once; what it is asked is awaited, as an opening is.
        is_view = name in ("agent", "browse", "in_memory")
        assert is_view or inspect.iscoroutinefunction(getattr(Memory, name)), name
    opening = [inspect.signature(kind.open) for kind in (Memory, MemorySync)]
    assert opening[0].parameters == opening[1].parameters


# ---- what an episode and a match are ----


NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def test_A02_a_match_has_two_required_fields_and_three_components() -> None:
    fields = EpisodeMatch.model_fields
    assert issubclass(EpisodeMatch, pydantic.BaseModel)
    assert [name for name, field in fields.items() if field.is_required()] == ["episode", "score"]
    rest = {name: field.default for name, field in fields.items() if not field.is_required()}
    three = ("vector_score", "bm25_score", "rerank_score")
    later = {
        "parts": None,
        "is_fill": False,
        "is_exact": False,
        "valid_to": None,
    }  # what came later has a default too
    assert rest == dict.fromkeys(three) | later
    with pytest.raises(pydantic.ValidationError, match="score"):
        EpisodeMatch(episode=Episode())  # type: ignore[call-arg]


def test_A03_a_match_takes_fields_of_the_future_and_misses_none_of_the_optional() -> None:
    match = EpisodeMatch(episode=Episode(output="tea", created_at=NOW), score=0.5)
    payload: dict[str, Any] = match.model_dump()
    assert EpisodeMatch(**{**payload, "future": 1}) == match
    for name in ("vector_score", "bm25_score", "rerank_score"):
        del payload[name]
    assert EpisodeMatch(**payload) == match
    assert EpisodeMatch.model_validate_json(match.model_dump_json()) == match


def test_A06_an_episode_is_made_as_documented() -> None:
    episode = Episode(user_id="alice", kind="episodic", input="...", output="t", created_at=NOW)
    assert episode.created_at == episode.occurred_at == NOW
    assert Episode(occurred_at=NOW).created_at == NOW
    assert episode.session_id is None
    later = Episode(user_id="alice", output="t")
    assert later.created_at == later.occurred_at
    assert later.created_at > NOW - timedelta(days=365)
    assert episode.id.startswith("ep_")
    assert len({Episode().id for _ in range(100)}) == 100


def test_A06_naive_times_are_utc_and_zones_are_kept_as_instants() -> None:
    assert Episode(created_at=datetime(2026, 6, 1, 12)).occurred_at == NOW
    there = timezone(timedelta(hours=2))
    assert Episode(occurred_at=datetime(2026, 6, 1, 14, tzinfo=there)).created_at == NOW
    with pytest.raises(pydantic.ValidationError, match="created_at: expected that of occurred_at"):
        Episode(occurred_at=NOW, created_at=NOW + timedelta(microseconds=1))


# ---- recall_scored: limits, alpha, thresholds, rerankers ----


US = timedelta(microseconds=1)


def test_A17_A23_limits_and_alphas_that_are_none() -> None:
    with open_store(recipe=recipes.loom) as memory:
        memory.remember_batch([episode(at) for at in range(7)])
        assert memory.recall_scored("note", user_id="alice", limit=0) == []
        found = memory.recall_scored("note", user_id="alice", limit=10**9)
        assert len(found) == 7
        for limit in (-1, 1.5, "3", None, True, 2**40):
            with pytest.raises(ValueError, match="limit"):
                memory.recall_scored("note", user_id="alice", limit=limit)  # type: ignore[arg-type]
        for alpha in (float("nan"), -0.1, 1.1, float("inf")):
            with pytest.raises(ValueError, match="alpha"):
                memory.recall_scored("note", user_id="alice", alpha=alpha)


def test_A23_a_limit_may_be_larger_than_the_depth() -> None:
    with open_store(recipe=recipes.loom) as memory:
        memory.remember_batch([episode(at, "the same") for at in range(260)])
        found = memory.recall_scored("same", user_id="alice", limit=250)
        assert len({match.episode.id for match in found}) == 250
        with pytest.raises(ValueError, match="limit"):
            memory.search("same", user_id="alice", limit=250)


def test_A24_a_time_range_has_both_its_ends() -> None:
    with open_store(recipe=recipes.loom) as memory:
        memory.remember_batch([episode(at) for at in range(3)])

        def found(first: Any, last: Any) -> set[str]:
            asked = memory.recall_scored("note", user_id="alice", time_range=(first, last))
            return {match.episode.id for match in asked}

        one = NOON + timedelta(hours=1)
        assert found(one, one) == {"e1"} == found(one.replace(tzinfo=None), one)
        assert found(one + US, None) == {"e2"}
        assert found(None, one - US) == {"e0"}
        assert found(one, NOON) == set()
        for wrong in (one, (one,), (one, "now"), "today"):
            with pytest.raises(TypeError, match="time_range"):
                memory.recall_scored("note", user_id="alice", time_range=wrong)  # type: ignore[arg-type]


def test_A36_the_pages_threshold_finds_what_is_strong() -> None:
    embedder = FixedEmbedder({"disk full": [1, 0], "disk": [1, 0.5], "tea": [0.6, 0.8]})
    for given in (embedder, None):
        with open_store(embedder=given, recipe=recipes.loom) as memory:
            memory.remember_batch([episode(0, "disk full"), episode(1, "tea"), episode(2, "disk")])
            matches = memory.recall_scored("disk full", user_id="alice", limit=20, normalize=True)
            strong = [m for m in matches if m.score >= 0.6]
            assert strong[0].score == 1.0
            assert {m.episode.id for m in strong} >= {"e0"}
            assert all(0 <= m.score <= 1 for m in matches)
            plain = memory.recall_scored("disk full", user_id="alice", limit=20)
            assert [m.episode.id for m in matches] == [m.episode.id for m in plain]
            searched = memory.search("disk full", user_id="alice", normalize=True, min_score=0.6)
            assert {m.episode.id: m.score for m in searched} == {
                m.episode.id: m.score for m in strong
            }
            with pytest.raises(TypeError, match="normalize: expected True or False"):
                memory.recall_scored("disk", user_id="alice", normalize=1)  # type: ignore[arg-type]


# Most of a store's recipes, and what the score of a row that is first in every arm is worth.
BEST = {
    "honeycomb": (recipes.honeycomb.replace(shaping=()), 2 / 61),
    "default": (recipes.default, 1.0),
    "hebb": (recipes.hebb.replace(shaping=()), 1.0),
}


@pytest.mark.parametrize("name", BEST)
def test_A15_alpha_changes_no_scale_and_makes_no_jump(name: str) -> None:
    recipe, best = BEST[name]
    texts = {f"tea {'cup ' * at}": [1.0, 0.2 * at] for at in range(6)}
    ask = "tea"
    with open_store(recipe=recipe, embedder=FixedEmbedder(texts | {ask: [1.0, 0.0]})) as memory:
        for at, text in enumerate(texts):
            memory.remember(episode(at, text))

        def scores(alpha: float) -> dict[str, float]:
            found = memory.search(ask, user_id="alice", alpha=alpha)
            assert found[0].score == pytest.approx(best), alpha
            return {match.episode.id: match.score for match in found}

        for alpha in (0.0, 0.25, 0.48, 0.51, 0.75, 0.98, 0.99):
            one, next_to_it = scores(alpha), scores(alpha + 0.01)
            assert one.keys() == next_to_it.keys()
            assert all(abs(one[key] - next_to_it[key]) <= 0.03 * best for key in one)
        scores(0.5)  # where a recipe may balance its arms by itself


def test_A12_A13_A15_the_ends_of_alpha_rank_by_one_arm_and_no_score_jumps() -> None:
    texts = {f"tea {'cup ' * at}": [1.0, 0.2 * (5 - at)] for at in range(6)}
    with open_store(
        embedder=FixedEmbedder(texts | {"tea": [1.0, 0.0]}), recipe=recipes.loom
    ) as memory:
        for at, text in enumerate(texts):
            memory.remember(episode(at, text))
        step = 0.01
        before: dict[str, float] = {}
        for alpha in np.linspace(0.0, 1.0, 101):
            found = memory.recall_scored("tea", user_id="alice", alpha=float(alpha), limit=6)
            scores = {match.episode.id: match.score for match in found}
            for key in scores.keys() & before.keys():
                assert abs(scores[key] - before[key]) <= 2.001 * step / 61
            before = scores
        words = memory.recall_scored("tea", user_id="alice", alpha=0.0, limit=6)
        assert [m.score for m in words] == pytest.approx([2 / (61 + at) for at in range(6)])
        alone = [m.bm25_score or 0.0 for m in words]
        assert alone == sorted(alone, reverse=True)
        assert {m.vector_score for m in words} == {None}
        vectors = memory.recall_scored("tea", user_id="alice", alpha=1.0, limit=6)
        assert [m.score for m in vectors] == pytest.approx([2 / (61 + at) for at in range(6)])
        assert [m.episode.id for m in vectors] == [m.episode.id for m in reversed(words)]
        assert {m.bm25_score for m in vectors} == {None}


def test_A37_the_pages_reranking_snippet() -> None:
    with open_store(recipe=recipes.loom) as memory:
        memory.remember_batch([episode(at, "tea " * (at + 1)) for at in range(9)])
        matches = memory.recall_scored("tea", user_id="alice", limit=9)
        scores = [float(len(match.episode.output)) for match in matches]
        reranked = [
            EpisodeMatch(**{**match.model_dump(), "score": score, "rerank_score": score})
            for match, score in zip(matches, scores, strict=True)
        ]
        top = sorted(reranked, key=lambda match: -match.score)[:5]
        assert [match.episode.id for match in top] == ["e8", "e7", "e6", "e5", "e4"]
        assert all(isinstance(match.episode, Episode) for match in top)


def test_A38_a_reranker_reorders() -> None:
    with open_store(recipe=recipes.loom) as memory:
        memory.remember_batch([episode(at, f"tea {'x' * at}") for at in range(4)])

        def longest(query: str, texts: list[str]) -> list[float]:
            assert query == "tea"
            return [float(len(text)) for text in texts]

        async def slowly(query: str, texts: list[str]) -> list[float]:
            await asyncio.sleep(0.001)
            return longest(query, texts)

        for reranker in (longest, slowly):
            found = memory.search("tea", user_id="alice", reranker=reranker)
            assert [match.episode.id for match in found] == ["e3", "e2", "e1", "e0"]
            ranks = [match.rerank_score or 0.0 for match in found]
            assert all(a > b for a, b in pairwise(ranks))
            assert not found.degraded


# ---- ranks, scores and partitions ----


QUERY = "oak"
WORDS = ("oak", "ash", "elm", "fir", "yew", "tea", "rye")


def loom(vectors: dict[str, Sequence[float]] | None = None) -> MemorySync:
    """A store of loom; with vectors by text, or without an embedder."""
    embedder = None if vectors is None else FixedEmbedder(vectors)
    return open_store(recipe=recipes.loom, embedder=embedder, recall_timeout=30.0)


def ids(matches: Any) -> list[str]:
    return [match.episode.id for match in matches]


def scored(memory: MemorySync, **options: Any) -> list[tuple[str, float]]:
    found = memory.recall_scored(QUERY, **({"user_id": "alice", "limit": 50} | options))
    return [(match.episode.id, match.score) for match in found]


# Words rank them e0, e1, e2; vectors rank them e2, e1 and do not rank e0 (a cosine of -0.6).
HYBRID: dict[str, Sequence[float]] = {
    QUERY: [1.0, 0.0],
    "oak oak oak": [-0.6, 0.8],
    "oak oak ash": [0.6, 0.8],
    "oak ash ash": [0.8, 0.6],
}


def hybrid() -> MemorySync:
    memory = loom(HYBRID)
    for at, text in enumerate(list(HYBRID)[1:]):
        memory.remember(episode(at, text))
    return memory


def test_A07_order_is_by_score_then_newer_then_id() -> None:
    rng = random.Random(7)
    with loom() as memory:
        memory.remember_batch(
            [
                episode(at, " ".join(rng.choices(WORDS, k=3)), occurred_at=_hour(at % 4))
                for at in range(40)
            ]
        )
        for _ in range(50):
            query = " ".join(rng.choices(WORDS, k=rng.randint(1, 3)))
            found = memory.recall_scored(query, user_id="alice", limit=40)
            order = [(-m.score, -m.episode.occurred_at.timestamp(), m.episode.id) for m in found]
            assert order == sorted(order)
            assert memory.recall_scored(query, user_id="alice", limit=40) == found


def _hour(n: int) -> Any:
    return NOON + timedelta(hours=n)


def test_A11_A14_A19_A47_a_hybrid_hit_has_both_components_and_the_sum_of_its_ranks() -> None:
    with hybrid() as memory:
        found = {m.episode.id: m for m in memory.recall_scored(QUERY, user_id="alice")}
        alone = memory.search(QUERY, user_id="alice", alpha=0.0)
        words = {m.episode.id: m.bm25_score or 0.0 for m in alone}
        assert sorted(words, key=lambda key: -words[key]) == ["e0", "e1", "e2"]
        for key, cosine in (("e0", -0.6), ("e1", 0.6), ("e2", 0.8)):
            assert found[key].vector_score == pytest.approx(cosine, abs=1e-5)
            assert found[key].bm25_score == pytest.approx(words[key], abs=1e-6)
        expected = {"e0": 1 / 61, "e1": 1 / 62 + 1 / 62, "e2": 1 / 63 + 1 / 61}
        assert {key: found[key].score for key in found} == pytest.approx(expected, abs=1e-15)
        assert found["e1"].score > found["e0"].score  # two second places, one first


def test_A22_A27_an_unknown_user_gets_nothing_and_nobody_sees_the_anonymous_bucket() -> None:
    with loom() as memory, warnings.catch_warnings():
        warnings.simplefilter("ignore", IsolationWarning)
        memory.remember(episode(0, "oak"))
        memory.remember(episode(1, "oak", user_id=None))
        assert scored(memory, user_id="carol") == []
        assert [key for key, _ in scored(memory, user_id=None)] == ["e1"]
        assert [key for key, _ in scored(memory)] == ["e0"]


@pytest.mark.slow
def test_A26_no_row_of_another_user_with_any_alpha_or_fallback(effort: Effort) -> None:
    rng = random.Random(26)
    users = ("alice", "bob", "", None, "carol")
    owner: dict[str, str | None] = {}
    vectors = {word: [rng.uniform(-1, 1), rng.uniform(-1, 1)] for word in WORDS}
    with loom(vectors) as memory, warnings.catch_warnings():
        warnings.simplefilter("ignore", IsolationWarning)
        for at in range(60):
            owner[f"e{at}"] = rng.choice(users)
            memory.remember(episode(at, rng.choice(WORDS), user_id=owner[f"e{at}"]))
        for _ in range(effort.cases(quick=200, full=10_000)):
            user, query = rng.choice(users), rng.choice((*WORDS, "", "nothing of it"))
            alpha, limit = rng.choice((0.0, 0.3, 0.5, 1.0)), rng.randint(1, 60)
            found = memory.recall_scored(query, user_id=user, alpha=alpha, limit=limit)
            assert found
            assert {owner[key] for key in ids(found)} == {user}


def test_A41_a_paraphrase_is_found_by_its_vector_only() -> None:
    vectors: dict[str, Sequence[float]] = {
        "how do I get my money back": [1.0, 0.0], "refund policy": [0.9, 0.1],
    }  # fmt: skip
    with loom(vectors) as memory:
        memory.remember(episode(0, "refund policy"))
        for at in range(1, 9):
            memory.remember(episode(at, f"note {at}"))
        asked = {"user_id": "alice", "kind": None}
        assert ids(memory.search("how do I get my money back", **asked))[0] == "e0"
        by_words = memory.search("how do I get my money back", alpha=0.0, **asked)
        assert all(match.score == 0.0 for match in by_words)  # fills, if any


def test_A42_longer_vectors_change_no_fused_order() -> None:
    with (
        hybrid() as memory,
        loom({text: [7 * x for x in vector] for text, vector in HYBRID.items()}) as other,
    ):
        for at, text in enumerate(list(HYBRID)[1:]):
            other.remember(episode(at, text))
        assert scored(other) == scored(memory)


# ---- facts that hold for a time ----


def day(n: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=n)


def a_fact(object_: str, begin: int, user: str = "alice", end: int | None = None) -> Fact:
    until = None if end is None else day(end)
    return Fact(user_id=user, subject="alice", predicate="lives in", object=object_,
                valid_from=day(begin), valid_to=until)  # fmt: skip


def found(memory: MemorySync, at: int, user: str = "alice") -> list[str]:
    facts = memory.recall_facts("where alice lives", valid_at=day(at), user_id=user)
    return [fact.object for fact in facts]


def test_A43_a_new_object_ends_the_old_one_and_the_history_stays() -> None:
    path = folder()
    with open_store(path, embedder=None, recipe=recipes.loom) as memory:
        oslo = memory.remember_fact(a_fact("Oslo", 3))
        memory.remember_fact(a_fact("Rome", 6))
        memory.remember_fact(a_fact("Bonn", 4, user="bob"))
        assert [found(memory, at) for at in (2, 3, 5, 6, 9)] == [
            [], ["Oslo"], ["Oslo"], ["Rome"], ["Rome"],
        ]  # fmt: skip
        versions = memory.history(oslo.id, user_id="alice")
        assert [version.version for version in versions] == [1, 2]
        assert {version.status for version in versions} == {"live"}
    with open_store(path, embedder=None, recipe=recipes.loom) as memory:
        assert found(memory, 5) == ["Oslo"]
        assert found(memory, 5, "bob") == ["Bonn"]
        assert memory.remember_fact(a_fact("Rome", 7)).id != oslo.id
        assert found(memory, 8) == ["Rome"]
        memory.forget(oslo.id, user_id="alice")
        assert found(memory, 5) == []


def _cannot(*args: Any, **options: Any) -> Any:
    raise IndexNotReadyError(DegradedReason.INDEX_NOT_READY, "being built")


def test_A43_without_an_index_facts_come_from_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(embedder=None, recipe=recipes.loom) as memory:
        for fact in (a_fact("Oslo", 3), a_fact("Rome", 6), a_fact("Bonn", 4, user="bob")):
            memory.remember_fact(fact)
        for at, name in enumerate(("tea", "milk", "tea with milk")):
            fact = Fact(user_id="alice", subject="alice", predicate=f"drinks {at}", object=name,
                        valid_from=day(at), valid_to=day(9))  # fmt: skip
            memory.remember_fact(fact)
        memory.remember("alice drinks tea, an episode", user_id="alice")
        assert not memory.recall_facts("tea", user_id="alice", valid_at=day(3)).degraded
        monkeypatch.setattr(Follower, "ready", _cannot)

        def held(query: str, at: int, **options: Any) -> list[str]:
            facts = memory.recall_facts(query, user_id="alice", valid_at=day(at), **options)
            assert isinstance(facts, Facts)
            assert [str(reason) for reason in facts.reasons] == ["index_not_ready (being built)"]
            assert facts.degraded
            return [fact.object for fact in facts]

        # Valid in [valid_from, valid_to), newest first, cut at the limit.
        assert [held("lives", at) for at in (2, 3, 5, 6, 9)] == [
            [], ["Oslo"], ["Oslo"], ["Rome"], ["Rome"],
        ]  # fmt: skip
        assert held("TEA", 3) == ["tea with milk", "tea"]
        assert held("tea milk", 8) == ["tea with milk"]
        assert held("tea", 9) == []
        assert held("drinks", 8, limit=2) == ["tea with milk", "milk"]
        assert "index_not_ready" in repr(memory.recall_facts("tea", user_id="alice"))


def test_A43_facts_say_when_no_vectors_were_to_be_had() -> None:
    with open_store(embedder=BrokenEmbedder(), recipe=recipes.loom) as memory:
        memory.remember_fact(a_fact("Oslo", 3))
        facts = memory.recall_facts("Oslo", user_id="alice", valid_at=day(5))
        assert [fact.object for fact in facts] == ["Oslo"]
        assert [reason.reason for reason in facts.reasons] == ["embed_unavailable"]
        assert memory.recall_facts("", user_id="alice", valid_at=day(5)).degraded is False
