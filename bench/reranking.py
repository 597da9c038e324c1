"""Time a cross-encoder: milliseconds a query by the number of pairs and of their tokens.

    python -m bench.reranking [--layers 6] [--threads 2] [--pairs 10,20,50] [--tokens 64,128,256]

prints the table of docs/reranking.md: the least wall time of some queries of an index with the
stage ``RerankBy``, minus that of the same queries without it. The same difference in CPU time is in
brackets; other work on the machine changes it less. The model has the size of a
published one and random weights (bench/random_encoder.py). Needs onnx and the extra [rerank].
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import hyrecall as hr
from bench.random_encoder import Sizes, write_encoder
from hyrecall.rerank import CrossEncoder

QUERY_WORDS, MARKS = 8, 3  # marks: [CLS] and two [SEP]
ROUNDS = 5


def rows_of(n: int, n_tokens: int) -> pa.Table:
    """Return texts with which a query of QUERY_WORDS words makes pairs of n_tokens tokens."""
    rng = np.random.default_rng(1)
    n_words = n_tokens - QUERY_WORDS - MARKS
    words = [[f"w{at}" for at in rng.integers(100, 30_000, n_words - 1)] for _ in range(n)]
    return pa.table({"id": list(range(n)), "text": [" ".join(["w99", *one]) for one in words]})


def milliseconds(index: hr.Index, stage: hr.RerankBy | None) -> tuple[float, float]:
    """Return the least wall and processor time of a query that finds every row."""
    query = " ".join(["w99", *(f"w{at}" for at in range(4, 3 + QUERY_WORDS))])
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter(), time.process_time()
        hits = index.recall(text=[query], shaping=() if stage is None else stage)
        times.append((time.perf_counter() - began[0], time.process_time() - began[1]))
        assert len(hits[0]) == min(10, len(index))
        assert not hits.degraded
    wall, processor = (min(column) * 1e3 for column in zip(*times, strict=True))
    return wall, processor


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pairs", default="10,20,50")
    parser.add_argument("--tokens", default="64,128,256")
    given = parser.parse_args()
    pairs, tokens = ([int(n) for n in one.split(",")] for one in (given.pairs, given.tokens))
    with tempfile.TemporaryDirectory() as folder:
        write_encoder(Path(folder) / "random", Sizes(layers=given.layers))
        encoder = CrossEncoder(Path(folder) / "random", threads=given.threads)
        print(f"{encoder!r}, {given.layers} layers, {given.threads} threads, fastest of {ROUNDS}")
        print("| pairs | " + " | ".join(f"{n} tokens" for n in tokens) + " |")
        print("|---" * (1 + len(tokens)) + "|")
        for n_pairs in pairs:
            cells = []
            for n_tokens in tokens:
                schema = hr.Schema(key="id", cell=None, text="text")
                index = hr.Index.build(rows_of(n_pairs, n_tokens), schema, threads=given.threads)
                stage = hr.RerankBy(encoder, window=n_pairs, timeout="10m")
                both = zip(milliseconds(index, stage), milliseconds(index, None), strict=True)
                wall, processor = (with_it - without for with_it, without in both)
                cells.append(f"{wall:,.0f} ms ({processor:,.0f})")
            print(f"| {n_pairs} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
