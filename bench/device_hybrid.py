"""Batches of texts, and of texts with vectors, on a device and on all cores of its machine, in ms.

    python -m bench.device_hybrid hybrid.json --device cuda:0 --size full

On the smallest table both answer the same requests, and every reply of the device is compared with
the CPU's: keys, order and scores to the last bit. Texts alone are also searched by torch on that
device, where it is installed; its hits must be ours, or differ by less than 1e-3 in their scores.
Then the time of each kernel of the searches, launched one by one, and of each stage of a call.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

import hyrecall as hr
from bench import THREADS, corpus, device_rivals, ours
from bench.device_cases import compare_with_peer
from bench.device_world import SIZES, World, import_torch, searches, time_kernels, timed

LIMIT = 10
Batches = dict[str, Callable[[], hr.Hits]]


@dataclass
class HybridWorld:
    """Rows with a text and a vector each, of tenants, and queries of both kinds."""

    rows: int
    vectors: Any
    asked_vectors: corpus.Floats
    tenants: int
    threads: int

    @cached_property
    def texts(self) -> corpus.Texts:
        return corpus.zipf_texts(self.rows)

    @cached_property
    def asked_words(self) -> list[list[int]]:
        """The word numbers of each query."""
        return corpus.text_queries(len(self.asked_vectors))

    def index(self, device: str, *, is_scoped: bool) -> hr.Index:
        """Index the rows."""
        return ours.build(
            self.rows,
            vectors=self.vectors,
            texts=self.texts.strings,
            columns={"tenant": corpus.uniform_tenants(self.rows, self.tenants)},
            cell="tenant" if is_scoped else None,
            device=device,
            threads=self.threads,
        )

    def batches(self, whole: hr.Index, scoped: hr.Index | None) -> Batches:
        """Return the batches by name."""
        n, texts = f"{len(self.asked_words):,}", [corpus.spell(query) for query in self.asked_words]
        vectors = self.asked_vectors
        found: Batches = {
            f"{n} texts": lambda: whole.recall(text=texts, limit=LIMIT),
            "1 hybrid": lambda: whole.recall(text=texts[:1], vectors=vectors[:1], limit=LIMIT),
            f"{n} hybrid": lambda: whole.recall(text=texts, vectors=vectors, limit=LIMIT),
        }
        if scoped is not None:
            asking = (np.arange(len(texts)) % self.tenants).tolist()
            found[f"{n} hybrid of a tenant each"] = lambda: scoped.recall(
                text=texts, vectors=vectors, scope=asking, limit=LIMIT
            )
        return found


def require_same(found: hr.Hits, expected: hr.Hits, name: str) -> None:
    """Refuse a reply that differs from the CPU's."""
    for one, other in zip(ours.arrays(found, LIMIT), ours.arrays(expected, LIMIT), strict=True):
        if not np.array_equal(one, other):
            raise SystemExit(f"{name}: the device's hits are not the CPU's")


def entry(
    name: str,
    run: Callable[[], hr.Hits],
    on_host: Callable[[], hr.Hits] | None,
    peer: Callable[[], device_rivals.Reply] | None,
    seconds: float,
    *,
    is_cpu: bool,
) -> dict[str, Any]:
    """Check a batch and time it everywhere."""
    found: dict[str, Any] = {"case": name}
    hits = run()
    if on_host is not None:
        require_same(hits, on_host(), name)
        found["host"] = timed(on_host, seconds)
    found["ours"] = timed(run, seconds)
    found["stages_ms"] = run().trace.milliseconds
    if peer is not None and name.endswith(" texts"):
        ids, scores = ours.arrays(hits, LIMIT)
        compare_with_peer((ids, scores.astype(np.float32)), peer())
        found["torch"] = timed(peer, seconds)
    if not is_cpu:
        found["kernels"] = time_kernels(run, 10 if seconds > 0 else 1)
        found["searches"] = searches(found["kernels"])
    return found


def main() -> int:
    """Write an entry a batch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--size", choices=tuple(SIZES), default="full")
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--calls", type=int, help="only so many hybrid calls, for a profiler")
    options = parser.parse_args()
    size, torch = SIZES[options.size], import_torch(options.device)
    made = World(size, options.device, torch)
    entries: list[dict[str, Any]] = []
    for rows in size.text_rows:
        world = HybridWorld(
            rows, made.rows[:rows], made.queries, min(size.tenants, rows // 100), options.threads
        )
        is_first = rows == size.text_rows[0] and options.calls is None
        devices = ("cpu", options.device) if is_first else (options.device,)
        both = [
            world.batches(
                world.index(device, is_scoped=False),
                world.index(device, is_scoped=True) if is_first else None,
            )
            for device in devices
        ]
        if options.calls is not None:
            for _ in range(options.calls):
                both[0][f"{size.queries:,} hybrid"]()
            return 0
        peer = None
        if torch is not None:
            search = device_rivals.bm25(torch, world.texts, options.device, LIMIT)
            peer = partial(search, world.asked_words)
        for name, run in both[-1].items():
            on_host = both[0][name] if is_first else None
            found = entry(name, run, on_host, peer, size.seconds, is_cpu=options.device == "cpu")
            entries.append({"rows": rows, "dim": size.dim, "limit": LIMIT, **found})
            print(f"{rows:,} rows, {name}: {found['ours']['median_ms']:.2f} ms", flush=True)
            options.out.write_text(json.dumps(entries, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
