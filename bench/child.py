"""Run one build in a separate process, so that its memory can be measured; print a line of JSON.

python -m bench.child hyrecall 100000 2            # from raw texts; or tantivy, bm25s
python -m bench.child text|vectors|grown 100000 2 384    # what a part of an index adds
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import corpus, grown, limits, ours, rivals_lexical

Made = tuple[Callable[[], Any], Callable[[Any], int]]  # a build, and how many documents it holds


def of_texts(who: str, n: int, threads: int) -> Made:
    """Ours takes Arrow text, tantivy str, bm25s word numbers: each what it likes best."""
    texts = corpus.zipf_texts(n)
    if who == "bm25s":
        return lambda: rivals_lexical.bm25s_index(texts), lambda i: int(i.scores["num_docs"])
    strings = texts.strings
    if who == "tantivy":
        listed = strings.to_pylist()
        return (
            lambda: rivals_lexical.tantivy_index(listed, threads),
            lambda index: int(index.searcher().num_docs),
        )
    return lambda: ours.build(n, texts=strings, threads=threads), len


def of_vectors(who: str, n: int, dim: int, threads: int) -> Made:
    """Float32 rows alone: Gaussian, or grown."""
    rows = corpus.gaussian_rows(n, dim) if who == "vectors" else grown.rows(n, dim)
    return lambda: ours.build(n, vectors=rows, threads=threads), len


def measure(made: Made) -> dict[str, Any]:
    """Build once; seconds, documents, and bytes of memory over what the input takes."""
    build, count = made
    limits.give_back_memory()
    before = limits.resident_bytes()
    has_peak = limits.reset_peak()
    begin = time.perf_counter()
    index = build()
    seconds = time.perf_counter() - begin
    peak = limits.peak_bytes() - before if has_peak else None
    gc.collect()
    limits.give_back_memory()
    found: dict[str, Any] = {
        "seconds": seconds,
        "docs": count(index),
        "peak_bytes": peak,
        "grew_bytes": limits.resident_bytes() - before,
    }
    if hasattr(index, "stats"):
        found["parts"] = ours.parts(index)
        found["plane_bytes"], found["heads"] = ours.plane_bytes(index), ours.heads(index)
    return found


def ask(who: str, n: int, threads: int, dim: int = 0) -> dict[str, Any]:
    """Run this module and give what it printed."""
    command = [sys.executable, "-m", "bench.child", who, str(n), str(threads), str(dim)]
    done = subprocess.run(
        command, cwd=Path(__file__).parent.parent, check=True, stdout=subprocess.PIPE, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(who: str, n: int, threads: int, dim: int = 0) -> None:
    """Measure what the arguments name."""
    if who in ("vectors", "grown"):
        made = of_vectors(who, n, dim, threads)
    else:
        made = of_texts("hyrecall" if who == "text" else who, n, threads)
    print(json.dumps(measure(made)))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
