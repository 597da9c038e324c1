"""Files that are cut beneath an open index, and saves that fail: a typed error, never a crash."""

import errno
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import hyrecall as hr
from engine.disk_faults import Disk, FailingOs, RecordingOs, ShortWritingOs
from engine.saved_index import ask, build, everyone, table
from seams import disk

# ---- files that are cut or replaced beneath an open index ----
# Each case runs in a process of its own, which would end with SIGBUS or SIGSEGV.

TESTS = Path(__file__).parents[1]
PACKAGE = Path(hr.__file__).parents[1]
BEGIN = """
import os, random, shutil, signal, sys, threading
from pathlib import Path
sys.path[:0] = [{package!r}, {tests!r}]
import hyrecall as hr
from engine.saved_index import ask, everyone
from hyrecall.distributed import Request
folder = Path({folder!r})
ROLES = ("rows", "vectors-0", "plane-0", "documents-0", "documents-1", "terms-0", "terms-1")
def role(name, folder=folder):
    return next(iter(sorted(folder.glob(f"*-{{name}}*.arrow"))))
def opened(name):
    # The index of a copy of the folder, and the file of a role.
    copy = folder.parent / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    return hr.Index.open(copy, device="cpu"), role(name, copy)
"""


def run(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program that has `folder`, in a process of its own."""
    begin = BEGIN.format(package=str(PACKAGE), tests=str(TESTS), folder=str(folder))
    command = [sys.executable, "-X", "faulthandler", "-c", begin + program]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def said(folder: Path, program: str) -> str:
    """What the program printed; it must end well."""
    done = run(folder, program)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved index, large enough that every file has several pages."""
    folder = tmp_path_factory.mktemp("cut") / "index"
    build(9000).save(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(saved, tmp_path / "index")
    return tmp_path / "index"


def test_a_file_cut_between_calls_is_refused_by_name(folder: Path) -> None:
    out = said(
        folder,
        """
for name in ROLES:
    index, file = opened(name)
    hits = index.recall(text=["tea"], scope=("alice",))
    request = Request(text=["tea"], scope=("alice",))
    statistics = index.statistics(request)
    os.truncate(file, file.stat().st_size // 2)
    calls = {
        "recall": lambda: ask(index),
        "recall_one": lambda: index.recall_one(text="tea", scope=("alice",)),
        "statistics": lambda: index.statistics(request),
        "candidates": lambda: index.candidates(request, statistics),
        "get": lambda: index.get([3], scope=("alice",)),
        "count": lambda: index.count(scope=("alice",)),
        "delete": lambda: index.delete([3], scope=("alice",)),
        "save": lambda: index.save(folder.parent / "other"),
        "hit": lambda: hits[0][0].text,
        "explain": lambda: hits[0][0].explain(),
    }
    for called, call in calls.items():
        try:
            call()
            print("no error:", called)
        except hr.CorruptIndexError as fault:
            assert str(file) in str(fault) and fault.argument == str(file), fault
            assert "bytes that was opened, got" in str(fault), fault
    assert len(index) == 9000
print((folder.parent / "other" / "MANIFEST").exists())
""",
    )
    assert out == "False\n"


def test_a_file_that_was_written_to_is_refused(folder: Path) -> None:
    out = said(
        folder,
        """
index = hr.Index.open(folder, device="cpu")
file = role("vectors-0")
content = file.read_bytes()
os.utime(file, ns=(0, 0))  # as a copy over it leaves another time
try:
    ask(index)
except hr.CorruptIndexError as fault:
    assert "got one that was written to since" in str(fault), fault
    print("refused")
assert file.read_bytes() == content
ask(hr.Index.open(folder, device="cpu"))
""",
    )
    assert out == "refused\n"


@pytest.mark.slow
def test_a_file_that_another_one_replaced_by_its_name_stays_readable(folder: Path) -> None:
    """The mapping keeps the bytes of a removed file: that is how a save removes old versions."""
    out = said(
        folder,
        """
index = hr.Index.open(folder, device="cpu")
before = ask(index)
for file in folder.glob("*.arrow"):
    file.rename(file.with_suffix(".old"))
    file.with_suffix(".old").unlink()
    file.write_bytes(b"another")
print(ask(index) == before)
""",
    )
    assert out == "True\n"


@pytest.mark.parametrize(
    "share", [0.3, *(pytest.param(share, marks=pytest.mark.slow) for share in (0.0, 0.7))]
)
def test_a_call_that_meets_lost_pages_is_refused(folder: Path, share: float) -> None:
    """The check before the call is left out, as if the file was cut right after it."""
    out = said(
        folder,
        f"""
from hyrecall.segments import segments as reading
reading.CheckedFiles.__enter__ = lambda self: None
for name in ROLES:
    index, file = opened(name)
    os.truncate(file, int(file.stat().st_size * {share}))
    def keys():
        for at in range(40):
            index.get([at], scope=everyone(index), columns=list(index.schema.row_columns))
    def explain():
        for hit in index.recall(text=["oak tea"], scope=("alice",))[0]:
            hit.text, hit.explain()
    calls = [lambda: ask(index), keys, explain,
        lambda: index.delete(list(range(500)), scope=everyone(index)), index.compact,
        lambda: index.save(folder.parent / "other")]
    refused = 0
    for call in calls:
        try:
            call()
        except hr.CorruptIndexError as fault:
            refused += "got one with pages that cannot be read" in str(fault)
    assert refused > 0, name
    assert not (folder.parent / "other" / "MANIFEST").exists(), name
print("refused")
""",
    )
    assert out == "refused\n"


CUT_DURING = """
index = hr.Index.open(folder, device="cpu", verify="full")
right = ask(index)
draw = random.Random({seed})
stop = threading.Event()
found = []
def recall():
    while not stop.is_set():
        try:
            found.append("same" if ask(index) == right else "wrong")
        except hr.CorruptIndexError:
            found.append("refused")
            return
threads = [threading.Thread(target=recall) for _ in range(2)]
for one in threads: one.start()
while not found: pass
stop.wait(draw.random() * 0.05)
file = draw.choice(sorted(folder.glob("*.arrow")))
os.truncate(file, draw.randrange(file.stat().st_size))
for one in threads: one.join(20)
stop.set()
print(sorted(set(found) - {{"same"}}))
"""


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 25))]
)
def test_a_cut_during_calls_gives_right_replies_until_it_is_refused(
    folder: Path, seed: int
) -> None:
    assert said(folder, CUT_DURING.format(seed=seed)) == "['refused']\n"


