"""Many readers beside one writer: every reader sees one version; the GIL is free meanwhile."""

import itertools
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from laws.effort import Effort

SCHEMA = hr.Schema(key="id", cell="user", text="text", vector="v", attributes="version")


def pair(version: int) -> dict[str, Any]:
    """Two documents that carry one version in text, vector and attribute."""
    table = pa.table(
        {
            "id": ["a", "b"],
            "user": ["ana"] * 2,
            "text": [f"tea v{version}"] * 2,
            "version": [version] * 2,
        }
    )
    return {"table": table, "vectors": {"v": np.full((2, 2), [1.0, version], np.float32)}}


Seen = list[tuple[str, int, int, float]]


class Versioned:
    """The engine as writer and readers see it."""

    def __init__(self) -> None:
        given = pair(1)
        self.index = hr.Index.build(given["table"], SCHEMA, vectors=given["vectors"])

    def write(self, version: int) -> None:
        self.index.upsert(**pair(version))
        if version % 50 == 0:
            self.index.compact()

    def read(self) -> Seen:
        """(key, version by text, version by attribute, cosine to the version's vector)."""
        hits = self.index.recall_one(text="tea", vector=[1, 0], scope="ana")
        return [
            (hit.key, int(hit.text.split("v")[1]), hit["version"], hit.vector_score or 0.0)
            for hit in hits
        ]


class Unversioned:
    """A store that changes in place: what the check must catch."""

    def __init__(self) -> None:
        self.rows = {key: [1, 1] for key in ("a", "b")}

    def write(self, version: int) -> None:
        for row in self.rows.values():
            row[0] = version
            time.sleep(0)  # another thread may come in here
            row[1] = version

    def read(self) -> Seen:
        seen = []
        for key, row in self.rows.items():
            text = row[0]
            time.sleep(0)
            seen.append((key, text, row[1], (1 + text**2) ** -0.5))
        return seen


def count_halves(
    store: Any, seconds: float, n_readers: int
) -> tuple[int, int, list[BaseException]]:
    """(reads, reads that saw no single version, errors) while a writer is at work."""
    end = time.monotonic() + seconds
    reads, halves, errors = [0] * n_readers, [0] * n_readers, []

    def guarded(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                errors.append(error)

        return run

    def write() -> None:
        version = 1
        while time.monotonic() < end:
            version += 1
            store.write(version)

    def read(number: int) -> None:
        last = 0
        while time.monotonic() < end:
            seen = store.read()
            versions = {v for _, by_text, by_attribute, _ in seen for v in (by_text, by_attribute)}
            whole = [key for key, *_ in seen] in (["a", "b"], ["b", "a"]) and len(versions) == 1
            version = max(versions)
            angles = {round(cosine, 5) for *_, cosine in seen}
            whole = whole and angles == {round((1 + version**2) ** -0.5, 5)}
            whole = whole and version >= last  # time does not run backwards
            last = version
            reads[number] += 1
            halves[number] += not whole

    threads = [threading.Thread(target=guarded(write))]
    threads += [
        threading.Thread(target=guarded(lambda number=i: read(number))) for i in range(n_readers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(reads), sum(halves), errors


@pytest.mark.slow
def test_a_reader_never_sees_half_a_write(effort: Effort) -> None:
    store = Versioned()
    reads, halves, errors = count_halves(store, 60.0 if effort.full else 2.0, n_readers=8)
    assert not errors
    assert (reads > 100, halves) == (True, 0)
    assert store.read()[0][1] > 5  # the writer did write


@pytest.mark.slow
def test_a_store_that_changes_in_place_is_caught() -> None:
    for _ in range(10):
        _, halves, errors = count_halves(Unversioned(), 0.3, n_readers=2)
        assert not errors
        if halves:
            return
    pytest.fail("the check did not notice half a write")


# ---- one writer ----


def test_writers_wait_for_each_other_and_readers_go_on() -> None:
    inside, leave = threading.Event(), threading.Event()

    def slow(text: str) -> list[str]:
        if text == "slow":
            inside.set()
            assert leave.wait(30)
        return text.split()

    table = pa.table({"id": ["a"], "user": ["ana"], "text": ["tea"]})
    schema = hr.Schema(key="id", cell="user", text="text")
    analyzer = hr.Analyzer.from_callable(slow, name="slow", version="1")
    index = hr.Index.build(table, schema, analyzer=analyzer)
    waiting = pa.table({"id": ["b"], "user": ["ana"], "text": ["slow"]})
    writer = threading.Thread(target=index.add, args=(waiting,))
    writer.start()
    others: list[threading.Thread] = []
    try:
        assert inside.wait(30)
        calls = (
            lambda: index.upsert(table),
            index.compact,
            lambda: index.delete(["a"], scope="ana"),
        )
        others += [threading.Thread(target=call) for call in calls]
        for other in others:
            other.start()
        others[0].join(0.2)
        assert all(other.is_alive() for other in others)
        assert index.recall_one(text="tea", scope="ana").keys == ["a"]
    finally:
        leave.set()
        for thread in (writer, *others):
            thread.join(30)
    assert not any(thread.is_alive() for thread in (writer, *others))
    assert index.recall_one(text="slow", scope="ana").keys == ["b"]


def test_a_write_from_within_a_write_is_refused() -> None:
    refused = []

    def add_more(*_done: object) -> None:
        with pytest.raises(
            hr.WriterBusyError, match=r"^index: expected no write during another of the same thread"
        ) as caught:
            index.compact()
        refused.append(caught.value.argument)

    table = pa.table({"id": ["a"], "text": ["tea"]})
    index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))
    index.add(pa.table({"id": ["b"], "text": ["tea"]}), progress=add_more)
    assert refused
    assert set(refused) == {"index"}
    index.compact()
    assert len(index) == 2


# ---- the GIL ----


@contextmanager
def ticking() -> Iterator[list[float]]:
    """The times at which another thread got to run Python."""
    ticks: list[float] = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.0005)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        yield ticks
    finally:
        stop.set()
        thread.join()


