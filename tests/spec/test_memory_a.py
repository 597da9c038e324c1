"""Part A of the acceptance rows, through a store: signatures, round trips, users, erasing."""

import asyncio
import inspect
import io
import random
import string
import warnings
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import hyrecall as hr
from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.memory import (
    ANONYMOUS,
    EVERYONE,
    Agent,
    Episode,
    EpisodeMatch,
    IsolationWarning,
    Memory,
    MemorySync,
    VectorStore,
)
from memory.stores import DIM, NOON, episode, folder, open_store

ALPHABET = string.printable + "äöüßéñ漢字かな🐘\u200d\u0301"


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


def drawn(rng: random.Random, at: int) -> Episode:
    def text(most: int) -> str:
        return "".join(rng.choices(ALPHABET, k=rng.randrange(most)))

    return Episode(
        user_id=rng.choice(["alice", "bob", "", None]),
        visibility=rng.choice(["private", "global"]),
        org=rng.choice([None, "acme"]),
        input=text(40),
        output=text(200),
        kind=rng.choice(["episodic", "semantic"]),
        source=rng.choice([None, "session"]),
        session_id=rng.choice([None, "s1"]),
        occurred_at=NOON + timedelta(microseconds=rng.randrange(-(10**15), 10**15)),
        importance=rng.choice([None, rng.uniform(0, 10)]),
        pinned=rng.random() < 0.2,
        tags=tuple(f"t{n}" for n in range(rng.randrange(4))),
        metadata={"n": rng.random(), "deep": [{"a": None}, text(5)], "big": 2**60, "at": at},
    )


@pytest.mark.filterwarnings("ignore::hyrecall.memory.data.types.IsolationWarning")
def test_A05_comes_back_as_it_was_stored() -> None:
    rng = random.Random(5)
    episodes = [drawn(rng, at) for at in range(200)]
    path = folder()
    with open_store(path, recipe=recipes.loom) as memory:
        memory.remember_batch(episodes)
    with open_store(path, read_only=True, recipe=recipes.loom) as memory:
        for one in episodes:
            partition = {"user_id": one.user_id, "org": one.org}
            got = memory.get(one.id, visibility=one.visibility, **partition)
            assert got == one
        listed = memory.list(user_id=EVERYONE, limit=1_000)
        listed += memory.list(user_id=EVERYONE, org="acme", limit=1_000)
        assert sorted(listed, key=lambda e: e.id) == sorted(episodes, key=lambda e: e.id)


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


def exported(memory: MemorySync, user: str, *, history: bool = False) -> str:
    out = io.StringIO()
    memory.export(out, user_id=user, history=history)
    return out.getvalue()


def test_A44_forget_and_export_leave_nothing() -> None:
    path = folder()
    with open_store(path, recipe=recipes.loom) as memory:
        memory.remember_batch([episode(at) for at in range(10)])
        memory.remember("note of bob", user_id="bob")
        memory.snapshot()
        kept, of_bob = exported(memory, "alice"), exported(memory, "bob")
        assert [f"note {at}" in kept for at in range(11)] == [True] * 10 + [False]
        assert "note of bob" in of_bob
        assert memory.forget(user_id="alice", everything=True) == 10
        assert memory.forget(user_id="alice", everything=True) == 0
        assert "note" not in exported(memory, "alice")
        assert exported(memory, "bob") == of_bob
        assert memory.recall("note", user_id="alice", limit=20) == []
        assert memory.search("note 3", user_id="alice") == []
        assert memory.list(user_id="alice") == []
        assert memory.get("e3", user_id="alice") is None
    with open_store(path, recipe=recipes.loom) as memory:
        assert memory.recall("note", user_id="alice", limit=20) == []
        assert len(memory.recall("note", user_id="bob")) == 1
        assert "note 3" in exported(memory, "alice", history=True)
        assert memory.forget(user_id="alice", everything=True, erase=True) == 10
        assert "note" not in exported(memory, "alice", history=True)
        assert exported(memory, "bob") == of_bob
        assert memory.history("e3", user_id="alice") == []
        for nothing in ({}, {"reason": "why"}, {"user_id": "alice", "erase": True}):
            with pytest.raises(hr.OptionError, match="id: expected an id"):
                memory.forget(**nothing)


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
