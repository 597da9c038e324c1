"""Batches of texts, and of texts with vectors, on a device and on all cores of its machine, in ms.

    python -m bench.device_hybrid --device cuda:0 --rows 100000

Both answer the same requests, and every reply of the device is compared with the CPU's: keys,
order and scores to the last bit. Texts alone are also searched by torch on that device, where it is
installed; its hits must be ours, or differ by less than 1e-3 in their scores. A table a batch
follows with the time of each kernel of its searches (HYRECALL_CUDA_TIMES=1), launched one by one.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import hyrecall as hr
from bench import THREADS, corpus, device_rivals, ours
from bench.device_cases import compare_with_peer
from bench.device_times import print_table, time_kernels

LIMIT = 10


@dataclass
class HybridWorld:
    """Rows with a text and a vector each, of tenants, and queries of both kinds."""

    rows: int
    dim: int
    tenants: int
    queries: int
    threads: int

    @cached_property
    def vectors(self) -> corpus.Floats:
        """The rows' vectors."""
        return corpus.gaussian_rows(self.rows, self.dim)

    @cached_property
    def texts(self) -> corpus.Texts:
        """The rows' texts."""
        return corpus.zipf_texts(self.rows)

    @cached_property
    def asked_vectors(self) -> corpus.Floats:
        """A vector a query."""
        return corpus.gaussian_rows(self.queries, self.dim, "queries")

    @cached_property
    def asked_words(self) -> list[list[int]]:
        """The word numbers of each query."""
        return corpus.text_queries(self.queries)

    @cached_property
    def asked_texts(self) -> list[str]:
        """A text a query."""
        return [corpus.spell(query) for query in self.asked_words]

    def texts_by_torch(self, device: str) -> Callable[[], device_rivals.Reply] | None:
        """Return torch's search of the texts; None where torch is not installed."""
        if importlib.util.find_spec("torch") is None:
            return None
        import torch

        search = device_rivals.bm25(torch, self.texts, device, LIMIT)
        return lambda: search(self.asked_words)

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

    def batches(self, whole: hr.Index, scoped: hr.Index) -> dict[str, Callable[[], hr.Hits]]:
        """Return the batches by name."""
        asking = (np.arange(self.queries) % self.tenants).tolist()
        n = f"{self.queries:,}"
        return {
            f"{n} texts": lambda: whole.recall(text=self.asked_texts, limit=LIMIT),
            "1 hybrid": lambda: whole.recall(
                text=self.asked_texts[:1], vectors=self.asked_vectors[:1], limit=LIMIT
            ),
            f"{n} hybrid": lambda: whole.recall(
                text=self.asked_texts, vectors=self.asked_vectors, limit=LIMIT
            ),
            f"{n} hybrid of a tenant each": lambda: scoped.recall(
                text=self.asked_texts, vectors=self.asked_vectors, scope=asking, limit=LIMIT
            ),
        }


def median_ms(run: Callable[[], object], seconds: float) -> float:
    """Return the median time of a call, after one to warm up."""
    run()
    took: list[float] = []
    end = time.perf_counter() + seconds
    while len(took) < 3 or time.perf_counter() < end:
        began = time.perf_counter()
        run()
        took.append((time.perf_counter() - began) * 1e3)
    return float(np.median(took))


def require_same(found: hr.Hits, expected: hr.Hits, name: str) -> None:
    """Refuse a reply that differs from the CPU's."""
    for one, other in zip(ours.arrays(found, LIMIT), ours.arrays(expected, LIMIT), strict=True):
        if not np.array_equal(one, other):
            raise SystemExit(f"{name}: the device's hits are not the CPU's")


def main() -> None:
    """Print a line a batch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--tenants", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=THREADS)
    parser.add_argument("--seconds", type=float, default=0.5)
    options = parser.parse_args()
    world = HybridWorld(
        options.rows, options.dim, options.tenants, options.queries, options.threads
    )
    here, there = (
        world.batches(*(world.index(device, is_scoped=one) for one in (False, True)))
        for device in ("cpu", options.device)
    )
    print(f"{options.rows:,} rows of {options.dim} dimensions with 40 to 80 words, limit {LIMIT}")
    print(
        f"\n| batch | {options.device}, ms | {options.threads} threads of the CPU, ms | torch, ms |"
    )
    print("|---|---|---|---|")
    peer = world.texts_by_torch(options.device)
    for name, run in there.items():
        require_same(run(), here[name](), name)
        on_device, on_host = (median_ms(one, options.seconds) for one in (run, here[name]))
        of_torch = ""
        if peer is not None and name.endswith(" texts"):
            ids, scores = ours.arrays(run(), LIMIT)
            compare_with_peer((ids, scores.astype(np.float32)), peer())
            of_torch = f"{median_ms(peer, options.seconds):.2f}"
        print(f"| {name} | {on_device:.2f} | {on_host:.2f} | {of_torch} |", flush=True)
    if options.device == "cpu":
        return
    os.environ["HYRECALL_CUDA_TIMES"] = "1"
    for name, run in there.items():
        print_table(name, time_kernels(run))


if __name__ == "__main__":
    main()
