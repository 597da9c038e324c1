"""Filters on keys of the metadata: in a search, in a list, in files, with and without an index."""

import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import hyrecall as hr
from hyrecall import recipes
from hyrecall.errors import OptionError
from hyrecall.memory import DamageWarning, Episode, MemorySync
from laws.effort import Effort
from seams import DegradedReason, Follower, IndexNotReadyError, metadata_tokens

NOTES: dict[str, dict[str, Any]] = {
    "a": {"project": "x", "year": 2023, "score": 0.5, "done": True, "run": {"id": "r1"}},
    "b": {"project": "y", "year": 2024, "score": 2, "done": False, "labels": ["red", "blue"]},
    "c": {"project": "x", "year": 2025, "score": "high", "run": {"id": "r2", "tries": [1, [2]]}},
    "d": {"project": None, "year": "2024", "labels": [], "a.b": 1},
    "e": {},
    "f": {"project": "Z", "year": 2024.5, "a": [{"b": 1}, {"b": None}, {"c": 3}]},
}


@pytest.fixture(scope="module")
def memory() -> Iterator[MemorySync]:
    with MemorySync.in_memory(recipe=recipes.loom, embedder=None) as memory:
        for key, metadata in NOTES.items():
            memory.remember(f"note {key}", id=key, user_id="ann", metadata=metadata)
        everything = {name: value for note in NOTES.values() for name, value in note.items()}
        memory.remember("note of bob", id="bob", user_id="bob", metadata=everything)
        yield memory


def no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_ready(*_: object, **__: object) -> None:
        raise IndexNotReadyError(DegradedReason.INDEX_NOT_READY, "being built")

    monkeypatch.setattr(Follower, "ready", not_ready)


def kept(memory: MemorySync, **asked: Any) -> str:
    """The ids that pass: the same in a search, in a list, in files, and without an index."""
    found = {one.episode.id for one in memory.search("note", user_id="ann", limit=90, **asked)}
    assert {one.id for one in memory.list(user_id="ann", **asked)} == found
    files = memory.browse(user_id="ann")
    assert {path.split("/")[-1][:-3] for path in files.find(**asked)} == found
    assert {line.path.split("/")[-1][:-3] for line in files.grep("note", **asked)} == found
    with pytest.MonkeyPatch.context() as patch:
        no_index(patch)
        matches = memory.search("note", user_id="ann", limit=90, **asked)
    assert matches.lexical_mode == "substring"
    assert {one.episode.id for one in matches} == found
    return "".join(sorted(found))


@pytest.mark.parametrize(
    ("asked", "passing"),
    [
        ({}, "abcdef"),
        ({"project": "x"}, "ac"),
        ({"project": ["x", "y"]}, "abc"),
        ({"project": []}, ""),
        ({"project": "x", "year": (2024, None)}, "c"),
        ({"year": 2024}, "b"),
        ({"year": 2024.0}, "b"),
        ({"year": "2024"}, "d"),
        ({"year": (2024, None)}, "bcf"),
        ({"year": (None, 2024)}, "ab"),
        ({"year": (2023.5, 2024.5)}, "bf"),
        ({"year": (2025, 2023)}, ""),
        ({"year": (math.nan, None)}, ""),
        ({"year": (-math.inf, math.inf)}, "abcf"),
        ({"score": hr.Between("a", "i")}, "c"),
        ({"project": hr.Between("Y", "x")}, "acf"),
        ({"project": ("x", None)}, "abc"),
        ({"project": (None, "Z")}, "f"),
        ({"score": (None, None)}, "abc"),
        ({"done": True}, "a"),
        ({"done": False}, "b"),
        ({"done": 1}, ""),
        ({"score": math.nan}, ""),
        ({"project": hr.IsNull()}, "de"),
        ({"project": hr.NotNull()}, "abcf"),
        ({"labels": hr.NotNull()}, "bd"),
        ({"project": hr.NoneOf("x", "y")}, "def"),
        ({"labels": "red"}, "b"),
        ({"labels": hr.AllOf("red", "blue")}, "b"),
        ({"labels": hr.AllOf("red", "green")}, ""),
        ({"labels": hr.AllOf()}, "bd"),
        ({"run.id": "r2"}, "c"),
        ({"run": hr.NotNull()}, "ac"),
        ({"run.tries": 2}, "c"),
        ({"a.b": 1}, "df"),
        ({"a.c": (3, 3)}, "f"),
        ({"nothing": hr.IsNull()}, "abcdef"),
        ({"projec": "x"}, ""),
    ],
    ids=str,
)
def test_a_key_of_the_metadata_is_asked_as_a_column_is(
    memory: MemorySync, asked: dict[str, Any], passing: str
) -> None:
    assert kept(memory, metadata=asked) == passing
    assert (
        kept(memory, filter=hr.Filter(**{f"metadata.{k}": v for k, v in asked.items()})) == passing
    )


