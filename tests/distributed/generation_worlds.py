"""A folder of shards that changes while threads recall, and planted bugs in its exchange."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import hyrecall as hr
from distributed.building_worlds import built, write_files
from hyrecall.distributed import ShardedIndex
from seams import OpenShards

SECONDS = 60.0  # in which something must have happened

SCHEMA = hr.Schema(key="id", cell="user", text="text")
USERS = [f"u{at}" for at in range(12)]


def documents(seed: int) -> pa.Table:
    """Tenants of other sizes by another seed, so that they lie in other shards."""
    chance = random.Random(seed)
    users = [USERS[int(chance.paretovariate(0.7)) % 12] for _ in range(120)]
    return pa.table({"id": list(range(120)), "user": users, "text": [f"tea {seed}"] * 120})


def make(folder: Path, seed: int) -> Path:
    source = write_files(folder / f"in-{seed}", documents(seed), random.Random(1))
    built(source, SCHEMA, folder / "out", shards=2)
    return folder / "out"


ASKED: dict[str, Any] = {"text": ["tea"] * 12, "scope": USERS, "limit": 100}


def want(seed: int) -> pa.Table:
    """The reply of one index with all documents."""
    return hr.Index.build(documents(seed), SCHEMA, device="cpu").recall(**ASKED).to_arrow()


def opened(folder: Path, **options: Any) -> ShardedIndex:
    """Open a folder of shards."""
    return ShardedIndex.open(folder, device="cpu", threads=1, **options)


def reply_of(index: ShardedIndex) -> pa.Table:
    got = index.recall(**ASKED)
    assert not got.degraded, got.trace.degraded
    return got.to_arrow()


def build_anew(folder: Path, seed: int) -> None:
    """Remove the shards of a folder, and build others there."""
    shutil.rmtree(folder / "out")
    make(folder, seed)


class Askers:
    """Threads that recall again and again, and note which of some replies they get."""

    def __init__(self, index: ShardedIndex, wants: Sequence[pa.Table], n: int = 3) -> None:
        self._index, self._wants = index, wants
        self._alone = [
            [one.filter(pc.equal(one["query"], user)).drop_columns("query") for one in wants]
            for user in range(len(USERS))
        ]
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
                for user, wants in zip(USERS, self._alone, strict=True):
                    one = self._index.recall(text=["tea"], scope=user, limit=100).to_arrow()
                    assert any(map(one.drop_columns("query").equals, wants)), "of no generation"
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


class ShardsFirst(ShardedIndex):
    """A planted bug: the new shards answer before their router is there."""

    pause: Callable[[], None]

    def _take_up(self, now: OpenShards, made: OpenShards) -> None:
        self._now = replace(now, shards=made.shards)
        self.pause()
        super()._take_up(now, made)


class RouterFirst(ShardsFirst):
    """A planted bug: the new router asks the old shards."""

    def _take_up(self, now: OpenShards, made: OpenShards) -> None:
        self._now = replace(now, router=made.router)
        self.pause()
        ShardedIndex._take_up(self, now, made)
