"""A forked child leaves alone what it inherited: it is refused or served, and harms nobody."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.errors import StoreError
from hyrecall.memory import Memory, MemorySync
from memory.children import fork
from memory.sharing.peer import USER, open_it, peers
from seams import (
    SOCKET,
    PostgresMemory,
    Workers,
    disk,
    folder_lock,
    forks,
    from_async,
    open_replacement,
)

SECONDS = 60


def ended(work: Callable[[], object]) -> None:
    """Work in a forked child, which must end soon; its exit status is the verdict."""
    child = fork()
    if child == 0:
        signal.alarm(SECONDS)  # a child that hangs is killed
        code = 9
        try:
            work()
            code = 0
        except BaseException as fault:
            os.write(2, f"{type(fault).__name__}: {fault}\n".encode())
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def owned(folder: Path) -> MemorySync:
    return open_it(str(folder))


def alone(folder: Path) -> MemorySync:
    return open_it(str(folder), shared=False)


def in_memory(folder: Path) -> MemorySync:
    return open_it(":memory:")


CALLS: dict[str, Callable[[MemorySync], object]] = {
    "remember": lambda memory: memory.remember("note", user_id=USER),
    "search": lambda memory: memory.search("note", user_id=USER),
    "get": lambda memory: memory.get("a", user_id=USER),
    "list": lambda memory: memory.list(user_id=USER),
    "forget": lambda memory: memory.forget("a", user_id=USER, erase=True),
    "doctor": lambda memory: memory.doctor(full=True),
    "compact": lambda memory: memory.compact(),
    "snapshot": lambda memory: memory.snapshot(),
    "wait_until_ready": lambda memory: memory.wait_until_ready(1),
    "owner": lambda memory: memory._store.owner_state(),
}


@contextmanager
def held(*locks: Any) -> Iterator[None]:
    """Let another thread hold locks, as threads of a parent do at the moment of a fork."""
    ready, done = threading.Event(), threading.Event()

    def hold() -> None:
        with ExitStack() as stack:
            while not took_all(stack):
                stack.close()  # a thread of the store may hold one of them and wait for another
            ready.set()
            done.wait(SECONDS)

    def took_all(stack: ExitStack) -> bool:
        for lock in locks:
            if not hasattr(lock, "acquire"):
                stack.enter_context(lock)
            elif lock.acquire(timeout=0.05):
                stack.callback(lock.release)
            else:
                return False
        return True

    thread = threading.Thread(target=hold)
    thread.start()
    assert ready.wait(SECONDS)
    try:
        yield
    finally:
        done.set()
        thread.join()


def locks_of(memory: MemorySync) -> list[Any]:
    store, owner = memory._store, memory._store.owner
    found = [store.guard._pool._change, store.database._writing, store.database._pool]
    found += [owner.background._wake, owner.follower._lock, owner._group._leads]
    found.append(store._own_sessions._lock)
    if store._shared is not None:
        place: Any = store._shared._place
        found += [store._shared._renewing, place._server._state]
    return found


@pytest.mark.parametrize("open_store", [owned, alone, in_memory])
def test_every_call_of_an_inherited_store_is_refused_and_none_waits_for_a_lock(
    tmp_path: Path, open_store: Callable[[Path], MemorySync]
) -> None:
    with open_store(tmp_path / "s") as memory:
        memory.remember("note", id="a", user_id=USER)

        def refused() -> None:
            for call in CALLS.values():
                with pytest.raises(StoreError, match=r"the process that opened it \(pid \d+\)"):
                    call(memory)
            memory.close()

        with held(*locks_of(memory)):
            ended(refused)
        memory.remember("note", id="b", user_id=USER)
        assert len(memory.search("note", user_id=USER)) == 2


LEAVES: list[Callable[[MemorySync], object]] = [
    lambda memory: memory.close(),
    lambda memory: memory.__exit__(None, None, None),
    lambda memory: memory._store._shared._place.stop(),  # type: ignore[union-attr]
]


@pytest.mark.slow
def test_a_child_that_closes_an_owner_does_not_close_it_for_others(tmp_path: Path) -> None:
    with owned(tmp_path / "s") as memory:
        for leave in LEAVES:
            ended(lambda leave=leave: leave(memory))
            assert (tmp_path / "s" / SOCKET).exists()
        with peers(tmp_path / "s", 1) as (peer,):
            assert peer.ask("remember", "a") == "kept"
            assert peer.ask("owner") == os.getpid()
        assert memory.get("a", user_id=USER) is not None


@pytest.mark.slow
def test_a_child_that_closes_a_client_leaves_its_connection(tmp_path: Path) -> None:
    with peers(tmp_path / "s", 1) as (peer,), owned(tmp_path / "s") as client:
        client.remember("note", id="a", user_id=USER)
        ended(client.close)
        client.remember("note", id="b", user_id=USER)
        assert peer.ask("list") == ["a", "b"]


def test_an_async_store_is_refused_in_a_child_and_its_close_returns(tmp_path: Path) -> None:
    async def run() -> None:
        async with Memory.open(tmp_path / "s", embedder=None) as memory:
            await memory.remember("note", user_id=USER)  # its pool has threads

            async def refused() -> None:
                with pytest.raises(StoreError, match="the process that opened it"):
                    await memory.search("note", user_id=USER)
                await memory.close()

            def child() -> None:
                asyncio.new_event_loop().run_until_complete(refused())

            await asyncio.get_running_loop().run_in_executor(None, lambda: ended(child))
            assert len(await memory.search("note", user_id=USER)) == 1

    asyncio.run(run())


PARENT = """
import os, sys
from hyrecall.memory import MemorySync
from memory.sharing.peer import USER, open_it
memory = open_it(sys.argv[1])
memory.remember("note", id="a", user_id=USER)
if os.fork() == 0:
    sys.exit(0)  # runs what the parent has registered for its exit
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
memory.remember("note", id="b", user_id=USER)
assert len(memory.search("note", user_id=USER)) == 2
print("fine", os.path.exists(sys.argv[1] + "/owner.sock"), flush=True)
sys.stdin.readline()
"""


@pytest.mark.slow
def test_a_child_that_exits_removes_nothing_of_its_parent(tmp_path: Path) -> None:
    path = os.pathsep.join(one for one in sys.path if one)
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "s")], text=True,
        env={**os.environ, "PYTHONPATH": path}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as parent:  # fmt: skip
        assert parent.stdout is not None
        assert parent.stdout.readline() == "fine True\n"
        with owned(tmp_path / "s") as client:
            assert client._store.owner_state().pid == parent.pid  # type: ignore[union-attr]
        parent.communicate("\n", SECONDS)
    assert parent.returncode == 0


AMID_A_CHANGE = """
import os, sys, threading
from hyrecall.base.forks import leave_to_parent
from memory.sharing.peer import USER, open_it

