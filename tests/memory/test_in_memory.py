"""A store in memory: the replies of a store on the disk, and nothing on the disk."""

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.errors import OptionError, StoreError
from hyrecall.memory import EVERYONE, Episode, Fact, MemorySync, Participant
from memory.faults.interrupting import Lines, interrupted
from memory.stores import DIM, HOUR, NOON, Clock, folder
from seams import PATIENCE, ROOM, MemoryDatabase, Room, StoreOptions

RECIPES = ("loom", "hypergraph", "l0", "honeycomb", "hebb", "default")
OPTIONS: dict[str, Any] = {"embedder": HashEmbedder(dim=DIM), "recall_timeout": 30.0}


def episodes() -> list[Episode]:
    texts = ("disk full on pg-eu-2", "invoice INV-2026-0042", "the disk brake", "lunch was great")
    return [
        Episode(id=f"e{at}", user_id=user, text=text, occurred_at=NOON + at * HOUR, tags=("ops",))
        for user in ("ann", "bob")
        for at, text in enumerate(texts)
    ]


def without_chance(lines: Any) -> list[Any]:
    """Exported lines without what is drawn or told by the clock of the machine."""
    chance = {"made_at", "made_by", "store_id", "checksum"}
    return [{k: v for k, v in line.items() if k not in chance} for line in lines]


def life(memory: MemorySync) -> list[Any]:
    """What a store replies through a life of writes, changes, erasures and reads."""
    memory.remember_batch(episodes())
    memory.remember_fact(
        Fact(
            id="f0",
            user_id="ann",
            subject="pg-eu-2",
            predicate="state",
            object="down",
            valid_from=NOON,
        )
    )
    memory.link(["e0", Participant(id="e1", role="cause")], "caused", user_id="ann", id="edge")
    memory.update("e1", user_id="ann", text="INV-2026-0042 was paid", reason="bank")
    memory.forget("e2", user_id="bob", erase=True)
    memory.pin("e3", user_id="ann")
    replies: list[Any] = []
    for query in ("disk", "INV-2026-0042", "caused"):
        for user in ("ann", "bob", "nobody"):
            found = memory.search(query, user_id=user, limit=5)
            replies += [(one.episode.text, one.score, one.parts) for one in found]
            replies.append(found.degraded)
    replies += [version.reason for version in memory.history("e1", user_id="ann")]
    replies.append(memory.doctor(full=True).counts)
    replies.append(without_chance(memory.export(user_id=EVERYONE, history=True)))
    memory.forget(user_id="ann", everything=True, erase=True)
    replies += [memory.search("disk", user_id=user) == [] for user in ("ann", "bob")]
    return replies


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize("name", RECIPES)
def test_a_store_in_memory_gives_the_replies_of_one_on_the_disk(name: str) -> None:
    recipe = getattr(recipes, name)
    with (
        MemorySync.open(folder(), recipe=recipe, clock=Clock(), **OPTIONS) as on_disk,
        MemorySync.in_memory(recipe=recipe, clock=Clock(), **OPTIONS) as in_memory,
    ):
        expected = life(on_disk)
        assert life(in_memory) == expected
        assert in_memory.doctor(full=True).ok
        assert not in_memory.snapshot()
        assert in_memory.compact().bytes_after > 0
        assert in_memory.compact().wal_truncated


CHILD = """
import os, sys, tempfile
from hyrecall import recipes
from hyrecall.memory import MemorySync

def n_writes():
    lines = open("/proc/self/io").read().splitlines()
    return int(dict(line.split(": ") for line in lines)["syscw"])

def life(path):
    with MemorySync.open(path, recipe=recipes.loom, embedder=None) as memory:
        for at in range(50):
            memory.remember(f"text number {at}", user_id="ann", id=str(at))
        assert len(memory.search("number", user_id="ann", limit=60)) == 50
        memory.forget("7", user_id="ann", erase=True)
        memory.compact()
        assert memory.doctor(full=True).ok

os.chdir(tempfile.mkdtemp())
life(":memory:")  # imports are done
before = n_writes()
life(sys.argv[1])
print(n_writes() - before, os.listdir())
"""


