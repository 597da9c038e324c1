"""Two processes that write to one store in turns lose nothing, and never write at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hyrecall.embed import HashEmbedder
from hyrecall.memory import MemorySync
from memory.copies import copy_store
from memory.faults.writer_child import DIM, output
from seams import INDEX

NAMES = ("a", "b")
ROWS = 20


def started(order: dict[str, Any]) -> subprocess.Popen[str]:
    path = os.pathsep.join(one for one in sys.path if one)
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "memory.faults.writer_child", json.dumps(order)],
        env={**os.environ, "PYTHONPATH": path}, text=True, stdin=pipe, stdout=pipe, stderr=pipe,
    )  # fmt: skip


class Told:
    """What two writers said, and what must hold of it."""

    def __init__(self, folder: Path, *, wait: float, unlocked: bool = False) -> None:
        # What shows that the other has come: it is inside as well, was refused, or waits.
        awaits = "inside" if unlocked else "tries" if wait else "refused"
        orders = [
            {"folder": str(folder), "name": name, "other": other, "rows": ROWS, "wait": wait,
             "unlocked": unlocked, "awaits": awaits}
            for name, other in (NAMES, NAMES[::-1])
        ]  # fmt: skip
        writers = [started(order) for order in orders]
        for writer in writers:  # both have imported what they need
            assert writer.stdout is not None
            assert "ready" in writer.stdout.readline()
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        self.faults: list[str] = []
        self.of: list[list[dict[str, Any]]] = []
        for writer in writers:
            out, err = writer.communicate(timeout=120)
            self.of.append([json.loads(line) for line in out.splitlines()])
            if writer.returncode:
                self.faults.append(err)
        self.kept = {
            one["kept"]: one["sequence"] for said in self.of for one in said if "kept" in one
        }
        self.held = sorted(one["held"] for said in self.of for one in said if "held" in one)
        self.n_busy = sum(one.get("busy", 0) for said in self.of for one in said)

    def overlaps(self) -> int:
        """How often one held the store while the other did."""
        return sum(one[1] > other[0] for one, other in pairwise(self.held))

    def check(self) -> None:
        assert self.faults == []
        assert self.overlaps() == 0
        assert len(self.kept) >= len(NAMES) * ROWS
        for said in self.of:  # each sees the numbers rise, and no number is given twice
            numbers = [one["sequence"] for one in said if "kept" in one]
            assert numbers == sorted(numbers)
        assert len(set(self.kept.values())) == len(self.kept)
        whose = [key[0] for key in sorted(self.kept, key=self.kept.__getitem__)]
        assert sum(one != other for one, other in pairwise(whose)) > 4, "they took turns"


def opened(folder: Path) -> MemorySync:
    # However slow the machine is, no answer is degraded.
    return MemorySync.open(folder, embedder=HashEmbedder(DIM), read_only=True, recall_timeout=30.0)


def check_the_store(folder: Path, told: Told) -> None:
    """Every row that was told of is there, and the index is as one made anew."""
    with opened(folder) as memory:
        assert memory.doctor(full=True).ok
        listed = {one.id: one.text for one in memory.list(user_id="ann", limit=10_000)}
        with memory._store.database.reading() as c:
            assert dict(c.execute("SELECT id, changed FROM documents")) == told.kept
    assert listed == {key: output(key[0], int(key[1:])) for key in told.kept}
    plain = folder.parent / "plain"
    copy_store(folder, plain, without=INDEX)
    replies, how = [], []
    for one in (folder, plain):
        with opened(one) as memory:
            how.append(memory._store.opened.how)
            replies.append(
                [
                    (match.episode, match.score, match.vector_score, match.bm25_score)
                    for query in ("row 7", "writer a", "row 11 of writer b")
                    for match in memory.search(query, user_id="ann", limit=80)
                ]
            )
    assert how == ["snapshot", "rebuilt"]
    assert replies[0] == replies[1]
    assert len(replies[0]) > 100


@pytest.mark.slow
@pytest.mark.parametrize("wait", [10.0, 0.0])
def test_two_processes_write_in_turns(tmp_path: Path, wait: float) -> None:
    told = Told(tmp_path / "store", wait=wait)
    told.check()
    check_the_store(tmp_path / "store", told)
    assert (told.n_busy == 0) == (wait > 0)
    print(
        f"two writers, wait={wait:g}: {len(told.kept)} rows told, 0 lost, held {len(told.held)} "
        f"times, {told.n_busy} times WriterBusyError, index as anew"
    )


@pytest.mark.slow
def test_writers_without_a_lock_are_seen(tmp_path: Path) -> None:
    """The control: both are in the store at once, or the second fails on what the first does.

    SQLite's own lock may refuse one of them now and then, which is a WriterBusyError as well.
    """
    told = Told(tmp_path / "store", wait=10.0, unlocked=True)
    assert told.overlaps() > 0 or told.faults
