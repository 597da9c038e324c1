"""Acknowledged writes a second of a store: clients in closed loop, with a slow disk and without.

Each client, a thread or a process of its own, remembers one memory after the other. A write is
acknowledged when it is on the disk; what waits together shares a transaction and its sync. A VFS of
SQLite delays each sync of the slow disk.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.sizes import Size
from bench.turns import OURS
from hyrecall import recipes
from hyrecall.memory import MemorySync
from hyrecall.memory.sql.database import Database

N_CLIENTS = (1, 8, 32)
SYNC_SECONDS = (0.0, 0.010)
LEAST_GAIN = 8.0
"""So many times as many writes a second 32 threads reach as one, with the slow disk."""

_CLIENT = Path(__file__).with_name("writing_client.py")

_SECONDS = {"tiny": 0.3, "small": 3.0, "full": 10.0}
_rates: dict[tuple[str, float, int], float] = {}


class _File(apsw.VFSFile):
    def __init__(self, vfs: SlowDisk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._vfs = vfs

    def xSync(self, flags: int) -> None:  # noqa: N802
        time.sleep(self._vfs.seconds)
        super().xSync(flags)
        self._vfs.n_syncs += 1


class SlowDisk(apsw.VFS):
    """SQLite's way to a disk whose syncs take so long."""

    def __init__(self, name: str, seconds: float) -> None:
        self.seconds, self.n_syncs = seconds, 0
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> _File:  # noqa: N802
        return _File(self, name, flags)


@contextmanager
def _store(
    path: Path, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[MemorySync, SlowDisk]]:
    disk = SlowDisk(f"slow-{seconds}", 0.0)
    opened = Database.open

    def slow(folder: Path, **options: object) -> Database:
        return opened(folder, vfs=f"slow-{seconds}", **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(Database, "open", slow)
        memory = MemorySync.open(path, recipe=recipes.loom, embedder=None)
    try:
        with memory:
            disk.seconds = seconds
            yield memory, disk
            disk.seconds = 0.0
    finally:
        disk.unregister()


def _write(memory: MemorySync, n_threads: int, seconds: float) -> tuple[list[str], float]:
    """Let threads write for some seconds; return the ids that were acknowledged, and the time."""
    until = time.perf_counter() + seconds
    told: list[list[str]] = [[] for _ in range(n_threads)]

    def work(mine: list[str]) -> None:
        while time.perf_counter() < until:
            mine.append(memory.remember(f"note {len(mine)} about tea", user_id="ann").id)

    threads = [threading.Thread(target=work, args=(mine,)) for mine in told]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [key for mine in told for key in mine], time.perf_counter() - began


def _write_from_processes(
    clients: list[subprocess.Popen[str]], seconds: float
) -> tuple[list[str], float]:
    """Do the same with processes that are ready."""
    began = time.time()
    for client in clients:
        assert client.stdin is not None
        client.stdin.write(f"{began + seconds}\n")
        client.stdin.flush()
    told = []
    for client in clients:
        assert client.stdout is not None
        told += json.loads(client.stdout.readline())
    return told, time.time() - began


@contextmanager
def _clients(folder: Path, n: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Start processes that have opened the store."""
    command, pipe = [sys.executable, str(_CLIENT), str(folder)], subprocess.PIPE
    started = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(n)]
    try:
        for one in started:
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
        yield started
    finally:
        for one in started:
            one.communicate()


@pytest.mark.benchmark(group="writes")
@pytest.mark.parametrize("n_clients", N_CLIENTS)
@pytest.mark.parametrize("kind", ["threads", "processes"])
@pytest.mark.parametrize("sync_seconds", SYNC_SECONDS, ids=["disk", "slow-disk"])
def test_writes(
    benchmark: BenchmarkFixture,
    size: Size,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sync_seconds: float,
    kind: str,
    n_clients: int,
) -> None:
    seconds = _SECONDS[size.name]
    if size.name == "tiny":
        n_clients = min(n_clients, 2)
    folder = tmp_path / "store"
    with ExitStack() as held:
        memory, disk = held.enter_context(_store(folder, sync_seconds, monkeypatch))
        memory.remember("the first", user_id="ann")
        if kind == "threads":
            work: Any = partial(_write, memory, n_clients)
        else:
            work = partial(_write_from_processes, held.enter_context(_clients(folder, n_clients)))
        before = disk.n_syncs
        told, took = benchmark.pedantic(work, args=(seconds,))
        n_syncs = disk.n_syncs - before
        with memory._store.database.reading() as connection:
            kept = {key for (key,) in connection.execute("SELECT id FROM documents")}
        assert told
        assert kept >= set(told), "an acknowledged write is there"
    rate = len(told) / took
    _rates[kind, sync_seconds, n_clients] = rate
    alone = _rates.get((kind, sync_seconds, 1), rate)
    benchmark.extra_info.update(
        who=OURS,
        clients=n_clients,
        kind=kind,
        sync_ms=sync_seconds * 1e3,
        writes=len(told),
        writes_a_second=round(rate, 1),
        syncs_a_write=round(n_syncs / len(told), 3),
        gain=round(rate / alone, 2),
    )
    if kind == "threads" and sync_seconds and n_clients == max(N_CLIENTS):
        assert rate >= LEAST_GAIN * alone
