"""CrewAI's memory storage beside its own, its tools, and the external memory of older versions."""

import asyncio
import os
import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import pytest

if find_spec("crewai") is None:
    pytest.skip("CrewAI is not installed: .ci/frameworks crewai", allow_module_level=True)
# Read when it is imported, and only set here: other tests of the process want OpenTelemetry.
os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
os.environ.setdefault("OTEL_SDK_DISABLED", "true")
pytest.importorskip("crewai")  # ignores what the import warns of, such as ImportWarning of 1.6

import hyrecall as hr
from hyrecall.adapters.crewai import (
    HyrecallExternalStorage,
    HyrecallRecallTool,
    HyrecallRememberTool,
)
from hyrecall.adapters.documents import DocumentIndex
from hyrecall.errors import DTypeError, OptionError, ScopeError
from hyrecall.memory import Memory, MemorySync

DAY = datetime(2026, 3, 5, tzinfo=UTC)
EXAMPLE = Path(__file__).parents[2] / "examples" / "frameworks" / "crewai_memory.py"
IS_UNIFIED = find_spec("crewai.memory.storage") is not None and (
    find_spec("crewai.memory.storage.backend") is not None
)
unified = pytest.mark.skipif(not IS_UNIFIED, reason="this version of CrewAI has no unified memory")
if IS_UNIFIED:
    from crewai.memory.storage.backend import StorageBackend
    from crewai.memory.types import MemoryRecord
    from crewai.memory.unified_memory import Memory as CrewMemory

    from hyrecall.adapters.crewai_storage import HyrecallStorage

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # its own, of every version


@pytest.fixture
def memory() -> Iterator[MemorySync]:
    with MemorySync.in_memory(embedder=None) as store:
        text = "The build\nruns on Debian 12"
        store.remember(text, id="a", user_id="ann", occurred_at=DAY)
        store.remember("The build of bob runs on Fedora", id="b", user_id="bob")
        yield store


# ---- tools ----


def test_a_tool_sees_the_memories_of_its_user_alone(memory: MemorySync) -> None:
    of_ann = HyrecallRecallTool(memory=memory, user_id="ann")
    assert of_ann.run(query="build") == f"- {DAY.date()}: The build runs on Debian 12"
    of_eve = HyrecallRecallTool(memory=memory, user_id="eve", name="recall_of_eve")
    assert (of_eve.name, of_eve.run(query="build")) == ("recall_of_eve", "No memories were found.")
    key = HyrecallRememberTool(memory=memory, user_id="ann").run(text="Ann drinks oolong")
    kept = memory.get(key, user_id="ann")
    assert kept is not None
    assert kept.text == "Ann drinks oolong"
    assert memory.get(key, user_id="bob") is None


def test_the_model_is_offered_no_user(memory: MemorySync) -> None:
    for tool, name in (
        (HyrecallRecallTool(memory=memory, user_id="ann"), "query"),
        (HyrecallRememberTool(memory=memory, user_id="ann"), "text"),
    ):
        assert list(tool.args_schema.model_json_schema()["properties"]) == [name]


def test_what_has_no_user_or_no_store_is_not_made(memory: MemorySync) -> None:
    with pytest.raises(TypeError, match="user_id"):
        HyrecallRememberTool(memory=memory)  # type: ignore[call-arg]
    with pytest.raises(DTypeError, match=r"memory: expected a hyrecall\.memory\.MemorySync"):
        HyrecallRememberTool(memory=object(), user_id="ann")  # type: ignore[arg-type]

    async def refuse_an_async_store() -> None:
        async with Memory.in_memory(embedder=None) as store:
            with pytest.raises(DTypeError, match="without an event loop"):
                HyrecallRecallTool(memory=store, user_id="ann")  # type: ignore[arg-type]

    asyncio.run(refuse_an_async_store())
    with pytest.raises(ScopeError, match="a str that is not blank, got ''"):
        HyrecallRememberTool(memory=memory, user_id="")


# ---- external memory ----


def test_external_storage_keeps_finds_and_forgets_for_its_user(memory: MemorySync) -> None:
    ann = HyrecallExternalStorage(memory=memory, user_id="ann")
    ann.save("Ann drinks oolong tea", {"agent": "planner"})
    (found,) = ann.search(query="oolong", limit=3, score_threshold=0.0)
    assert (found["content"], found["metadata"]) == ("Ann drinks oolong tea", {"agent": "planner"})
    assert 0 < found["score"] <= 1
    assert ann.search(query="oolong", limit=3, score_threshold=1.0) == (
        [found] if found["score"] >= 1 else []
    )
    ann.reset()
    assert ann.search(query="build oolong", limit=3, score_threshold=0.0) == []
    assert HyrecallExternalStorage(memory=memory, user_id="bob").search("build", 3, 0.0)


