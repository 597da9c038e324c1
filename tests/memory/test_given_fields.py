"""A wrong field of a memory is an error of this package that names it, never one of pydantic."""

from collections.abc import Callable
from typing import Any

import pytest

import hyrecall as hr
from hyrecall.embed import HashEmbedder
from hyrecall.memory import Fact, MemorySync, Notes, VectorStore
from hyrecall.recipes import l0, loom


def refused(call: Callable[[], object], kind: type[hr.HyrecallError], told: str) -> None:
    with pytest.raises(hr.HyrecallError) as raised:
        call()
    assert type(raised.value) is kind
    assert str(raised.value).startswith(told)
    assert raised.value.argument == told.partition(":")[0]
    assert raised.value.__cause__ is None


def test_facts_edges_notes_and_texts_name_it_too() -> None:
    fact = Fact.model_construct(subject="ann", predicate="likes", object=5)
    with MemorySync.in_memory(recipe=l0, embedder=None) as memory:
        told = "object: expected a str, got int 5"
        refused(lambda: memory.remember_fact(fact), hr.DTypeError, told)
        ends: Any = ["a", 5]
        told = "nodes[1]: expected a str, got int 5"
        refused(lambda: memory.link(ends, "near"), hr.DTypeError, told)
        wrong: Any = {"a": object()}
        told = "metadata: expected JSON, got object"
        refused(lambda: memory.link(["a", "b"], "near", data=wrong), hr.DTypeError, told)
        tags: Any = "plan"
        told = "tags: expected a list of strings, got str"
        refused(lambda: Notes(memory).save("key", "text", tags=tags), hr.DTypeError, told)
    store = VectorStore(HashEmbedder(dim=4))
    told = "output: expected a valid string, got 5"
    refused(lambda: store.add([5]), hr.DTypeError, told)  # type: ignore[list-item]


def test_a_number_of_too_many_digits_is_called_so() -> None:
    told = "metadata: expected JSON, got an int of more than 4,300 digits"
    with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        refused(lambda: memory.remember("tea", metadata={"n": 10**5_000}), hr.OptionError, told)
