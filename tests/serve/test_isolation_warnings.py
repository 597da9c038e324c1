"""The service calls a store without a user and without a warning; other calls warn as ever."""

from __future__ import annotations

import asyncio
import inspect
import warnings
from pathlib import Path
from typing import Any

import pytest

from hyrecall.errors import DTypeError, NotOpenError
from hyrecall.memory import IsolationWarning, Memory, MemorySync
from hyrecall.recipes import loom
from hyrecall.serve import create_app
from hyrecall.serve.mcp import http_app
from serve_client import calling


@pytest.mark.parametrize("name", ["search", "recall", "recall_scored", "recall_facts"])
async def test_a_warning_names_the_line_of_the_program(name: str) -> None:
    lines, first = inspect.getsourcelines(test_a_warning_names_the_line_of_the_program)

    def where(text: str) -> list[tuple[str, int]]:
        (at,) = (at for at, line in enumerate(lines) if text in line and "where" not in line)
        return [(__file__, first + at)]

    def places(told: Any) -> list[tuple[str, int]]:
        return [(one.filename, one.lineno) for one in told]

    with MemorySync.in_memory(recipe=loom, embedder=None) as store:
        store.remember("tea of ann", user_id="ann")
        with pytest.warns(IsolationWarning) as told:
            getattr(store, name)("tea")
    assert places(told) == where('getattr(store, name)("tea")')

    async with Memory.in_memory(recipe=loom, embedder=None) as memory:
        await memory.remember("tea of ann", user_id="ann")
        with pytest.warns(IsolationWarning) as told:
            await getattr(memory, name)("tea")
    assert places(told) == where('getattr(memory, name)("tea")')


def test_a_warning_of_browsed_files_names_the_line_of_the_program() -> None:
    calls = {
        "list": lambda store: store.list(),
        "list_facts": lambda store: store.list_facts(),
        "ls": lambda store: store.browse().ls("/"),
        "grep": lambda store: store.browse().grep("tea"),
        "find": lambda store: store.browse().find("*"),
        "cat": lambda store: store.browse().cat("/index.md"),
    }
    with MemorySync.in_memory(recipe=loom, embedder=None) as store:
        store.remember("tea of ann", user_id="ann")
        for call in calls.values():
            with pytest.warns(IsolationWarning) as told:
                call(store)
            assert {(one.filename, one.lineno) for one in told} == {
                (__file__, call.__code__.co_firstlineno)
            }


def test_a_store_that_is_not_awaited_says_how_it_is_opened(tmp_path: Path) -> None:
    opening = Memory.open(tmp_path / "agent.mem", recipe=loom, embedder=None)
    for name in ("search", "remember", "recall_facts", "close"):
        with pytest.raises(NotOpenError, match=rf"^{name}: expected an open store, .*await Memory"):
            getattr(opening, name)
        assert not hasattr(opening, name)
    with pytest.raises(NotOpenError, match=r"^with: expected an open store"), opening:
        pass
    with pytest.raises(AttributeError, match="no attribute 'serch'"):
        _ = opening.serch
    assert not (tmp_path / "agent.mem").exists()


def test_only_a_store_or_an_index_can_be_served() -> None:
    with MemorySync.in_memory(recipe=loom, embedder=None) as store:
        for wrong in (store, "agent.mem", None):
            with pytest.raises(DTypeError, match=r"^served: expected a Memory"):
                create_app(wrong)  # type: ignore[arg-type]
            with pytest.raises(DTypeError, match=r"^memory: expected an open Memory"):
                http_app(wrong)  # type: ignore[arg-type]


def test_only_the_requests_of_the_service_are_silent() -> None:
    async def work() -> list[Any]:
        async with Memory.in_memory(recipe=loom, embedder=None) as memory:
            await memory.remember("tea of ann", user_id="ann")
            await memory.remember("tea of nobody")
            filters = list(warnings.filters)
            async with calling(create_app(memory)) as client:
                replies = [
                    await client.post("/v1/recall", json={"text": "tea"}),
                    await client.post("/v1/recall/batch", json={"queries": [{"text": "tea"}]}),
                ]
                with pytest.warns(IsolationWarning, match="anonymous memories only"):
                    await memory.recall("tea")
                assert warnings.filters == filters
                replies.append(await client.post("/v1/recall", json={"text": "tea"}))
            with pytest.warns(IsolationWarning):
                await memory.recall("tea")
            return replies

    replies = asyncio.run(work())
    assert [one.status_code for one in replies] == [200] * 3, replies[0].text
    for one in (replies[0].json(), replies[1].json()["replies"][0]):
        assert [match["episode"]["text"] for match in one["items"]] == ["tea of nobody"]
