"""Late interaction on a device: documents of 60 vectors, queries of 32, beside torch on the same.

    python -m bench.device_late late.json --device cuda:0 --size full

Rows are drawn as bench_late.py draws them. Each reply is held to float64 scores of the documents
that it names and of a sample of the others, and to torch's reply. The floor is the int8 plane of
all vectors, read once a query at the measured rate of a copy.
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import hyrecall as hr
from bench import corpus, device_model
from bench.device_cases import PEER_TOLERANCE, said
from bench.device_world import import_torch, time_kernels, timed

TOKENS, DIM, ASKED, K, WORDS = 60, 128, 32, 10, 2_000
DOCS = {"dry": (12, 0.0), "tiny": (400, 0.3), "small": (10_000, 0.5), "full": (100_000, 0.5)}
BATCHES = (1, 16)
TARGET_MS = (
    0.5  # one query at full size: twice what a copy of the plane takes, and 0.1 for the rest
)
ROWS_AT_ONCE = 2_000
Scores = np.ndarray[Any, np.dtype[np.float64]]


def unit(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def draw(n: int) -> tuple[np.ndarray[Any, np.dtype[np.float16]], list[corpus.Floats]]:
    """Draw documents, and queries of tokens of one document each, moved a little."""
    rng = corpus.generator("device late")
    words = rng.standard_normal((WORDS, DIM), dtype=np.float32)
    noise = rng.standard_normal((256, TOKENS, DIM), dtype=np.float32)  # the same for each 256
    rows = np.empty((n, TOKENS, DIM), np.float16)
    for begin in range(0, n, 256):
        some = min(256, n - begin)
        topics = words[rng.integers(0, WORDS, (some, 1))]
        spoken = words[rng.integers(0, WORDS, (some, TOKENS))]
        rows[begin : begin + some] = 0.5 * topics + 0.6 * spoken + 0.5 * noise[:some]
    queries = [
        rows[at, :ASKED] + 0.3 * rng.standard_normal((ASKED, DIM), dtype=np.float32)
        for at in rng.integers(0, n, max(BATCHES))
    ]
    return rows, queries


def right(rows: Any, query: corpus.Floats) -> Scores:
    """Score documents by the definition, in float64."""
    products = unit(rows.astype(np.float64)) @ unit(query.astype(np.float64)).T
    return np.asarray(products.max(axis=1).sum(axis=1))


def check(hits: hr.Hits, rows: Any, queries: list[corpus.Floats]) -> None:
    """Refuse a reply whose scores are wrong, or that lacks a document of the sample."""
    sample = np.arange(0, len(rows), max(len(rows) // 1_000, 1))
    for found, query in zip(list(hits)[:2], queries, strict=False):
        keys = np.array([int(key) for key in found.keys])
        scores = np.array([one.score for one in found])
        assert len(keys) == min(K, len(rows)), "hits are missing"
        assert np.allclose(scores, right(rows[keys], query), atol=1e-3), "other scores"
        assert (np.diff(scores) <= 0).all(), "hits out of order"
        better = sample[right(rows[sample], query) > scores[-1] + 1e-3]
        assert np.isin(better, keys).all(), "a better document is missing"


def torch_search(torch: Any, rows: Any, device: str) -> Any:
    """Products of all vectors in bfloat16, some thousand documents at a time, then topk."""
    held = torch.empty(rows.shape, dtype=torch.bfloat16, device=device)
    for begin in range(0, len(rows), ROWS_AT_ONCE):
        part = torch.from_numpy(rows[begin : begin + ROWS_AT_ONCE]).to(device).float()
        held[begin : begin + ROWS_AT_ONCE] = torch.nn.functional.normalize(part, dim=-1)

    def run(queries: list[corpus.Floats]) -> tuple[Any, Any]:
        asked = torch.from_numpy(np.stack([unit(one) for one in queries])).to(device).bfloat16()
        step = max(8 * ROWS_AT_ONCE // len(queries), 1)  # as many products at a time as fit
        found = [
            torch.einsum("ntd,qad->qnat", held[at : at + step], asked).amax(3).float().sum(2)
            for at in range(0, len(held), step)
        ]
        best = torch.topk(torch.cat(found, dim=1), min(K, len(held)), dim=1)
        return best.indices.cpu().numpy(), best.values.cpu().numpy()

    return run


def run_case(
    index: hr.Index, rows: Any, queries: list[corpus.Floats], seconds: float, ceilings: Any
) -> dict[str, Any]:
    """Check our reply, time it and its kernels."""
    recall = partial(index.recall, vectors=queries, limit=K)
    check(recall(), rows, queries)
    entry: dict[str, Any] = {"ours": timed(recall, seconds), "rivals": {}}
    check(recall(), rows, queries)
    work = device_model.Work(
        len(queries) * len(rows) * TOKENS * (DIM + 4),  # codes and a scale
        2.0 * len(queries) * len(rows) * TOKENS * ASKED * DIM,
    )
    entry["floor_ms"] = work.ms(ceilings or {}, "int8")
    if index.device != "cpu":
        entry["kernels"] = time_kernels(recall, 10 if seconds > 0 else 1)
        entry["searches"] = 1.0
        for kernel in entry["kernels"]:
            if kernel["kernel"] == "scan_many":
                kernel |= {"nbytes": work.nbytes, "flops": work.flops}
                kernel["model_ms"] = entry["floor_ms"]
    return entry


def run_rival(
    search: Any, index: hr.Index, rows: Any, queries: list[corpus.Floats], seconds: float
) -> dict[str, Any]:
    """Hold torch to our reply, and time it; one that fails says why."""
    try:
        ids, _ = search(queries)
        mine = list(index.recall(vectors=queries, limit=K))
        for own, theirs, query in zip(mine, ids, queries, strict=True):
            worst = right(rows[theirs], query).min()
            assert worst >= own[-1].score - ASKED * PEER_TOLERANCE, "torch found others"
        return {**timed(partial(search, queries), seconds), "counts": True}
    except Exception as problem:
        return {"error": said(problem)}


def main() -> int:
    """Write an entry a batch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--size", choices=tuple(DOCS), default="full")
    parser.add_argument("--ceilings", type=Path, help="what device_ceilings.py wrote")
    options = parser.parse_args()
    known = options.ceilings is not None and options.ceilings.is_file()
    ceilings = json.loads(options.ceilings.read_text()) if known else None
    n, seconds = DOCS[options.size]
    torch = import_torch(options.device)
    rows, queries = draw(n)
    schema = hr.Schema(key="id", cell=None, vector=hr.MaxSim("tokens", dtype="float16"))
    table = pa.table({"id": np.arange(n)})
    index = hr.Index.build(table, schema, vectors={"tokens": rows}, device=options.device)
    entries: list[dict[str, Any]] = []
    search = None if torch is None else torch_search(torch, rows, options.device)
    for n_queries in BATCHES:
        asked = queries[:n_queries]
        entry: dict[str, Any] = {
            "case": f"MaxSim, {n:,} x {TOKENS} x {DIM}, {n_queries} of {ASKED}"
        }
        entry |= {"dtype": "float16", "queries": n_queries}
        entry |= run_case(index, rows, asked, seconds, ceilings)
        if n_queries == 1:
            entry["target_ms"] = TARGET_MS
        if search is not None:
            entry["rivals"]["torch bfloat16"] = run_rival(search, index, rows, asked, seconds)
        entries.append(entry)
        print(f"{entry['case']}: {entry['ours']['median_ms']:.2f} ms", flush=True)
        options.out.write_text(json.dumps(entries, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
