"""One flipped bit in a row of bob's: no untyped error, nothing wrong served, alice sees no change.

Each flip is made in the database's file, in a row of bob's or beside it, with and without a saved
index. What every call then gives is compared with what it gave before.
"""

from __future__ import annotations

import io
import json
import random
import shutil
import warnings
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import apsw
import pytest

from hyrecall.errors import CorruptStoreError, HyrecallError
from hyrecall.memory import EVERYONE, DamageWarning, DegradedReason, Episode, Fact, MemorySync
from hyrecall.recipes import loom
from laws.effort import Effort
from memory.copies import copy_store
from memory.stores import NOON
from seams import INDEX, codec
from seams import memory_DATABASE as DATABASE

CANARY = "canary"  # in every row of bob's, and of nobody else
LATER = datetime(2026, 4, 1, tzinfo=UTC)

Replies = dict[str, Any]


def made_store(path: Path) -> None:
    with MemorySync.open(path, recipe=loom, embedder=None, clock=lambda: LATER) as memory:
        for user, word in (("alice", "note"), ("bob", CANARY)):
            for at in range(4):
                one = Episode(
                    id=f"{word} {at}", user_id=user, text=f"{word} é text {at}", input="said",
                    occurred_at=NOON, tags=(f"{word}-tag",), metadata={word: [at]},
                    session_id=f"{word}-session", source="memory", importance=5,
                )  # fmt: skip
                memory.remember(one, vector=[at + 1.0, *[1.0] * 767])
            fact = {"subject": word, "predicate": "is in", "object": f"{word} town"}
            memory.remember_fact(
                Fact(id=f"{word} fact", user_id=user, valid_from=NOON, metadata={word: 1}, **fact)
            )
            nodes = [f"{word} 0", f"{word} 1"]
            memory.link(nodes, f"near {word}", id=f"{word} edge", user_id=user, metadata={word: 1})
            memory.update(f"{word} 2", user_id=user, text=f"{word} é new", reason=f"{word} why")


def covered(found: Any) -> str:
    """What checksums cover of a reply: all but what changes of a document after it was written."""
    changing = {"pinned", "access_count", "last_accessed", "successor"}

    def part(value: Any) -> Any:
        if isinstance(value, Episode):
            value = value.model_dump(mode="json")
        if isinstance(value, dict):
            return {name: part(inner) for name, inner in value.items() if name not in changing}
        return value

    return json.dumps(part(found), default=str, sort_keys=True)


def doors(memory: MemorySync, user: str, word: str) -> dict[str, Callable[[], Any]]:
    """Every way to read what a user has, as values that can be compared."""
    dumped = lambda found: sorted(covered(one.model_dump(mode="json")) for one in found)  # noqa: E731
    files = memory.browse(user_id=user)
    return {
        "scores": lambda: dumped(memory.search("text", user_id=user, now=LATER)),
        "search": lambda: dumped(one.episode for one in memory.search("text", user_id=user)),
        "facts": lambda: dumped(memory.recall_facts("town", user_id=user, valid_at=LATER)),
        "list": lambda: dumped(memory.list(user_id=user)),
        "tagged": lambda: dumped(memory.list(user_id=user, tags=[f"{word}-tag"])),
        "get": lambda: dumped(filter(None, [memory.get(f"{word} 1", user_id=user)])),
        "history": lambda: sorted(
            covered(vars(v)) for v in memory.history(f"{word} 2", user_id=user)
        ),
        "links": lambda: dumped(memory.links(f"{word} 0", user_id=user)),
        "export": lambda: sorted(map(covered, memory.export(user_id=user, history=True))),
        "ls": lambda: sorted(files.ls("/memories/episodic")),
        "grep": lambda: sorted(line.text for line in files.grep("text")),
        "cat": lambda: files.cat("/index.md").splitlines(),
    }


def replies(memory: MemorySync, user: str, word: str) -> Replies:
    found: Replies = {}
    for name, door in doors(memory, user, word).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DamageWarning)
            try:
                found[name] = door()
            except HyrecallError as fault:  # whatever else is raised fails the test
                found[name] = fault
    return found


