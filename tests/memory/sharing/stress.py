"""Many processes write and read one store while owners are killed, and everything is counted.

``python -m memory.sharing.stress --seconds 600 --processes 32`` runs by hand; tests run it shorter.
Each process writes memories of its own user and reads them back, at random times, at a rate that
comes to so many writes and reads a second for all of them; every few seconds the owner is killed
and replaced.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hyrecall.errors import StoreBusyError
from hyrecall.memory import MemorySync
from hyrecall.recipes import loom
from memory.sharing.handles import is_owner
from seams import IDLE_READERS, observe

AROUND_A_KILL = 2.0
"""Seconds after a kill in which a write may take longer: its owner may have to be replaced."""
MAY_GROW = 16
"""Descriptors that a process may have more at its end than after its first writes."""
MAY_GROW_AS_OWNER = MAY_GROW + 2 * IDLE_READERS
"""Of an owner, which was a client at its first writes: each reader has the database and its log."""


@dataclass
class Counted:
    """What a run counted; all but the first four must be 0."""

    writes: int = 0
    reads: int = 0
    kills: int = 0
    write_p99_ms: float = 0.0
    lost: int = 0
    twice: int = 0
    wrong: int = 0
    leaks: int = 0
    descriptors: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        bad = (self.lost, self.twice, self.wrong, self.leaks, self.descriptors)
        return not any(bad) and not self.faults


def open_it(folder: str) -> MemorySync:
    return MemorySync.open(folder, recipe=loom, embedder=None, recall_timeout=60.0)


def worker(folder: str, name: str, rate: float) -> None:
    """Write and read as one user until a time; print each acknowledged id and what was wrong."""
    memory, draw, number = open_it(folder), random.Random(name), 0
    print(json.dumps({"ready": name}), flush=True)
    until = float(sys.stdin.readline())
    kept: list[str] = []
    # Random pauses: with equal ones all processes would go on together after the first take-over.
    at = time.time() + draw.expovariate(rate)
    n_open: tuple[int, int] | None = None
    while (now := time.time()) < until:
        time.sleep(max(at - now, 0.0))
        at = max(at + draw.expovariate(rate), time.time() - 1.0 / rate)
        key = f"{name}-{number}"
        try:
            begun, started = time.perf_counter(), time.time()
            memory.remember(f"word{number % 7} of {name}", id=key, user_id=name)
            took = time.perf_counter() - begun
            print(json.dumps({"kept": key, "at": started, "took": took}), flush=True)
            kept.append(key)
            number += 1
            found = memory.search(f"word{(number - 1) % 7}", user_id=name, limit=5)
            met = [one.episode.id for one in found if not one.is_fill]
            same = kept[-1::-7]
            is_wrong = not found.degraded and (
                len(met) != min(5, len(same)) or any(one not in same for one in met)
            )
            is_leak = any(one.episode.user_id != name for one in found)
            read = memory.get(draw.choice(kept), user_id=name)
            told = {"wrong": is_wrong or read is None, "leak": is_leak}
            print(json.dumps({"read": told}), flush=True)
        except StoreBusyError:
            continue
        except Exception as fault:
            print(json.dumps({"fault": f"{type(fault).__name__}: {fault}"}), flush=True)
            return
        if number == 20:
            n_open = n_descriptors()
    # An owner has connections of all others and maps the files of the index, also one that has just
    # taken over: it is judged by what is neither.
    counts, owns = n_descriptors(), is_owner(memory)
    may, at = (MAY_GROW_AS_OWNER, 1) if owns else (MAY_GROW, 0)
    grown = counts[at] - n_open[at] if n_open else 0
    print(json.dumps({"leaks": grown > may}), flush=True)
    memory.close()


def n_descriptors() -> tuple[int, int]:
    """Return how many descriptors are open, and how many are no sockets and no index's files."""
    names = []
    for one in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the listing itself
            names.append(os.readlink(f"/proc/self/fd/{one}"))
    an_owners = [name for name in names if name.startswith("socket:") or "/index/" in name]
    return len(names), len(names) - len(an_owners)