def test_keys_join_with_columns_by_and_or_and_not(memory: MemorySync) -> None:
    of_x, late = (
        hr.Filter(**{"metadata.project": "x"}),
        hr.Filter(**{"metadata.year": (2024, None)}),
    )
    assert kept(memory, filter=of_x | late) == "abcf"
    assert kept(memory, filter=of_x & ~late) == "a"
    assert kept(memory, filter=~(of_x | late)) == "de"
    assert kept(memory, filter=late & hr.Filter(kind="episodic")) == "bcf"
    assert kept(memory, filter=late & hr.Filter(pinned=True)) == ""
    assert kept(memory, filter=hr.Filter(pinned=False, **{"metadata.project": "x"})) == "ac"
    assert kept(memory, filter=late, metadata={"project": ["x", "y"]}) == "bc"
    assert kept(memory, filter=pc.field("metadata.year") > 2023) == "bcf"
    assert kept(memory, filter=(pc.field("metadata.project") == "x") & ~pc.field("pinned")) == "ac"
    assert kept(memory, filter=hr.Filter()) == "abcdef"


def test_a_filter_on_metadata_changes_no_score(memory: MemorySync) -> None:
    whole = {one.episode.id: one.score for one in memory.search("note d", user_id="ann")}
    some = memory.search("note d", user_id="ann", metadata={"project": "x"})
    assert {one.episode.id: one.score for one in some} == {key: whole[key] for key in "ac"}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"filter": hr.Filter(colour="x")},
            r"^colour: expected an attribute column \(kind, .*KEY\)",
        ),
        (
            {"filter": hr.Filter(user="ann")},
            r"^user: expected an attribute column .*unknown column",
        ),
        ({"filter": hr.Filter(metadata="x")}, r"^metadata: .*metadata.KEY\), got no key of it$"),
        ({"filter": {"project": "x"}}, r"^filter: expected an hr.Filter, .*; hr.Filter\(\*\*\{"),
        ({"metadata": {"n": None}}, r"^metadata.n: expected a value, got None; .* hr.IsNull\(\)"),
        ({"metadata": {"n": ("a", "b")}}, r"^metadata.n: expected a list \['a', 'b'\] for any"),
        ({"metadata": {"n": (1, "b")}}, r"^metadata.n: expected a range of numbers, or of strings"),
        (
            {"metadata": {"n": (False, True)}},
            r"^metadata.n: expected a range of numbers, or of str",
        ),
        ({"metadata": {"n": {"m": 1}}}, r"^metadata.n: expected a str, .* got dict"),
        (
            {"metadata": {"n": hr.NoneOf(1, __import__("datetime").date(2024, 1, 1))}},
            r"JSON\), got",
        ),
        ({"metadata": {"n": "\ud800"}}, r"^metadata.n: expected valid Unicode"),
        ({"filter": hr.Filter(importance="x")}, r"^importance: expected an int or float"),
    ],
    ids=str,
)
def test_what_no_memory_could_answer_is_refused_by_name(
    memory: MemorySync, asked: dict[str, Any], message: str
) -> None:
    for call in (memory.search, memory.list):
        with pytest.raises(OptionError, match=message):
            call(*(["note"] if call == memory.search else []), user_id="ann", **asked)  # type: ignore[operator]
    with pytest.MonkeyPatch.context() as patch:
        no_index(patch)
        with pytest.raises(OptionError, match=message):
            memory.search("note", user_id="ann", **asked)


def test_a_damaged_row_is_reported_and_the_others_are_filtered(tmp_path: Path) -> None:
    import apsw

    with MemorySync.open(tmp_path / "s", recipe=recipes.loom, embedder=None) as memory:
        for key in "abc":
            memory.remember(f"note {key}", id=key, metadata={"n": 1})
    connection = apsw.Connection(str(tmp_path / "s" / "memory.db"))
    connection.execute("UPDATE versions SET metadata = '{\"n\": ' WHERE id = 'b'")
    connection.close()
    with MemorySync.open(tmp_path / "s", recipe=recipes.loom, embedder=None) as memory:
        with pytest.warns(DamageWarning, match="1 damaged rows"):
            assert {one.id for one in memory.list(metadata={"n": 1})} == {"a", "c"}
        with pytest.MonkeyPatch.context() as patch:
            no_index(patch)
            matches = memory.search("note", metadata={"n": 1})
        assert {one.episode.id for one in matches} == {"a", "c"}
        assert any(reason.reason is DegradedReason.DAMAGED_ROWS for reason in matches.reasons)


# ---- against the definition ----

