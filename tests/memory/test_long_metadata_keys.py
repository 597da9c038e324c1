"""Long keys of the metadata: filters ask them like others, and the index does not repeat them."""

import json
from typing import Any

import pytest

import hyrecall as hr
from hyrecall import recipes
from hyrecall.memory import MemorySync
from seams import metadata_tokens


def found(memory: MemorySync, metadata: dict[str, Any]) -> str:
    """The ids that pass: the same in a search, which asks the index, and in a list."""
    listed = "".join(sorted(one.id for one in memory.list(metadata=metadata)))
    matches = memory.search("note", metadata=metadata)
    assert not matches.degraded
    assert "".join(sorted(one.episode.id for one in matches)) == listed
    return listed


def test_a_long_key_is_not_repeated_in_the_tokens_of_what_it_holds() -> None:
    text = json.dumps({"long" * 5_000: {str(at): at for at in range(1_000)}, "k" * 129: [1, 2]})
    tokens = metadata_tokens(text)
    assert len(tokens) == 1_004
    assert sum(map(len, tokens)) < 5 * len(text)


@pytest.mark.parametrize("long", ["k" * 128, "k" * 129, "é日本" * 700, "a." * 300])
def test_a_filter_asks_long_keys_like_short_ones(long: str) -> None:
    notes: dict[str, dict[str, Any]] = {
        "a": {long: {"x": 1, "y.z": "one"}},
        "b": {long: {"x": 2, "y": {"z": "two"}}},
        "c": {f"{long}.x": 3, long: None},
        "d": {long[:-1]: {"x": 1}},
    }
    with MemorySync.in_memory(recipe=recipes.loom, embedder=None) as memory:
        for key, metadata in notes.items():
            memory.remember("note", id=key, metadata=metadata)
        assert found(memory, {f"{long}.x": 1}) == "a"
        assert found(memory, {f"{long}.x": (2, None)}) == "bc"
        assert found(memory, {f"{long}.y.z": ["one", "two"]}) == "ab"
        assert found(memory, {long: hr.IsNull()}) == "cd"
        assert found(memory, {f"{long}.x": hr.NoneOf(1)}) == "bcd"
