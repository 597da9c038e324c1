"""A write with an id is made once, however often it is asked for."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest

from hyrecall.errors import KeyConflictError, StoreError
from memory.test_group_commit import Held, Writers, database, group_of, ids, remember
from seams import Database, MemoryDatabase

__all__ = ["database"]


def test_a_write_id_is_applied_once(database: Database) -> None:
    group, key = group_of(database), bytes(range(16))
    assert group.write(remember("a"), write_id=key) == (1,)
    assert group.write(remember("a"), write_id=key) == (1,), "the reply that was kept"
    with pytest.raises(KeyConflictError):
        group.write(remember("a"))
    with pytest.raises(KeyConflictError):
        group.write(remember("a"), write_id=bytes(16))
    assert group.write(remember("b"), write_id=bytes(16)) == (1,), "a refused one is not kept"
    assert ids(database) == ["a", "b"]


def test_a_write_id_that_waits_twice_is_applied_once(database: Database) -> None:
    group, key = group_of(database), bytes(range(16))
    inside = threading.Event()
    held = Writers(group, [Held(inside, lambda: len(group._waiting) == 4)])
    assert inside.wait(30.0)
    writers = Writers(group, [remember("a")] * 3, write_id=key)
    held.join()
    writers.join()
    assert writers.faults == {}
    assert set(writers.replies.values()) == {(1,)}
    assert ids(database) == ["a"]


def test_a_write_id_is_forgotten_after_an_hour(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = group_of(database)
    group.write(remember("a"), write_id=bytes(range(16)))
    with database.transaction() as connection:
        connection.execute("UPDATE applied SET at = at - 3601 * 1000000")
    group.write(remember("b"), write_id=bytes(16))
    with database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM applied").get == 1


def test_a_kept_reply_holds_no_text_and_no_id(database: Database) -> None:
    group = group_of(database)
    group.write(remember("a secret name"), write_id=bytes(16))
    with database.reading() as connection:
        assert connection.execute("SELECT reply FROM applied").get == "[1]"


def test_a_thread_that_reads_a_store_in_memory_cannot_write_to_it() -> None:
    database = MemoryDatabase.make()
    group = group_of(database)
    with database.reading(), pytest.raises(StoreError, match=r"a change after the reading"):
        group.write(remember("a"))
    group.write(remember("a"))
    database.close()


def test_a_change_has_the_time_that_its_caller_says(database: Database) -> None:
    at = datetime(2020, 1, 1, tzinfo=UTC)
    group = group_of(database)
    group.write(remember("a"), now=at)
    with database.reading() as connection:
        assert connection.execute("SELECT recorded_at FROM versions").get == at.timestamp() * 1e6
