"""Processes that share a store: reading, writing, taking over, and what is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hyrecall.errors import (
    OwnerError,
    StoreError,
)
from hyrecall.memory import MemorySync
from hyrecall.recipes import loom
from laws.effort import Effort
from memory.sharing.handles import ids, is_owner, opened
from memory.sharing.peer import USER, Peer, peers
from memory.sharing.stress import run
from seams import client, election, read_holder
from seams import memory_server_module as server


def test_every_acknowledged_write_is_in_the_next_search_of_another(tmp_path: Path) -> None:
    owner, second, third = (opened(tmp_path / "s") for _ in range(3))
    assert [is_owner(one) for one in (owner, second, third)] == [True, False, False]
    handles = (owner, second, third)
    for number in range(30):
        handles[number % 3].remember("note", id=str(number), user_id=USER)
        reader = handles[(number + 1) % 3]
        found = [one.episode.id for one in reader.search("note", user_id=USER, limit=100)]
        assert sorted(found, key=int) == [str(one) for one in range(number + 1)]
        assert reader.get(str(number), user_id=USER) is not None


@pytest.mark.slow
def test_a_killed_owner_is_followed_within_a_second_and_nothing_acknowledged_is_lost(
    tmp_path: Path,
) -> None:
    with peers(tmp_path / "s", 3) as (owner, second, third):
        second.start("many", "x", 80)
        third.start("many", "y", 80)
        kept = [[second.told() for _ in range(20)], [third.told() for _ in range(20)]]
        os.kill(owner.pid, signal.SIGKILL)
        owner.process.wait()
        for peer, told in ((second, kept[0]), (third, kept[1])):
            while (said := peer.told()) != "done":
                told.append(said)
        assert kept[0] == [f"x{number}" for number in range(80)]
        assert kept[1] == [f"y{number}" for number in range(80)]
        assert second.ask("owner") in (second.pid, third.pid)
        assert third.ask("list") == sorted(kept[0] + kept[1])
        assert len(set(second.ask("search", "note"))) == 50
    with opened(tmp_path / "s") as memory:
        assert memory.doctor(full=True).ok
        with memory._store.database.reading() as connection:  # and nothing is written twice
            assert connection.execute("SELECT max(version), count(*) FROM versions").get == (1, 160)


@pytest.mark.slow
def test_an_owner_that_exits_without_close_frees_the_store(tmp_path: Path) -> None:
    with peers(tmp_path / "s", 2) as (owner, second):
        owner.start("exit")
        assert owner.process.wait(timeout=60) == 0
        assert second.ask("remember", "a") == "kept"
        assert second.ask("owner") == second.pid
        second.start("exit")
        assert second.process.wait(timeout=60) == 0
    assert ids(opened(tmp_path / "s")) == ["a"]


@pytest.mark.slow
def test_a_stopped_owner_is_an_error_with_its_pid_and_stays_the_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with peers(tmp_path / "s", 1) as (owner,):
        memory = opened(tmp_path / "s")
        memory.remember("note", id="a", user_id=USER)
        os.kill(owner.pid, signal.SIGSTOP)
        os.waitpid(owner.pid, os.WUNTRACED)
        monkeypatch.setattr(client, "HUNG_SECONDS", 0.3)
        monkeypatch.setattr(client, "LOOK_SECONDS", 0.3)
        monkeypatch.setattr(election, "HUNG_SECONDS", 0.3)
        for call in (
            lambda: memory.remember("note", id="b", user_id=USER),
            lambda: memory.search("note", user_id=USER),
            lambda: opened(tmp_path / "s"),
        ):
            with pytest.raises(OwnerError, match=rf"pid {owner.pid}\b"):
                call()
        assert memory.get("a", user_id=USER) is not None  # rows are read without the owner
        assert read_holder(tmp_path / "s").pid == owner.pid
        assert not is_owner(memory)
        (check,) = (one for one in opened_report(tmp_path / "s") if one.name == "owner")
        assert not check.ok
        assert f"pid {owner.pid}" in check.detail
        monkeypatch.undo()
        os.kill(owner.pid, signal.SIGCONT)
        memory.remember("note", id="c", user_id=USER)
        assert {"a", "c"} <= set(ids(memory))


def opened_report(folder: Path) -> Any:
    return opened(folder, read_only=True).doctor().checks


@pytest.mark.slow
def test_doctor_shows_owner_and_clients(tmp_path: Path) -> None:
    with peers(tmp_path / "s", 2) as (owner, second):
        second.ask("remember", "a")
        memory = opened(tmp_path / "s")
        for handle in (memory, opened(tmp_path / "s", read_only=True)):
            report = handle.doctor()
            assert report.ok
            (check,) = (one for one in report.checks if one.name == "owner")
            assert f'"pid": {owner.pid}' in check.detail
            assert f'"pid": {second.pid}' in check.detail
        memory.close()
    assert all(one.name != "owner" for one in opened_report(tmp_path / "s"))


def test_a_change_of_a_lost_owner_is_not_made_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, second = opened(tmp_path / "s"), opened(tmp_path / "s")
    second.remember("note", id="a", user_id=USER)
    sent = server.Frames.send
    lost = []

    def lose_first(self: Any, data: bytes, **options: Any) -> None:
        if not lost and threading.current_thread().name == "hyrecall-client":
            lost.append(len(data))
            self.end()  # committed, and the reply is lost
            raise server.ConnectionLost("planted")
        sent(self, data, **options)

    monkeypatch.setattr(server.Frames, "send", lose_first)
    second.update("a", user_id=USER, text="changed")
    assert len(lost) == 1
    assert [one.version for one in owner.history("a", user_id=USER)] == [1, 2]


def test_a_take_over_that_fails_leaves_the_store_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, second, third = (opened(tmp_path / "s") for _ in range(3))
    owner.remember("note", id="a", user_id=USER)
    owner.close()

    def fails(*_: object) -> None:
        raise StoreError("planted")

    with monkeypatch.context() as patched:
        patched.setattr("hyrecall.memory.sql.database.Database.promote", fails)
        with pytest.raises(StoreError, match="planted"):
            second.remember("note", id="b", user_id=USER)
    third.remember("note", id="c", user_id=USER)
    assert is_owner(third)
    second.remember("note", id="d", user_id=USER)
    assert ids(second) == ["a", "c", "d"]
    assert not is_owner(second)


@pytest.mark.slow
def test_twenty_commands_at_once_work_beside_a_service(tmp_path: Path, effort: Effort) -> None:
    folder = tmp_path / "s"
    path = os.pathsep.join(one for one in sys.path if one)
    env = {
        **os.environ,
        "PYTHONPATH": path,
        "HYRECALL_CONFIG": str(tmp_path / "none.toml"),
    }
    with MemorySync.open(folder, embedder="off") as memory:
        command = [sys.executable, "-m", "hyrecall.cli", "remember", "--path", str(folder)]
        n = 20 if effort.full else 4
        running = [
            subprocess.Popen(
                [*command, "--user", USER, "--id", f"e{at}", "--json", f"note {at}"],
                env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for at in range(n)
        ]  # fmt: skip
        for one in running:
            out, err = one.communicate(timeout=300)
            assert one.returncode == 0, (out, err)
        assert len(ids(memory)) == n
        assert is_owner(memory)


def test_threads_of_clients_and_takeovers_in_one_process(tmp_path: Path) -> None:
    handles = [opened(tmp_path / "s") for _ in range(4)]
    faults: list[BaseException] = []

    def work(me: int) -> None:
        try:
            for at in range(40):
                handles[me].remember("note", id=f"{me}-{at}", user_id=USER)
                if me == 0 and at == 20:
                    handles[0].close()
                    return
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert faults == []
    assert len(ids(handles[1])) == 21 + 3 * 40
    assert sum(is_owner(one) for one in handles[1:]) == 1


@pytest.mark.slow
def test_owners_are_killed_and_nothing_acknowledged_is_lost(tmp_path: Path, effort: Effort) -> None:
    seconds, processes = (120.0, 32) if effort.full else (8.0, 3)
    counted = run(tmp_path / "s", seconds=seconds, processes=processes, writes=30.0, every=2.0)
    assert counted.is_sound, counted
    assert counted.writes > 10
    assert counted.kills >= 1


CHILD = """
import gc, sys
from hyrecall.memory import MemorySync
from hyrecall.recipes import loom

