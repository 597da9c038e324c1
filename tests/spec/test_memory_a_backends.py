"""Part A of the acceptance rows: shims, wrappers and adapters, by one contract."""

import asyncio
import inspect
import json
from collections.abc import Sequence
from typing import Any

import pytest

import hyrecall as hr
from hyrecall import recipes
from hyrecall.memory import Episode, EpisodeMatch, Fact, Memory
from hyrecall.systems.loom import (
    AutoExtract,
    ChromaMemory,
    Lazy,
    PostgresMemory,
    RecallOnly,
    RedisMemory,
    default_recall_scored,
)
from memory.servers import postgres_connection, redis_client
from memory.stores import episode, folder, open_store
from seams import MemoryContract, check_recall, check_user, ranked


class MyMemory:
    """As the page has it: ``recall`` of its own, the rest by the shim."""

    def __init__(self, episodes: Sequence[Episode] = ()) -> None:
        self._episodes = list(episodes)

    async def recall(
        self,
        query: str,
        *,
        kind: str | None = "episodic",
        limit: int = 5,
        time_range: Any = None,
        user_id: str | None = None,
        alpha: float = 0.5,
    ) -> list[Episode]:
        user = check_user("user_id", user_id)
        ask = check_recall(query, kind=kind, limit=limit, time_range=time_range, alpha=alpha)
        own = [one for one in self._episodes if one.user_id == user]
        return [match.episode for match in ranked(own, ask)]

    async def recall_scored(self, query: str, **kwargs: Any) -> list[EpisodeMatch]:
        return await default_recall_scored(self, query, **kwargs)


async def filled(memory: Any, episodes: Sequence[Episode]) -> Any:
    for one in episodes:
        await memory.remember(one)
    return memory


class TestA33Custom(MemoryContract):
    def make(self, episodes: Sequence[Episode]) -> Any:
        return MyMemory(episodes)


class TestA33RecallOnly(MemoryContract):
    def make(self, episodes: Sequence[Episode]) -> Any:
        return RecallOnly(MyMemory(episodes))


class TestA34Lazy(MemoryContract):
    def make(self, episodes: Sequence[Episode]) -> Any:
        return filled(
            Lazy(lambda: Memory.open(folder(), embedder=None, recipe=recipes.loom)), episodes
        )