class _Process:
    def __init__(self, folder: Path, name: str, rate: float) -> None:
        path = os.pathsep.join(one for one in sys.path if one)
        command = [sys.executable, "-m", "memory.sharing.stress", "--worker", name]
        order = ["--folder", str(folder), "--rate", str(rate)]
        pipe = subprocess.PIPE
        self.popen = subprocess.Popen(
            [*command, *order], env={**os.environ, "PYTHONPATH": path}, stdin=pipe, stdout=pipe
        )
        self.told: list[dict[str, Any]] = []
        self.reading = threading.Thread(target=self._read)
        self.reading.start()

    def go_until(self, until: float) -> None:
        """Let it work, as soon as it has opened the store."""
        assert self.popen.stdin is not None
        with self.popen.stdin as order:
            order.write(f"{until}\n".encode())

    def _read(self) -> None:
        assert self.popen.stdout is not None
        with self.popen.stdout as out:
            for line in out:
                if line.endswith(b"\n"):  # a killed process may leave half a line
                    self.told.append(json.loads(line))


def run(
    folder: Path, *, seconds: float, processes: int, writes: float = 100.0, every: float = 4.0
) -> Counted:
    """Run the processes and count."""
    rate = writes / processes
    MemorySync.open(folder, recipe=loom, embedder=None).close()
    living = [_Process(folder, f"u{at}", rate) for at in range(processes)]
    while not all(one.told for one in living):
        time.sleep(0.05)
    until = time.time() + seconds
    for one in living:
        one.go_until(until)
    ended: list[_Process] = []
    kills: list[float] = []
    n_named = processes
    while time.time() < until:
        time.sleep(min(every, max(until - time.time(), 0.0)))
        if time.time() >= until - every:
            break
        state = observe(folder)
        for one in living:
            if state is not None and one.popen.pid == state.pid:
                one.popen.send_signal(signal.SIGKILL)
                kills.append(time.time())
                living.remove(one)
                ended.append(one)
                living.append(_Process(folder, f"u{n_named}", rate))
                living[-1].go_until(until)
                n_named += 1
                break
    everyone = [*ended, *living]
    for one in everyone:
        one.popen.wait()
        one.reading.join()
    return _counted(folder, [told for one in everyone for told in one.told], kills)


def _counted(folder: Path, told: list[dict[str, Any]], kills: list[float]) -> Counted:
    counted = Counted(kills=len(kills))
    kept = [one for one in told if "kept" in one]
    reads = [one["read"] for one in told if "read" in one]
    counted.writes, counted.reads = len(kept), len(reads)
    calm = sorted(
        one["took"]
        for one in kept
        if not any(-one["took"] <= one["at"] - kill <= AROUND_A_KILL for kill in kills)
    )
    if calm:
        counted.write_p99_ms = round(1e3 * calm[int(0.99 * (len(calm) - 1))], 1)
    counted.wrong = sum(one["wrong"] for one in reads)
    counted.leaks = sum(one["leak"] for one in reads)
    counted.descriptors = sum(one.get("leaks", False) for one in told)
    counted.faults = [one["fault"] for one in told if "fault" in one]
    with open_it(str(folder)) as memory:
        if not memory.doctor(full=True).ok:
            counted.faults.append("doctor finds faults")
        with memory._store.database.reading() as connection:
            select = "SELECT id, count(*) FROM versions GROUP BY id"
            there = dict(connection.execute(select).fetchall())
    counted.lost = sum(one["kept"] not in there for one in kept)
    counted.twice = sum(count > 1 for count in there.values())
    return counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=32)
    parser.add_argument("--writes", type=float, default=100.0)
    parser.add_argument("--every", type=float, default=4.0)
    parser.add_argument("--worker")
    parser.add_argument("--folder")
    parser.add_argument("--rate", type=float)
    given = parser.parse_args()
    if given.worker:
        worker(given.folder, given.worker, given.rate)
        return
    with tempfile.TemporaryDirectory() as name:
        counted = run(
            Path(name) / "s",
            seconds=given.seconds,
            processes=given.processes,
            writes=given.writes,
            every=given.every,
        )
    print(json.dumps(asdict(counted)))
    sys.exit(not counted.is_sound)


if __name__ == "__main__":
    main()