def opened(path: Path) -> MemorySync:
    return MemorySync.open(path, recipe=loom, embedder=None, clock=lambda: LATER)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Replies, Replies]:
    path = tmp_path_factory.mktemp("rows") / "store"
    made_store(path)
    with opened(path) as memory:
        assert memory.doctor(full=True).ok
        return path, replies(memory, "alice", "note"), replies(memory, "bob", CANARY)


def a_place(content: bytes, draw: random.Random) -> int:
    """A byte of a row of bob's, of its header, or beside it."""
    places = [at for at in range(len(content)) if content.startswith(CANARY.encode(), at)]
    at = draw.choice(places) + draw.randrange(-32, 48)
    return min(max(at, 100), len(content) - 1)


def outcome(store: tuple[Path, Replies, Replies], working: Path, draw: random.Random) -> str:
    """Flip one bit and say what became of it; what must not be is an assertion that fails."""
    path, of_alice, of_bob = store
    copy_store(path, working)
    content = bytearray((working / DATABASE).read_bytes())
    content[a_place(bytes(content), draw)] ^= 1 << draw.randrange(8)
    (working / DATABASE).write_bytes(content)
    if draw.random() < 0.5:
        shutil.rmtree(working / INDEX)
    try:
        memory = opened(working)
    except CorruptStoreError:
        return "not opened"
    with memory:
        alices, bobs = replies(memory, "alice", "note"), replies(memory, "bob", CANARY)
        report = memory.doctor(full=True)
    failed = {one.name for one in report.checks if not one.ok}
    if "database" not in failed:
        assert alices == of_alice
    wrong = [name for name, found in bobs.items() if found != of_bob[name]]
    if wrong:
        assert failed, wrong
    if "rows" in failed:
        for name, found in bobs.items():
            if name not in ("scores", "cat", "ls") and not isinstance(found, HyrecallError):
                assert set(found) <= set(of_bob[name]), name
    return "found" if failed else "no change"


@pytest.mark.slow
def test_a_flipped_bit_in_a_row_stays_where_it_is(
    store: tuple[Path, Replies, Replies], tmp_path: Path, effort: Effort
) -> None:
    n_flips = effort.cases(quick=12, full=500)
    tally = Counter(outcome(store, tmp_path / str(at), random.Random(at)) for at in range(n_flips))
    assert tally["found"] > n_flips // 3, tally


DAMAGES = {
    "text": "UPDATE versions SET output = CAST(x'74657874ff' AS TEXT) WHERE id = 'canary 1'",
    "time": "UPDATE versions SET occurred_at = 9e18 WHERE id = 'canary 1'",
    "letter": "UPDATE versions SET output = 'canary é texd 1' WHERE id = 'canary 1'",
    "tags": "UPDATE versions SET tags = '[' WHERE id = 'canary 1'",
    "kind": "UPDATE versions SET kind = CAST(x'ff' AS TEXT) WHERE id = 'canary 1'",
}


def damage(path: Path, sql: str, *, unchecked: bool = False) -> None:
    connection = apsw.Connection(str(path / DATABASE))
    connection.pragma("ignore_check_constraints", unchecked)
    connection.execute(sql)
    connection.close()


@pytest.mark.plain_cases(6)
@pytest.mark.parametrize("kind", DAMAGES)
@pytest.mark.parametrize("index", [True, False], ids=["indexed", "not indexed"])
def test_a_damaged_row_is_named_and_left_out(
    store: tuple[Path, Replies, Replies], tmp_path: Path, kind: str, *, index: bool
) -> None:
    path, of_alice, _ = store
    working = tmp_path / "store"
    copy_store(path, working)
    damage(working, DAMAGES[kind])
    if not index:
        shutil.rmtree(working / INDEX)
    with opened(working) as memory:
        assert replies(memory, "alice", "note") == of_alice
        found = memory.search("text", user_id="bob", limit=20)
        assert "canary 1" not in {one.episode.id for one in found}
        assert {"canary 0", "canary 3"} <= {one.episode.id for one in found}
        if index:
            assert [one.reason for one in found.reasons] == [DegradedReason.DAMAGED_ROWS]
        with pytest.raises(CorruptStoreError, match="id: expected an undamaged memory"):
            memory.get("canary 1", user_id="bob")
        with pytest.raises(CorruptStoreError):
            memory.update("canary 1", user_id="bob", text="new")
        with pytest.warns(DamageWarning, match="1 damaged rows"):
            assert len(memory.list(user_id="bob")) == 4
        with pytest.warns(DamageWarning):
            memory.export(user_id="bob")
        (check,) = [one for one in memory.doctor(full=True).checks if one.name == "rows"]
        assert not check.ok
        assert check.detail == "1 of versions are damaged (their row: 8)"
        # What is damaged can be given up, and its id be used again.
        assert memory.forget("canary 1", user_id="bob", reason="damaged") == 1
        memory.remember("canary é text 1", id="canary 1", user_id="bob")
        assert memory.get("canary 1", user_id="bob") is not None
        assert memory.forget("canary 1", user_id="bob", erase=True) == 1
        assert memory.doctor(full=True).ok