FOREIGN = """
import mmap
index = hr.Index.open(folder, device="cpu")
ask(index)
other = folder.parent / "other"
other.write_bytes(bytes(3 * mmap.PAGESIZE))
with other.open("r+b") as file:
    foreign = mmap.mmap(file.fileno(), 0)
os.truncate(other, mmap.PAGESIZE)
"""


@pytest.mark.slow
def test_a_foreign_bus_error_still_ends_the_process(folder: Path) -> None:
    done = run(folder, FOREIGN + "foreign[2 * mmap.PAGESIZE]")
    assert done.returncode == -7, (done.returncode, done.stderr)
    assert "Fatal Python error: Bus error" in done.stderr  # by faulthandler, which was there before


@pytest.mark.slow
def test_a_foreign_bus_error_without_any_handler_ends_the_process(folder: Path) -> None:
    program = "import faulthandler; faulthandler.disable()\n"
    done = run(folder, program + FOREIGN + "foreign[2 * mmap.PAGESIZE]")
    assert done.returncode == -7, (done.returncode, done.stderr)
    assert done.stderr == ""


@pytest.mark.slow
def test_a_handler_that_comes_after_ours_gets_its_turn_and_ends_the_process(folder: Path) -> None:
    program = "import faulthandler; faulthandler.disable()\n"
    later = "faulthandler.enable(); hr.Index.open(folder, device='cpu')\n"
    done = run(folder, program + FOREIGN + later + "foreign[2 * mmap.PAGESIZE]")
    assert done.returncode == -7, (done.returncode, done.stderr)
    assert "Fatal Python error: Bus error" in done.stderr


@pytest.mark.parametrize("handled", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_bus_error_that_is_sent_goes_where_it_went_before(folder: Path, handled: bool) -> None:
    program = "import faulthandler; faulthandler.disable()\n"
    if handled:
        program += "signal.signal(signal.SIGBUS, lambda *_: print('handled', flush=True))\n"
    done = run(folder, program + FOREIGN + "os.kill(os.getpid(), signal.SIGBUS)\nprint('after')")
    assert (done.returncode, done.stdout) == ((0, "handled\nafter\n") if handled else (-7, ""))


@pytest.mark.slow
def test_the_cases_above_notice_a_process_without_the_handler(folder: Path) -> None:
    """The control: with the handler that was there before, the same cut ends the process."""
    done = run(
        folder,
        """
from hyrecall.segments import segments as reading
index = hr.Index.open(folder, device="cpu")
reading.CheckedFiles.__enter__ = lambda self: None
signal.signal(signal.SIGBUS, signal.SIG_DFL)
file = role("vectors-0")
os.truncate(file, 0)
ask(index)
""",
    )
    assert done.returncode == -7, (done.returncode, done.stderr)


# ---- whatever fails in a save, the folder opens as the old version or the new one ----

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