@pytest.mark.skipif(IS_UNIFIED, reason="this version of CrewAI has the unified memory")
def test_the_external_memory_of_crewai_runs_on_it(memory: MemorySync) -> None:
    from crewai.memory.external.external_memory import ExternalMemory

    external = ExternalMemory(storage=HyrecallExternalStorage(memory=memory, user_id="ann"))
    external.save("Ann drinks oolong tea", metadata={"topic": "drinks"})
    (found,) = external.search("oolong", score_threshold=0.0)
    assert found["content"] == "Ann drinks oolong tea"
    external.reset()
    assert external.search("oolong", score_threshold=0.0) == []


# ---- unified memory ----


def records(draw: random.Random, n: int = 40) -> "list[MemoryRecord]":
    paths = ["/", "/a", "/a/b", "/a/b/c", "/d", "/d/b"]
    begin = datetime(2026, 1, 1)
    return [
        MemoryRecord(
            id=str(at),
            content=f"text {at}",
            scope=draw.choice(paths),
            categories=draw.sample(["x", "y", "z"], draw.randint(0, 2)),
            metadata={"level": draw.randrange(3)},
            created_at=begin + timedelta(days=at),
            embedding=[abs(draw.gauss(0, 1)) for _ in range(6)],
        )
        for at in range(n)
    ]


def expected_of(kept: "list[MemoryRecord]", vector: list[float], asked: dict[str, Any]) -> Any:
    """Return what the contract says, record by record: the oracle of searches."""
    prefix = (asked.get("scope_prefix") or "").rstrip("/")
    found = []
    for one in kept:
        row, query = np.asarray(one.embedding), np.asarray(vector)
        score = float(row @ query / (np.linalg.norm(row) * np.linalg.norm(query)))
        is_below = one.scope == prefix or one.scope.startswith(f"{prefix}/")
        has_one = not asked.get("categories") or {*asked["categories"]} & {*one.categories}
        wanted = (asked.get("metadata_filter") or {}).items()
        if is_below and has_one and wanted <= one.metadata.items() and score >= asked["min_score"]:
            found.append((score, one.id))
    return [key for _, key in sorted(found, reverse=True)[: asked["limit"]]]


def search_faults() -> list[dict[str, Any]]:
    draw = random.Random(20261126)
    kept = records(draw)
    storage = HyrecallStorage(cell="ann", attributes={"level": int})
    storage.save(kept)
    found = []
    for _ in range(100):
        vector = [abs(draw.gauss(0, 1)) for _ in range(6)]
        asked: dict[str, Any] = {"limit": draw.choice([1, 5, 50]), "min_score": draw.random()}
        if draw.random() < 0.7:
            asked["scope_prefix"] = draw.choice(["/", "/a", "/a/b/", "/d", "/none", "/a/b/c"])
        if draw.random() < 0.5:
            asked["categories"] = draw.sample(["x", "y", "z"], draw.randint(1, 2))
        if draw.random() < 0.5:
            asked["metadata_filter"] = {"level": draw.randrange(3)}
        reply = [one.id for one, _ in storage.search(vector, **asked)]
        if reply != expected_of(kept, vector, asked):
            found.append(asked)
    return found


@unified
def test_searches_find_what_the_contract_says() -> None:
    assert search_faults() == []


@unified
def test_a_planted_wrong_path_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = "hyrecall.adapters.documents.ORDERS"
    monkeypatch.setitem(resolve_name(orders), "<", lambda value: [hr.NoneOf(value)])
    assert search_faults()