def test_a_damaged_cell_is_nobodys(store: tuple[Path, Replies, Replies], tmp_path: Path) -> None:
    path, of_alice, _ = store
    for at, name in enumerate(("bob2", "alice")):
        working = tmp_path / str(at)
        copy_store(path, working)
        damage(working, "DROP INDEX cells_identity")
        damage(working, f"UPDATE cells SET user = '{name}' WHERE user = 'bob'")
        shutil.rmtree(working / INDEX)
        with opened(working) as memory:
            lost = name == "bob2"  # alice has a row of her own beside it
            with pytest.raises(CorruptStoreError) if lost else pytest.warns(DamageWarning):
                memory.search("text", user_id=name)
            assert memory.doctor(full=True).ok is False
            if name == "bob2":
                assert replies(memory, "alice", "note") == of_alice


@pytest.mark.parametrize("index", [True, False], ids=["indexed", "not indexed"])
def test_a_damaged_version_number_brings_no_old_text_back(
    store: tuple[Path, Replies, Replies], tmp_path: Path, *, index: bool
) -> None:
    working = tmp_path / "store"
    copy_store(store[0], working)
    with opened(working) as memory:
        for key in ("canary 0", "canary 1", "canary fact"):
            memory.forget(key, user_id="bob")
        before = replies(memory, "bob", CANARY)
    damage(working, "UPDATE documents SET version = 1 WHERE id LIKE 'canary%'")
    if not index:
        shutil.rmtree(working / INDEX)
    with opened(working) as memory:
        assert replies(memory, "alice", "note") == store[1]
        found = replies(memory, "bob", CANARY)
        assert "text 0" not in str(found["list"])
        for name in ("scores", "search", "facts", "list", "tagged"):
            assert len(found[name]) == len(before[name]) - (name != "facts"), name
        assert found["export"] == before["export"]
        for key in ("canary 1", "canary 2"):
            with pytest.raises(CorruptStoreError, match="id: expected an undamaged memory"):
                memory.get(key, user_id="bob")
        with pytest.warns(DamageWarning, match="3 damaged rows"):
            assert len(memory.list(user_id="bob", kind="episodic")) == 1
        assert {
            one["version"]["id"] for one in memory.export(user_id="bob") if "version" in one
        } == {"canary 2", "canary 3"}
        assert not memory.doctor().ok
        assert memory.forget(user_id="bob", everything=True) == 1


DAMAGED_FIELDS = {
    "access count": "UPDATE documents SET access_count = -4 WHERE id = 'canary 1'",
    "last access": "UPDATE documents SET last_accessed = -9e18 WHERE id = 'canary 1'",
    "model of a vector": (
        "UPDATE versions SET embedding_model = '', embedding_checksum = NULL WHERE id = 'canary 1'"
    ),
    "no vector": (
        "UPDATE versions SET embedding = x'000000', embedding_checksum = NULL WHERE id = 'canary 1'"
    ),
}