WORDS = ["", "a", "b", "ab", "B", "é", "\U0001f600", '"', "\\", "\0", "a.b", "1", "true"]
NUMBERS: list[Any] = [0, -1, 1, 1.0, 1.5, -0.0, 1e300, 5e-324, 2**53, 2**53 + 1, -(2**53) - 1]
NUMBERS += [2**63, float(2**63), 10**400, -(10**400), 10**308, -1e308, 0.1]
PATHS = ["a", "b", "a.b", "é", "a.b.c", '"', "\0", ""]


def drawn(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.random()
    if depth < 3 and kind < 0.2:
        return {key: drawn(rng, depth + 1) for key in rng.sample(PATHS, rng.randrange(3))}
    if depth < 3 and kind < 0.35:
        return [drawn(rng, depth + 1) for _ in range(rng.randrange(3))]
    return rng.choice([rng.choice(WORDS), rng.choice(NUMBERS), rng.random() < 0.5, None])


def values_at(metadata: dict[str, Any], wanted: str) -> list[Any]:
    """What stands at a path: by every way in which names joined by dots make it."""

    def below(path: str | None, value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            for one in value:
                yield from below(path, one)
        elif isinstance(value, dict):
            for key, one in value.items():
                yield from below(key if path is None else f"{path}.{key}", one)
        if path == wanted and value is not None:
            yield value

    return list(below(None, metadata))


def alike(left: Any, right: Any) -> bool:
    kinds = [
        bool if isinstance(one, bool) else str if isinstance(one, str) else float
        for one in (left, right)
    ]
    return kinds[0] is kinds[1] and not isinstance(left, list | dict) and bool(left == right)


def lies_within(value: Any, low: Any, high: Any) -> bool:
    """Texts by their UTF-8 bytes, numbers exactly; a range has the kind of its ends."""
    end = high if low is None else low
    if end is None:
        return True
    if isinstance(value, bool | list | dict) or isinstance(value, str) != isinstance(end, str):
        return False
    value, low, high = (x.encode() if isinstance(x, str) else x for x in (value, low, high))
    return (low is None or value >= low) and (high is None or value <= high)


def passes(test: Any, found: list[Any]) -> bool:
    """Say what a test means for the values that stand at a path."""

    def holds(value: Any) -> bool:
        return any(alike(one, value) for one in found)

    if isinstance(test, hr.IsNull | hr.NotNull):
        return bool(found) == isinstance(test, hr.NotNull)
    if isinstance(test, hr.Between):
        return any(lies_within(one, *test.values) for one in found)
    if isinstance(test, hr.NoneOf):
        return not any(map(holds, test.values))
    if isinstance(test, hr.AllOf):
        return all(map(holds, test.values))
    return any(map(holds, test)) if isinstance(test, list) else holds(test)


def drawn_test(rng: random.Random) -> Any:
    some = [rng.choice([rng.choice(WORDS), rng.choice(NUMBERS), True, False]) for _ in range(2)]
    ends = rng.choice([WORDS, NUMBERS])
    between = hr.Between(*(rng.choice([None, *ends]) for _ in range(2)))
    forms = [some[0], some, hr.NoneOf(*some), hr.AllOf(*some), between, hr.IsNull(), hr.NotNull()]
    return rng.choice(forms)


@pytest.mark.slow
def test_filters_keep_what_their_definition_keeps(effort: Effort) -> None:
    rng = random.Random(5)
    notes = {f"n{at}": {key: drawn(rng) for key in rng.sample(PATHS, 4)} for at in range(100)}
    n_some = 0
    with MemorySync.in_memory(recipe=recipes.loom, embedder=None) as memory:
        kept = [Episode(id=key, text="note", metadata=one) for key, one in notes.items()]
        memory.remember_batch(kept)
        for _ in range(effort.cases(quick=100, full=2_000)):
            path, test = rng.choice(PATHS), drawn_test(rng)
            wanted = {key for key, one in notes.items() if passes(test, values_at(one, path))}
            asked: dict[str, Any] = {"limit": 100, "metadata": {path: test}}
            found = {one.episode.id for one in memory.search("note", **asked)}
            listed = {one.id for one in memory.list(**asked)}
            assert found == listed == wanted, (path, test)
            n_some += 0 < len(wanted) < len(notes)
    assert n_some > 50


def test_tokens_are_in_the_order_of_their_numbers() -> None:
    rng = random.Random(7)
    numbers = [*NUMBERS, *(rng.randint(-(10**n), 10**n) for n in range(1, 330))]
    numbers += [rng.uniform(-1e3, 1e3) for _ in range(50)]
    codes = [metadata_tokens(json.dumps({"n": one}))[0].encode() for one in numbers]
    for left, code in zip(numbers, codes, strict=True):
        for right, other in zip(numbers, codes, strict=True):
            assert (left < right) == (code < other), (left, right)
            assert (left == right) == (code == other), (left, right)


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