def longest_silence(call: Callable[[], object]) -> tuple[float, float]:
    """(seconds of the call, longest stretch of it in which no other thread ran Python)."""
    with ticking() as ticks:
        time.sleep(0.02)
        started = time.perf_counter()
        call()
        ended = time.perf_counter()
        time.sleep(0.02)
    inside = [started, *(tick for tick in ticks if started < tick < ended), ended]
    return ended - started, max(b - a for a, b in itertools.pairwise(inside))


def hold_the_gil() -> None:
    """One call that keeps the GIL for long: what the check must catch."""
    sum(range(30_000_000))


@pytest.mark.slow
def test_other_threads_run_during_long_calls() -> None:
    n, dim = 60_000, 64
    rng = np.random.default_rng(3)
    table = pa.table({"id": np.arange(n), "text": ["tea milk cup pot jug hot cold"] * n})
    vectors = rng.normal(size=(n, dim)).astype(np.float32)
    schema = hr.Schema(key="id", cell=None, text="text", vector="v", stored=())
    made: list[hr.Index] = []

    def build() -> None:
        made.append(hr.Index.build(table, schema, vectors={"v": vectors}, threads=1))

    queries = rng.normal(size=(300, dim)).astype(np.float32)
    texts = ["tea milk cup pot jug"] * 300
    calls: dict[str, Callable[[], object]] = {
        "build": build,
        "recall": lambda: made[0].recall(text=texts, vectors=queries),
        "delete and compact": lambda: (made[-1].delete(range(0, n, 9)), made.pop().compact()),
    }
    for name, call in calls.items():
        share = []
        for _ in range(3):  # a busy machine may keep the other thread waiting for other reasons
            build()
            seconds, silence = longest_silence(call)
            assert seconds > 0.005, f"{name} is too short to tell"
            share.append(silence / seconds)
            if share[-1] < 0.5:
                break
        else:
            pytest.fail(f"{name} kept other threads from running for {share} of its time")


@pytest.mark.slow
def test_a_call_that_keeps_the_gil_is_noticed() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # so that pure Python counts as one long call
    try:
        seconds, silence = longest_silence(hold_the_gil)
    finally:
        sys.setswitchinterval(before)
    assert silence > 0.5 * seconds


def test_eight_readers_and_a_writer_all_get_right_answers(effort: Effort) -> None:
    n = 2000
    rng = np.random.default_rng(5)
    words = np.array([f"w{i}" for i in range(50)])
    table = pa.table(
        {
            "id": [f"k{i}" for i in range(n)],
            "user": ["ana"] * n,
            "text": [" ".join(w) for w in words[rng.integers(0, 50, (n, 6))]],
            "version": np.zeros(n, int),
        }
    )
    vectors = rng.normal(size=(n, 8)).astype(np.float32)
    index = hr.Index.build(table, SCHEMA, vectors={"v": vectors})
    asked: dict[str, Any] = {
        "text": ["w1 w2", hr.Phrase("w3 w4"), hr.Prefix("w1"), None] * 5,
        "vectors": rng.normal(size=(20, 8)).astype(np.float32),
        "scope": "ana",
    }
    wanted = index.recall(**asked).to_arrow()
    wrong: list[object] = []
    stop = threading.Event()

    def read() -> None:
        try:
            while not stop.is_set():
                hits = index.recall(**asked)
                if (
                    not hits.to_arrow().equals(wanted)
                    or hits[0][0].explain().score != hits[0][0].score
                ):
                    wrong.append(hits)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    end = time.monotonic() + (30.0 if effort.full else 1.5)
    version = 0
    try:
        while time.monotonic() < end:  # another cell: ana's replies must not move by a bit
            version += 1
            others = pair(version)["table"].set_column(1, "user", pa.array(["bob"] * 2))
            index.upsert(others, vectors={"v": np.full((2, 8), version, np.float32)})
            if version % 20 == 0:
                index.compact()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert version > 5


def test_a_recall_without_room_for_threads_is_done_by_the_caller() -> None:
    """As a user who may have no more of them, which root always may."""
    code = """
import os, resource, threading
import numpy as np, pyarrow as pa
import hyrecall as hr
rows = np.random.default_rng(1).standard_normal((400, 8)).astype(np.float32)
index = hr.Index.build(
    pa.table({"id": range(400)}), hr.Schema(key="id", cell=None, vector="v"),
    vectors={"v": rows}, threads=1,
)
index.save("index")
index = hr.Index.open("index", threads=256)
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
try:
    threading.Thread(target=print).start()
except RuntimeError:
    pass
else:
    raise AssertionError("a thread could be started")
for _ in range(3):
    hits = index.recall(vectors=rows, limit=1)
    assert [one.keys for one in hits] == [[i] for i in range(400)]
print("answered")
"""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": str(Path(hr.__file__).parents[1])},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.stdout == "answered\n", done.stderr
