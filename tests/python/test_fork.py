"""What a host process may do to native code: fork, and set variables of the environment."""

import asyncio
import itertools
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from laws.effort import Effort
from seams import LateCheck

# ---- a forked child recalls, though the parent's pool has lost its threads ----

SECONDS = 10.0
N, DIM = 40_000, 16


@pytest.fixture(scope="module")
def index() -> hr.Index:
    rng = np.random.default_rng(2)
    table = pa.table({"id": np.arange(N), "user": rng.integers(0, 3, N), "text": ["tea cup"] * N})
    schema = hr.Schema(key="id", cell="user", text="text", vector="v", stored=())
    vectors = rng.normal(size=(N, DIM)).astype(np.float32)
    return hr.Index.build(table, schema, vectors={"v": vectors}, threads=4)


QUERIES = np.random.default_rng(4).normal(size=(64, DIM)).astype(np.float32)
ASKED: dict[str, Any] = {"text": ["tea"] * 64, "vectors": QUERIES, "scope": hr.Scope([0, 1, 2])}


@contextmanager
def quiet() -> Iterator[None]:
    """Forking beside threads is what is tested here; newer Pythons warn of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def in_child(work: Callable[[], object], seconds: float = SECONDS) -> object:
    """What the work gives in a forked child, which is killed when its time is over."""
    reading, writing = os.pipe()
    with quiet():
        child = os.fork()
    if child == 0:
        try:
            answer = pickle.dumps(("done", work()))
        except BaseException:
            answer = pickle.dumps(("failed", traceback.format_exc()))
        os.write(writing, answer)
        os._exit(0)  # no test runner's cleanup in the child
    os.close(writing)
    try:
        if not select.select([reading], [], [], seconds)[0]:
            os.kill(child, signal.SIGKILL)
            return "hung"
        said = b""
        while block := os.read(reading, 1 << 16):
            said += block
        state, answer = pickle.loads(said)
        assert state == "done", answer
        return answer
    finally:
        os.close(reading)
        os.waitpid(child, 0)


def keys(index: hr.Index) -> list[list[int]]:
    return [one.keys for one in index.recall(**ASKED)]


def test_a_child_recalls_after_the_parent_used_the_pool(index: hr.Index) -> None:
    wanted = keys(index)
    for _ in range(3):
        assert in_child(lambda: keys(index)) == wanted
    assert keys(index) == wanted  # and the parent still does


def test_a_child_of_a_child_recalls(index: hr.Index) -> None:
    wanted = keys(index)

    def child() -> object:
        mine = keys(index)
        return mine == wanted and in_child(lambda: keys(index), SECONDS / 2)

    assert in_child(child) == wanted


def test_a_child_has_an_index_of_its_own(index: hr.Index) -> None:
    def write() -> int:
        index.delete(range(100), scope=ASKED["scope"])
        index.compact()
        return len(index)

    assert in_child(write) == N - 100
    assert len(index) == N


def test_a_child_builds_and_explains(index: hr.Index) -> None:
    def build() -> bool:
        table = pa.table({"id": np.arange(5000), "text": ["tea pot"] * 5000})
        schema = hr.Schema(key="id", cell=None, text="text", vector="v")
        made = hr.Index.build(table, schema, vectors={"v": np.ones((5000, 4), "f")}, threads=4)
        hit = made.recall_one(text="pot", vector=[1, 0, 0, 0])[0]
        return hit.explain().score == hit.score

    keys(index)
    assert in_child(build) is True


def test_a_child_awaits_after_the_parent_did(index: hr.Index) -> None:
    def ask() -> int:
        return asyncio.run(index.arecall(**ASKED)).n_hits

    wanted = ask()
    time.sleep(0.1)  # until the executor counts its thread as idle: it would not start another
    assert in_child(ask) == wanted


@contextmanager
def busy(*works: Callable[[int], object]) -> Iterator[None]:
    """Threads that call these with 0, 1, 2, ... until the block is left."""
    stop = threading.Event()

    def repeat(work: Callable[[int], object]) -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            work(number)

    threads = [threading.Thread(target=repeat, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.slow
def test_a_fork_beside_busy_scans_does_not_hang(index: hr.Index) -> None:
    wanted = keys(index)
    with busy(*[lambda _: index.recall(**ASKED)] * 2):
        for _ in range(5):
            assert in_child(lambda: keys(index)) == wanted


@pytest.mark.slow
def test_a_fork_beside_busy_analyzers_does_not_hang(effort: Effort) -> None:
    """Words never seen before: the analyzer's caches are locked and written nearly all the time."""
    table = pa.table({"id": [1, 2], "text": ["tea cup", "milk"]})
    schema = hr.Schema(key="id", cell=None, text="text")
    index = hr.Index.build(table, schema, analyzer=hr.Analyzer("snowball:english"))

    def analyse(number: int) -> None:
        new = threading.get_ident()
        words = " ".join(f"w{new}x{number}x{i}" for i in range(3000))
        index.recall(text=[words, hr.Prefix("te")])

    with busy(analyse, analyse, analyse):
        for _ in range(effort.cases(quick=6, full=500)):
            assert in_child(lambda: index.recall_one(text="tea").keys) == [1]