class Model:
    def __del__(self):
        threading.Event().wait()  # for a thread that only the parent has

model = Model()
memory = open_it(sys.argv[1])
begun, done = threading.Event(), threading.Event()
def change():
    with memory._store.database.transaction():
        begun.set()
        done.wait()
thread = threading.Thread(target=change)
thread.start()
begun.wait()
if os.fork() == 0:
    leave_to_parent(model)
    del model
    sys.exit(0)
print("ended", os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
done.set()
thread.join()
memory.remember("note", id="a", user_id=USER)
print(memory.doctor(full=True).ok, flush=True)
os._exit(0)
"""


@pytest.mark.slow
def test_a_child_forked_amid_a_change_exits_and_leaves_the_change_alone(tmp_path: Path) -> None:
    path = os.pathsep.join(one for one in sys.path if one)
    ended = subprocess.run(
        [sys.executable, "-c", AMID_A_CHANGE, str(tmp_path / "s")], timeout=SECONDS,
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.stdout == "ended 0\nTrue\n", ended.stderr


def test_a_child_that_opens_the_store_anew_has_locks_of_its_own(tmp_path: Path) -> None:
    memory = owned(tmp_path / "s")
    memory.remember("note", id="a", user_id=USER)
    reading, writing = os.pipe()
    going, go_on = os.pipe()
    child = fork()
    if child == 0:
        signal.alarm(SECONDS)
        try:
            mine = owned(tmp_path / "s")
            mine.get("a", user_id=USER)
            os.write(writing, b"x")
            os.read(going, 1)  # the parent closes: it must not take the log from under this one
            mine.remember("note", id="b", user_id=USER)
            os.write(writing, b"y")
            os.read(going, 1)
        finally:
            os._exit(0)
    assert os.read(reading, 1) == b"x"
    assert child in holders(tmp_path / "s" / "memory.db")
    memory.close()
    os.write(go_on, b"x")
    assert os.read(reading, 1) == b"y"
    with peers(tmp_path / "s", 1) as (peer,):  # reads the files by their names
        assert peer.ask("list") == ["a", "b"]
        os.write(go_on, b"x")
        os.waitpid(child, 0)
        assert peer.ask("remember", "c") == "kept"
    with owned(tmp_path / "s") as again:
        assert sorted(one.id for one in again.list(user_id=USER)) == ["a", "b", "c"]
        assert again.doctor(full=True).ok


def holders(path: Path) -> set[int]:
    """The processes that hold a lock of SQLite's on a file."""
    number = str(path.stat().st_ino)
    lines = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return {int(line[4]) for line in lines if line[5].split(":")[2] == number}


def test_a_child_forked_amid_a_reading_may_not_open_the_store(tmp_path: Path) -> None:
    with owned(tmp_path / "s") as memory:
        memory.remember("note", id="a", user_id=USER)

        def opens() -> None:
            with pytest.raises(StoreError, match="not forked while its parent used the store"):
                owned(tmp_path / "s")

        with memory._store.database.reading():
            ended(opens)
        assert memory.get("a", user_id=USER) is not None
        with held(memory._store.database.reading()):  # a reading of another thread that takes long
            ended(opens)


def test_a_fork_waits_for_short_uses_of_other_threads(tmp_path: Path) -> None:
    def reopens() -> None:
        with owned(tmp_path / "s") as mine:
            assert mine.get("a", user_id=USER) is not None

    stop = threading.Event()
    with owned(tmp_path / "s") as memory:
        memory.remember("note", id="a", user_id=USER)

        def read() -> None:
            while not stop.is_set():
                memory.get("a", user_id=USER)

        threads = [threading.Thread(target=read) for _ in range(2)]
        for one in threads:
            one.start()
        try:
            for _ in range(5):
                ended(reopens)
        finally:
            stop.set()
            for one in threads:
                one.join()


def test_a_change_that_forks_is_committed_by_the_parent_alone(tmp_path: Path) -> None:
    with owned(tmp_path / "s") as memory:
        with memory._store.database.transaction() as connection:
            connection.execute("UPDATE meta SET value = value WHERE name = 'erasures'")

            def commits() -> None:
                with pytest.raises(StoreError, match="the process that opened it"):
                    memory._store.database._before_commit(connection)
                memory._store.database._give_up(connection, KeyError())

            ended(commits)
            assert connection.in_transaction
        memory.remember("note", id="a", user_id=USER)
        assert memory.doctor(full=True).ok


# ---- locks on files ----


@pytest.mark.parametrize("lock", [disk.writer_lock, folder_lock])
def test_a_lock_on_a_folder_ends_with_its_holder_though_a_child_lives(
    tmp_path: Path, lock: Callable[[Path], Any]
) -> None:
    with lock(tmp_path):
        child = fork()
        if child == 0:
            time.sleep(SECONDS)
            os._exit(0)
    try:
        with lock(tmp_path):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_child_that_leaves_a_block_does_not_free_its_parents_lock(tmp_path: Path) -> None:
    with ExitStack() as block:
        block.enter_context(disk.writer_lock(tmp_path))
        ended(block.close)
        with pytest.raises(hr.WriterBusyError), disk.writer_lock(tmp_path):
            pass


def test_a_child_that_fails_amid_a_file_leaves_its_parents_part(tmp_path: Path) -> None:
    with ExitStack() as block:
        block.enter_context(open_replacement("file", tmp_path / "out")).write(b"whole")

        def fails() -> None:  # as if the block ended in the child
            with pytest.raises(KeyError), block:
                raise KeyError
            assert len(list(tmp_path.glob(".hyrecall-*"))) == 1

        ended(fails)
    assert (tmp_path / "out").read_bytes() == b"whole"


# ---- indexes, embedders, threads, connections ----


def test_an_index_that_another_thread_was_changing_can_be_changed_in_a_child() -> None:
    table = pa.table({"id": ["a"], "user": ["ann"], "text": ["tea"]})
    index = hr.Index.build(table, hr.Schema(key="id", cell="user", text="text"))

    def adds() -> None:
        index.add(pa.table({"id": ["b"], "user": ["ann"], "text": ["tea"]}))
        assert len(index) == 2

    with held(index._writing):
        ended(adds)
    assert len(index) == 1


def test_an_async_embedder_has_a_loop_of_its_own_in_a_child() -> None:
    async def embed(texts: Any) -> Any:
        return np.ones((len(texts), 4), np.float32)

    embedder = from_async(embed, model="ones", dim=4)
    assert np.asarray(embedder.embed(["tea"])).shape == (1, 4)

    def embeds() -> None:
        assert np.asarray(embedder.embed(["tea", "four"])).shape == (2, 4)
        embedder.close()

    with held(embedder._lock):
        ended(embeds)
    assert np.asarray(embedder.embed(["tea"])).shape == (1, 4)
    embedder.close()


def test_a_thread_pool_that_has_idle_threads_works_in_a_child() -> None:
    workers = Workers(2, "test")
    assert workers.executor.submit(int).result(SECONDS) == 0

    def works() -> None:
        assert workers.executor.submit(int, "7").result(SECONDS) == 7

    ended(works)


def test_a_child_does_not_speak_on_its_parents_connection_to_postgres() -> None:
    said: list[str] = []

    class Cursor:
        description = None

        def __enter__(self) -> Cursor:
            return self

        def __exit__(self, *exc: object) -> None:
            pass

        def execute(self, statement: str, given: object = ()) -> None:
            said.append(statement)

    connection = SimpleNamespace(cursor=Cursor, commit=lambda: None, rollback=lambda: None)
    backend = PostgresMemory(connection)
    before = len(said)

    def refused() -> None:
        with pytest.raises(StoreError, match="the process that opened it"):
            backend._do("SELECT 1")
        assert len(said) == before

    ended(refused)


def test_locks_of_the_library_are_free_in_a_child() -> None:
    lock, reentrant = threading.Lock(), threading.RLock()
    kept = [forks.free_in_children(lock), forks.free_in_children(reentrant)]
    with held(*kept):
        ended(lambda: [one.acquire() for one in kept])
        assert lock.locked()


# ---- what a client prepares for ----


def test_a_client_loads_what_an_owner_needs_before_it_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from seams import shared_keeper

    loaded = threading.Event()
    monkeypatch.setattr(shared_keeper, "load_arrow", loaded.set)
    with owned(tmp_path / "s"), owned(tmp_path / "s"):  # one that ends at once loads nothing
        pass
    assert not loaded.is_set()
    monkeypatch.setattr(shared_keeper, "SECONDS_BEFORE_LOADING", 0.0)
    with owned(tmp_path / "s"), owned(tmp_path / "s"):
        assert loaded.wait(SECONDS)