kept = MemorySync.open(sys.argv[1], recipe=loom, embedder=None)
kept.remember("tea", user_id="ann")
if sys.argv[2] == "dropped":
    del kept
    gc.collect()
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["kept", "dropped"])
def test_a_client_that_is_not_closed_leaves_no_socket_open(tmp_path: Path, how: str) -> None:
    with MemorySync.open(tmp_path / "s", recipe=loom, embedder=None) as owner:
        command = [sys.executable, "-W", "error", "-c", CHILD, str(tmp_path / "s"), how]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert (ended.returncode, ended.stderr) == (0, "")
        assert len(owner.list(user_id="ann")) == 1


MOST_TRIES = round(1.0 / election._PAUSE)
"""Tries to find an owner, or become it, that fit into a second of pauses."""


class Load:
    """Threads that write and search through clients, and count what was acknowledged."""

    def __init__(self, handles: list[MemorySync], n_writes: int) -> None:
        self.handles, self.n_writes = handles, n_writes
        self.kept: list[str] = []
        self.faults: list[BaseException] = []
        self.wrong: list[object] = []
        self.acknowledged = threading.Semaphore(0)
        self.threads = [
            threading.Thread(target=self._work, args=(at, memory))
            for at, memory in enumerate(handles * 2)
        ]
        for one in self.threads:
            one.start()

    def _work(self, me: int, memory: MemorySync) -> None:
        user = f"u{me}"
        try:
            for at in range(self.n_writes):
                key = f"{me}-{at}"
                memory.remember(f"note {at}", id=key, user_id=user)
                self.kept.append(key)
                self.acknowledged.release()
                if at % 4 == 0:
                    found = memory.search("note", user_id=user, limit=100)
                    met = [one.episode.id for one in found]
                    if not found.degraded and sorted(met) != sorted(
                        f"{me}-{one}" for one in range(at + 1)
                    ):
                        self.wrong.append((key, met))
        except BaseException as fault:
            self.faults.append(fault)
            self.acknowledged.release(self.n_writes)

    def go_on(self, n: int) -> None:
        """Wait for so many more acknowledged writes."""
        for _ in range(n):
            assert self.acknowledged.acquire(timeout=120)

    def end(self) -> None:
        for one in self.threads:
            one.join()


