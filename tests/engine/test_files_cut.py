"""Files that are cut or replaced beneath an open index: a typed error, never a crash.

Each case runs in a process of its own, which would end with SIGBUS or SIGSEGV.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hyrecall as hr
from engine.saved_index import build

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
