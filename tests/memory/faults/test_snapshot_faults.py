"""Whatever the disk refuses of a snapshot, no caller hears of it and no answer changes (D3, D4)."""

from __future__ import annotations

import errno
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.disk_faults import FailingOs
from laws.effort import Effort
from memory.copies import copy_store
from memory.small_store import (
    episode,
    follower_of,
    forget,
    link,
    listing,
    rebuilt,
    remember,
    replies,
)
from seams import INDEX, Database, disk

CODES = [errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EROFS]


class Case:
    """A store whose snapshot is older than it is."""

    def __init__(self, folder: Path) -> None:
        self.database = Database.open(folder / "store")
        self.index = self.database.folder / INDEX
        self.older = folder / "older"
        remember(self.database, *(episode(number) for number in range(20)))
        link(self.database, "edge", ["e1", "e2"])
        follower_of(self.database).open()
        follower = follower_of(self.database)
        follower.open()
        assert follower.snapshot()
        copy_store(self.index, self.older)
        remember(self.database, *(episode(number) for number in range(20, 26)))
        forget(self.database, "e3")
        link(self.database, "edge2", ["e4", "e5", "e6"])
        self.wanted = replies(rebuilt(self.database))

    def try_with(self, failing: FailingOs) -> tuple[bool, bool, str]:
        """Save on a disk that fails: whether it said so, whether it could later, how it reopens."""
        shutil.rmtree(self.index)
        copy_store(self.older, self.index)
        follower = follower_of(self.database)
        follower.open()
        follower.catch_up()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(disk, "os", failing)
            saved = follower.snapshot()
        assert replies(follower.ready()) == self.wanted
        other = follower_of(self.database, may_save=False)
        how = other.open().how
        assert replies(other.ready()) == self.wanted
        later = saved or follower.snapshot()
        assert (follower.report()["failed_snapshots"] == 0) == saved
        return saved, later, how


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    made = Case(tmp_path)
    yield made
    made.database.close()


@pytest.mark.slow
@pytest.mark.parametrize("for_ever", [False, True], ids=["once", "for ever"])
def test_each_operation_may_fail(
    case: Case, for_ever: bool, effort: Effort, caplog: pytest.LogCaptureFixture
) -> None:
    calm = FailingOs()
    assert case.try_with(calm) == (True, True, "snapshot")
    assert calm.count > 20
    outcomes = []
    with caplog.at_level(logging.ERROR, logger="hyrecall"):
        for at in range(1, calm.count + 1, effort.cases(quick=3, full=1)):
            failing = FailingOs(at, for_ever=for_ever, code=CODES[at % len(CODES)])
            saved, later, how = case.try_with(failing)
            assert failing.failed is not None
            assert later
            outcomes.append((saved, how))
    n_saved = sum(saved for saved, _ in outcomes)
    n_taken = sum(how == "snapshot" for _, how in outcomes)
    print(f"D3: {len(outcomes)} faults of a snapshot: {n_saved} harmless, {n_taken} reopened")
    assert n_saved < len(outcomes)  # unlinking old files may fail and harm nothing
    assert not caplog.records


def test_a_fault_that_is_swallowed_is_found(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that fails in silence leaves a snapshot that was never saved."""
    monkeypatch.setattr(disk, "commit", lambda *_: None)
    saved, _, _ = case.try_with(FailingOs())
    assert saved
    files = listing(case.index)
    assert {"HEADER.tmp", "nodes/MANIFEST.tmp"} <= files.keys()
    assert files["HEADER"] == listing(case.older)["HEADER"]
