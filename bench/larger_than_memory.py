"""An index that is larger than the memory it may use, beside the same index in memory.

    python -m bench.larger_than_memory FOLDER [--rows 300000] [--dim 384] [--limit-mb 500]

builds an index of texts and vectors in FOLDER unless it is there, and prints a table. Two processes
ask it the same questions: one with ``memory="ram"`` and no limit, one with ``memory="mmap"`` and
``verify="structure"`` within the limit (bench/memory_limit.py says how it is kept). The first
begins with files that the system was asked to drop. The replies must have the same bytes.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import hyrecall as hr
from bench import corpus
from bench.memory_limit import resident_bytes, within
from bench.open_cost import TENANT_ROWS, build, drop_pages, warm_up

N_QUERIES = 40
N_UNSCOPED = 5


class Timed:
    """Milliseconds of calls by name, and a hash of all replies."""

    def __init__(self) -> None:
        """Begin without a call."""
        self.ms: dict[str, list[float]] = {}
        self.replies = hashlib.sha256()
        self.most_bytes = 0

    def run(self, name: str, call: Callable[[], Any]) -> Any:
        """Call and note the time."""
        began = time.perf_counter()
        made = call()
        self.ms.setdefault(name, []).append((time.perf_counter() - began) * 1e3)
        self.most_bytes = max(self.most_bytes, resident_bytes())
        return made

    def ask(self, name: str, index: hr.Index, **options: Any) -> None:
        """Recall, read the hits with their texts, and note time and reply."""
        table = self.run(
            name, lambda: index.recall(limit=10, columns=("text",), **options).to_arrow()
        )
        self.replies.update(json.dumps(table.to_pylist(), default=str).encode())


def measure(folder: Path, options: dict[str, Any], limit: int, dim: int) -> dict[str, Any]:
    """Open the index and ask it, within a limit unless that is 0."""
    rng = np.random.default_rng(3)
    queries = rng.standard_normal((N_QUERIES, dim), dtype=np.float32)
    words = [corpus.spell(query) for query in corpus.text_queries(N_QUERIES)]
    warm_up()
    timed = Timed()
    with within(limit) if limit else contextlib.nullcontext("no limit") as how:
        index = timed.run("open", lambda: hr.Index.open(folder, device="cpu", **options))
        n_tenants = max(1, len(index) // TENANT_ROWS)
        tenants = rng.integers(0, n_tenants, N_QUERIES).tolist()
        timed.ask("first of a tenant, vectors", index, vectors=queries[:1], scope=tenants[0])
        timed.ask("first of a tenant, texts", index, text=words[:1], scope=tenants[0])
        everyone = hr.Scope(list(range(n_tenants)))
        timed.ask("first unscoped, vectors", index, vectors=queries[:1], scope=everyone)
        for at in range(N_QUERIES):
            both = {"text": [words[at]], "vectors": queries[at : at + 1]}
            timed.ask("a tenant, both", index, scope=tenants[at], **both)
        for at in range(N_UNSCOPED):
            timed.ask("unscoped, vectors", index, vectors=queries[at : at + 1], scope=everyone)
        for at in range(N_UNSCOPED):
            timed.ask("unscoped, texts", index, text=[words[at]], scope=everyone)
    ms = {name: statistics.median(times) for name, times in timed.ms.items()}
    return {
        "how": how,
        "ms": ms,
        "replies": timed.replies.hexdigest(),
        "most_mb": timed.most_bytes / 1e6,
    }


def read_seconds(folder: Path, role: str) -> float:
    """Return how long the disk takes to give a role's files, from a cold start."""
    drop_pages(folder)
    began = time.perf_counter()
    for path in folder.glob(f"*-{role}-*.arrow"):
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 22):
                pass
    return time.perf_counter() - began


def child(folder: Path, what: dict[str, Any]) -> dict[str, Any]:
    """Run this module in a process of its own and return what it measured."""
    command = [sys.executable, "-m", "bench.larger_than_memory", str(folder), "--child"]
    done = subprocess.run(
        [*command, json.dumps(what)],
        cwd=Path(__file__).parent.parent,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--limit-mb", type=int, default=500)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        what = json.loads(given.child)
        if what.get("rows"):
            build(given.folder, what["rows"], what["dim"])
            print("{}")
            return
        print(json.dumps(measure(given.folder, what["options"], what["limit"], what["dim"])))
        return
    folder = given.folder
    if not (folder / "MANIFEST").exists():
        child(folder, {"rows": given.rows, "dim": given.dim})
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{size / 1e6:.0f} MB of files; the plane takes {read_seconds(folder, 'plane'):.2f} s")
    drop_pages(folder)
    mapped = {"options": {"memory": "mmap", "verify": "structure"}, "dim": given.dim}
    limited = child(folder, mapped | {"limit": given.limit_mb * 1_000_000})
    drop_pages(folder)
    whole = child(folder, {"options": {"memory": "ram"}, "limit": 0, "dim": given.dim})
    print(f"limit: {limited['how']}")
    print("\n| milliseconds (median) | within the limit | in memory |\n|---|---|---|")
    for name, ms in limited["ms"].items():
        print(f"| {name} | {ms:.1f} | {whole['ms'][name]:.1f} |")
    print(f"| most resident MB after a call | {limited['most_mb']:.0f} | {whole['most_mb']:.0f} |")
    print("\nreplies:", "equal" if limited["replies"] == whole["replies"] else "DIFFERENT")


if __name__ == "__main__":
    main()