@unified
def test_records_come_back_whole_change_and_go() -> None:
    storage = HyrecallStorage(cell="ann")
    assert isinstance(storage, StorageBackend)
    kept = records(random.Random(3), n=12)
    storage.save(kept)
    for one in kept:
        found = storage.get_record(one.id)
        assert found is not None
        assert found.model_dump() == one.model_dump()
        assert np.allclose(found.embedding or [], one.embedding or [], atol=1e-6)
    assert [one.id for one in storage.list_records(limit=3, offset=1)] == ["10", "9", "8"]
    below = [one for one in kept if one.scope.startswith("/a")]
    assert storage.count("/a") == len(below) > 0
    assert storage.list_scopes() == sorted({f"/{one.scope.split('/')[1]}" for one in kept} - {"/"})
    info = storage.get_scope_info("/a")
    assert (info.record_count, info.path) == (len(below), "/a")
    assert info.oldest_record == min(one.created_at for one in below)
    assert set(info.child_scopes) == {"/a/b"}
    counted = storage.list_categories("/a")
    assert counted == {
        name: n for name in ("x", "y", "z") if (n := sum(name in one.categories for one in below))
    }
    storage.update(kept[0].model_copy(update={"content": "changed"}))
    changed = storage.get_record("0")
    assert changed is not None
    assert changed.content == "changed"
    assert storage.delete(older_than=datetime(2026, 1, 3)) == 2
    assert storage.delete(record_ids=["5", "no such record"]) == 1
    with pytest.raises(OptionError, match=r"reset\(\) deletes all records"):
        storage.delete()
    storage.reset("/a")
    assert storage.count() == sum(one.scope[:2] != "/a" for one in kept[2:] if one.id != "5")
    storage.reset()
    assert storage.count() == 0
    assert storage.get_record("3") is None


@unified
def test_times_with_and_without_a_zone_are_compared_in_utc() -> None:
    storage = HyrecallStorage(cell="ann")
    zone = timezone(timedelta(hours=9))
    times = [datetime(2026, 1, 2), datetime(2026, 1, 2, 5, tzinfo=zone), datetime(2026, 1, 1)]
    for at, time in enumerate(times):
        storage.save([MemoryRecord(id=str(at), content="x", embedding=[1.0, 0.0], created_at=time)])
    assert [one.id for one in storage.list_records()] == ["0", "1", "2"]
    info = storage.get_scope_info("/")
    assert (info.oldest_record, info.newest_record) == (times[2], times[0])
    assert storage.get_scope_info("/b").oldest_record is None
    with pytest.raises(OptionError, match="offset: expected an int >= 0, got -1"):
        storage.list_records(offset=-1)


@unified
def test_a_path_ends_where_its_name_ends() -> None:
    storage = HyrecallStorage(cell="ann")
    for path in ("/team", "/team/a", "/teams", "/team0"):
        storage.save([MemoryRecord(content=path, scope=path, embedding=[1.0, 0.0])])
    assert {one.scope for one in storage.list_records("/team")} == {"/team", "/team/a"}


@unified
def test_an_undeclared_key_and_no_criterion_are_refused() -> None:
    attributes: Any = {"scope": str, "categories": list[str], "created_at": datetime}
    documents = DocumentIndex(attributes=attributes, keep_vectors=True)
    bob = HyrecallStorage(cell="bob", documents=documents)
    for storage, name in ((bob, "metadata.level"), (HyrecallStorage(cell="ann"), "level")):
        told = re.escape(f"got 'level'; declare it: attributes={{{name!r}: str}}")
        with pytest.raises(OptionError, match=f"metadata_filter: expected declared keys, {told}"):
            storage.search([1.0, 0.0], metadata_filter={"level": 1})
    with pytest.raises(
        OptionError, match=r"delete: expected a criterion, .* reset\(\) deletes all"
    ):
        bob.delete()
    with pytest.raises(OptionError, match="declare it"):
        HyrecallStorage(cell="ann", documents=DocumentIndex())


@unified
def test_crewai_s_memory_remembers_recalls_and_forgets_in_it(tmp_path: Path) -> None:
    def embed(texts: list[str]) -> list[list[float]]:
        return [[text.count("tea") + 0.1, text.count("build") + 0.1] for text in texts]

    storage = HyrecallStorage(cell="ann", path=tmp_path / "records")
    crew = CrewMemory(storage=storage, embedder=embed, llm=NoModel())
    fields: dict[str, Any] = {"categories": ["x"], "importance": 0.5, "metadata": {}}
    crew.remember("tea at four", scope="/food", **fields)
    crew.remember("the build is red", scope="/work", **fields)
    found = crew.recall("tea", depth="shallow", limit=1)
    assert [one.record.content for one in found] == ["tea at four"]
    assert crew.recall("tea", scope="/work", depth="shallow")[0].record.scope == "/work"
    assert crew.list_scopes() == ["/food", "/work"]
    again = HyrecallStorage(cell="ann", path=tmp_path / "records")
    assert {one.content for one in again.list_records()} == {"tea at four", "the build is red"}
    assert crew.forget(scope="/food") == 1
    assert [one.content for one in crew.list_records()] == ["the build is red"]
    crew.close()


class NoModel:
    """A model that nothing asks: every field is given, and recalls are shallow."""
