"""Dense recall on one device beside torch on the same: every answer checked, medians as JSON.

    python -m bench.device_cases cases.json --device cuda:0 --size full
    python -m bench.device_cases cases.json --device cpu --size tiny

Wall time of the public call, queries in host memory, hits in host memory, warmed up; the median of
20 calls or more (fewer where 20 outlast the time of a measurement; the JSON says how many).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import hyrecall as hr
from bench import THREADS, corpus, device_rivals, ours, reference
from bench.device_world import SIZES, WINDOW, World

ROUNDS = (20, 200)
WARM_UP = 3
PEER_TOLERANCE = 1e-3  # of a bfloat16 score; half its step where scores exceed .25
Entry = dict[str, Any]
BYTES = {"rows": 2, "int8": 1}  # of a value in a plane that the first pass can read
RATES = {"rows": 1, "int8": 2}  # of its products, against bfloat16's


def timed(run: Callable[[], object], seconds: float) -> dict[str, Any]:
    """Time a call: the median in ms, and how far the calls were apart."""
    begin = time.perf_counter()
    for _ in range(WARM_UP):
        run()
    once = (time.perf_counter() - begin) / WARM_UP
    rounds = min(max(int(seconds / once), ROUNDS[0]), ROUNDS[1])
    if once * ROUNDS[0] > 10 * seconds:
        rounds = max(3, int(10 * seconds / once))
    taken = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        taken.append((time.perf_counter() - begin) * 1e3)
    taken.sort()
    return {
        "median_ms": statistics.median(taken),
        "min_ms": taken[0],
        "p90_ms": taken[int(0.9 * (rounds - 1))],
        "rounds": rounds,
    }


@dataclass(frozen=True)
class Case:
    """A line of the table; targets are those of one H100 at full size."""

    name: str
    dtype: str
    n_queries: int | None  # None: all of the size
    is_scoped: bool = False
    plane: str = "int8"  # what the first pass is made to read
    target_ms: float | None = None
    target_ratio: float | None = None  # against torch; with a mask where scoped


CASES = (
    Case("1 query, rows read", "bfloat16", 1, plane="rows", target_ms=0.65),
    Case("1 query, int8 first", "float32", 1, target_ms=0.40),
    Case("{queries:,} queries", "bfloat16", None, target_ms=2.6, target_ratio=5.0),
    Case("{queries:,} queries, rows read", "bfloat16", None, plane="rows"),
    Case(
        "{queries:,} queries, own of {tenants:,} tenants, half the time",
        "bfloat16",
        None,
        is_scoped=True,
        target_ms=0.8,
        target_ratio=20.0,
    ),
)


def compare_with_peer(mine: device_rivals.Reply, theirs: device_rivals.Reply) -> float:
    """Hold a peer to our answer: ids equal, or scores close; gives how far they were apart."""
    (ids, scores), (peer_ids, peer_scores) = mine, theirs
    assert np.array_equal(ids < 0, peer_ids < 0), "lists of other lengths"
    differ = (ids != peer_ids) & (ids >= 0)
    if not differ.any():
        return 0.0
    worst = float(np.abs(scores[differ] - peer_scores[differ]).max())
    largest = float(np.abs(scores[ids >= 0]).max())
    assert worst <= max(PEER_TOLERANCE, largest / 256), f"scores differ by {worst:.2e}"
    return worst


def floor_ms(world: World, case: Case, limits: dict[str, Any]) -> float:
    """Return the longer of the times that bytes and operations take at the measured limits."""
    size, n_queries = world.size, case.n_queries or world.size.queries
    read, products = size.rows, size.rows * n_queries
    if case.is_scoped:
        inside = world.tenants[(world.times >= WINDOW[0]) & (world.times <= WINDOW[1])]
        in_scope = np.bincount(inside, minlength=size.tenants)
        asking = world.asking[:n_queries]
        read, products = in_scope[np.unique(asking)].sum(), in_scope[asking].sum()
    nbytes = read * size.dim * BYTES[case.plane]
    flops = 2 * products * size.dim / RATES[case.plane]
    return float(max(nbytes / limits["bandwidth_gb_s"] / 1e6, flops / limits["rate_tflop_s"] / 1e9))


@dataclass
class Line:
    """A case with what came of it, so that all of ours runs before the rivals do."""

    world: World
    case: Case
    limits: dict[str, Any] | None
    entry: Entry = field(default_factory=dict)
    mine: device_rivals.Reply | None = None

    @property
    def n_queries(self) -> int:
        return self.case.n_queries or self.world.size.queries

    def run_ours(self) -> Entry:
        """Check our answer, time it, check it again."""
        os.environ["HYRECALL_FRONT_PLANE"] = self.case.plane
        try:
            return self._run_ours()
        finally:
            del os.environ["HYRECALL_FRONT_PLANE"]

    def _run_ours(self) -> Entry:
        world, case, size = self.world, self.case, self.world.size
        index = world.index(case.dtype, is_scoped=case.is_scoped)
        asked: dict[str, Any] = {"vectors": world.queries[: self.n_queries]}
        asked |= {"limit": size.k, "depth": size.k}
        if case.is_scoped:
            scope = world.asking[: self.n_queries].tolist()
            asked |= {"scope": scope, "filter": hr.Filter(created_at=WINDOW)}
        at = reference.sample(self.n_queries)
        answer = world.answer(case.dtype, at, is_scoped=case.is_scoped)
        mine = ours.arrays(index.recall(**asked), size.k)
        reference.check(answer, mine[0][at], mine[1][at])
        found = timed(lambda: index.recall(**asked), size.seconds)
        again = ours.arrays(index.recall(**asked), size.k)
        assert all(map(np.array_equal, mine, again)), "another answer after timing"
        index.close()
        self.mine = (mine[0], mine[1].astype(np.float32))
        self.entry |= {
            "rows": size.rows,
            "dim": size.dim,
            "k": size.k,
            "dtype": case.dtype,
            "plane": case.plane,
            "queries": self.n_queries,
            "ours": found,
            "target_ms": case.target_ms,
            "target_ratio": case.target_ratio,
            "floor_ms": floor_ms(world, case, self.limits) if self.limits else None,
            "checked_by_float64": len(at),
            "rivals": {},
        }
        return self.entry

    def run_rivals(self) -> Entry:
        """Check each rival against our answer, and time it; one that fails says why."""
        world, case = self.world, self.case
        if self.mine is None:
            return self.entry
        asked = world.queries[: self.n_queries], world.asking[: self.n_queries]
        for name, make in world.rivals(case.dtype, is_scoped=case.is_scoped).items():
            try:
                search = make()
                apart = compare_with_peer(self.mine, search(*asked))
                times = timed(partial(search, *asked), world.size.seconds)
                self.entry["rivals"][name] = {
                    **times,
                    "scores_apart": apart,
                    "counts": "a tenant" not in name,  # the target speaks of a mask
                }
            except Exception as problem:
                self.entry["rivals"][name] = {"error": said(problem)}
        return self.entry


def said(problem: Exception) -> str:
    """Return an error in one line."""
    return " ".join(f"{type(problem).__name__}: {problem}".split())[:300]


def run_threads(world: World) -> Entry:
    """Let many threads recall batches of 8 at once, against one thread with all the batches."""
    size, batch = world.size, 8
    index = world.index("bfloat16", is_scoped=False)
    each = max(1, size.queries // batch // size.threads)
    batches = [
        world.queries[begin : begin + batch]
        for begin in np.arange(size.threads * each) * batch % (size.queries - batch + 1)
    ]

    def recall(asked: corpus.Floats) -> hr.Hits:
        return index.recall(vectors=asked, limit=size.k, depth=size.k)

    def replies(hits: list[hr.Hits]) -> list[bytes]:
        return [b"".join(part.tobytes() for part in ours.arrays(h, size.k)) for h in hits]

    with ThreadPoolExecutor(size.threads) as pool:
        alone = replies([recall(asked) for asked in batches])
        assert replies(list(pool.map(recall, batches))) == alone, "threads change an answer"
        one = timed(lambda: [recall(asked) for asked in batches], size.seconds)
        many = timed(lambda: list(pool.map(recall, batches)), size.seconds)
    return {
        "rows": size.rows,
        "dim": size.dim,
        "k": size.k,
        "dtype": "bfloat16",
        "queries": len(batches) * batch,
        "ours": many,
        "one_thread": one,
        "throughput": one["median_ms"] / many["median_ms"],
        "target_throughput": 0.8,
        "rivals": {},
    }


def import_torch(device: str) -> Any:
    """Return torch, or None where it is not installed or has no such device."""
    try:
        import torch
    except ImportError:
        return None
    return torch if device == "cpu" or torch.cuda.is_available() else None


def main() -> int:
    """Run every line; a line that fails is named and the others still run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--size", choices=tuple(SIZES), default="full")
    parser.add_argument("--only", default="", help="lines whose name holds this")
    parser.add_argument("--limits", type=Path, help="what device_limits.py wrote")
    parser.add_argument("--without-rivals", action="store_true")
    options = parser.parse_args()
    has_limits = options.limits is not None and options.limits.is_file()
    limits = json.loads(options.limits.read_text()) if has_limits else None
    torch = None if options.without_rivals else import_torch(options.device)
    if torch is not None and options.device == "cpu":
        torch.set_num_threads(THREADS)
    world = World(SIZES[options.size], options.device, torch)
    lines = [
        Line(world, case, limits, {"case": case.name.format(**vars(world.size))}) for case in CASES
    ]
    threads: Entry = {"case": f"{world.size.threads} threads, batches of 8"}
    steps: list[tuple[Entry, Callable[[], Entry]]] = [
        *((line.entry, line.run_ours) for line in lines),
        (threads, lambda: run_threads(world)),
        *((line.entry, line.run_rivals) for line in lines),
    ]
    entries: list[Entry] = []
    for entry, run in steps:
        if options.only not in entry["case"]:
            continue
        if all(entry is not seen for seen in entries):
            entries.append(entry)
        begin = time.perf_counter()
        try:
            entry.update(run())
        except Exception as problem:
            traceback.print_exc()
            entry["error"] = said(problem)
        print(f"{entry['case']}: {time.perf_counter() - begin:.1f} s", flush=True)
        options.out.write_text(json.dumps(entries, indent=1) + "\n")  # it outlasts a stop
    return int(any("error" in entry for entry in entries))


if __name__ == "__main__":
    sys.exit(main())
