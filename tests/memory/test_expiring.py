"""Memories that expire: nobody finds them from their time on, and upkeep erases them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import hyrecall as hr
from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.errors import CorruptStoreError, UnknownOptionError
from hyrecall.memory import Episode, MemorySync
from memory.stores import DIM, NOON, Clock
from seams import EXPIRING, Expiry, Fill, RecallArguments, own_index, reading, tasks

SECRET = "xyzzy"
SOON = NOON + timedelta(hours=1)
LATER = NOON + timedelta(hours=2)


@pytest.fixture
def clock() -> Clock:
    made = Clock()
    made.now = NOON
    return made


def opened(path: Path, clock: Clock, **options: Any) -> MemorySync:
    return MemorySync.open(path, embedder=HashEmbedder(dim=DIM), clock=clock, **options)


def fill(memory: MemorySync) -> None:
    """Memories that stay, and one of another kind, session and tag that expires."""
    for at in range(3):
        memory.remember(f"tea {at}", id=f"m{at}", user_id="ann", occurred_at=NOON)
    memory.remember(
        f"tea {SECRET}", id="gone", user_id="ann", kind="code", session_id="s", tags=("t",),
        expires_at=SOON, occurred_at=NOON,
    )  # fmt: skip
    memory.link(["gone", "m0"], "beside", user_id="ann")
    memory.feedback(used=["gone", "m0"], query="tea", user_id="ann")


FILLED = recipes.default.replace(fill=Fill("occurred_at"), on_empty="newest")
DOORS: dict[str, Callable[[MemorySync], object]] = {
    "search": lambda m: m.search("tea", user_id="ann"),
    "blank": lambda m: m.search("", user_id="ann", recipe=FILLED),
    "recall_scored": lambda m: m.recall_scored("tea", user_id="ann", kind=None),
    "include_ended": lambda m: m.search("tea", user_id="ann", include_ended=True),
    "around": lambda m: m.search("tea 0", user_id="ann", around=3),
    "list": lambda m: m.list(user_id="ann"),
    "list of a kind": lambda m: m.list(user_id="ann", kind="code"),
    "list by filter": lambda m: m.list(user_id="ann", filter=hr.Filter(tags=["t"])),
    "get": lambda m: m.get("gone", user_id="ann"),
    "history": lambda m: m.history("gone", user_id="ann"),
    "list_sessions": lambda m: m.list_sessions(user_id="ann"),
    "list_feedback": lambda m: m.list_feedback(user_id="ann"),
    "export": lambda m: m.export(user_id="ann"),
    "browse": lambda m: [m.browse(user_id="ann").ls(f"/{one}") for one in ("", "memories")],
    "kinds": lambda m: m.browse(user_id="ann").ls("/memories"),
    "cat": lambda m: m.browse(user_id="ann").cat("/memories/code/gone.md"),
    "grep": lambda m: m.browse(user_id="ann").grep("tea"),
}
MARKS = (SECRET, "'gone'", '"gone"', "code", "'s'")


def told(memory: MemorySync, door: str) -> list[str]:
    """What a door says of the one that expires."""
    shown = DOORS[door](memory)
    text = json.dumps(shown) if isinstance(shown, list) and door == "export" else repr(
        [vars(one) if hasattr(one, "__dict__") else one for one in shown]
        if isinstance(shown, list | tuple) else shown
    )  # fmt: skip
    # An edge may name a memory that is not there, as it may before that is kept.
    return [mark for mark in MARKS if mark in text and (door, mark) != ("export", '"gone"')]


@pytest.mark.parametrize("door", DOORS)
def test_nobody_finds_it_from_its_time_on(tmp_path: Path, clock: Clock, door: str) -> None:
    with opened(tmp_path / "a.mem", clock) as memory:
        fill(memory)
        if door not in ("kinds", "browse", "list_sessions", "around"):
            assert told(memory, door), door
        clock.now = SOON
        assert told(memory, door) == []


def test_a_read_only_handle_hides_what_it_cannot_erase(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path / "a.mem", clock) as memory:
        fill(memory)
    clock.now = LATER
    with opened(tmp_path / "a.mem", clock, read_only=True) as reader:
        assert [one for door in DOORS for one in told(reader, door)] == []
        found = [one.episode.id for one in reader.search("tea", user_id="ann", limit=3)]
        assert sorted(found) == ["m0", "m1", "m2"]


def test_a_page_is_full_where_there_is_enough(tmp_path: Path, clock: Clock) -> None:
    with opened(tmp_path / "a.mem", clock) as memory:
        for at in range(30):
            expires = SOON if at % 3 else None
            memory.remember("tea", id=f"m{at:02}", user_id="ann", expires_at=expires)
        clock.now = SOON
        found = memory.search("tea", user_id="ann", limit=10)
        assert sorted(one.episode.id for one in found) == [f"m{at:02}" for at in range(0, 30, 3)]
        assert memory.count(user_id="ann") == 10


def files(folder: Path) -> bytes:
    return b"".join(one.read_bytes() for one in folder.rglob("*") if one.is_file())


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_upkeep_erases_every_byte_of_it(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "a.mem"
    with opened(path, clock) as memory:
        fill(memory)
        memory.remember(f"{SECRET} of bob", id="gone", user_id="bob")  # the same id, and it stays
        memory.snapshot()
        assert SECRET.encode() in files(path)
        clock.now = SOON
        until(lambda: files(path).count(b"tea xyzzy") == 0)
        assert memory.get("gone", user_id="bob") is not None
        assert memory.links("m0", user_id="ann") == []
        assert memory.doctor(full=True).ok
    assert b"tea xyzzy" not in files(path)


def test_compacting_erases_what_has_expired(clock: Clock) -> None:
    with MemorySync.in_memory(embedder=None, clock=clock) as memory:
        fill(memory)
        clock.now = SOON
        memory.compact()
        with memory._store.database.reading() as connection:
            ids = [key for (key,) in connection.execute("SELECT id FROM documents ORDER BY id")]
        assert ids == ["m0", "m1", "m2"]


def test_a_later_time_or_none_keeps_it(clock: Clock) -> None:
    with MemorySync.in_memory(embedder=None, clock=clock) as memory:
        fill(memory)
        memory.update("gone", user_id="ann", expires_at=LATER)
        clock.now = SOON
        assert memory.get("gone", user_id="ann") is not None
        memory.update("gone", user_id="ann", expires_at=None)
        clock.now = LATER
        assert len(memory.search("tea", user_id="ann")) == 4


def test_ttl_counts_from_the_clock_of_the_store(clock: Clock) -> None:
    with MemorySync.in_memory(embedder=None, clock=clock) as memory:
        memory.remember("tea", id="a", ttl=60)
        memory.remember(Episode(id="b", text="tea"), ttl=timedelta(minutes=2))
        times = [memory.get(key).expires_at for key in "ab"]  # type: ignore[union-attr]
        assert times == [NOON + timedelta(minutes=1), NOON + timedelta(minutes=2)]


def test_a_free_id_begins_anew(clock: Clock) -> None:
    with MemorySync.in_memory(embedder=None, clock=clock) as memory:
        fill(memory)
        clock.now = SOON
        kept = memory.remember("coffee", id="gone", user_id="ann")
        assert memory.get("gone", user_id="ann").text == "coffee"  # type: ignore[union-attr]
        assert [one.version for one in memory.history("gone", user_id="ann")][-1] == kept.version
        assert memory.links("m0", user_id="ann") == []


CANARY = "canary"


def test_versions_past_their_time_go_with_what_they_were_of(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "a.mem"
    with opened(path, clock) as memory:
        for key in ("kept anew", "superseded", "moved", "forgotten", "kept longer"):
            memory.remember(f"{CANARY} {key}", id=key, user_id="ann", expires_at=SOON)
        memory.supersede("superseded", "other", user_id="ann")
        memory.update("moved", user_id="ann", visibility="global", text="plain")
        memory.forget("forgotten", user_id="ann")
        memory.update("kept longer", user_id="ann", text="plain", expires_at=LATER)
        clock.now = SOON
        memory.remember("new", id="kept anew", user_id="ann")
        shown = {key: memory.history(key, user_id="ann") for key in memory_ids}
        assert CANARY not in str({**shown, "kept longer": ""})
        lines = str([
            line for line in memory.export(user_id="ann", history=True)  # type: ignore[union-attr]
            if "kept longer" not in str(line)
        ])  # fmt: skip
        assert CANARY not in lines
        assert CANARY in str(shown["kept longer"])  # it is there, with its history
        memory.compact()
        kept = [version.version for version in memory.history("kept longer", user_id="ann")]
        assert kept == [1, 2]
        with memory._store.database.reading() as connection:
            texts = [text for (text,) in connection.execute("SELECT output FROM versions")]
        assert [text for text in texts if CANARY in text] == [f"{CANARY} kept longer"]
        assert memory.doctor(full=True).ok


memory_ids = ("kept anew", "superseded", "moved", "forgotten", "kept longer")


def test_a_cell_that_cannot_be_erased_holds_up_no_other(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    erase = tasks.erase

    def failing(database: Any, selection: Any, **options: Any) -> Any:
        if selection.owner[2] == "ann":
            raise CorruptStoreError("damaged")
        return erase(database, selection, **options)

    with MemorySync.in_memory(embedder=None, clock=clock) as memory:
        for user in ("ann", "bob"):
            memory.remember("tea", id="a", user_id=user, expires_at=SOON)
        clock.now = SOON
        monkeypatch.setattr(tasks, "erase", failing)
        memory.compact()
        with memory._store.database.reading() as connection:
            assert connection.execute("SELECT count(*) FROM documents").get == 1


def test_an_agent_does_not_shorten_what_it_has_kept(clock: Clock) -> None:
    with MemorySync.in_memory(embedder=None, clock=clock) as memory:
        agent = memory.agent("planner", org="acme", workspace="lab")
        kept = agent.remember("tea", ttl=60)
        with pytest.raises(UnknownOptionError, match="got 'expires_at'"):
            agent.update(kept.id, reason="tidy", expires_at=NOON)  # type: ignore[call-arg]


def test_an_index_for_learning_lacks_what_has_expired(clock: Clock) -> None:
    with MemorySync.in_memory(embedder=None, clock=clock) as memory:
        fill(memory)
        clock.now = SOON
        index, _ = own_index(memory._view("ann"))
        assert len(index) == 3


def test_what_has_expired_is_not_sent_to_an_embedder(clock: Clock) -> None:
    sent: list[str] = []

    class Watched(HashEmbedder):
        def embed(self, texts: Any) -> Any:
            sent.extend(texts)
            return super().embed(texts)

    with MemorySync.in_memory(embedder=Watched(dim=DIM), clock=clock) as memory:
        fill(memory)
        sent.clear()
        clock.now = SOON
        memory.reembed(force=True)
        assert sent
        assert not any(SECRET in text for text in sent)


def test_what_is_kept_longer_meanwhile_is_not_erased(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with MemorySync.in_memory(embedder=None, clock=clock) as memory:
        fill(memory)
        memory.remember("tea", id="two", user_id="ann", expires_at=SOON)
        clock.now = SOON
        erase = tasks.erase

        def erasing(database: Any, selection: Any, **options: Any) -> Any:
            # Somebody whose clock is behind keeps it, between the look and the erasure.
            clock.now = NOON
            memory.update("gone", user_id="ann", expires_at=LATER)
            clock.now = SOON
            return erase(database, selection, **options)

        monkeypatch.setattr(tasks, "erase", erasing)
        memory.compact()
        assert memory.get("gone", user_id="ann") is not None
        assert memory.history("two", user_id="ann") == []


# ---- planted bugs ----


@pytest.fixture
def expired(clock: Clock) -> Iterator[MemorySync]:
    with MemorySync.in_memory(embedder=None, clock=clock) as memory:
        for at in range(6):
            expires = SOON if at < 3 else None
            memory.remember("tea", id=f"m{at}", user_id="ann", expires_at=expires)
        clock.now = SOON
        yield memory


def test_a_search_that_forgets_the_filter_would_be_seen(
    expired: MemorySync, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RecallArguments, "of_what_is_left", lambda self, now: self)
    assert len(expired.search("tea", user_id="ann", limit=3)) < 3


def test_reading_that_forgets_the_time_would_be_seen(
    expired: MemorySync, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_OF_ROWS", reading._OF_ROWS.replace("hyrecall_now()", "0"))
    assert expired.get("m0", user_id="ann") is not None


def test_upkeep_that_does_nothing_would_be_seen(
    expired: MemorySync, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Expiry, "erase", lambda self: 0)
    expired.compact()
    with expired._store.database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM documents").get == 6
    assert EXPIRING in expired._store.keeper.background._dues
