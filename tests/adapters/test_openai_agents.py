"""The OpenAI Agents SDK: sessions beside its own SQLite session, and the tool that recalls."""

import asyncio
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

agents = pytest.importorskip("agents", reason="openai-agents is not installed")

import hyrecall as hr  # noqa: E402
from adapters.agent_tools import call  # noqa: E402
from hyrecall.adapters.openai_agents import HyrecallSession, recall_tool  # noqa: E402
from hyrecall.memory import Memory, MemorySync  # noqa: E402


@pytest.fixture
def store() -> Iterator[MemorySync]:
    with MemorySync.in_memory(embedder=None) as made:
        yield made


def session(store: Any, user: str = "ann", chat: str = "s", **options: Any) -> HyrecallSession:
    return HyrecallSession(store, session_id=chat, user_id=user, **options)


def item(number: int, rng: np.random.Generator) -> dict[str, Any]:
    said = f"message {number}"
    return [
        {"role": "user", "content": said},
        {"role": "user", "content": [{"type": "input_text", "text": said}]},
        {
            "type": "message", "role": "assistant", "id": "m", "status": "completed",
            "content": [{"type": "output_text", "text": said, "annotations": []}],
        },
        {"type": "function_call", "name": "f", "arguments": "{}", "call_id": f"c{number}"},
        {"type": "function_call_output", "output": said, "call_id": f"c{number}"},
        {"type": "reasoning", "id": "r", "summary": []},
    ][int(rng.integers(6))]  # fmt: skip


async def play(ours: Any, theirs: Any, seed: int) -> int:
    """Call both sessions at random, and compare their replies."""
    rng, n_compared = np.random.default_rng(seed), 0
    for number in range(60):
        drawn = rng.random()
        if drawn < 0.4:
            items = [item(number * 10 + at, rng) for at in range(rng.integers(0, 4))]
            await ours.add_items(items)
            await theirs.add_items(items)
        elif drawn < 0.6:
            assert await ours.pop_item() == await theirs.pop_item(), "pop_item"
        elif drawn < 0.95:
            limit = (None, 0, 1, 3, 100)[int(rng.integers(5))]
            assert await ours.get_items(limit) == await theirs.get_items(limit), "get_items"
            n_compared += 1
        else:
            await ours.clear_session()
            await theirs.clear_session()
    return n_compared


@pytest.mark.parametrize("seed", range(6))
def test_a_session_replies_as_the_sqlite_session_does(store: MemorySync, seed: int) -> None:
    theirs = agents.SQLiteSession("s")
    assert asyncio.run(play(session(store), theirs, seed)) > 10
    theirs.close()


def test_the_comparison_finds_a_planted_bug(
    store: MemorySync, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def oldest(self: Any, limit: int) -> Any:
        found = await self._memories.call("list", kind="message", limit=1_000)
        return found[-limit:] if limit else []

    monkeypatch.setattr(HyrecallSession, "_newest", oldest)
    theirs = agents.SQLiteSession("s")
    with pytest.raises(AssertionError, match=r"pop_item|get_items"):
        asyncio.run(play(session(store), theirs, 0))
    theirs.close()


def test_a_session_is_a_session_of_the_sdk(store: MemorySync) -> None:
    assert isinstance(session(store), agents.Session)


def test_sessions_are_their_users_and_outlive_the_store(tmp_path: Path) -> None:
    said: Any = [{"role": "user", "content": "hello"}]

    async def use(add: bool) -> Any:
        async with Memory.open(tmp_path / "m", embedder=None) as memory:
            if add:
                await session(memory).add_items(said)
            places = [("ann", "s"), ("bob", "s"), ("ann", "t")]
            return [await session(memory, *place).get_items() for place in places]

    assert asyncio.run(use(True)) == asyncio.run(use(False)) == [said, [], []]


def test_the_limit_of_the_settings_is_that_of_a_run(store: MemorySync) -> None:
    settings = pytest.importorskip("agents.memory").__dict__.get("SessionSettings")
    if settings is None:
        pytest.skip("this release has no session settings")
    made = session(store, session_settings=settings(limit=1))

    async def use() -> Any:
        await made.add_items([{"role": "user", "content": text} for text in "ab"])
        return await made.get_items(), await made.get_items(limit=2)

    one, two = asyncio.run(use())
    assert [len(one), len(two)] == [1, 2]
    assert one == two[1:]


@pytest.mark.parametrize("user", [None, 7, ("ann",)])
def test_a_session_without_a_user_is_not_made(store: MemorySync, user: Any) -> None:
    with pytest.raises(hr.ScopeError, match="user_id: expected the id of the user"):
        session(store, user)


def test_wrong_arguments_are_refused_by_name(store: MemorySync) -> None:
    with pytest.raises(hr.OptionError, match="session_id: expected a str that is not blank"):
        session(store, chat=" ")
    with pytest.raises(hr.DTypeError, match=r"memory: expected a hyrecall\.memory\.Memory"):
        session({})
    with pytest.raises(hr.OptionError, match="limit: expected an int >= 0, or None, got -1"):
        asyncio.run(session(store).get_items(-1))
    settings = types.SimpleNamespace(limit=-1)
    with pytest.raises(hr.OptionError, match="limit: expected an int >= 0, or None, got -1"):
        session(store, session_settings=settings)


def test_memories_that_others_keep_in_a_session_are_no_items(store: MemorySync) -> None:
    made = session(store)
    items: list[Any] = [{"role": "user", "content": f"tea {number}"} for number in range(3)]
    asyncio.run(made.add_items(items))
    for _ in range(3):
        store.remember("of another program", user_id="ann", session_id="s", kind="message")
    assert asyncio.run(made.get_items()) == items
    assert asyncio.run(made.get_items(2)) == items[1:]
    assert asyncio.run(made.pop_item()) == items[2]
    assert len(store.list(user_id="ann")) == 5


def test_the_tool_recalls_what_the_runs_user_said(store: MemorySync) -> None:
    for user in ("ann", "bob"):
        asyncio.run(
            session(store, user).add_items([{"role": "user", "content": f"{user} drinks tea"}])
        )
    tool = recall_tool(store, user_id=lambda run: run.context, kind="message")
    assert call(tool, "ann", "tea").partition(": ")[2] == "ann drinks tea"
    assert call(tool, "cat", "tea") == "No memories were found."
    assert list(tool.params_json_schema["properties"]) == ["query"]


def test_a_run_without_a_user_recalls_nothing(store: MemorySync) -> None:
    tool = recall_tool(store, user_id=lambda run: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(hr.ScopeError, match="user_id"):
        call(tool, "ann", "tea")
