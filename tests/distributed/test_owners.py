"""Processes of shards and who owns them: closed, interrupted, forked, moved and killed."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hyrecall as hr
from distributed.saved import asked, process
from hyrecall.distributed import Request, ShardedIndex

SECONDS = 60.0  # in which something must have happened


@pytest.fixture
def closable(paths: list[Path]) -> Iterator[ShardedIndex]:
    """An index of one shard, for tests that close it."""
    with ShardedIndex.open(paths[:1], processes=True, device="cpu", threads=1) as made:
        made.recall(**asked())
        yield made


def wait_for(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + SECONDS
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.02)


def has_ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_a_closed_index_refuses_calls_and_starts_no_process(closable: ShardedIndex) -> None:
    closable.close()
    closable.close()
    request = Request(**asked())
    for call in (
        lambda: closable.recall(**asked()),
        lambda: closable.shards[0].statistics(request),
    ):
        with pytest.raises(hr.OptionError) as refused:
            call()
        assert str(refused.value) == "index: expected an open index, got a closed one"
    assert process(closable, 0).pid is None


def test_closing_ends_a_question_that_is_never_answered(closable: ShardedIndex) -> None:
    pid = process(closable, 0).pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    raised: list[Exception] = []

    def ask() -> None:
        try:
            closable.recall(**asked())
        except Exception as fault:
            raised.append(fault)

    asking = threading.Thread(target=ask)
    asking.start()
    wait_for(lambda: process(closable, 0).is_busy)
    closable.close()
    asking.join(SECONDS)
    assert not asking.is_alive()
    assert "got a closed one" in str(raised[0])


@pytest.mark.slow
def test_an_interrupted_question_leaves_no_answer_for_the_next(
    index: ShardedIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(file: object, n: int) -> Any:
        raise KeyboardInterrupt

    want = index.recall(**asked()).to_arrow()
    with monkeypatch.context() as patched:
        patched.setattr(os, "read", interrupted)
        with pytest.raises(KeyboardInterrupt):
            index.shards[0].statistics(Request(**asked()))
    assert index.recall(**asked()).to_arrow().equals(want)


def test_processes_outlive_the_interrupt_of_a_terminal(index: ShardedIndex) -> None:
    index.recall(**asked())
    pids = [process(index, at).pid for at in range(len(index))]
    for pid in pids:
        assert pid is not None
        os.kill(pid, signal.SIGINT)
    assert not index.recall(**asked()).degraded
    assert [process(index, at).pid for at in range(len(index))] == pids


@pytest.mark.slow
def test_processes_end_with_their_owner_though_a_forked_child_lives(paths: list[Path]) -> None:
    program = f"""
import os, signal, time
from distributed.saved import asked
from hyrecall.distributed import ShardedIndex
index = ShardedIndex.open({[str(path) for path in paths]!r}, processes=True, device="cpu")
index.recall(**asked())
child = os.fork()
if not child:
    time.sleep({10 * SECONDS})
    os._exit(0)
print(child, *[one.pid for one in index.shards], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    # Only pytest's own process has the folder of the tests among its places.
    own = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    owner = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=own
    )
    assert owner.stdout is not None
    child, *workers = map(int, owner.stdout.readline().split())
    try:
        assert owner.wait(SECONDS) == -signal.SIGKILL
        assert len(workers) == len(paths)
        wait_for(lambda: all(map(has_ended, workers)))
        assert not has_ended(child)
    finally:
        os.kill(child, signal.SIGKILL)
        owner.stdout.close()


@pytest.mark.slow
def test_processes_end_with_an_index_that_nobody_closed(paths: list[Path]) -> None:
    index = ShardedIndex.open(paths[:1], processes=True, device="cpu", threads=1)
    index.recall(**asked())
    pids = [process(index, at).pid for at in range(len(index))]
    del index
    gc.collect()
    for pid in pids:
        assert pid is not None
        assert has_ended(pid)


def test_a_relative_path_stays_the_same_folder(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(paths[0].parent)
    names = [path.name for path in paths[:1]]
    with ShardedIndex.open(names, processes=True, device="cpu", threads=1) as index:
        monkeypatch.chdir(tmp_path)
        assert len(index.recall(**asked())[0]) > 0


def test_timeouts_that_are_none(paths: list[Path]) -> None:
    for wrong in (0, -1.0, float("nan"), float("inf"), 1e9, "30", True):
        with pytest.raises(hr.HyrecallError, match="timeout: expected seconds above 0"):
            ShardedIndex.open(paths, processes=True, device="cpu", timeout=wrong)  # type: ignore[arg-type]
    with pytest.raises(hr.OptionError, match=r"threads: expected an int in \[1, 1024\]"):
        ShardedIndex.open(paths, processes=True, device="cpu", threads=0)
