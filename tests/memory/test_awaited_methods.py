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
    *(
        "remember",
        "remember_batch",
        "remember_fact",
        "update",
        "update_many",
        "supersede",
        "forget",
    ),
    *("pin", "end_fact", "link", "unlink", "set_policy", "import_", "reembed", "feedback"),
}
METHODS = [
    (kind, name, getattr(plain, name))
    for kind, plain in PAIRS
    for name in sorted(vars(plain) if plain is AgentMemorySync else dir(plain))
    if inspect.iscoroutinefunction(getattr(kind, name, None))
    if not name.startswith("_") and name != "close"
]


def test_an_awaited_method_has_signature_help_and_name_of_the_plain_one() -> None:
    assert len(METHODS) > 40
    for kind, name, plain in METHODS:
        own = getattr(kind, name)
        assert inspect.signature(own) == inspect.signature(plain), name
        assert (own.__qualname__, own.__module__) == (f"{kind.__name__}.{name}", kind.__module__)
        text, given = (inspect.getdoc(one) or "" for one in (own, plain))
        if name not in WRITING:
            assert text == given, name
            continue
        before, note, after = text.partition(CANCELLED)
        assert note, name
        assert "\nNotes\n-----\n" in before
        assert given.startswith(before.removesuffix("\n\nNotes\n-----\n").removesuffix("\n\n"))
        assert given.endswith(after)


def test_opening_says_that_it_is_awaited() -> None:
    for name in ("open", "in_memory"):
        text = inspect.getdoc(getattr(Memory, name)) or ""
        assert "Returns\n-------\nOpening\n    To be awaited" in text
        assert inspect.signature(getattr(Memory, name)).return_annotation == "Opening"
        assert getattr(Memory, name).__qualname__ == f"Memory.{name}"


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
