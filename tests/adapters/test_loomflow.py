"""``HyrecallMemory`` under loomflow's own tests, and what it promises beyond them."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

loomflow = pytest.importorskip("loomflow", reason="loomflow is not installed")

import hyrecall as hr  # noqa: E402
from adapters.degraded_world import degraded_store  # noqa: E402
from adapters.examples import run_example  # noqa: E402
from adapters.published import outcomes, sources, told  # noqa: E402
from hyrecall.adapters.degraded import DegradedWarning  # noqa: E402
from hyrecall.embed import HashEmbedder  # noqa: E402
from hyrecall.memory import Fact, IsolationWarning, MemorySync  # noqa: E402
from hyrecall.systems.loom.loomflow import HyrecallFacts, HyrecallMemory  # noqa: E402

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SUITE = [
    f"tests/test_{name}.py"
    for name in (
        *("recall_scored", "recall_facts_protocol", "vector_memory", "memory_injection"),
        *("memory_gdpr", "validation_gdpr", "multi_user_isolation", "user_id_isolation_full"),
        *("tool_transcript_persistence", "persistent_subagents", "auto_extract", "reflexion"),
    )
]
# What these ask and we refuse: docs/frameworks/loomflow.md has the reasons.
REFUSED = {
    "test_isolation_warning_fires_on_mixed_bucket_recall",
    "test_isolation_warning_can_be_promoted_to_error",
    "test_agent_with_persist_off_writes_no_transcript",
    "test_agent_with_persist_on_writes_transcript",
    "test_remember_attaches_embedding_when_missing",
    "test_agent_with_vector_memory_persists_and_recalls",
    "test_max_episodes_evicts_oldest",
}


@pytest.fixture
def store() -> Iterator[MemorySync]:
    with MemorySync.in_memory(embedder=HashEmbedder(dim=32)) as made:
        yield made


def episode(text: str, user: str | None = "ann", **fields: Any) -> Any:
    options = {"session_id": "s", "input": "", "output": text, "user_id": user} | fields
    return loomflow.Episode(**options)


def test_loomflows_own_tests_pass(tmp_path: Path) -> None:
    folder = sources("loomflow")
    files = [one for one in SUITE if (folder / one).is_file()]  # an older release has fewer
    found = outcomes(folder, files, "adapters.loomflow_in_place", tmp_path / "report.xml")
    print(told("loomflow", found))
    assert {name for name, one in found.items() if one == "failed"} <= REFUSED
    assert sum(one == "passed" for one in found.values()) >= 60


def test_loomflows_own_tests_find_a_planted_bug(tmp_path: Path) -> None:
    folder = sources("loomflow")
    files = ["tests/test_memory_gdpr.py"]
    found = outcomes(folder, files, "adapters.loomflow_with_bug", tmp_path / "report.xml")
    assert found["test_inmemory_forget_session_only_targets_one_thread"] == "failed"


# ---- beyond them ----


def test_an_agent_remembers_after_the_store_was_closed(tmp_path: Path) -> None:
    async def run(prompt: str) -> list[str]:
        with HyrecallMemory.open(tmp_path / "agent.mem", embedder=None) as memory:
            agent = loomflow.Agent("Be brief.", model=loomflow.EchoModel(), memory=memory)
            await agent.run(prompt, user_id="ann", session_id="s")
            return [one.content for one in await memory.session_messages("s", user_id="ann")]

    first = asyncio.run(run("the build runs on Debian"))
    second = asyncio.run(run("where does the build run?"))
    assert len(first) == 2
    assert second[:2] == first
    assert len(second) == 4


def test_replies_are_those_of_the_store(store: MemorySync) -> None:
    memory = HyrecallMemory(store)

    async def use() -> Any:
        for at, text in enumerate(("green tea", "black tea", "coffee")):
            await memory.remember(episode(text, occurred_at=NOW + timedelta(hours=at)))
        return [
            await memory.recall_scored("tea", user_id="ann", alpha=alpha, limit=2)
            for alpha in (0.0, 0.5, 1.0)
        ]

    for alpha, found in zip((0.0, 0.5, 1.0), asyncio.run(use()), strict=True):
        expected = store.recall_scored("tea", user_id="ann", alpha=alpha, limit=2)
        parts = ("score", "bm25_score", "vector_score")
        assert [[getattr(one, name) for name in parts] for one in found] == [
            [getattr(one, name) for name in parts] for one in expected
        ]
        assert [one.episode.id for one in found] == [one.episode.id for one in expected]
        assert found[0].episode.session_id == "s"


def test_other_users_change_no_reply(store: MemorySync) -> None:
    memory = HyrecallMemory(store)

    async def use() -> Any:
        await memory.remember(episode("green tea", id="one"))
        await memory.remember(episode("black coffee", id="two"))
        before = await memory.recall_scored("tea", user_id="ann")
        for at in range(20):
            await memory.remember(episode("tea for bob", "bob", id=f"{at}"))
        await memory.remember(episode("bob's own", "bob", id="one"))  # ids are a user's own
        return before, await memory.recall_scored("tea", user_id="ann")

    before, after = asyncio.run(use())
    assert before == after
    assert [one.episode.id for one in after] == ["one"]


def test_the_anonymous_user_is_one_of_its_own(store: MemorySync) -> None:
    memory = HyrecallMemory(store)

    async def use() -> Any:
        await memory.remember(episode("green tea"))
        with pytest.warns(IsolationWarning):
            return await memory.recall("tea")

    assert asyncio.run(use()) == []


def test_a_semantic_recall_finds_facts_and_an_episodic_one_does_not(store: MemorySync) -> None:
    memory = HyrecallMemory(store)
    fact = loomflow.Fact(
        user_id="ann", subject="ann", predicate="drinks", object="tea", confidence=0.5,
        sources=["ep_1"],
    )  # fmt: skip

    async def use() -> Any:
        await memory.facts.append(fact)
        await memory.update_block("notes", "tea at four", user_id="ann")
        kinds = ("episodic", "semantic")
        recalled = [await memory.recall("tea", kind=kind, user_id="ann") for kind in kinds]
        return [[one.output for one in found] for found in recalled], await memory.recall_facts(
            "tea", user_id="ann"
        )

    outputs, facts = asyncio.run(use())
    assert outputs == [[], ["ann drinks tea"]]
    assert facts == [fact]


def test_a_fact_ends_where_the_next_one_begins(store: MemorySync) -> None:
    memory = HyrecallMemory(store)

    async def use() -> Any:
        for year, city in ((2022, "Rome"), (2020, "Oslo")):  # the older one is learnt later
            since = datetime(year, 1, 1, tzinfo=UTC)
            kept = {"predicate": "livesIn", "object": city, "valid_from": since}
            await memory.facts.append(loomflow.Fact(user_id="ann", subject="ann", **kept))
        query = memory.facts.query
        then = datetime(2021, 1, 1)
        return [
            await query(user_id="ann", predicate="lives-in"),
            await query(user_id="ann", valid_at=then),
            await query(user_id="ann", object_="Rome"),
            await query(user_id="bob"),
            await memory.facts.all_facts(),
        ]

    every, then, rome, bob, of_all = asyncio.run(use())
    assert {one.object: one.valid_until and one.valid_until.year for one in every} == {
        "Oslo": 2022,
        "Rome": None,
    }
    assert [one.object for one in then] == ["Oslo"]
    assert [one.object for one in rome] == ["Rome"]
    assert bob == []
    assert len(of_all) == 2


def test_facts_are_deleted_by_the_time_they_were_recorded(store: MemorySync) -> None:
    memory = HyrecallMemory(store)

    async def use() -> Any:
        for at in range(3):
            await memory.facts.append(
                loomflow.Fact(
                    user_id="ann", subject=f"s{at}", predicate="is", object="o",
                    recorded_at=NOW + timedelta(days=at),
                )
            )  # fmt: skip
        n_deleted = await memory.facts.delete(user_id="ann", before=NOW + timedelta(days=1.5))
        return n_deleted, await memory.facts.count(user_id="ann")

    assert asyncio.run(use()) == (2, 1)


def test_facts_of_other_writers_are_read_too_and_no_export_is(
    store: MemorySync, monkeypatch: pytest.MonkeyPatch
) -> None:
    def export(*_: object, **__: object) -> None:
        raise AssertionError("an export reads everything that the user has")

    memory = HyrecallMemory(store)
    fact = Fact(user_id="ann", subject="ann", predicate="LIVES_IN", object="Oslo", valid_from=NOW)
    store.remember_fact(fact)
    monkeypatch.setattr(MemorySync, "export", export)

    async def use() -> Any:
        await memory.facts.append(
            loomflow.Fact(user_id="ann", subject="ann", predicate="is", object="old",
                          recorded_at=NOW)
        )  # fmt: skip
        found = await memory.facts.query(user_id="ann", subject="ann")
        counts = [await memory.facts.count(user_id=user) for user in ("ann", "bob")]
        return found, counts, await memory.facts.delete(user_id="ann")

    found, counts, n_deleted = asyncio.run(use())
    assert [one.object for one in found] == ["Oslo", "old"]  # the one recorded last is first
    assert store.history(fact.id, user_id="ann") == []
    assert (counts, n_deleted) == ([2, 0], 2)


def test_blocks_keep_their_order_and_what_is_added(store: MemorySync) -> None:
    memory = HyrecallMemory(store)

    async def use() -> Any:
        await memory.update_block("b", "1", user_id="ann")
        await memory.append_block("a", "x", user_id="ann")
        await asyncio.gather(*(memory.append_block("a", "y", user_id="ann") for _ in range(8)))
        await memory.update_block("b", "2", user_id="ann")
        return await memory.working(user_id="ann")

    blocks = asyncio.run(use())
    assert [(one.name, one.content, one.pinned_order) for one in blocks] == [
        ("b", "2", 0),
        ("a", "x" + 8 * "y", 1),
    ]


def test_an_episode_replaces_no_block_and_no_fact(store: MemorySync) -> None:
    memory = HyrecallMemory(store)

    async def use() -> Any:
        await memory.update_block("persona", "brief", user_id="ann")
        with pytest.raises(hr.KeyConflictError):
            await memory.remember(episode("other", id="block:persona"))
        return await memory.working(user_id="ann")

    assert [one.content for one in asyncio.run(use())] == ["brief"]


def test_forgetting_erases_the_history_too(store: MemorySync) -> None:
    memory = HyrecallMemory(store)

    async def use() -> Any:
        for text in ("one", "two"):
            await memory.remember(episode(text, id="ep"))
        n_versions = len(store.history("ep", user_id="ann"))
        return n_versions, await memory.forget(user_id="ann")

    assert asyncio.run(use()) == (2, 1)
    assert store.history("ep", user_id="ann") == []


def test_calls_run_off_the_event_loop(store: MemorySync, monkeypatch: pytest.MonkeyPatch) -> None:
    names = []
    plain = MemorySync.recall_scored

    def recall_scored(*args: Any, **options: Any) -> Any:
        names.append(threading.current_thread().name)
        return plain(*args, **options)

    monkeypatch.setattr(MemorySync, "recall_scored", recall_scored)
    asyncio.run(HyrecallMemory(store).recall("tea", user_id="ann"))
    assert names != []
    assert threading.main_thread().name not in names


def test_a_degraded_recall_warns() -> None:
    with degraded_store() as store:
        memory = HyrecallMemory(store)
        with pytest.warns(DegradedWarning, match="embed_unavailable"):
            (found,) = asyncio.run(memory.recall_scored("tea", user_id="ann"))
        assert (found.episode.output, found.vector_score) == ("green tea", None)
        with pytest.warns(DegradedWarning, match="embed_unavailable"):
            assert asyncio.run(memory.recall_facts("tea", user_id="ann")) == []


def test_an_embedder_of_loomflow_embeds_episodes_and_queries(tmp_path: Path) -> None:
    embedder = loomflow.HashEmbedder(dimensions=16)
    with HyrecallMemory.open(tmp_path / "m", embedder=embedder) as memory:
        asyncio.run(memory.remember(episode("green tea")))
        (found,) = asyncio.run(memory.recall_scored("green tea", user_id="ann", alpha=1.0))
        assert found.vector_score == pytest.approx(1.0)  # the vector of the same text
    with pytest.raises(hr.DTypeError, match="embedder: expected an embedder"):
        HyrecallMemory.open(tmp_path / "n", embedder=object())


@pytest.mark.parametrize(
    "spec", ["sqlite:./bot.db", "chroma:./v", "postgres://u:word@h/db", "redis://:word@h"]
)
def test_a_backend_of_loomflow_is_no_folder(
    spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kind = spec.partition(":")[0]
    told = f"path: expected a folder, not a backend of loomflow, got one of '{kind}'"
    with pytest.raises(hr.OptionError, match=told) as fault:
        HyrecallMemory.open(spec, embedder=None)
    assert "word" not in str(fault.value)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_store_is_refused() -> None:
    for made in (HyrecallMemory, HyrecallFacts):
        with pytest.raises(hr.DTypeError, match="memory: expected a MemorySync, got dict"):
            made({})  # type: ignore[arg-type]


def test_the_example_runs(tmp_path: Path) -> None:
    assert "disk was full" in run_example("loomflow_memory", tmp_path)
