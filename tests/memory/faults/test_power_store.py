"""A power cut takes nothing that was told of, whatever it leaves of what was not synced (D2)."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hyrecall.errors import StoreError
from memory.faults.recording_vfs import FATES, Recording, left_by, recording_vfs
from memory.faults.work import Expected, contents, do
from seams import LOCK, Database, examine
from seams import memory_DATABASE as DATABASE

N_STEPS = 40
CUTS = 120  # of each fate


def recorded(folder: Path, seed: int, deaf_to: str | None = None) -> Recording:
    """What a store of some steps asks of the disk: made, written, emptied of its log, closed."""
    recording = Recording(deaf_to=deaf_to)
    with recording_vfs(recording) as vfs:
        database = Database.open(folder, vfs=vfs)
        recording.tell()  # that there is a store
        for at in range(N_STEPS):
            do(database, seed, at)
            recording.tell()
            if at % 15 == 14:
                database.checkpoint()
        database.close()
    return recording


def survived(files: dict[str, bytes], folder: Path) -> tuple[dict[str, list[Any]], bool]:
    folder.mkdir(mode=0o700)
    for name in (LOCK, DATABASE):  # their names are synced before SQLite is asked anything
        (folder / name).touch(mode=0o600)
    for name, content in files.items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_bytes(content)
    database = Database.open(folder)
    found, is_sound = contents(database), examine(database, full=True).ok
    database.close()
    return found, is_sound


def some_cuts(recording: Recording, fate: str) -> Iterator[tuple[dict[str, bytes], int]]:
    draw = random.Random(fate)
    for operations, told in draw.sample(list(recording.cuts()), CUTS):
        yield left_by(operations, fate, draw), told


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize("fate", FATES)
def test_what_was_told_of_is_there_after_a_power_cut(tmp_path: Path, fate: str) -> None:
    recording = recorded(tmp_path / "store", seed=3)
    states = Expected(tmp_path, seed=3).each(N_STEPS)
    n_cuts = 0
    for files, told in some_cuts(recording, fate):
        found, is_sound = survived(files, tmp_path / f"cut {n_cuts}")
        assert is_sound
        assert found in states[max(0, told - 1) : told + 1]
        n_cuts += 1
    assert n_cuts == CUTS
    print(f"\npower cut, {fate}: {n_cuts} cuts, 0 of those told lost")


@pytest.mark.slow
def test_without_the_sync_of_the_log_it_is_lost(tmp_path: Path) -> None:
    """The control."""
    recording = recorded(tmp_path / "store", seed=3, deaf_to="-wal")
    states = Expected(tmp_path, seed=3).each(N_STEPS)
    lost = 0
    for at, (files, told) in enumerate(some_cuts(recording, FATES[0])):
        found, _ = survived(files, tmp_path / f"cut {at}")
        lost += found not in states[max(0, told - 1) : told + 1]
    assert lost > CUTS // 2


def test_without_the_sync_of_the_database_it_is_damaged(tmp_path: Path) -> None:
    """The control of the checkpoints, after which the log is written over."""
    recording = recorded(tmp_path / "store", seed=3, deaf_to=DATABASE)
    states = Expected(tmp_path, seed=3).each(N_STEPS)
    lost = 0
    for at, (files, told) in enumerate(some_cuts(recording, FATES[0])):
        try:
            found, is_sound = survived(files, tmp_path / f"cut {at}")
        except StoreError:
            lost += 1
            continue
        lost += not is_sound or found not in states[max(0, told - 1) : told + 1]
    assert lost > 0