@pytest.mark.parametrize("field", DAMAGED_FIELDS)
def test_a_field_without_a_checksum_stops_no_export(
    store: tuple[Path, Replies, Replies], tmp_path: Path, field: str
) -> None:
    working = tmp_path / "store"
    copy_store(store[0], working)
    damage(working, DAMAGED_FIELDS[field])
    with opened(working) as memory:
        lines = memory.export(user_id=EVERYONE, history=True)
        (line,) = [one for one in lines if one.get("version", {}).get("id") == "canary 1"]
        assert line["version"]["content"]["text"] == "canary é text 1"
        assert not {"access_count", "last_accessed"} & set(line["version"])
        assert ("embedding" in line["version"]) == ("access" in field)
    with opened(tmp_path / "other") as other:
        assert not other.import_(io.StringIO("\n".join(map(json.dumps, lines)))).errors


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE versions SET status = 'lives' WHERE id = 'canary 1'",
        "UPDATE versions SET version = -1 WHERE id = 'canary 1'",
        "UPDATE versions SET successor = ' ' WHERE id = 'canary 1'",
    ],
)
def test_a_row_that_makes_no_line_is_left_out_of_an_export(
    store: tuple[Path, Replies, Replies], tmp_path: Path, sql: str
) -> None:
    working = tmp_path / "store"
    copy_store(store[0], working)
    damage(working, sql, unchecked=True)
    with opened(working) as memory:
        with pytest.warns(DamageWarning, match="1 damaged rows"):
            lines = memory.export(user_id=EVERYONE, history=True)
        found = {one.get("version", {}).get("id") for one in lines}
        assert {"canary 0", "note 1"} <= found
        assert "canary 1" not in found


DAMAGED_KEPT = {
    "text": (DAMAGES["text"], {"canary 1"}),
    "letter": (DAMAGES["letter"], {"canary 1"}),
    "fact": ("UPDATE facts SET object = 'other' WHERE subject = 'canary'", {"canary fact"}),
    "successor": (
        "UPDATE versions SET successor = CAST(x'ff' AS TEXT) WHERE id = 'canary 1'",
        {"canary 1"},
    ),
}


@pytest.mark.parametrize("kind", DAMAGED_KEPT)
def test_an_import_names_the_damaged_row_and_keeps_the_other_lines(
    store: tuple[Path, Replies, Replies], tmp_path: Path, kind: str
) -> None:
    sql, bad = DAMAGED_KEPT[kind]
    with opened(store[0]) as memory:
        lines = memory.export(user_id="bob", history=True)
    content = {"text": "new", "occurred_at": NOON.isoformat()}
    new = {"id": "new", "user_id": "bob", "recorded_at": NOON.isoformat(), "content": content}
    lines.insert(1, {"version": new})
    backup = "\n".join(map(json.dumps, lines))
    working = tmp_path / "store"
    copy_store(store[0], working)
    damage(working, sql)
    with opened(working) as memory:
        report = memory.import_(io.StringIO(backup))
        assert report.imported == 1
        assert {one.id for one in report.errors} == bad
        assert "the damaged row" in report.errors[0].error
        # What the error says to do.
        for key in bad:
            assert memory.forget(key, user_id="bob", erase=True) == 1
        assert memory.import_(io.StringIO(backup)).errors == ()
        assert memory.doctor(full=True).ok
        assert memory.forget("new", user_id="bob", erase=True) == 1
        found = replies(memory, "bob", CANARY)
        assert found["export"] == store[2]["export"]


def test_an_import_names_the_lines_of_a_damaged_cell_and_keeps_the_others(
    store: tuple[Path, Replies, Replies], tmp_path: Path
) -> None:
    with opened(store[0]) as memory:
        lines = memory.export(user_id=EVERYONE)
    working = tmp_path / "store"
    copy_store(store[0], working)
    damage(working, "UPDATE cells SET checksum = checksum + 1 WHERE user = 'bob'")
    with opened(working) as memory:
        memory.forget("note 1", user_id="alice", erase=True)
        report = memory.import_(io.StringIO("\n".join(map(json.dumps, lines))))
        assert report.imported == 2  # note 1, and the edge of it
        assert {one.error for one in report.errors} == {
            "cells: expected an undamaged row of the user, got a damaged one"
        }
        assert memory.get("note 1", user_id="alice") is not None


def test_a_store_that_believes_every_row_is_caught(
    store: tuple[Path, Replies, Replies], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: every checksum is right."""
    monkeypatch.setattr(codec, "checksum", lambda *kept: ANY)

    def flips() -> None:
        for at in range(12):
            outcome(store, tmp_path / str(at), random.Random(at))

    with pytest.raises((AssertionError, ArithmeticError, ValueError, TypeError)):
        flips()
