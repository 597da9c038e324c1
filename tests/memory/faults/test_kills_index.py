"""After a kill the index that is found, and followed, equals one that is made anew (D1, H09)."""

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from laws.effort import Effort
from memory.copies import copy_store
from memory.faults.kill_child import INDEX_POINTS, open_whole
from memory.faults.killing import Kill, killing, survivors
from memory.faults.work import Expected
from seams import INDEX

QUERIES = ("x" * 10, "x" * 100, "d1 is", "0 1 2 3", "note")


@pytest.fixture(scope="module")
def kill() -> Iterator[Kill]:
    with killing() as order:
        yield order


def replies(folder: Path) -> tuple[list[Any], str]:
    """What is recalled, to the last bit, and how the store came by its index."""
    with open_whole(folder) as memory:
        found = [
            (match.episode, match.score, match.vector_score, match.bm25_score)
            for user in ("ana", "bob")
            for query in QUERIES
            for match in memory.search(query, user_id=user, limit=20)
        ]
        assert not memory._store.follower.report()["failed"]
        return found, memory._store.opened.how


def check_the_index(folder: Path, made: Counter[str]) -> int:
    """Compare with a copy that has no index; give how much was recalled."""
    plain = folder.parent / "plain"
    copy_store(folder, plain, without=INDEX)
    found, how = replies(folder)
    wish, anew = replies(plain)
    shutil.rmtree(plain)
    assert anew != "snapshot"
    assert found == wish
    made[how] += 1
    return len(found)


@pytest.mark.slow
def test_H09_killed_at_any_time_its_index_is_as_made_anew(
    kill: Kill, tmp_path: Path, effort: Effort
) -> None:
    draw = random.Random(8)
    n_kills = n_checks = n_found = 0
    made: Counter[str] = Counter()
    for seed in range(effort.cases(quick=1, full=2)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        expected = Expected(folder, seed)
        steps: list[int] = []
        at = 0
        n_wanted = effort.cases(quick=10, full=50)
        for kill_number in range(5 * n_wanted):
            # Beside other work a child may be killed before it has saved, time and again.
            if kill_number >= n_wanted and made["snapshot"] > n_checks / 4:
                break
            when = {"wait_for": draw.choice([0, 2, 9]), "after": draw.uniform(0, 0.2)}
            ended = kill(folder / "store", seed=seed, start=at, whole=True, **when)
            assert ended["ended"] == -9
            steps = survivors(folder / "store", expected, steps, ended["told"], at)
            at += ended["told"] + 1
            n_kills += 1
            if kill_number % 5 == 4:  # else the next child goes on with what it finds
                n_found += check_the_index(folder / "store", made)
                n_checks += 1
    assert n_found > 5 * n_checks
    assert made["snapshot"] > n_checks / 4, made
    print(
        f"killed with an index: {n_kills} kills, {n_checks} checks, index as anew each time; "
        f"it was {dict(made)}"
    )


FEW = ("before a commit is made", "before the header", "between an erase and its index")
MORE = [pytest.param(one, marks=pytest.mark.slow) for one in INDEX_POINTS if one not in FEW]


@pytest.mark.slow
@pytest.mark.parametrize("point", [*FEW, *MORE])
def test_killed_at_a_point_of_its_index(
    kill: Kill, tmp_path: Path, point: str, effort: Effort
) -> None:
    draw = random.Random(point)
    n_kills, n_found = 0, 0
    made: Counter[str] = Counter()
    n_runs = effort.cases(quick=1, full=10)
    for run in range(n_runs):
        folder, seed = tmp_path / str(run), draw.randrange(10**6)
        folder.mkdir()
        begun = draw.randrange(6, 20)
        kill(folder / "store", seed=seed, steps=begun, whole=True)
        nth = draw.randrange(1, 6)
        ended = kill(
            folder / "store", seed=seed, start=begun, steps=300, point=point, nth=nth, whole=True
        )
        assert ended["ended"] in (-9, 0)
        n_kills += ended["ended"] == -9
        survivors(folder / "store", Expected(folder, seed), [*range(begun)], ended["told"], begun)
        n_found += check_the_index(folder / "store", made)
    assert n_kills == n_runs, "the point was met"
    assert n_found > n_runs
    print(f"killed {point}: {n_kills} kills, index as anew each time; it was {dict(made)}")


@pytest.mark.slow
def test_an_index_of_other_rows_is_noticed(kill: Kill, tmp_path: Path) -> None:
    """The control: the index of one store put beside the rows of another is not taken, and taken
    on trust it answers otherwise."""
    for seed in (1, 2):
        kill(tmp_path / str(seed), seed=seed, steps=30, whole=True)
    mine, wish = (replies(tmp_path / str(seed))[0] for seed in (1, 2))
    assert mine != wish
    shutil.rmtree(tmp_path / "2" / INDEX)
    copy_store(tmp_path / "1" / INDEX, tmp_path / "2" / INDEX)
    found, how = replies(tmp_path / "2")
    assert how != "snapshot"
    assert found == wish
