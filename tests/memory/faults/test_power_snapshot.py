"""A power cut while a snapshot is saved costs a rebuild at worst, never an answer (D2)."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from laws.effort import Effort
from memory.copies import copy_store
from memory.faults.recorded_folders import FATES, Operation, RecordingFolders, left_by
from memory.small_store import episode, follower_of, forget, link, rebuilt, remember, replies
from seams import INDEX, Database, disk, index_header


class Save:
    """A store with a snapshot, a later one saved over it, and all that this asked of the disk."""

    def __init__(self, folder: Path, *, deaf_to: tuple[str | None, str | None] | None = None):
        self.database = Database.open(folder / "store")
        remember(self.database, *(episode(number) for number in range(20)))
        link(self.database, "edge", ["e1", "e2"])
        follower = follower_of(self.database)
        follower.open()
        follower.snapshot()
        self.before = folder / "before"
        copy_store(self.database.folder / INDEX, self.before)
        remember(self.database, *(episode(number) for number in range(20, 30)))
        forget(self.database, "e3")
        link(self.database, "edge2", ["e4", "e5", "e6"])
        follower.catch_up()
        recording = RecordingFolders(self.database.folder / INDEX, deaf_to=deaf_to)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(disk, "os", recording)
            assert follower.snapshot()
        self.operations: list[Operation] = recording.operations
        remember(self.database, episode(30))
        forget(self.database, "e9")
        self.wanted = replies(rebuilt(self.database))
        self.reader = Database.open(self.database.folder, read_only=True)
        self.left = folder / "left"

    def outcomes(self, fate: str, cuts: list[int] | None = None) -> dict[int, str]:
        """How a reader comes by its index after each cut; "wrong" if it then answers wrongly."""
        numbers = range(len(self.operations) + 1) if cuts is None else cuts
        found = {}
        for n_done, files in left_by(self.before, self.operations, fate, iter(numbers)):
            shutil.rmtree(self.left, ignore_errors=True)
            for path, content in files.items():
                (self.left / path).parent.mkdir(parents=True, exist_ok=True)
                (self.left / path).write_bytes(content)
            follower = follower_of(self.reader)
            follower._folder = self.left
            report = follower.open()
            is_right = replies(follower.ready()) == self.wanted
            found[n_done] = report.how if is_right else "wrong"
        return found

    def at(self, name: str) -> list[int]:
        """After how many operations a file of this name was put in place."""
        return [n + 1 for n, (_, one) in enumerate(self.operations) if one[-1] == name]

    def close(self) -> None:
        self.reader.close()
        self.database.close()


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize("fate", FATES)
def test_no_cut_leaves_a_wrong_answer(fate: str, tmp_path: Path, effort: Effort) -> None:
    save = Save(tmp_path)
    n_all = len(save.operations)
    found = save.outcomes(fate, [*range(0, n_all, effort.cases(quick=3, full=1)), n_all])
    save.close()
    print(f"D2: {len(found)} cuts of a snapshot, {fate}: {dict(Counter(found.values()))}")
    assert set(found.values()) == {"snapshot", "rebuilt"}
    # Until the first manifest is renamed the old snapshot is whole, and at the end the new one is.
    first = save.at("MANIFEST")[0]
    assert {how for n_done, how in found.items() if n_done < first} == {"snapshot"}
    assert found[len(save.operations)] == "snapshot"


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize(
    "deaf_to", [(".", "HEADER"), (".", None), ("nodes", "MANIFEST"), ("edges", None)]
)
def test_every_sync_is_needed(deaf_to: tuple[str | None, str | None], tmp_path: Path) -> None:
    """Without one of them a snapshot that was saved is gone after some power cut."""
    save = Save(tmp_path, deaf_to=deaf_to)
    at_the_end = [len(save.operations)]
    found = [save.outcomes(fate, at_the_end)[at_the_end[0]] for fate in FATES]
    save.close()
    assert "wrong" not in found
    assert "rebuilt" in found


@pytest.mark.slow
def test_a_header_that_is_bound_to_nothing_lets_wrong_answers_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_header, "_manifests", lambda _: {})
    save = Save(tmp_path, deaf_to=("nodes", None))
    is_found = any("wrong" in save.outcomes(fate).values() for fate in FATES)
    save.close()
    assert is_found
