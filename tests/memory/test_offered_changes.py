"""Rows that a store has made for its index before a commit are not made again after it."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import apsw
import pytest

from hyrecall.embed import HashEmbedder
from hyrecall.memory import MemorySync
from memory.small_store import DIM, replies
from memory.stores import open_store
from seams import MOST_JOINED, Database, Outcome, projection
from seams import derived_index as derived


def opened() -> MemorySync:
    return open_store(embedder=HashEmbedder(dim=DIM), recall_timeout=30.0)


@pytest.fixture
def memory() -> Iterator[MemorySync]:
    """A store whose index follows when it is asked, and not on a thread."""
    with opened() as made:
        made._store.background.close()
        yield made


@pytest.fixture
def n_read(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many rows were made of documents since the last call."""
    made: list[int] = []
    documents = projection.documents

    def counted(*given: Any, **options: Any) -> Iterator[projection.ChangeTables]:
        for batch in documents(*given, **options):
            made.append(batch.n_read)
            yield batch

    monkeypatch.setattr(projection, "documents", counted)

    def n() -> int:
        total = sum(made)
        made.clear()
        return total

    return n


def is_as_rebuilt(memory: MemorySync) -> bool:
    follower = memory._store.follower
    with memory._store.database.reading() as connection:
        anew = derived.build(connection, follower._wish)
    return replies(follower.ready()) == replies(follower._give(anew))


def test_what_is_remembered_is_read_once(memory: MemorySync, n_read: Callable[[], int]) -> None:
    memory.remember("oak", id="a", user_id="alice")
    assert n_read() == 1
    assert [one.episode.id for one in memory.search("oak", user_id="alice")] == ["a"]
    assert n_read() == 0
    memory.update("a", text="ash", user_id="alice", reason="test")
    memory.search("ash", user_id="alice")
    assert n_read() == 1
    memory.forget("a", user_id="alice")
    assert memory.search("ash", user_id="alice").tiers == memory.search("x", user_id="alice").tiers
    assert n_read() == 1
    assert is_as_rebuilt(memory)


def test_several_commits_are_followed_in_one_step_without_reading_them(
    memory: MemorySync, n_read: Callable[[], int]
) -> None:
    for n in range(5):
        memory.remember(f"oak {n}", id=f"e{n}", user_id="alice")
    memory.link(["e0", "e1"], "near", user_id="alice")
    assert n_read() == 5
    assert memory._store.follower.catch_up() == 6
    assert n_read() == 0
    assert is_as_rebuilt(memory)


def test_a_document_that_changes_twice_is_read_again(
    memory: MemorySync, n_read: Callable[[], int]
) -> None:
    memory.remember("oak", id="a", user_id="alice")
    memory.update("a", text="ash", user_id="alice", reason="test")
    n_read()
    assert [one.episode.text for one in memory.search("ash", user_id="alice")] == ["ash"]
    assert n_read() == 1
    assert is_as_rebuilt(memory)


def test_changes_that_came_another_way_are_read(
    memory: MemorySync, n_read: Callable[[], int]
) -> None:
    memory.remember("elm", id="b", user_id="alice")
    before = memory._store.database.sequence()
    with memory._store.database.transaction() as connection:  # as an import does
        connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'sequence'")
        connection.execute("UPDATE documents SET pinned = 1, changed = ?", (before + 1,))
    memory.remember("fir", id="c", user_id="alice")
    n_read()
    assert {one.episode.id for one in memory.search("elm fir", user_id="alice")} == {"b", "c"}
    assert n_read() == 2
    assert is_as_rebuilt(memory)


def test_rows_that_leave_out_a_change_would_be_seen(
    memory: MemorySync, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.remember("elm", id="b", user_id="alice")
    follower = memory._store.follower
    follower.catch_up()
    follower.offer(None)
    memory.forget("b", user_id="alice")
    follower.offer(None)  # lost
    memory.remember("fir", id="c", user_id="alice")
    made, held = follower._take_offered(), follower._held
    assert made is not None
    assert held is not None
    assert made.after > held.sequence
    follower.offer(replace(made, after=held.sequence))  # it says that it follows, and does not
    assert not is_as_rebuilt(memory)


def test_a_commit_that_fails_offers_nothing(
    memory: MemorySync, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.remember("oak", id="a", user_id="alice")
    commit = Database.commit

    class DiskFullError(Exception):
        """Planted."""

    def failing(self: Database, work: Any, outcome: Outcome) -> None:
        def fail(connection: apsw.Connection) -> None:
            work(connection)
            raise DiskFullError

        commit(self, fail, outcome)

    with monkeypatch.context() as patched:
        patched.setattr(Database, "commit", failing)
        with pytest.raises(DiskFullError):
            memory.remember("elm", id="b", user_id="alice")
    assert memory.get("b", user_id="alice") is None
    assert [one.episode.id for one in memory.search("elm oak", user_id="alice")] == ["a"]
    assert is_as_rebuilt(memory)


def test_many_commits_are_read_at_once(memory: MemorySync, n_read: Callable[[], int]) -> None:
    n = 2 * MOST_JOINED
    for at in range(n):
        memory.remember(f"oak {at}", id=f"e{at}", user_id="alice")
    assert n_read() == n
    assert memory._store.follower.catch_up() == n
    assert n_read() == n
    assert is_as_rebuilt(memory)


def test_threads_that_write_beside_the_follower_leave_the_index_right() -> None:
    with opened() as memory:

        def write(thread: int) -> None:
            for n in range(15):
                key = f"t{thread}-{n}"
                memory.remember(f"oak {n}", id=key, user_id="alice")
                if n % 3 == 0:
                    memory.update(key, text="ash", user_id="alice", reason="test")
                if n % 5 == 0:
                    memory.forget(key, user_id="alice", erase=n % 2 == 0)

        threads = [threading.Thread(target=write, args=(at,)) for at in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert is_as_rebuilt(memory)
