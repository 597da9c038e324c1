"""Building an index from raw texts: documents a second, and the memory it leaves."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from bench import THREADS, corpus, limits, ours, rivals_lexical
from bench.conftest import Measure


@pytest.mark.parametrize("who", ["hyrecall", "tantivy", "bm25s"])
def test_build_from_texts(n_texts: int, who: str, measure: Measure) -> None:
    """Ours takes Arrow text, tantivy str, bm25s word numbers (its tokenizer is not timed)."""
    texts = corpus.zipf_texts(n_texts)
    strings = texts.strings
    listed = strings.to_pylist() if who == "tantivy" else []

    def run() -> Any:
        if who == "hyrecall":
            return ours.build(n_texts, texts=strings)
        if who == "tantivy":
            return rivals_lexical.tantivy_index(listed, THREADS)
        return rivals_lexical.bm25s_index(texts)

    def n_held(index: Any) -> int:
        if who == "tantivy":
            return int(index.searcher().num_docs)
        return len(index) if who == "hyrecall" else int(index.scores["num_docs"])

    def check(index: Any) -> None:
        assert n_held(index) == n_texts

    def sizes(index: Any) -> dict[str, object]:
        gc.collect()
        found: dict[str, object] = {"rss_grew": limits.resident_bytes() - before}
        return {**found, "bytes": ours.nbytes(index)} if who == "hyrecall" else found

    gc.collect()
    before = limits.resident_bytes()
    measure(
        f"build {n_texts:,} texts",
        who,
        run,
        check=check,
        docs=n_texts,
        queries=0,
        rounds=1,
        after=sizes,
        input_bytes=int(strings.nbytes),
        target=1.5 if who == "tantivy" else None,
    )


def test_build_from_rows(dense_shape: tuple[int, int], measure: Measure) -> None:
    """Float32 rows, taken in one copy."""
    n, dim = dense_shape
    rows = corpus.gaussian_rows(n, dim)

    def check(index: Any) -> None:
        assert len(index) == n

    measure(
        f"build {n:,} x {dim} float32 rows",
        "hyrecall",
        lambda: ours.build(n, vectors=rows),
        check=check,
        docs=n,
        dim=dim,
        queries=0,
        after=lambda index: {"bytes": ours.nbytes(index)},
        limit_bytes=2 * rows.nbytes,
    )
