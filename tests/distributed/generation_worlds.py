"""A folder of shards that changes while threads recall, and planted bugs in its exchange."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from distributed.test_replaced_folders import ASKED, SCHEMA, documents, make
from hyrecall.distributed import ShardedIndex
from seams import Generations, LocalShard, ReplicatedShard, SavedFolders

SECONDS = 60.0  # in which something must have happened

KINDS: dict[str, dict[str, Any]] = {
    "here": {},
    "processes": {"processes": True},
    "replicas": {"processes": True, "replicas": 2},
}


def kinds(*quick: str) -> pytest.MarkDecorator:
    """Try every kind, those whose processes start slowly in the long run unless they are named."""
    slow = [pytest.param(one, marks=pytest.mark.slow) for one in KINDS if one not in quick]
    return pytest.mark.parametrize("kind", [*quick, *slow])


def want(seed: int) -> pa.Table:
    """The reply of one index with all documents."""
    return hr.Index.build(documents(seed), SCHEMA, device="cpu").recall(**ASKED).to_arrow()


@contextmanager
def opened(folder: Path, kind: str = "here", **options: Any) -> Iterator[ShardedIndex]:
    """Open a folder of shards; processes have started."""
    how: dict[str, Any] = {"device": "cpu", "threads": 1, **KINDS[kind], **options}
    with ShardedIndex.open(folder, **how) as index:
        index.reload()
        yield index


def reply_of(index: ShardedIndex) -> pa.Table:
    got = index.recall(**ASKED)
    assert not got.degraded, got.trace.degraded
    return got.to_arrow()


def build_anew(folder: Path, seed: int, patch: pytest.MonkeyPatch) -> None:
    """Remove the shards of a folder, and build others there."""
    shutil.rmtree(folder / "out")
    make(folder, seed, patch)


def pids(index: ShardedIndex) -> set[int]:
    found: list[Any] = []
    for one in index.shards:
        found += one.replicas if isinstance(one, ReplicatedShard) else [one]
    return {one.pid for one in found if not isinstance(one, LocalShard)} - {None}


class Askers:
    """Threads that recall again and again, and note which of some replies they get."""

    def __init__(self, index: ShardedIndex, wants: Sequence[pa.Table], n: int = 3) -> None:
        self._index, self._wants = index, wants
        self.seen: list[list[int]] = [[] for _ in range(n)]
        self.faults: list[BaseException] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(own,)) for own in self.seen]

    def _ask(self, seen: list[int]) -> None:
        try:
            while not self._over.is_set():
                got = reply_of(self._index)
                found = [at for at, one in enumerate(self._wants) if got.equals(one)]
                assert found, "a reply of no generation"
                seen.append(found[0])
        except BaseException as fault:
            self.faults.append(fault)

    def go_on(self) -> None:
        """Wait until each thread has two more replies, or one a fault."""
        sizes = [len(own) + 2 for own in self.seen]
        until = time.monotonic() + SECONDS
        while not self.faults and any(
            len(own) < size for own, size in zip(self.seen, sizes, strict=True)
        ):
            assert time.monotonic() < until
            time.sleep(0.001)

    def __enter__(self) -> Askers:
        for one in self._threads:
            one.start()
        self.go_on()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        for one in self._threads:
            one.join(SECONDS)
        assert not self.faults, self.faults
        for own in self.seen:
            assert own == sorted(own), "a caller saw older documents after newer ones"


class ShardsFirst(Generations):
    """A planted bug: the new shards answer before their router is there."""

    pause: Callable[[], None]

    def _exchange(self, newer: Any) -> None:
        assert self._opener is not None
        opened = self._opener(SavedFolders(newer.folders, newer, is_index=False), {})
        old, self.current.shards = self.current.shards, tuple(opened.shards)
        self.pause()
        self.current.shards = old
        super()._exchange(newer)


class RouterFirst(Generations):
    """A planted bug: the new router asks the old shards."""

    pause: Callable[[], None]

    def _exchange(self, newer: Any) -> None:
        router = self.current.router
        assert router is not None
        self.current.router = type(router)(newer.shards.placement, router._types)
        self.pause()
        self.current.router = router
        super()._exchange(newer)
