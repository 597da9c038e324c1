"""An index that is larger than the memory it may use, beside the same index without a limit.

    python -m bench.larger_than_memory FOLDER [--rows 300000] [--limit-mb 500] [--beside ram]

builds an index of texts and vectors in FOLDER unless it is there, part by part within
``--build-limit-mb``, and prints a table. Processes ask it the same questions: one opens it with
``memory="mmap"`` and ``verify="structure"`` within the limit (bench/memory_limit.py says how it is
kept), one without a limit, with ``memory="ram"`` or mapped (``--beside mmap``). The replies must
have the same bytes, and the best rows of unscoped queries must be those of a scan of all vectors in
float64. Each cold call has a process of its own that begins with files which the system was asked
to drop, and the disk's time for the planes is measured just before.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import hyrecall as hr
from bench import corpus, grown, streamed
from bench.memory_limit import dropping, group_within, peak_of_own, resident_bytes, run_in
from bench.open_cost import drop_pages, warm_up
from bench.streamed import TENANT_ROWS

N_QUERIES = 40
N_UNSCOPED = 5
COLD = ("a tenant, vectors", "a tenant, texts", "unscoped, vectors", "unscoped, texts")
AGAIN = {
    f"{who}, {what}": n
    for who, n in (("a tenant", N_QUERIES), ("unscoped", N_UNSCOPED))
    for what in ("vectors", "texts", "both")
}
Found = dict[str, Any]


class Timed:
    """Milliseconds of calls by name, and a hash of all replies."""

    def __init__(self) -> None:
        """Begin without a call."""
        self.ms: dict[str, list[float]] = {}
        self.cpu_ms: dict[str, list[float]] = {}
        self.replies = hashlib.sha256()
        self.most_bytes = 0

    def run(self, name: str, call: Callable[[], Any]) -> Any:
        """Call and note the time."""
        began, worked = time.perf_counter(), time.process_time()
        made = call()
        self.ms.setdefault(name, []).append((time.perf_counter() - began) * 1e3)
        self.cpu_ms.setdefault(name, []).append((time.process_time() - worked) * 1e3)
        self.most_bytes = max(self.most_bytes, resident_bytes())
        return made

    def ask(self, name: str, index: hr.Index, **options: Any) -> list[int]:
        """Recall, read the hits with their texts, note time and reply, and return the keys."""
        table = self.run(
            name, lambda: index.recall(limit=10, columns=("text",), **options).to_arrow()
        )
        self.replies.update(json.dumps(table.to_pylist(), default=str).encode())
        keys: list[int] = table["key"].to_pylist()
        return keys


class Asking:
    """The questions, drawn for an index, and their order."""

    def __init__(self, index: hr.Index, timed: Timed) -> None:
        """Draw them."""
        self.index, self.timed = index, timed
        n_tenants = max(1, len(index) // TENANT_ROWS)
        self.tenants = np.random.default_rng(3).integers(0, n_tenants, N_QUERIES).tolist()
        self.everyone = hr.Scope(list(range(n_tenants)))
        self.vectors = grown.queries(N_QUERIES)
        self.words = [corpus.spell(query) for query in corpus.text_queries(N_QUERIES)]

    def ask(self, name: str, at: int) -> list[int]:
        """Ask one question by its name, such as "a tenant, vectors"."""
        who, what = name.split(", ")
        options: dict[str, Any] = {}
        if what in ("vectors", "both"):
            options["vectors"] = self.vectors[at : at + 1]
        if what in ("texts", "both"):
            options["text"] = [self.words[at]]
        scope = self.tenants[at] if who == "a tenant" else self.everyone
        return self.timed.ask(name, self.index, scope=scope, **options)


def measure(folder: Path, what: Found) -> Found:
    """Open the index and ask it, within a limit unless a group keeps it."""
    grown.seeds()
    warm_up()
    timed = Timed()
    with dropping(what["limit"]) if what["limit"] else contextlib.nullcontext():
        options = what["options"]
        index = timed.run("open", lambda: hr.Index.open(folder, device="cpu", **options))
        asking = Asking(index, timed)
        best: list[list[int]] = []
        if "cold" in what:
            asking.ask(what["cold"], 0)
        else:
            for name, n in AGAIN.items():
                for at in range(n):  # whatever is read once
                    asking.ask(name, at)
                for times in (timed.ms, timed.cpu_ms):
                    del times[name]
                found = [asking.ask(name, at) for at in range(n)]
                best += found if name == "unscoped, vectors" else []
            for times in (timed.ms, timed.cpu_ms):
                del times["open"]
    return {
        "ms": {name: statistics.median(times) for name, times in timed.ms.items()},
        "cpu_ms": {name: statistics.median(times) for name, times in timed.cpu_ms.items()},
        "replies": timed.replies.hexdigest(),
        "most_mb": timed.most_bytes / 1e6,
        "best": best,
    }


def build(folder: Path, what: Found) -> Found:
    """Build the index part by part."""
    began = time.perf_counter()
    with peak_of_own() as peak:
        index = hr.Index.build_in_parts(
            streamed.batches(what["rows"]), streamed.SCHEMA, folder, memory_limit=what["memory"]
        )
    return {
        "seconds": time.perf_counter() - began,
        "own_mb": peak[0] / 1e6,
        "segments": index.stats()["n_segments"],
    }


def read_seconds(folder: Path, roles: str) -> float:
    """Return how long the disk takes to give the files of some roles, from a cold start."""
    drop_pages(folder)
    began = time.perf_counter()
    for path in folder.glob("*.arrow"):
        if re.search(f"-({roles})-", path.name):
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 22):
                    pass
    return time.perf_counter() - began


def best_rows(folder: Path, queries: np.ndarray[Any, Any]) -> list[list[int]]:
    """Return the keys of the ten best rows of each query by a scan of all vectors in float64."""
    best: list[list[tuple[float, int]]] = [[] for _ in queries]
    for path in folder.glob("*-vectors-0.arrow"):
        rows = pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0).column(0).storage
        named = path.with_name(path.name.replace("vectors-0", "rows"))
        keys = pa.ipc.open_file(pa.memory_map(str(named))).get_batch(0).column(1).to_numpy()
        values = rows.values.to_numpy().reshape(len(keys), -1)
        for begin in range(0, len(keys), 65_536):
            part = values[begin : begin + 65_536].astype(np.float64)
            scores = (part @ queries.T.astype(np.float64)) / np.linalg.norm(part, axis=1)[:, None]
            for query in range(len(queries)):
                top = np.argsort(-scores[:, query], kind="stable")[:10]
                found = zip(scores[top, query].tolist(), keys[begin + top].tolist(), strict=True)
                held = sorted([*best[query], *found], key=lambda one: (-one[0], one[1]))
                best[query] = held[:10]
    drop_pages(folder)
    return [[key for _, key in held] for held in best]


def child(folder: Path, what: Found, limit: int = 0) -> Found:
    """Run this module in a process of its own, within a limit, and return what it measured."""
    command = [sys.executable, "-m", "bench.larger_than_memory", str(folder), "--child"]
    with group_within(limit) if limit else contextlib.nullcontext() as group:
        what = what | {"limit": limit if group is None else 0}
        told = run_in(group, [*command, json.dumps(what)], Path(__file__).parent.parent)
        found: Found = json.loads(told.splitlines()[-1])
        found["how"] = "a thread drops pages of mapped files beyond the limit"
        if group is not None:
            found["how"] = f"a cgroup v{group.version}"
            found["charged_mb"] = (group.most_bytes or 0) / 1e6
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--limit-mb", type=int, default=500)
    parser.add_argument("--build-limit-mb", type=int, default=1_000)
    parser.add_argument("--beside", choices=("ram", "mmap"), default="ram")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    folder = given.folder
    if given.child:
        what = json.loads(given.child)
        print(json.dumps((build if "rows" in what else measure)(folder, what)))
        return
    if not (folder / "MANIFEST").exists():
        limit = given.build_limit_mb * 2**20
        made = child(folder, {"rows": given.rows, "memory": int(0.75 * limit)}, limit)
        print("build:", json.dumps(made))
    size = sum(path.stat().st_size for path in folder.iterdir())
    n_segments = len(list(folder.glob("*-rows.arrow")))
    print(f"{size / 1e6:,.0f} MB of files, {n_segments} segments")
    limit = given.limit_mb * 2**20
    mapped: Found = {"options": {"memory": "mmap", "verify": "structure"}}
    print(f"\nlimit: {given.limit_mb} MiB; milliseconds (of processor time)\n")
    print("| cold | open | call | reading all planes |\n|---|---|---|---|")
    for name in COLD:
        planes = 1e3 * read_seconds(folder, "plane|heads|directions")
        drop_pages(folder)
        found = child(folder, mapped | {"cold": name}, limit)
        told = [f"{found['ms'][of]:.0f} ({found['cpu_ms'][of]:.0f})" for of in ("open", name)]
        print(f"| {name} | {told[0]} | {told[1]} | {planes:.0f} |", flush=True)
    drop_pages(folder)
    limited = child(folder, mapped, limit)
    drop_pages(folder)
    whole = child(folder, mapped if given.beside == "mmap" else {"options": {"memory": "ram"}})
    print(f"\n{limited['how']}: {limited.get('charged_mb', 0):.0f} MB charged at most")
    beside = {"ram": "in memory", "mmap": "mapped, no limit"}[given.beside]
    print(f"\n| again (median) | within the limit | {beside} |\n|---|---|---|")
    for name in limited["ms"]:
        told = [f"{one['ms'][name]:.1f} ({one['cpu_ms'][name]:.1f})" for one in (limited, whole)]
        print(f"| {name} | {told[0]} | {told[1]} |")
    print(f"| most resident MB after a call | {limited['most_mb']:.0f} | {whole['most_mb']:.0f} |")
    print("\nreplies:", "equal" if limited["replies"] == whole["replies"] else "DIFFERENT")
    right = best_rows(folder, grown.queries(N_UNSCOPED))
    print("best rows of all:", "right" if limited["best"] == right else "WRONG")


if __name__ == "__main__":
    main()
