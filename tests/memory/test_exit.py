"""A process that ends without closing its stores ends well: no abort, no hang, nothing lost."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from hyrecall import recipes
from hyrecall.memory import MemorySync
from laws.effort import Effort
from seams import SessionName, StaticEmbedder

SECONDS = 120  # for a child, on a machine that is busy with other things

# Threads of the program itself are in native code, or ask for the GIL, whenever it ends.
THREADS_OF_THE_PROGRAM = """
import threading, time
import pyarrow as pa
import hyrecall as hr

rows = pa.table({"id": ["a", "b"], "text": ["hot tea", "cold milk"]})
split = lambda text: text.split()
analyzer = hr.Analyzer.from_callable(split, name="split", version="1")
index = hr.Index.build(rows, hr.Schema(key="id", cell=None, text="text"), analyzer=analyzer)
begun = threading.Barrier(4)

def ask():
    begun.wait()
    while True:
        index.recall_one(text="tea")

for _ in range(3):
    threading.Thread(target=ask, daemon=True).start()
begun.wait()
time.sleep(0.02)
"""

# The threads behind a store are at work when the main thread ends: they are awaited.
THREADS_OF_A_STORE = """
import sys, time
from hyrecall.embed import HashEmbedder
from hyrecall.memory import MemorySync
from hyrecall.memory.derived.follower import Follower

class Slow(HashEmbedder):
    def warm(self):
        time.sleep(0.2)
        sys.stdout.write("loaded ")

catch_up = Follower.catch_up
def slowly(self):
    done = catch_up(self)
    time.sleep(0.2)
    sys.stdout.write("followed ")
    return done
Follower.catch_up = slowly

memory = MemorySync.open(sys.argv[1], embedder=Slow(dim=8))
memory.remember("tea at four", user_id="ann")
"""

# What hangs is waited for once, and what runs later than that still gets its answers.
THREADS_THAT_HANG = """
import atexit, sys, time

def later():
    kept = memory.remember("milk", user_id="ann")
    found = memory.search("milk", user_id="ann")
    print(kept.embedded, found[0].episode.text, *found.reasons)

atexit.register(later)
from hyrecall.base import threads
from hyrecall.embed import HashEmbedder
from hyrecall.memory import MemorySync

class Hangs(HashEmbedder):
    def embed(self, texts):
        time.sleep(3600)

def hangs(query, texts):
    time.sleep(3600)

threads.EXIT_SECONDS = 0.1
memory = MemorySync.open(sys.argv[1], embedder=Hangs(dim=8), recall_timeout=0.1)
memory.remember("tea", user_id="ann", embed_timeout=0.05)
memory.search("tea", user_id="ann", reranker=hangs)
"""


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own."""
    call = [sys.executable, "-W", "error", "-c", script, *arguments]
    return subprocess.run(call, capture_output=True, text=True, timeout=SECONDS, check=False)


@pytest.mark.slow
def test_threads_of_the_program_do_not_abort_it() -> None:
    done = run(THREADS_OF_THE_PROGRAM)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_threads_of_a_store_end_before_the_interpreter_does(tmp_path: Path) -> None:
    done = run(THREADS_OF_A_STORE, str(tmp_path / "store"))
    assert (done.returncode, done.stderr) == (0, "")
    assert set(done.stdout.split()) == {"followed", "loaded"}
    with MemorySync.open(tmp_path / "store", embedder=None) as memory:
        assert len(memory.search("tea", user_id="ann")) == 1


@pytest.mark.slow
def test_an_embedder_and_a_reranker_that_hang_do_not_hold_the_exit(tmp_path: Path) -> None:
    done = run(THREADS_THAT_HANG, str(tmp_path / "store"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "False milk embeddings_off (closed)\n"


UNCLOSED = """
import sys
from hyrecall.embed import HashEmbedder
from hyrecall.memory import MemorySync
memory = MemorySync.open(sys.argv[1], embedder=HashEmbedder(dim=8))
memory.remember("tea at four", user_id="ann")
memory.search("tea", user_id="ann")
"""

CLOSED_WHILE_LOADING = """
import sys
from hyrecall.memory import MemorySync
with MemorySync.open(sys.argv[1], embedder="static") as memory:
    memory.list(user_id="ann")
"""

DOCTOR = """
import sys
from hyrecall.cli import main
sys.argv = ["hyrecall", "doctor", "--full", "--path", sys.argv[1]]
main()
"""


CONVERSATIONS = """
import sys, time
from hyrecall import recipes
from hyrecall.memory import MemorySync
from hyrecall.memory.sql import store_sessions

save = store_sessions._save
def slowly(*given):
    time.sleep(0.02)
    save(*given)
store_sessions._save = slowly

memory = MemorySync.open(sys.argv[1], embedder=None, recipe=recipes.hypergraph)
memory.remember("tea at four", id="tea", user_id="ann")
for number in range(40):
    memory.search("tea", user_id="ann", session_id=f"chat {number}")
"""

CONVERSATIONS_LATE = (
    """
import atexit

def late():
    memory.search("tea", user_id="ann", session_id="late")

atexit.register(late)  # runs after the threads of hyrecall have ended
"""
    + CONVERSATIONS
)


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize(
    "script",
    [CONVERSATIONS, pytest.param(CONVERSATIONS_LATE, marks=pytest.mark.slow)],
    ids=["exit", "atexit"],
)
def test_conversations_of_a_store_that_is_not_closed_are_kept(script: str, tmp_path: Path) -> None:
    done = run(script, str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    names = [f"chat {number}" for number in range(40)]
    if script is CONVERSATIONS_LATE:
        names.append("late")
    with MemorySync.open(tmp_path, embedder=None, recipe=recipes.hypergraph) as memory:
        sessions, now = memory._store.sessions, datetime.now(UTC)
        for name in names:
            session = sessions.session(SessionName(None, None, "ann", name), now=now)
            assert (set(session.accessed), session.n_recalls) == ({"tea"}, 1), name


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(UNCLOSED, id="unclosed"),
        pytest.param(CLOSED_WHILE_LOADING, id="closed_while_loading"),
        pytest.param(DOCTOR, id="doctor"),
    ],
)
def test_no_exit_of_many_aborts(script: str, tmp_path: Path, effort: Effort) -> None:
    if script is not UNCLOSED and not StaticEmbedder.available():
        pytest.skip("the extra [local] is not installed")

    def exit_code(number: int) -> int:
        folder = tmp_path / f"store{number % 4 if script is DOCTOR else number}"
        return run(script, str(folder)).returncode

    if script is DOCTOR:
        for number in range(4):
            MemorySync.open(tmp_path / f"store{number}", embedder=None).close()
    with ThreadPoolExecutor(4) as four:
        codes = list(four.map(exit_code, range(effort.cases(quick=1, full=200))))
    assert set(codes) == {0}
