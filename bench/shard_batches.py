"""Time a batch over one index and the same batch over its shards.

    python -m bench.shard_batches FOLDER [--queries 10000 100000] [--ways one here ray]
                           [--docs 40000] [--dim 16] [--tenants 500] [--shards 4]

builds an index and its shards in FOLDER unless they are there, writes queries (four words and a
vector, each within one tenant) and answers them, each time in processes of their own:

- one: one index in one process
- here: all shards in one process
- ray: two actors of Ray, each of which opens all shards; left out without Ray

The files of hits must have the same values, to the last bit; a hash checks this. The script prints
the wall time, the CPU time of all processes it started (start-up included), and the greatest
memory of all processes together (a shared page counts once).
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hyrecall as hr
from hyrecall.distributed import BatchRecall, recall_dataset

WAYS = ("one", "here", "ray")
PIECE = 50_000
HOW: dict[str, Any] = {"fusion": hr.RRF(), "limit": 3}
_TICKS = os.sysconf("SC_CLK_TCK")


def rows_of(first: int, last: int, n_words: int, dim: int, tenants: int) -> pa.Table:
    """Return rows of words by Zipf's law, a vector and a tenant."""
    rng, n = np.random.default_rng([first, n_words]), last - first
    words = rng.zipf(1.3, (n, n_words)).clip(max=5000).astype(str)
    return pa.table({
        "id": pa.array(range(first, last)).cast(pa.string()),
        "tenant": rng.integers(tenants, size=n).astype(str),
        "text": [" ".join(row) for row in words],
        "embedding": pa.FixedSizeListArray.from_arrays(
            rng.standard_normal(n * dim, dtype=np.float32), dim
        ),
    })  # fmt: skip


def build(folder: Path, n_docs: int, n_shards: int, dim: int, tenants: int) -> None:
    """Save one index, and the same rows in shards."""
    schema = hr.Schema(key="id", cell="tenant", text="text", vector="embedding")
    docs = rows_of(0, n_docs, 30, dim, tenants)
    hr.Index.build(docs, schema).save(folder / "one")
    ends = np.linspace(0, n_docs, n_shards + 1).astype(int)
    for at in range(n_shards):
        own = docs.slice(ends[at], ends[at + 1] - ends[at])
        made = hr.Index.build(own, schema, first_seq=int(ends[at]))
        made.save(folder / "shards" / str(at))


def write_queries(path: Path, n: int, dim: int, tenants: int) -> None:
    """Write queries piece by piece."""
    with pq.ParquetWriter(path, rows_of(0, 1, 4, dim, tenants).schema) as out:
        for first in range(0, n, PIECE):
            out.write_table(rows_of(first, min(first + PIECE, n), 4, dim, tenants))


# ---- one way, in a process of its own ----


def folders(folder: Path) -> list[Path]:
    """Return the folders of the shards."""
    return sorted((folder / "shards").iterdir(), key=lambda one: int(one.name))


def tell(done: int, total: int) -> None:
    """Show how far a batch is."""
    print(f"\r{done:,} of {total:,} queries", end="", file=sys.stderr, flush=True)


def answer(way: str, folder: Path, queries: Path, output: Path) -> None:
    """Answer the queries; the hits go into the folder ``output``."""
    recall = BatchRecall(
        folder / "one" if way == "one" else folders(folder),
        key="id", text="text", vectors="embedding", scope="tenant", **HOW,
    )  # fmt: skip
    recall_dataset(
        recall, queries, output, on_ray=way == "ray", concurrency=2, num_cpus=1, progress=tell
    )
    print(file=sys.stderr)


def hash_of(output: Path) -> tuple[str, int]:
    """Return a hash of all hits, and their number."""
    told, n_hits = hashlib.sha256(), 0
    for path in sorted(output.glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(PIECE):
            table = pa.Table.from_batches([batch])
            if "query" in table.column_names:
                table = table.drop_columns("query")
            for row in zip(*(one.to_pylist() for one in table.columns), strict=True):
                told.update(repr(row).encode())
            n_hits += table.num_rows
    return told.hexdigest()[:16], n_hits


# ---- what all processes of a way take ----


class Watched:
    """Looks at a process and all that it started, a few times a second."""

    def __init__(self, root: int) -> None:
        """Take the id of the process."""
        self._root = root
        self._seconds: dict[int, float] = {}
        self.peak_bytes = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    @property
    def seconds(self) -> float:
        """Processor seconds of all processes that were seen."""
        return sum(self._seconds.values())

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.25):
            n_bytes = 0
            for pid in _family(self._root):
                with contextlib.suppress(OSError, ValueError, IndexError):
                    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                    self._seconds[pid] = (int(fields[11]) + int(fields[12])) / _TICKS
                    told = Path(f"/proc/{pid}/smaps_rollup").read_text()
                    own = next(one for one in told.splitlines() if one.startswith("Pss:"))
                    n_bytes += int(own.split()[1]) << 10
            self.peak_bytes = max(self.peak_bytes, n_bytes)


def _family(root: int) -> Iterator[int]:
    """Yield a process and all that descend from it."""
    parents: dict[int, int] = {}
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                told = (one / "stat").read_text().rsplit(")", 1)[1]
                parents[int(one.name)] = int(told.split()[1])
    known = {root}
    while more := {pid for pid, parent in parents.items() if parent in known} - known:
        known |= more
    yield from known


def measure(way: str, folder: Path, queries: Path) -> dict[str, Any]:
    """Run a way in a process of its own; return what it took and a hash of the hits."""
    output = folder / "hits" / f"{queries.stem}-{way}-{os.getpid()}"
    output.parent.mkdir(exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "bench.shard_batches",
        str(folder),
        "--child",
        way,
        str(queries),
    ]
    began = time.perf_counter()
    child = subprocess.Popen([*command, str(output)])
    watched = Watched(child.pid)
    if child.wait():
        raise SystemExit(f"{way}: ended with {child.returncode}")
    seconds = time.perf_counter() - began
    watched.end()
    told, n_hits = hash_of(output)
    return {
        "clock": seconds, "processors": watched.seconds, "bytes": watched.peak_bytes,
        "hash": told, "hits": n_hits,
    }  # fmt: skip


def main() -> None:
    """Measure what the arguments name."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--queries", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--docs", type=int, default=40_000)
    parser.add_argument("--dim", type=int, default=16)
    parser.add_argument("--tenants", type=int, default=500)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        way, queries, output = given.child
        answer(way, given.folder, Path(queries), Path(output))
        return
    if not (given.folder / "one").exists():
        build(given.folder, given.docs, given.shards, given.dim, given.tenants)
    print("| queries | way | s | processor s | most memory | hits | hash |")
    print("|---|---|---|---|---|---|---|")
    for n in given.queries:
        path = given.folder / f"queries-{n}.parquet"
        if not path.exists():
            write_queries(path, n, given.dim, given.tenants)
        want: str | None = None
        for way in given.ways:
            if way == "ray" and importlib.util.find_spec("ray") is None:
                continue
            made = measure(way, given.folder, path)
            print(
                f"| {n:,} | {way} | {made['clock']:.1f} | {made['processors']:.1f} "
                f"| {made['bytes'] / 1e6:,.0f} MB | {made['hits']:,} | {made['hash']} |", flush=True
            )  # fmt: skip
            want = want or made["hash"]
            if made["hash"] != want:
                raise SystemExit(f"{way}: other hits than {given.ways[0]}")


if __name__ == "__main__":
    main()
