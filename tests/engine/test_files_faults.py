"""Whatever fails in a save, and whenever, the folder opens as the old version or as the new one."""

import errno
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hyrecall as hr
from engine.disk_faults import Disk, FailingOs, RecordingOs, ShortWritingOs
from engine.saved_index import ask, build, everyone, table
from seams import disk

SaveWith = Callable[[object], tuple[Path, hr.Index, OSError | None]]


class Case:
    """A saved index, and a change to it that adds files and makes old ones superfluous."""

    def __init__(self, folder: Path) -> None:
        first = build(60)
        first.add(table(1000, 140))
        first.delete([5], scope=everyone(first))
        first.save(folder / "base")
        self.old = ask(first)
        self.folder = folder
        self.new = ask(self.changed("base"))

    def changed(self, name: str) -> hr.Index:
        """The index of a folder, with rows that its second segment takes up, and rows deleted."""
        index = hr.Index.open(self.folder / name, memory="ram")
        index.add(table(2000, 130))
        index.delete([1, 7, 9], scope=everyone(index))
        return index

    def copy(self) -> Path:
        """A fresh copy of the folder."""
        target = self.folder / "copy"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.folder / "base", target)
        return target

    def version(self, folder: Path) -> str:
        """Which version a folder holds; anything else is an error."""
        replies = ask(hr.Index.open(folder, verify="full"))
        return {self.old: "old", self.new: "new"}[replies]


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return Case(tmp_path_factory.mktemp("faults"))


@pytest.fixture
def save_with(case: Case, monkeypatch: pytest.MonkeyPatch) -> SaveWith:
    """Saves the changed index over a copy of the old one, on a given os."""

    def save(fake: object) -> tuple[Path, hr.Index, OSError | None]:
        folder = case.copy()
        index = case.changed("copy")
        with monkeypatch.context() as patch:
            patch.setattr(disk, "os", fake)
            try:
                index.save(folder)
            except OSError as fault:
                return folder, index, fault
        return folder, index, None

    return save


def test_a_failed_save_leaves_no_files_on_a_full_disk(case: Case, save_with: SaveWith) -> None:
    before = sorted(file.name for file in (case.folder / "base").iterdir())
    folder, _, fault = save_with(FailingOs(30, code=errno.ENOSPC))
    assert fault is not None
    assert sorted(file.name for file in folder.iterdir()) == before


def test_short_writes_are_finished(case: Case, save_with: SaveWith) -> None:
    folder, _, fault = save_with(ShortWritingOs())
    assert fault is None
    assert case.version(folder) == "new"


def test_a_first_save_that_fails_leaves_no_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = build(20)
    for number in range(1, 1000):
        folder = tmp_path / f"{number}" / "deep"
        fake = FailingOs(number, for_ever=True)
        with monkeypatch.context() as patch:
            patch.setattr(disk, "os", fake)
            try:
                index.save(folder)
            except OSError:
                pass
            else:
                break
        try:
            again = hr.Index.open(folder)
        except hr.CorruptIndexError:
            continue
        assert ask(again) == ask(index)
    assert number > 30
    assert ask(hr.Index.open(folder)) == ask(index)


# Power


def states(start: Path, recorder: RecordingOs) -> Iterator[tuple[int, str, dict[str, bytes]]]:
    """Every state that a power cut or a kill can leave: after each operation, in each way."""
    model = Disk.of(start)
    for number in range(len(recorder.operations) + 1):
        for fate in Disk.FATES:
            yield number, fate, model.after(fate)
        if number < len(recorder.operations):
            model.apply(recorder.operations[number])


def surprises(case: Case, recorder: RecordingOs, folder: Path) -> list[str]:
    """States in which the folder is neither version, or not the new one though save returned."""
    found = []
    known: dict[frozenset[tuple[str, bytes]], str] = {}
    for number, fate, files in states(case.folder / "base", recorder):
        content = frozenset(files.items())
        if content not in known:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for name, data in files.items():
                (folder / name).write_bytes(data)
            try:
                known[content] = case.version(folder)
            except (hr.CorruptIndexError, KeyError) as fault:
                known[content] = f"lost ({fault!r})"
        done = number == len(recorder.operations)
        if known[content] not in (("new",) if done else ("old", "new")):
            found.append(f"{fate} after operation {number}: {known[content]}")
    return found


def test_a_power_cut_leaves_a_whole_version(
    case: Case, save_with: SaveWith, tmp_path: Path
) -> None:
    recorder = RecordingOs()
    save_with(recorder)
    assert {verb for verb, *_ in recorder.operations} == {
        "create", "write", "sync", "sync names", "replace", "unlink",
    }  # fmt: skip
    assert surprises(case, recorder, tmp_path / "later") == []


@pytest.mark.slow
@pytest.mark.parametrize("forget", ["data", "manifest", "names"])
def test_the_check_above_notices_a_sync_that_is_left_out(
    case: Case, save_with: SaveWith, tmp_path: Path, forget: str
) -> None:
    recorder = RecordingOs(forget=forget)
    save_with(recorder)
    assert surprises(case, recorder, tmp_path / "later")
