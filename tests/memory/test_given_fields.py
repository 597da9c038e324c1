"""A wrong field of a memory is an error of this package that names it, never one of pydantic."""

import io
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

import hyrecall as hr
from hyrecall.embed import HashEmbedder
from hyrecall.memory import Fact, MemorySync
from hyrecall.recipes import l0, loom
from hyrecall.systems.l0 import Notes
from hyrecall.systems.loom import VectorStore

LOOP: list[Any] = []
LOOP.append(LOOP)

WRONG: list[tuple[dict[str, Any], type[hr.HyrecallError], str]] = [
    ({"input": 3}, hr.DTypeError, "input: expected a valid string, got 3"),
    ({"importance": 11}, hr.OptionError, "importance: expected less than or equal to 10, got 11"),
    ({"importance": "high"}, hr.OptionError, "importance: expected a valid number"),
    (
        {"visibility": "all"},
        hr.OptionError,
        "visibility: expected 'private' or 'global', got 'all'",
    ),
    ({"tags": "plan"}, hr.DTypeError, "tags: expected a list of strings, got str"),
    ({"tags": ["plan", 3]}, hr.DTypeError, "tags[1]: expected a valid string, got 3"),
    ({"pinned": "maybe"}, hr.OptionError, "pinned: expected a valid boolean"),
    ({"occurred_at": "soon"}, hr.OptionError, "occurred_at: expected a valid datetime"),
    ({"created_at": object()}, hr.DTypeError, "created_at: expected a valid datetime, got object"),
    ({"metadata": {"a": {"b": object()}}}, hr.DTypeError, "metadata: expected JSON, got object"),
    ({"metadata": {"a": LOOP}}, hr.OptionError, "metadata: expected JSON of at most 64 levels"),
    ({"metadata": {"a": float("inf")}}, hr.OptionError, "metadata: expected JSON, got NaN or"),
    ({"metadata": 5}, hr.DTypeError, "metadata: expected a valid dictionary, got 5"),
    ({"kind": ""}, hr.OptionError, "kind: expected 1 to 512 bytes"),
    (
        {"occurred_at": datetime(2026, 1, 1), "created_at": datetime(2026, 1, 2)},
        hr.OptionError,
        "created_at: expected that of occurred_at",
    ),
]


def refused(call: Callable[[], object], kind: type[hr.HyrecallError], told: str) -> None:
    with pytest.raises(hr.HyrecallError) as raised:
        call()
    assert type(raised.value) is kind
    assert str(raised.value).startswith(told)
    assert raised.value.argument == told.partition(":")[0]
    assert raised.value.__cause__ is None


@pytest.mark.parametrize(("fields", "kind", "told"), WRONG, ids=[told for *_, told in WRONG])
def test_remember_and_update_name_the_field(
    fields: dict[str, Any], kind: type[hr.HyrecallError], told: str
) -> None:
    with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        kept = memory.remember("tea", user_id="ann").id
        view = memory.agent("ann", org="o", workspace="w")
        refused(lambda: memory.remember("tea", user_id="ann", **fields), kind, told)
        refused(lambda: memory.update(kept, user_id="ann", **fields), kind, told)
        refused(lambda: view.remember("tea", **fields), kind, told)
        assert [one.id for one in memory.list(user_id="ann")] == [kept]
        assert len(memory.history(kept, user_id="ann")) == 1


def test_facts_edges_notes_and_texts_name_it_too() -> None:
    fact = Fact.model_construct(subject="ann", predicate="likes", object=5)
    with MemorySync.in_memory(recipe=l0, embedder=None) as memory:
        told = "object: expected a str, got int 5"
        refused(lambda: memory.remember_fact(fact), hr.DTypeError, told)
        ends: Any = ["a", 5]
        told = "participants[1]: expected a str, got int 5"
        refused(lambda: memory.link(ends, "near"), hr.DTypeError, told)
        wrong: Any = {"a": object()}
        told = "metadata: expected JSON, got object"
        refused(lambda: memory.link(["a", "b"], "near", metadata=wrong), hr.DTypeError, told)
        tags: Any = "plan"
        told = "tags: expected a list of strings, got str"
        refused(lambda: Notes(memory).save("key", "text", tags=tags), hr.DTypeError, told)
    store = VectorStore(HashEmbedder(dim=4))
    told = "text: expected a valid string, got 5"
    refused(lambda: store.add([5]), hr.DTypeError, told)  # type: ignore[list-item]


@pytest.mark.parametrize(
    "file",
    [5, b"lines", object(), [1, 2], io.BytesIO(b"{}\n")],
    ids=["a number", "bytes", "an object", "a list", "a binary file"],
)
def test_what_is_no_text_file_is_refused_by_name(file: Any) -> None:
    with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        for call in (memory.import_, memory.export):
            with pytest.raises(hr.DTypeError, match=r"^file: expected a path, or a text file"):
                call(file)
        assert memory.import_(io.StringIO("".join(exported(memory)))).errors == ()


def exported(memory: MemorySync) -> list[str]:
    out = io.StringIO()
    memory.export(out)
    return out.getvalue().splitlines(keepends=True)


def test_a_number_of_too_many_digits_is_called_so() -> None:
    told = "metadata: expected JSON, got an int of more than 4,300 digits"
    with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        refused(lambda: memory.remember("tea", metadata={"n": 10**5_000}), hr.OptionError, told)