def close(owner: Peer) -> None:
    assert owner.ask("close") == "close"


def terminate(owner: Peer) -> None:
    owner.process.send_signal(signal.SIGTERM)
    assert owner.process.wait(timeout=60) == -signal.SIGTERM


@pytest.mark.slow
@pytest.mark.parametrize("end", [close, terminate])
def test_an_owner_that_ends_under_load_loses_nothing_and_is_followed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, effort: Effort, end: Any
) -> None:
    tries: Counter[int] = Counter()
    read = election.read_holder

    def counted(folder: Path) -> Any:  # each try that found nobody and could not become the owner
        tries[threading.get_ident()] += 1
        return read(folder)

    with peers(tmp_path / "s", 1) as (owner,):
        handles = [opened(tmp_path / "s") for _ in range(3)]
        monkeypatch.setattr(election, "read_holder", counted)
        load = Load(handles, 400 if effort.full else 25)
        load.go_on(30)
        end(owner)
        load.end()
    assert load.faults == []
    assert load.wrong == []
    assert max(tries.values(), default=0) <= MOST_TRIES
    assert [is_owner(one) for one in handles].count(True) == 1
    assert len(load.kept) == len(load.threads) * load.n_writes
    with handles[0]._store.database.reading() as connection:  # nothing lost, nothing twice
        rows = connection.execute("SELECT id, count(*), max(version) FROM versions GROUP BY id")
        assert sorted(rows) == sorted((key, 1, 1) for key in load.kept)
    (state,) = {one._store.owner_state().pid for one in handles}  # type: ignore[union-attr]
    assert state == os.getpid()
    assert ids(handles[0]) == []  # of a user who wrote nothing
    handles[1].remember("note", id="last", user_id=USER)
    assert ids(handles[2]) == ["last"]
