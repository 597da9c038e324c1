"""A process that is killed loses nothing it has told of, and leaves nothing by halves (D1, H09)."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from laws.effort import Effort
from memory.faults.kill_child import POINTS, around
from memory.faults.killing import Kill, killing, survivors
from memory.faults.work import Expected
from seams import Database


@pytest.fixture(scope="module")
def kill() -> Iterator[Kill]:
    with killing() as order:
        yield order


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))]
)
def test_H09_killed_at_any_time(kill: Kill, tmp_path: Path, seed: int, effort: Effort) -> None:
    """Each store is killed again and again, each time by a child that goes on with it."""
    draw = random.Random(seed)
    expected = Expected(tmp_path, seed)
    n_kills, at = effort.cases(quick=8, full=50), 0
    steps: list[int] = []
    for _ in range(n_kills):
        # While it opens, or at work; however slow the machine is.
        when = {"wait_for": draw.choice([0, 1, 4]), "after": draw.uniform(0, 0.02)}
        ended = kill(tmp_path / "store", seed=seed, start=at, **when)
        assert ended["ended"] == -9
        steps = survivors(tmp_path / "store", expected, steps, ended["told"], at)
        at += ended["told"] + 1  # what was not told of is not tried again
    assert len(steps) > n_kills, "the children got to work"
    print(f"killed at any time: {n_kills} kills, {len(steps)} steps, 0 of those told lost")


# How many times a point is passed in a short life, at most.
OFTEN = {"at a statement": 100, "at a commit": 8, "between a document and its version": 6}


@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_point(kill: Kill, tmp_path: Path, point: str, effort: Effort) -> None:
    draw = random.Random(point)
    n_kills = n_steps = 0
    n_runs = effort.cases(quick=2, full=20)
    for run in range(n_runs):
        folder, seed = tmp_path / str(run), draw.randrange(10**6)
        folder.mkdir()
        begun = draw.randrange(0, 12)
        if begun:
            kill(folder / "store", seed=seed, steps=begun)
        nth = draw.randrange(1, OFTEN.get(point, 1) + 1)
        # An erase comes once in twenty steps or so: such a child works on until it meets one.
        more = 400 if "erase" in point or "log" in point or "fact" in point else 12
        ended = kill(folder / "store", seed=seed, start=begun, steps=more, point=point, nth=nth)
        assert ended["ended"] in (-9, 0)
        n_kills += ended["ended"] == -9
        expected = Expected(folder, seed)
        steps = survivors(folder / "store", expected, [*range(begun)], ended["told"], begun)
        n_steps += len(steps)
    assert n_kills >= n_runs / 2, "the point was met"
    print(f"killed {point}: {n_kills} kills, {n_steps} steps, 0 of those told lost")


def test_a_child_that_tells_too_early_is_found_out(kill: Kill, tmp_path: Path) -> None:
    """The control: what it told of is not there."""
    ended = kill(tmp_path / "store", early=True, point="at a commit", nth=4)
    assert ended["ended"] == -9
    with pytest.raises(AssertionError):
        survivors(tmp_path / "store", Expected(tmp_path, 0), [], ended["told"], 0)


@pytest.mark.slow
def test_a_point_that_is_no_more_is_noticed(kill: Kill, tmp_path: Path) -> None:
    with pytest.raises(AttributeError):
        around(Database, "a function that was renamed")
    ended = kill(tmp_path / "store", steps=3)
    assert ended == {"told": 3, "ended": 0}
