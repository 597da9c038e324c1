"""Dense recall on one device beside torch on the same: every answer checked, medians as JSON.

    python -m bench.device_cases cases.json --device cuda:0 --size full
    python -m bench.device_cases cases.json --device cpu --size tiny

Wall time of the public call, queries in host memory, hits in host memory, warmed up; then the time
of each kernel of the same calls of the same index. With ``--tune`` each case whose class was tuned
runs both ways, as the model says and as chosen.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

import hyrecall as hr
from bench import corpus, device_model, device_rivals, device_sweep, ours, reference
from bench.device_world import (
    KINDS,
    SIZES,
    WINDOW,
    World,
    environment,
    import_torch,
    searches,
    time_kernels,
    timed,
)

PEER_TOLERANCE = 1e-3  # of a bfloat16 score; half its step where scores exceed .25
Entry = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A line of the table; targets are those of one H100 at full size."""

    name: str
    dtype: str
    n_queries: int | None  # None: all of the size
    is_scoped: bool = False
    plane: str = "int8"  # what the first pass is made to read
    kind: str = "gaussian"
    target_ms: float | None = None
    target_ratio: float | None = None  # against torch; with a mask where scoped
    has_rivals: bool = True  # False: another case has the same work for torch, or none compares


CASES = (
    Case("1 query, rows read", "bfloat16", 1, plane="rows", target_ms=0.65),
    Case("1 query, int8 first", "float32", 1, target_ms=0.40),
    Case("{queries:,} queries", "bfloat16", None, target_ms=2.6, target_ratio=5.0),
    Case("{queries:,} queries", "float32", None, has_rivals=False),
    Case("{queries:,} queries, rows read", "bfloat16", None, plane="rows", has_rivals=False),
    Case("{queries:,} queries, grown rows", "bfloat16", None, kind="grown", has_rivals=False),
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


@dataclass
class Line:
    """A case with what came of it, so that all of ours runs before the rivals do."""

    world: World
    case: Case
    index: Callable[[], hr.Index]
    ceilings: Entry | None
    tune: Entry | None
    entry: Entry = field(default_factory=dict)
    mine: device_rivals.Reply | None = None

    @property
    def n_queries(self) -> int:
        return self.case.n_queries or self.world.size.queries

    @cached_property
    def cohorts(self) -> list[tuple[int, int]]:
        return self.world.cohorts(self.n_queries, is_scoped=self.case.is_scoped)

    def run_ours(self) -> Entry:
        """Check our answer, time it and its kernels, check it again."""
        world, case, size = self.world, self.case, self.world.size
        asked: dict[str, Any] = {"vectors": world.queries[: self.n_queries]}
        asked |= {"limit": size.k, "depth": size.k}
        if case.is_scoped:
            scope = world.asking[: self.n_queries].tolist()
            asked |= {"scope": scope, "filter": hr.Filter(created_at=WINDOW)}
        index = self.index()
        self.entry |= {
            **{name: getattr(size, name) for name in ("rows", "dim", "k")},
            **{name: getattr(case, name) for name in ("dtype", "plane", "kind")},
            "queries": self.n_queries,
            "target_ms": case.target_ms,
            "target_ratio": case.target_ratio,
            "rivals": {},
        }
        with environment({"HYRECALL_FRONT_PLANE": case.plane}):
            hits = index.recall(**asked)
            at = reference.sample(self.n_queries)
            mine = ours.arrays(hits, size.k)
            answer = world.answer(case.dtype, at, is_scoped=case.is_scoped)
            reference.check(answer, mine[0][at], mine[1][at])
            self.entry["checked_by_float64"] = len(at)
            self.entry["ours"] = timed(lambda: index.recall(**asked), size.seconds)
            again = ours.arrays(index.recall(**asked), size.k)
            assert all(map(np.array_equal, mine, again)), "another answer after timing"
            if world.device != "cpu":
                self.time_kernels(lambda: index.recall(**asked))
        self.mine = (mine[0], mine[1].astype(np.float32))
        choice = self.choice()
        if choice is not None:
            most = max(rows for rows, _ in self.cohorts)
            with environment(device_sweep.settings(choice, world.device, size.k, most)):
                again = ours.arrays(index.recall(**asked), size.k)
                assert all(map(np.array_equal, mine, again)), "another answer with what was chosen"
                self.entry["chosen"] = timed(lambda: index.recall(**asked), size.seconds)
        return self.entry

    def choice(self) -> Entry | None:
        """Return what a sweep chose for this case's class; None where it keeps to the model."""
        if self.tune is None or self.case.plane == "rows":
            return None
        together = -(-self.n_queries // len(self.cohorts))
        return device_sweep.choice_for(self.tune, self.case.dtype, together)

    def time_kernels(self, run: Callable[[], object]) -> None:
        """Time each kernel, and say what the model has for it."""
        size, case = self.world.size, self.case
        kernels = time_kernels(run, 10 if size.seconds > 0 else 1)
        plane = "bfloat16" if case.plane == "rows" else "int8"
        work = device_model.works(
            self.cohorts,
            dim=size.dim,
            dtype=case.dtype,
            plane=plane,
            k=size.k,
            widest=device_model.widest_scan(device_sweep.scans(self.world.device), size.dim, plane),
            tuning=device_model.choose_tuning(size.k, max(rows for rows, _ in self.cohorts)),
        )
        for kernel in kernels:
            if (known := work.get(kernel["kernel"])) is not None:
                kernel.update(asdict(known), model_ms=known.ms(self.ceilings or {}, plane))
        self.entry |= {"kernels": kernels, "searches": searches(kernels)}
        if self.ceilings is not None:
            self.entry["floor_ms"] = device_model.floor_ms(work, self.ceilings, plane)

    def run_rivals(self) -> Entry:
        """Check each rival against our answer, and time it; one that fails says why."""
        world, case = self.world, self.case
        if self.mine is None or not case.has_rivals:
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


def main() -> int:
    """Run every line; a line that fails is named and the others still run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--size", choices=tuple(SIZES), default="full")
    parser.add_argument("--threads", action="store_true", help="only recalls of many threads")
    parser.add_argument("--ceilings", type=Path, help="what device_ceilings.py wrote")
    parser.add_argument("--tune", type=Path, help="what device_sweep.py wrote")
    options = parser.parse_args()
    ceilings, tune = (
        json.loads(path.read_text()) if path is not None and path.is_file() else None
        for path in (options.ceilings, options.tune)
    )
    torch = import_torch(options.device)
    size = SIZES[options.size]
    worlds = {kind: World(size, options.device, torch, kind) for kind in KINDS}
    world = worlds["gaussian"]

    @cache
    def index(kind: str, dtype: str, is_scoped: bool) -> hr.Index:
        # On a CPU, a column then has both planes.
        with environment({"HYRECALL_FRONT_PLANE": "int8"}):
            return worlds[kind].index(dtype, is_scoped=is_scoped)

    lines = [
        Line(
            worlds[case.kind],
            case,
            partial(index, case.kind, case.dtype, case.is_scoped),
            ceilings,
            tune,
            {"case": case.name.format(**vars(size))},
        )
        for case in CASES
    ]
    threads: Entry = {"case": f"{size.threads} threads, batches of 8"}
    steps: list[tuple[Entry, Callable[[], Entry]]] = [
        *((line.entry, line.run_ours) for line in lines),
        *((line.entry, line.run_rivals) for line in lines),
    ]
    if options.threads:
        steps = [(threads, lambda: run_threads(world))]
    entries: list[Entry] = []
    for entry, run in steps:
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
