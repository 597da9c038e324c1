"""A store is open again in a moment with its snapshot, and in a few without (D11)."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from embed.lateness import is_busy
from laws.effort import Effort
from memory.small_store import episode, follower_of, remember, replies
from seams import INDEX, Database

OPEN_SECONDS = 2.0
FULL = 100_000  # rows


def opened(folder: Path) -> tuple[str, float, bytes]:
    """How an index comes back, after how many seconds (beside other work: of processor time), and
    what it answers.
    """
    database = Database.open(folder)
    follower = follower_of(database)
    clock = time.process_time if is_busy() else time.perf_counter
    began = clock()
    how = follower.open().how
    ready = follower.ready()
    seconds = clock() - began
    answers = replies(ready)
    follower.close()
    database.close()
    return how, seconds, answers


@pytest.mark.slow
def test_a_store_is_open_again_within_two_seconds(tmp_path: Path, effort: Effort) -> None:
    n_rows = 2_000 * effort.cases(quick=2, full=50)
    folder = tmp_path / "store"
    database = Database.open(folder)
    for first in range(0, n_rows, 2_000):
        users = ("alice", "bob", None, *(f"user{number}" for number in range(47)))
        remember(
            database,
            *(episode(first + at, user=users[at % len(users)]) for at in range(2_000)),
        )
    database.close()
    built, building, wanted = opened(folder)
    again, opening, answers = opened(folder)
    print(f"D11: {n_rows} rows: snapshot {opening:.2f} s, rebuild {building:.2f} s")
    assert (built, again) == ("rebuilt", "snapshot")
    assert answers == wanted
    assert opening < OPEN_SECONDS * n_rows / FULL + 0.5
    shutil.rmtree(folder / INDEX)
    assert opened(folder)[0] == "rebuilt"
