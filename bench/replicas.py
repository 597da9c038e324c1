"""Measure copies of an index and of a store at a URL: seconds and bytes of pushes and pulls.

    python -m bench.replicas [--rows 1000000] [--dim 128] [--memories 100000] [--folder DIR]

prints the tables of docs/replicas.md. The place is a folder (``file://``) on the same disk, so the
figures are those of reading, hashing, writing and syncing, without a network. A pull ends when
the replica can be opened; ``open`` reads and checks every byte of it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

import hyrecall as hr
from bench.corpus import clustered_rows, generator
from hyrecall.memory import Episode, MemorySync
from hyrecall.recipes import loom
from hyrecall.replicas import Pulled, Pushed, pull, push

T = TypeVar("T")

WORDS = 12
MEMORIES_AT_ONCE = 5_000


def texts(n: int, name: str) -> list[str]:
    """Draw texts of WORDS words."""
    drawn = generator(name).integers(0, 30_000, (n, WORDS))
    return [" ".join(f"w{at}" for at in row) for row in drawn]


def rows(first: int, n: int, dim: int) -> pa.Table:
    """Return rows with a text and a vector each, of 100 tenants."""
    vectors = pa.FixedSizeListArray.from_arrays(
        pa.array(clustered_rows(n, dim, f"rows from {first}").reshape(-1)), dim
    )
    ids = range(first, first + n)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "tenant": [f"t{at % 100}" for at in ids],
            "text": texts(n, f"texts from {first}"),
            "embedding": vectors,
        }
    )


def heading(what: str) -> None:
    """Begin a table."""
    print(f"\n| {what} | seconds | travelled |\n|---|---|---|")


def timed(what: str, work: Callable[[], T]) -> T:
    """Run something and print a row of the table."""
    began = time.perf_counter()
    done = work()
    seconds = time.perf_counter() - began
    moved = ""
    if isinstance(done, Pushed | Pulled):
        n_bytes = done.bytes_sent if isinstance(done, Pushed) else done.bytes_fetched
        moved = f"{n_bytes / 1e6:,.1f} MB of {done.n_bytes / 1e6:,.1f}"
    print(f"| {what} | {seconds:.2f} | {moved} |", flush=True)
    return done


def of_an_index(folder: Path, n_rows: int, dim: int) -> None:
    """Push and pull an index, whole and after one row in a hundred was added."""
    print(
        f"\n| an index of {n_rows:,} rows, {dim} dimensions | seconds | travelled |\n|---|---|---|"
    )
    url = (folder / "remote").as_uri()
    schema = hr.Schema(key="id", cell="tenant", text="text", vector="embedding")
    index = hr.Index.build(rows(0, n_rows, dim), schema)
    timed("save", lambda: index.save(folder / "source"))
    timed("push", lambda: push(folder / "source", url))
    timed("pull into a new folder", lambda: pull(url, folder / "copy"))
    copy = timed("open", lambda: hr.Index.open(folder / "copy", verify="full"))
    assert len(copy) == n_rows
    more = n_rows // 100
    index.add(rows(n_rows, more, dim))
    index.save(folder / "source")
    timed(f"push after {more:,} rows more", lambda: push(folder / "source", url))
    timed("pull", lambda: pull(url, folder / "copy"))
    timed("reload", copy.reload)
    assert len(copy) == n_rows + more
    timed("pull with nothing new", lambda: pull(url, folder / "copy"))


def of_a_store(folder: Path, n_memories: int) -> None:
    """Push and pull a store, whole and after one memory more."""
    heading(f"a store of {n_memories:,} memories")
    url = (folder / "remote").as_uri()
    with MemorySync.open(folder / "source", recipe=loom, embedder=None) as memory:
        for at in range(0, n_memories, MEMORIES_AT_ONCE):
            n = min(MEMORIES_AT_ONCE, n_memories - at)
            memory.remember_batch(
                [
                    Episode(user_id=f"u{place % 100}", text=text)
                    for place, text in enumerate(texts(n, f"memories from {at}"))
                ]
            )
    timed("push", lambda: push(folder / "source", url))
    timed("pull into a new folder", lambda: pull(url, folder / "copy"))
    with MemorySync.open(folder / "source", recipe=loom, embedder=None) as memory:
        for n in (1, 100):
            for _ in range(n):
                memory.remember("one memory more", user_id="u7")
            told = f"{n} memor{'y' if n == 1 else 'ies'} more"
            timed(f"push after {told}", lambda: push(folder / "source", url))
            timed("pull", lambda: pull(url, folder / "copy"))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--folder", help="where to make the folders; default: that of TMPDIR")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        of_an_index(Path(folder) / "index", given.rows, given.dim)
        of_a_store(Path(folder) / "store", given.memories)


if __name__ == "__main__":
    main()
