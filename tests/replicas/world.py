"""Indexes and stores in numbered versions, whose content shows a mixture, and remotes that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.memory import Episode, MemorySync
from hyrecall.recipes import loom
from hyrecall.replicas import pull, push
from seams import FolderRemote, StoredObject

N_ROWS = 12
PARTS = 3
SCHEMA = hr.Schema(key="id", cell="user", text="text", vector="embedding")


def rows(version: int) -> pa.Table:
    vector = pa.FixedSizeListArray.from_arrays(pa.array([1.0, version] * N_ROWS, pa.float32()), 2)
    return pa.table(
        {
            "id": [f"{version}-{at}" for at in range(N_ROWS)],
            "user": ["ann"] * N_ROWS,
            "text": [f"version {version}"] * N_ROWS,
            "embedding": vector,
        }
    )


def new_index(folder: Path, version: int = 0) -> hr.Index:
    """Save an index whose rows all name one version."""
    index = hr.Index.build(rows(version), SCHEMA)
    index.save(folder)
    return index


def next_index(folder: Path, version: int) -> None:
    """Save the next version: other rows, in a segment more or in one."""
    index = hr.Index.open(folder)
    index.delete(scope="ann", everything=True)
    index.add(rows(version))
    if version % 3 == 0:
        index.compact()
    index.save(folder)


def lagging_index(folder: Path, place: str | None = None) -> str:
    """Push version 1 of ``source``, pull it as ``copy``, push version 2; return the place."""
    url = place or (folder / "remote").as_uri()
    new_index(folder / "source", 1)
    push(folder / "source", url)
    pull(url, folder / "copy")
    next_index(folder / "source", 2)
    push(folder / "source", url)
    return url


def lagging_store(folder: Path) -> str:
    """Push version 0 of ``source``, pull it as ``copy``, push version 1; return the place."""
    url = (folder / "remote").as_uri()
    next_store(folder / "source", 0)
    push(folder / "source", url)
    pull(url, folder / "copy")
    next_store(folder / "source", 1)
    push(folder / "source", url)
    return url


def index_versions(folder: Path) -> list[int]:
    """Return the versions that the rows of an index name: one, or it is a mixture."""
    index = hr.Index.open(folder, verify="full")
    hits = index.recall_one(text="version", scope="ann", limit=100, columns=("text",))
    assert len(hits) == N_ROWS == len(index), len(index)
    return sorted({int(hit.text.split()[1]) for hit in hits})


def open_store(folder: Path, *, read_only: bool = False) -> MemorySync:
    return MemorySync.open(
        folder, recipe=loom, embedder=None, shared=False, warm=False, read_only=read_only
    )


def next_store(folder: Path, version: int) -> None:
    """Commit some rows of one version together; every fourth version erases one before it."""
    with open_store(folder) as memory:
        if version % 4 == 3:
            memory.forget(user_id="ann", session_id=f"v{version - 2}", erase=True)
        memory.remember_batch(
            [
                Episode(user_id="ann", session_id=f"v{version}", text=f"version {version}, {at}")
                for at in range(PARTS)
            ]
        )


def store_versions(folder: Path, *, is_cut: bool = False) -> set[int]:
    """Return the versions in a store; each must be there in whole, by rows and by the index.

    is_cut: a pull ended early, so files of the old index may be beside a new database. Only the
    check of erased rows may say so.
    """
    with open_store(folder, read_only=True) as memory:
        report = memory.doctor(full=True)
        failed = [one.name for one in report.checks if not one.ok]
        assert failed == [] or (is_cut and failed == ["erased"]), report
        listed = [one.text for one in memory.list(user_id="ann", limit=10_000)]
        found = memory.search("version", user_id="ann", limit=100)
    told = [int(text.split()[1].strip(",")) for text in listed]
    assert all(told.count(version) == PARTS for version in told), told
    assert {match.episode.text for match in found} <= set(listed)
    assert len(found) == min(len(listed), 100)
    return set(told)


class Killed(BaseException):
    """What a test raises in place of a kill."""


class Meddled:
    """A remote that passes on to another one, and calls something before each request."""

    def __init__(self, inner: Any, before: Callable[[str, str], object]) -> None:
        self._inner = inner
        self._before = before

    @property
    def url(self) -> str:
        return str(self._inner.url)

    def get(self, name: str) -> bytes:
        self._before("get", name)
        return bytes(self._inner.get(name))

    def put(self, name: str, content: bytes) -> None:
        self._before("put", name)
        self._inner.put(name, content)

    def has(self, name: str) -> bool:
        self._before("has", name)
        return bool(self._inner.has(name))

    def settle(self) -> None:
        self._before("settle", "")
        self._inner.settle()

    def get_head(self) -> tuple[bytes, str] | None:
        self._before("get_head", "")
        found: tuple[bytes, str] | None = self._inner.get_head()
        return found

    def replace_head(self, content: bytes, tag: str | None) -> None:
        self._before("replace_head", "")
        self._inner.replace_head(content, tag)

    def listed(self, prefix: str) -> Iterator[StoredObject]:
        self._before("listed", prefix)
        yield from self._inner.listed(prefix)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._before("delete", name)
            self._inner.delete([name])


def give(monkeypatch: pytest.MonkeyPatch, make: Callable[[FolderRemote], Any]) -> None:
    """Have push, pull and prune open what `make` makes of a folder's remote."""
    from seams import places, pruning, pulling, pushing

    plain = places.open_remote
    for module in (pushing, pulling, pruning):
        monkeypatch.setattr(module, "open_remote", lambda place: make(plain(place)))