class FakeCollection:
    """A Chroma collection by its call shapes: what is nearest is what shares the most letters."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[str, dict[str, Any]]] = {}

    def upsert(self, ids: list[str], documents: list[str], metadatas: list[dict[str, Any]]) -> None:
        assert all(type(v) in (str, int, float, bool) for m in metadatas for v in m.values())
        self.rows |= {
            one: (text, dict(kept))
            for one, text, kept in zip(ids, documents, metadatas, strict=True)
        }

    def _where(self, where: dict[str, Any], kept: dict[str, Any]) -> bool:
        if "$and" in where:
            assert len(where["$and"]) > 1  # Chroma refuses fewer
            return all(self._where(part, kept) for part in where["$and"])
        ((name, wish),) = where.items()
        if isinstance(wish, dict):
            ((sign, value),) = wish.items()
            return bool(kept[name] >= value if sign == "$gte" else kept[name] <= value)
        return bool(kept[name] == wish)

    def get(self, where: dict[str, Any], include: list[str]) -> dict[str, Any]:
        found = {one: row for one, row in self.rows.items() if self._where(where, row[1])}
        return {"ids": list(found), "metadatas": [row[1] for row in found.values()]}

    def query(
        self, query_texts: list[str], n_results: int, where: dict[str, Any], include: list[str]
    ) -> dict[str, Any]:
        (query,) = query_texts
        found = self.get(where, include)
        order = sorted(
            range(len(found["ids"])),
            key=lambda at: -len(set(query) & set(self.rows[found["ids"][at]][0])),
        )[:n_results]
        return {"metadatas": [[found["metadatas"][at] for at in order]]}

    def delete(self, ids: list[str]) -> None:
        for one in ids:
            del self.rows[one]


class TestA35Chroma(MemoryContract):
    def make(self, episodes: Sequence[Episode]) -> Any:
        return filled(ChromaMemory(FakeCollection()), episodes)


class TestA35Redis(MemoryContract):
    def make(self, episodes: Sequence[Episode]) -> Any:
        client = redis_client()
        client.flushdb()
        return filled(RedisMemory(client), episodes)


def postgres() -> Any:
    connection = postgres_connection()
    connection.execute("DROP TABLE IF EXISTS hyrecall_contract")
    return PostgresMemory(connection, table="hyrecall_contract")


class TestA35Postgres(MemoryContract):
    def make(self, episodes: Sequence[Episode]) -> Any:
        return filled(postgres(), episodes)


def test_A04_names_at_the_top() -> None:
    assert hr.Episode is Episode
    assert hr.EpisodeMatch is EpisodeMatch
    assert callable(default_recall_scored)


def test_A32_both_call_shapes() -> None:
    episodes = [episode(2), episode(0), episode(1)]
    matches = default_recall_scored(episodes)
    assert [match.episode for match in matches] == episodes
    assert all(one.episode is two for one, two in zip(matches, episodes, strict=True))
    assert {(m.score, m.vector_score, m.bm25_score, m.rerank_score) for m in matches} == {
        (1.0, None, None, None)
    }
    assert [match.score for match in default_recall_scored(episodes, score=0.25)] == [0.25] * 3
    calling = default_recall_scored(MyMemory(episodes), "note", user_id="alice", limit=2)
    assert inspect.iscoroutine(calling)
    found = asyncio.run(calling)
    assert [match.score for match in found] == [1.0, 1.0]
    assert all(any(match.episode is one for one in episodes) for match in found)


def test_A33_a_backend_of_ones_own_needs_no_other_code() -> None:
    own = [name for name in vars(MyMemory) if not name.startswith("__")]
    assert own == ["recall", "recall_scored"]
    checks = [name for name in dir(MemoryContract) if name.startswith("test_")]
    assert len(checks) >= 17  # TestA33Custom runs them on it
    (match,) = asyncio.run(MyMemory([episode(0)]).recall_scored("note", user_id="alice"))
    assert (match.score, match.episode) == (1.0, episode(0))


def test_A34_wrappers_let_scores_through() -> None:
    async def run() -> None:
        opened = 0
        path = folder()

        def open_it() -> Any:
            nonlocal opened
            opened += 1
            return Memory.open(path, embedder=None, recipe=recipes.loom)

        lazy = Lazy(open_it)
        assert not lazy.is_open
        assert not path.exists()
        facts = [Fact(subject="bob", predicate="likes", object="tea")]
        wrapped = AutoExtract(await lazy.inner(), lambda one: facts)
        await wrapped.remember(episode(0, "the disk is full"))
        await wrapped.remember(episode(1, "tea"))
        own = await (await lazy.inner()).recall_scored("disk", user_id="alice")
        assert opened == 1
        assert (own[0].bm25_score or 0.0) > 0
        for one in (wrapped, lazy):
            got = await one.recall_scored("disk", user_id="alice")
            assert [m.model_dump() for m in got] == [m.model_dump() for m in own]
        (fact,) = await wrapped.recall_facts("likes", user_id="alice")
        assert (fact.object, fact.user_id) == ("tea", "alice")
        bare = AutoExtract(MyBare([episode(0)]), lambda one: [])
        assert [m.score for m in await bare.recall_scored("note")] == [1.0]
        await lazy.close()

    asyncio.run(run())


class MyBare:
    """Recalls, and no more."""

    def __init__(self, episodes: list[Episode]) -> None:
        self._episodes = episodes

    async def recall(self, query: str) -> list[Episode]:
        return self._episodes


def test_A35_shims_say_1_and_the_store_says_both() -> None:
    async def run() -> None:
        chroma = await filled(ChromaMemory(FakeCollection()), [episode(0)])
        assert [m.score for m in await chroma.recall_scored("note", user_id="alice")] == [1.0]

    asyncio.run(run())
    with open_store(recipe=recipes.loom) as memory:
        memory.remember(episode(0))
        (match,) = memory.recall_scored("note", user_id="alice")
        assert match.bm25_score is not None
        assert match.vector_score is not None


def test_a_server_that_gives_anothers_episode_is_not_believed() -> None:
    collection = FakeCollection()

    async def run() -> None:
        memory = await filled(ChromaMemory(collection), [episode(0, user_id="bob")])
        (row,) = collection.rows.values()
        row[1]["user"] = "alice"
        with pytest.raises(PermissionError):
            await memory.recall("note", user_id="alice")

    asyncio.run(run())


def test_F22_the_adapter_gives_the_ids_of_the_store() -> None:
    words = ("oak", "ash", "elm", "fir", "yew")
    episodes = [
        episode(at, " ".join(words[(at * step) % 5] for step in range(1, at % 4 + 2)))
        for at in range(30)
    ]

    async def run() -> None:
        adapter = await filled(postgres(), episodes)
        # The adapters fill short lists with the newest rows, as loom does and hebb does not.
        async with Memory.open(folder(), embedder=None, recipe=recipes.loom) as memory:
            await memory.remember_batch(episodes)
            for query in ("oak", "elm yew", "fir ash oak", "", "pine"):
                asked = {"user_id": "alice", "limit": 12}
                first = await adapter.recall(query, **asked)
                second = await memory.recall(query, **asked)
                assert [one.id for one in first] == [one.id for one in second], query

    asyncio.run(run())


@pytest.mark.parametrize("table", ["x; DROP TABLE y", 'a"b', "A", "", "a.b.c"])
def test_a_name_of_a_table_is_a_plain_one(table: str) -> None:
    with pytest.raises(hr.OptionError, match="table"):
        PostgresMemory(None, table=table)


def test_owners_are_told_apart_in_keys() -> None:
    memory = RedisMemory(None, prefix="p")  # type: ignore[arg-type]
    keys = [memory._key(user) for user in (None, "None", "null", "", '"', "a:b")]
    assert len(set(keys)) == len(keys)
    assert json.loads(keys[0].removeprefix("p:")) is None
