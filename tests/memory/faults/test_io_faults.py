"""The n-th operation on the disk fails, for every n: it is told, and nothing tears (D3, D4)."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import apsw
import pytest

from hyrecall.errors import StoreError
from laws.effort import Effort
from memory.failing_vfs import Faults, failing_vfs
from memory.faults.work import Expected, contents, do
from seams import Database, examine

Result = TypeVar("Result")
SEED = 11
N_STEPS = 7
CODES = {errno.EIO, errno.ENOSPC, errno.EACCES}


def work_on(folder: Path, faults: Faults) -> tuple[list[int], list[int], bool]:
    """Steps that changed the store, and those that raised; whether it could be read throughout."""
    told: list[int] = []
    raised: list[int] = []
    could_read = True
    with failing_vfs(faults) as vfs:
        database = failing(lambda: Database.open(folder, vfs=vfs))
        if database is None:
            return told, raised, True
        last = None
        for at in range(1, N_STEPS):
            done = failing(lambda at=at: do(database, SEED, at) or True)  # type: ignore[misc]
            now = failing(lambda: contents(database))
            could_read &= now is not None
            if done is None:
                raised.append(at)
            elif now is None or now != last:
                # One that the state did not admit may be admitted by what turns out to be kept.
                told.append(at)
            last = now
        database.close()
    return told, raised, could_read


def failing(work: Callable[[], Result]) -> Result | None:
    """What it gives, or None if it met the fault, which must have its name and its number."""
    try:
        return work()
    except StoreError as fault:
        if fault.errno not in CODES:
            raise AssertionError(f"{fault} has no number of a fault") from fault
        return None


def subsets(of: list[int]) -> list[list[int]]:
    numbers = range(2 ** len(of))
    return [[one for bit, one in enumerate(of) if which >> bit & 1] for which in numbers]


def check_what_is_left(
    folder: Path, expected: Expected, told: list[int], raised: list[int]
) -> None:
    """Every step that was told of, and of each that raised all or nothing."""
    database = Database.open(folder)
    found, report = contents(database), examine(database, full=True)
    database.close()
    assert report.ok, report
    wished = (expected.after(sorted([0, *told, *some])) for some in subsets(raised))
    assert any(found == wish for wish in wished), (told, raised)


KINDS: dict[str, dict[str, Any]] = {
    "EIO": {"kind": apsw.IOError},
    "ENOSPC": {"kind": apsw.FullError},
    "a short write": {"kind": apsw.IOError, "verbs": ("write",), "halves": True},
    "EMFILE": {"kind": apsw.CantOpenError, "verbs": ("open",)},
    "a sync": {"kind": apsw.IOError, "verbs": ("sync",)},
}


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for ever"])
def test_whatever_fails_what_was_told_of_stays(
    tmp_path: Path, kind: str, effort: Effort, *, for_ever: bool
) -> None:
    expected = Expected(tmp_path, SEED)
    n_runs = n_raised = 0
    step = effort.cases(quick=1 if kind == "EMFILE" else 4, full=1)
    for fail_at in range(1, 400, step):
        folder = tmp_path / f"{fail_at}"
        plain = Database.open(folder)
        do(plain, SEED, 0)
        plain.close()
        faults = Faults(fail_at=fail_at, for_ever=for_ever, **KINDS[kind])
        told, raised, could_read = work_on(folder, faults)
        assert could_read or "open" in faults.verbs
        check_what_is_left(folder, expected, told, raised)
        if not faults.failed:
            break
        n_runs += 1
        n_raised += len(raised)
    assert not faults.failed, "the last run met no fault"
    assert n_runs * step >= (1 if kind == "EMFILE" else 5)
    when = "for ever" if for_ever else "once"
    print(f"\n{kind} {when}: {n_runs} runs, {n_raised} steps raised, 0 of those told lost")


def test_a_disk_that_lies_is_found_out(tmp_path: Path) -> None:
    """The control: a write that is told of as done, and is not."""
    expected = Expected(tmp_path, SEED)
    found_out = 0
    for fail_at in range(1, 12):
        folder = tmp_path / f"{fail_at}"
        plain = Database.open(folder)
        do(plain, SEED, 0)
        plain.close()
        faults = Faults(verbs=("write",), fail_at=fail_at, lies=True)
        told, raised, _ = work_on(folder, faults)
        try:
            check_what_is_left(folder, expected, told, raised)
        except (AssertionError, StoreError):
            found_out += 1
    assert found_out > 0