@pytest.mark.slow
@pytest.mark.parametrize(("path", "writes"), [(":memory:", False), ("on-disk.mem", True)])
def test_it_writes_nothing_to_any_file(path: str, writes: bool) -> None:
    told = subprocess.run(
        [sys.executable, "-c", CHILD, path], capture_output=True, text=True, check=True
    ).stdout
    n_writes, _, names = told.partition(" ")
    assert (int(n_writes) > 0) == writes
    assert names.strip() == ("['on-disk.mem']" if writes else "[]")


def test_each_opening_is_a_store_of_its_own() -> None:
    with (
        MemorySync.in_memory(embedder=None) as one,
        MemorySync.open(":memory:", embedder=None) as two,
    ):
        one.remember("oak", user_id="ann")
        assert len(one.search("oak", user_id="ann")) == 1
        assert two.search("oak", user_id="ann") == []
    with MemorySync.in_memory(embedder=None) as again:
        assert again.search("oak", user_id="ann") == []
    with pytest.raises(OptionError, match="an open store"):
        one.search("oak", user_id="ann")


@pytest.mark.parametrize(
    ("name", "value"),
    [("read_only", True), ("wait", 1.0), ("accept_loss", True), ("snapshot_every", 5)],
)
def test_an_option_without_a_meaning_is_refused(name: str, value: object) -> None:
    with pytest.raises(
        OptionError, match=f"^{name}: expected the default with the path ':memory:'"
    ):
        MemorySync.open(":memory:", **{name: value})  # type: ignore[arg-type]
    assert getattr(StoreOptions(), name) != value
    assert not Path(":memory:").exists()


def test_what_would_wait_for_itself_is_refused() -> None:
    database = MemoryDatabase.make()
    with database.reading(), database.reading() as connection:
        assert connection.execute("SELECT 1").get == 1
        with (
            pytest.raises(StoreError, match="expected a change after the reading"),
            database.transaction(),
        ):
            pass
    with (
        database.transaction(),
        pytest.raises(StoreError, match="expected a reading after the change"),
        database.reading(),
    ):
        pass
    with database.transaction():  # and nothing is held afterwards
        pass
    database.close()


def test_readers_that_overlap_for_ever_keep_no_writer_out() -> None:
    database = MemoryDatabase.make()
    stop = threading.Event()
    n_overlaps = 0

    def read() -> None:
        nonlocal n_overlaps
        while not stop.is_set():
            with database.reading():
                time.sleep(PATIENCE / 10)
                n_overlaps += len(database._turns._readers) > 1

    readers = [threading.Thread(target=read) for _ in range(4)]
    for thread in readers:
        thread.start()
    while n_overlaps < 20:
        time.sleep(0.001)
    for _ in range(10):
        with database.transaction() as connection:
            assert not database._turns._readers
            connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'sequence'")
    stop.set()
    for thread in readers:
        thread.join()
    assert database.sequence() == 10
    database.close()


def test_an_interrupt_at_any_line_leaves_no_reading_that_a_change_waits_for() -> None:
    database = MemoryDatabase.make()
    try:
        at, is_over = 1, False
        while not is_over:
            lines = Lines(at)
            try:
                with interrupted(lines), database.reading() as connection:
                    assert connection.execute("SELECT 1").get == 1
            except KeyboardInterrupt:
                at += 1
            else:
                is_over = True
            assert database._turns._readers == {}, lines.where
            with database.transaction() as connection:
                assert connection.execute("SELECT 1").get == 1
        assert at > 20
    finally:
        database.close()


def test_a_damaged_row_is_left_out_of_a_reply_of_limited_length() -> None:
    with MemorySync.in_memory(embedder=None) as memory:
        for at in range(3):
            memory.remember(f"green tea {at}", id=f"e{at}", user_id="ann")
        assert len(memory.search("tea", user_id="ann")) == 3
        with memory._store.database.transaction() as connection:
            connection.execute("UPDATE versions SET output = ? WHERE id = 'e1'", ("x" * 1_000,))

        def search() -> tuple[set[str], list[str]]:
            matches = memory.search("tea", user_id="ann")
            return {one.episode.id for one in matches}, [str(one) for one in matches.reasons]

        free = search()
        token = ROOM.set(Room(200, RuntimeError))
        try:
            assert search() == free
        finally:
            ROOM.reset(token)
        assert free[0] == {"e0", "e2"}
        assert len(free[1]) == 1
