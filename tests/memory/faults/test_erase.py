"""After an erase no byte of what was erased is in any file of the store (fault D10)."""

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from hyrecall.errors import StoreError
from hyrecall.memory import Edge, Fact, MemorySync, Participant
from memory.rows_of_tests import ANA, BOB, MODEL, NOW, an_episode, new, vector
from seams import (
    Cell,
    Database,
    Follower,
    NewVersion,
    Selection,
    assert_fact,
    connecting,
    edges_in,
    episode_by_id,
    erase,
    every_cell,
    find_cell,
    forget,
    link,
    meta,
    newest,
    read_policy,
    remember,
    set_policy,
    supersede,
    update,
)

SECRET = Cell("canary-org", "canary-space", "canary-user", "private")
VECTOR = vector("canary", 64)
TRACES = [b"canary", VECTOR.tobytes()[8:24], VECTOR.tobytes()[-16:]]


def put_canaries(database: Database, seed: int, n: int = 60) -> None:
    """Memories of one user in every column, among those of others, changed many times."""
    draw = random.Random(seed)
    for at in range(n):
        long = "canary " * draw.choice([1, 30, 2000])  # on a page with others, or on its own
        episode = an_episode(
            f"canary id {at}", SECRET, input=long, text=f"canary {at}", kind="canary kind",
            source="canary source", session_id="canary session", tags=("canary tag",),
            metadata={"canary key": "canary value"},
        )  # fmt: skip
        with database.transaction() as c:
            remember(c, [NewVersion(SECRET, episode, VECTOR, MODEL)], NOW)
            remember(c, [new(f"other {at}", BOB, text="y" * draw.randrange(4000))], NOW)
            if draw.random() < 0.5:
                update(c, SECRET, episode.id, {"text": long + "x"}, VECTOR, MODEL, "canary", NOW)
    ends = tuple(Participant(id=f"canary id {at}", role="canary role") for at in (0, 1, 2))
    with database.transaction() as c:
        edge = Edge(
            **SECRET.identity(), id="canary edge", participants=ends, relationship="canary",
            description="canary", metadata={"canary": 1},
        )  # fmt: skip
        link(c, edge, NOW)
        fact = Fact(**SECRET.identity(), subject="canary", predicate="canary", object="canary")
        assert_fact(c, fact, VECTOR, MODEL, NOW)
        supersede(c, SECRET, "canary id 7", new("canary next", SECRET), "canary reason", NOW)
        number = find_cell(c, SECRET)
        assert number is not None
        forget(c, Selection([number], ids=["canary id 9"]), "canary reason", NOW)
        set_policy(c, SECRET.org, SECRET.workspace, "canary-user", "group", "canary group")


def traces(folder: Path) -> list[str]:
    """Which files hold which canary."""
    return [
        f"{path.name}: {trace[:8]!r}"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        for trace in TRACES
        if trace in path.read_bytes()
    ]


def number_of(database: Database, cell: Cell) -> int:
    with database.reading() as c:
        found = find_cell(c, cell)
    assert found is not None
    return found


@pytest.mark.plain_cases(3)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("is_checkpointed", [False, True])
def test_no_byte_of_an_erased_user_is_left(
    tmp_path: Path, seed: int, *, is_checkpointed: bool
) -> None:
    database = Database.open(tmp_path / "store")
    put_canaries(database, seed)
    if is_checkpointed:
        assert database.checkpoint()
    assert len({line.partition(": ")[2] for line in traces(database.folder)}) == 3
    erased = erase(database, Selection([number_of(database, SECRET)]))
    assert (erased.n, erased.wal_truncated) == (62, True)
    assert traces(database.folder) == []
    with database.reading() as c:
        assert list(every_cell(c).values()) == [BOB]
        assert len(newest(c, list(every_cell(c)))) == 60
        assert read_policy(c, SECRET.org, SECRET.workspace, "canary-user") is None
        assert meta(c, "erasures") == 1
    assert database.problems(full=True) == []
    database.close()
    assert traces(database.folder) == []


