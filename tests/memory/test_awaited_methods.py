"""Methods to be awaited have the parameters, replies and documentation of the plain ones."""

from __future__ import annotations

import asyncio
import inspect
import json
from typing import Any

import pytest

import hyrecall as hr
from hyrecall.memory import AgentMemory, AgentMemorySync, Memory, MemorySync
from seams import CANCELLED

PAIRS = ((Memory, MemorySync), (AgentMemory, AgentMemorySync))
WRITING = {
    *("remember", "remember_batch", "remember_fact", "update", "supersede", "forget", "pin"),
    *("end_fact", "link", "unlink", "set_policy", "import_", "reembed", "feedback"),
}
METHODS = [
    pytest.param(kind, plain, name, id=f"{kind.__name__}.{name}")
    for kind, plain in PAIRS
    for name in sorted(vars(plain) if plain is AgentMemorySync else dir(plain))
    if inspect.iscoroutinefunction(getattr(kind, name, None))
    if not name.startswith("_") and name != "close"
]


@pytest.mark.parametrize(("kind", "plain", "name"), METHODS)
def test_an_awaited_method_has_the_signature_of_the_plain_one(
    kind: type, plain: type, name: str
) -> None:
    own, given = (inspect.signature(getattr(one, name)) for one in (kind, plain))
    assert own == given


@pytest.mark.parametrize(("kind", "plain", "name"), METHODS)
def test_an_awaited_method_has_the_help_of_the_plain_one(
    kind: type, plain: type, name: str
) -> None:
    text, given = (inspect.getdoc(getattr(one, name)) or "" for one in (kind, plain))
    if name not in WRITING:
        assert text == given
        return
    before, note, after = text.partition(CANCELLED)
    assert note
    assert "\nNotes\n-----\n" in before
    assert given.startswith(before.removesuffix("\n\nNotes\n-----\n").removesuffix("\n\n"))
    assert given.endswith(after)


@pytest.mark.parametrize(("kind", "plain", "name"), METHODS)
def test_an_awaited_method_is_named_after_its_class(kind: type, plain: type, name: str) -> None:
    method = getattr(kind, name)
    assert method.__qualname__ == f"{kind.__name__}.{name}"
    assert method.__module__ == kind.__module__


def test_opening_says_that_it_is_awaited() -> None:
    for name in ("open", "in_memory"):
        text = inspect.getdoc(getattr(Memory, name)) or ""
        assert "Returns\n-------\nOpening\n    To be awaited" in text
        assert inspect.signature(getattr(Memory, name)).return_annotation == "Opening"
        assert getattr(Memory, name).__qualname__ == f"Memory.{name}"


def test_an_awaited_call_refuses_arguments_as_the_plain_one_does() -> None:
    wrong: Any = "three"

    async def run() -> None:
        async with Memory.in_memory(recipe=hr.recipes.loom, embedder=None) as memory:
            with pytest.raises(hr.OptionError, match="limit"):
                await memory.search("tea", limit=wrong)
            with pytest.raises(hr.DTypeError, match="id"):
                await memory.get(3)  # type: ignore[arg-type]

    asyncio.run(run())


def test_an_awaited_call_runs_the_method_of_the_object_as_it_is_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def search(self: MemorySync, query: str, **options: Any) -> str:
        return query

    async def run() -> Any:
        async with Memory.in_memory(recipe=hr.recipes.loom, embedder=None) as memory:
            monkeypatch.setattr(MemorySync, "search", search)
            return await memory.search("tea")

    assert asyncio.run(run()) == "tea"


def test_every_method_is_shown_as_one_of_its_public_class() -> None:
    for kind in (Memory, MemorySync, AgentMemory, AgentMemorySync):
        functions = {
            name: getattr(static, "__func__", static)
            for name in dir(kind)
            if not name.startswith("__")
            for static in [inspect.getattr_static(kind, name)]
        }
        shown = {
            name: function.__qualname__
            for name, function in functions.items()
            if inspect.isfunction(function)
        }
        assert shown == {name: f"{kind.__name__}.{name}" for name in shown}
        assert len(shown) > 8


def test_a_class_of_the_users_leaves_the_names_of_other_functions() -> None:
    class Mine(MemorySync):
        parse = staticmethod(json.loads)

    assert json.loads.__qualname__ == "loads"
    assert json.loads.__module__ == "json"