def test_a_child_that_hangs_is_noticed() -> None:
    lock = threading.Lock()
    with lock:  # a lock that is held at the fork stays locked in the child
        assert in_child(lock.acquire, seconds=0.3) == "hung"


def test_a_fork_waits_for_a_late_check_of_another_thread() -> None:
    began, n_done = threading.Event(), itertools.count()

    def slow() -> None:
        began.set()
        time.sleep(0.2)
        next(n_done)

    slowly, other = LateCheck(slow), LateCheck(lambda: None)
    thread = threading.Thread(target=slowly)
    thread.start()
    assert began.wait(SECONDS)
    # In the child the check is done, and no lock is held.
    assert in_child(lambda: (slowly(), other(), next(n_done))[-1]) == 1
    thread.join()


# ---- variables of the environment that steer native code ----

SCHEMA = hr.Schema(key="id", vector="v", cell=None)
VALUES = {
    "HYRECALL_FRONT_PLANE": ("float", "head8, head4, int8 or rows"),
    "HYRECALL_CUDA_KERNELS": ("hopper", "generic"),
    "HYRECALL_DENSE_TUNING": ("64,1", "capacity >= 1, seed tiles >= 1 and a stride of 2 to 4096"),
    "HYRECALL_CUDA_TIMES": ("yes", "0 or 1"),
    "HYRECALL_AUTO_POSTINGS": ("-1", "an integer of at least 0"),
}


def given() -> dict[str, Any]:
    return {"table": pa.table({"id": [1, 2]}), "vectors": {"v": np.eye(2, dtype=np.float32)}}


@pytest.mark.parametrize("name", VALUES)
def test_an_unknown_value_is_refused_by_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value, expected = VALUES[name]
    index = hr.Index.build(given()["table"], SCHEMA, vectors=given()["vectors"], device="cpu")
    monkeypatch.setenv(name, value)
    with pytest.raises(hr.OptionError, match=rf"^{name}: expected {expected}.*, got {value}$"):
        index.recall(vectors=np.ones((1, 2), np.float32))
    with pytest.raises(hr.OptionError, match=rf"^{name}: expected {expected}.*, got {value}$"):
        hr.Index.build(given()["table"], SCHEMA, vectors=given()["vectors"], device="cpu")
    monkeypatch.setenv(name, "")  # as if it were not set
    assert index.recall(vectors=np.ones((1, 2), np.float32))[0][0].key == 1


@pytest.mark.parametrize("value", ["1,1,2", "64,1,32"])
def test_a_tuning_is_taken(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    index = hr.Index.build(given()["table"], SCHEMA, vectors=given()["vectors"], device="cpu")
    monkeypatch.setenv("HYRECALL_DENSE_TUNING", value)
    assert index.recall(vectors=np.ones((1, 2), np.float32))[0][0].key == 1


@pytest.mark.parametrize(
    "value",
    ["0,1,2", "64,0,2", "64,1,1", "64,1,4097", "-1,1,2", "64,1,2,", "64, 1,2", "4294967296,1,2"],
)
def test_a_tuning_out_of_range_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    index = hr.Index.build(given()["table"], SCHEMA, vectors=given()["vectors"], device="cpu")
    monkeypatch.setenv("HYRECALL_DENSE_TUNING", value)
    with pytest.raises(hr.OptionError, match=rf"HYRECALL_DENSE_TUNING: .*, got {value}$"):
        index.recall(vectors=np.ones((1, 2), np.float32))


# Sixty-four groups of queries beside a thread that sets and deletes variables. Growing the
# environment moves it, and what an unguarded getenv() reads is then freed memory.
RECALLS_BESIDE_WRITES = """
import os, sys, threading, time
import numpy as np, pyarrow as pa
import hyrecall as hr

end = time.monotonic() + float(sys.argv[1])
rng = np.random.default_rng(1)
users = [f"u{i % 64}" for i in range(2048)]
index = hr.Index.build(
    pa.table({"id": range(2048), "user": users}),
    hr.Schema(key="id", cell="user", vector="v"),
    vectors={"v": rng.standard_normal((2048, 8), np.float32)},
    threads=2,
    device="cpu",
)
asked = {"vectors": rng.standard_normal((256, 8), np.float32), "scope": users[:256], "limit": 3}
expected = index.recall(**asked).to_arrow()

def write():
    while time.monotonic() < end:
        names = [f"A_VARIABLE_{i}" for i in range(2000)]
        for name in names:
            os.environ[name] = "x"
        for name in names:
            del os.environ[name]

sys.setswitchinterval(1e-5)
writer = threading.Thread(target=write)
writer.start()
n_calls = 0
while n_calls < 3 or time.monotonic() < end:
    assert index.recall(**asked).to_arrow().equals(expected)
    n_calls += 1
writer.join()
print(n_calls)
"""


@pytest.mark.slow
def test_dense_recalls_run_beside_a_thread_that_writes_the_environment(effort: Effort) -> None:
    seconds = effort.cases(quick=1, full=600)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", RECALLS_BESIDE_WRITES, str(seconds)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 3