def test_without_overwriting_the_bytes_would_be_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control."""
    monkeypatch.setitem(connecting._ALWAYS, "secure_delete", 0)
    database = Database.open(tmp_path / "store")
    put_canaries(database, 0)
    erase(database, Selection([number_of(database, SECRET)]))
    assert traces(database.folder) != []
    database.close()


SELECTIONS: dict[str, Callable[[int], Selection]] = {
    "ids": lambda cell: Selection([cell], ids=[f"canary id {at}" for at in range(60)]),
    "session": lambda cell: Selection([cell], session_id="canary session"),
}


@pytest.mark.parametrize("by", SELECTIONS)
def test_a_part_is_erased_and_the_rest_stays(tmp_path: Path, by: str) -> None:
    database = Database.open(tmp_path / "store")
    put_canaries(database, 1)
    erased = erase(database, SELECTIONS[by](number_of(database, SECRET)))
    assert erased.n == 60
    with database.reading() as c:
        number = find_cell(c, SECRET)
        assert number is not None
        assert {one.id for one in newest(c, [number], kind="episodic")} == {"canary next"}
        assert edges_in(c, [number]) == []
        select = "SELECT count(*) FROM versions WHERE cell = ? AND id LIKE 'canary id%'"
        assert c.execute(select, (number,)).get == 0
        assert read_policy(c, SECRET.org, SECRET.workspace, "canary-user") is not None
    assert b"canary id 7" not in b"".join(p.read_bytes() for p in database.folder.glob("*"))
    assert TRACES[1] in (database.folder / "memory.db").read_bytes(), "that of the fact"
    database.close()


def test_an_erased_successor_is_named_no_more(tmp_path: Path) -> None:
    database = Database.open(tmp_path / "store")
    with database.transaction() as c:
        remember(c, [new("a")], NOW)
        supersede(c, ANA, "a", new("canary", ANA), None, NOW)
    erase(database, Selection([number_of(database, ANA)], ids=["canary"]))
    assert traces(database.folder) == []
    database.close()


def test_nobody_elses_is_erased_and_nothing_is_no_erasure(tmp_path: Path) -> None:
    database = Database.open(tmp_path / "store")
    with database.transaction() as c:
        remember(c, [new("a"), new("a", BOB)], NOW)
    sequence = database.sequence()
    assert erase(database, Selection([])).n == 0
    assert erase(database, Selection([number_of(database, ANA)], ids=["b"])).n == 0
    with database.reading() as c:
        assert (meta(c, "erasures"), meta(c, "sequence")) == (0, sequence)
    bob = number_of(database, BOB)
    assert erase(database, Selection([number_of(database, ANA)], ids=["a"])).n == 1
    assert database.sequence() == sequence + 1
    with database.reading() as c:
        assert episode_by_id(c, bob, "a") is not None
    database.close()


def test_a_reader_of_an_older_state_keeps_the_log_and_that_is_said(tmp_path: Path) -> None:
    database = Database.open(tmp_path / "store")
    put_canaries(database, 2, n=12)
    reader = Database.open(database.folder, read_only=True)
    with reader.reading() as c:
        assert c.execute("SELECT count(*) FROM versions").get
        erased = erase(database, Selection([number_of(database, SECRET)]), wait=0.1)
        assert not erased.wal_truncated
        assert traces(database.folder) != []
    assert database.checkpoint()
    assert traces(database.folder) == []
    reader.close()
    database.close()


def test_an_erase_that_fails_erases_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database.open(tmp_path / "store")
    put_canaries(database, 3, n=12)
    number = number_of(database, SECRET)

    def fail(connection: apsw.Connection, cells: str) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("hyrecall.memory.sql.erasing._delete_empty_cells", fail)
    with pytest.raises(ZeroDivisionError):
        erase(database, Selection([number]))
    with database.reading() as c:
        assert len(newest(c, [number])) == 12
    database.close()


def test_the_log_is_emptied_when_that_reader_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody calls anything for it."""
    monkeypatch.setattr("hyrecall.memory.keeping.erase", partial(erase, wait=0.1))
    with MemorySync.open(tmp_path / "store", embedder=None) as memory:
        put_canaries(memory._store.database, 4, n=12)
        place: dict[str, Any] = {
            "org": SECRET.org,
            "workspace": SECRET.workspace,
            "user_id": SECRET.user,
        }
        reader = Database.open(tmp_path / "store", read_only=True)
        log = tmp_path / "store" / "memory.db-wal"
        with reader.reading() as c:
            assert c.execute("SELECT count(*) FROM versions").get
            assert memory.forget(everything=True, erase=True, **place) == 14
            time.sleep(1.5)  # tried again meanwhile, and not yet done
            assert b"canary" in log.read_bytes()
        until = time.monotonic() + 20
        background = memory._store.background
        while traces(tmp_path / "store") or background._dues:
            assert time.monotonic() < until
            time.sleep(0.05)
        reader.close()


@pytest.mark.slow
@pytest.mark.parametrize("compacts", [True, False])
def test_a_compaction_after_an_erasure_does_not_replace_what_is_left_to_scrub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compacts: bool
) -> None:
    monkeypatch.setattr("hyrecall.memory.keeping.erase", partial(erase, wait=0.1))
    monkeypatch.setattr("hyrecall.memory.derived.follower.BACKGROUND_RETRY_SECONDS", 0.05)
    reconcile, is_full = Follower.reconcile, [True]

    def fails_while_the_disk_is_full(self: Follower) -> int:
        if is_full[0]:
            raise StoreError("store: expected room on the disk, got none")
        return reconcile(self)

    with MemorySync.open(tmp_path / "store", embedder=None) as memory:
        memory.remember("canary", org=SECRET.org, user_id=SECRET.user)
        memory.snapshot()
        assert traces(tmp_path / "store") != []
        monkeypatch.setattr(Follower, "reconcile", fails_while_the_disk_is_full)
        reader = Database.open(tmp_path / "store", read_only=True)
        with reader.reading() as c:
            assert c.execute("SELECT count(*) FROM versions").get
            memory.forget(everything=True, erase=True, org=SECRET.org, user_id=SECRET.user)
            if compacts:
                assert not memory.compact().wal_truncated
        is_full[0] = False
        until = time.monotonic() + 20
        while memory._store.background._dues:
            assert time.monotonic() < until
            time.sleep(0.01)
        assert traces(tmp_path / "store") == []
        reader.close()
