"""Texts at the edges of packed postings, and what BM25 says of them by its definition.

``python -m engine.lexical_edges`` holds the engine to it on the instruction set in force.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

import hyrecall as hr
from oracle import bm25

WORDS = ("ash", "bay", "elm", "fir", "gum", "oak")
FILLER = "zzz"
TILE = 8192  # rows whose scores are summed together

Ranking = list[tuple[int, float]]


@dataclass(frozen=True, eq=False)
class Texts:
    """How often each document holds each of the words, and its length; the rest is filler."""

    counts: np.ndarray  # (n, len(WORDS))
    lengths: np.ndarray

    @property
    def table(self) -> pa.Table:
        def text(counts: np.ndarray, length: int) -> str:
            words = [w for w, c in zip(WORDS, counts, strict=True) for _ in range(c)]
            return " ".join([*words, *[FILLER] * (length - len(words))])

        texts = list(map(text, self.counts, self.lengths.tolist()))
        return pa.table({"id": np.arange(len(texts)), "text": texts})


def short_texts() -> Texts:
    """Two tiles and some; a few rows beyond what three bytes can say; ties from tile to tile."""
    rng = np.random.default_rng(41)
    n = 2 * TILE + 77
    counts = rng.integers(0, 2, (n, len(WORDS))) * (rng.random((n, len(WORDS))) < 0.1)
    edges = [1, 6, 7, 8, 9, 30, 31, 32, 33, 255, 256]
    for at, freq in enumerate(edges):  # on either side of what the bits of a frequency hold
        counts[40 * at + 11, 1] = freq
        counts[TILE - 3 + at, 2] = freq
    lengths = np.maximum(counts.sum(axis=1), 1 + rng.integers(0, 6, n))
    for at, length in enumerate([253, 254, 255, 256, 257, 511, 20_000]):
        lengths[30 * at + 5] = length
        counts[30 * at + 5, 3] = 1
    twins = [0, TILE - 1, TILE, 2 * TILE - 1, 2 * TILE, n - 1]
    counts[twins] = [0, 0, 0, 0, 1, 1]
    lengths[twins] = 2
    return Texts(counts, lengths)


def long_texts() -> Texts:
    """Most documents are longer than a byte counts, some longer than fourteen bits do."""
    rng = np.random.default_rng(42)
    n = TILE + 60
    counts = rng.integers(0, 18, (n, len(WORDS))) * (rng.random((n, len(WORDS))) < 0.3)
    for at, freq in enumerate([31, 32, 33, 34, 300]):
        counts[TILE - 2 + at, 0] = freq
    lengths = counts.sum(axis=1) + rng.integers(240, 300, n)
    lengths[[3, 5, 7]] = [16_383, 16_384, 16_385]
    counts[[3, 5, 7], 4] = 2
    return Texts(counts, lengths)


@cache
def in_order(texts: Texts, query: tuple[int, ...]) -> Ranking:
    """Sort all documents that match by (score, row)."""
    n, total = len(texts.lengths), int(texts.lengths.sum())
    norms = bm25.length_norms(bm25.LUCENE, texts.lengths, bm25.mean_doc_length(n, total))
    scores = np.zeros(n, np.float32)
    for word in sorted(query, key=WORDS.__getitem__):
        counts = texts.counts[:, word]
        weight = bm25.weight(bm25.LUCENE, n, int((counts > 0).sum()), 1.0)
        scores = scores + bm25.impacts(bm25.LUCENE, weight, np.float32(0), counts, norms)
    order = np.lexsort((np.arange(n), -scores))
    order = order[scores[order] > 0]
    return list(zip(order.tolist(), scores[order].tolist(), strict=True))


def rank(texts: Texts, query: tuple[int, ...], k: int) -> Ranking:
    """Keep the first k of all."""
    return in_order(texts, query)[:k]


def cases(texts: Texts) -> Iterator[tuple[tuple[int, ...], int]]:
    """Queries, and how many of their documents to ask for: all, one less, and one more, too."""
    for query in [(0,), (1,), (2,), (3,), (4, 5), (1, 2, 3), (0, 1, 2, 3, 4, 5)]:
        matches = int((texts.counts[:, query].sum(axis=1) > 0).sum())
        for k in (1, 2, 5, 10, 64, 74, 100, 128, 1000, matches - 1, matches, matches + 1):
            yield query, k


def search(texts: Texts) -> Callable[[tuple[int, ...], int], Ranking]:
    schema = hr.Schema(key="id", cell=None, text="text", stored=())
    index = hr.Index.build(texts.table, schema, analyzer=hr.Analyzer("word"), threads=2)

    def ask(query: tuple[int, ...], k: int) -> Ranking:
        hits = index.recall(text=[" ".join(WORDS[w] for w in query)], limit=k, depth=k).to_arrow()
        return list(zip(hits["key"].to_pylist(), hits["score"].to_pylist(), strict=True))

    return ask


def scattered(texts: Texts) -> np.ndarray:
    """Choose a third of the rows, with runs of some length among them."""
    chosen = np.random.default_rng(44).random(len(texts.lengths)) < 1 / 3
    chosen[TILE - 20 : TILE + 20] = True
    chosen[100:200] = False
    return chosen.nonzero()[0]


def some_of(texts: Texts, rows: np.ndarray) -> Texts:
    """Return these rows as if there were no others."""
    return Texts(texts.counts[rows], texts.lengths[rows])


def rank_some(some: Texts, rows: np.ndarray, query: tuple[int, ...], k: int) -> Ranking:
    """Rank them, by the numbers they have among all."""
    return [(int(rows[at]), score) for at, score in rank(some, query, k)]


def search_some(texts: Texts, rows: np.ndarray) -> Callable[[tuple[int, ...], int], Ranking]:
    """Return each row a cell, and see those of ``rows``."""
    cells = pa.array(np.arange(len(texts.lengths)))
    schema = hr.Schema(key="id", cell=("cell",), text="text", stored=())
    table = texts.table.append_column("cell", cells)
    index = hr.Index.build(table, schema, analyzer=hr.Analyzer("word"), threads=2)
    scope = hr.Scope(rows.tolist())

    def ask(query: tuple[int, ...], k: int) -> Ranking:
        text = [" ".join(WORDS[w] for w in query)]
        hits = index.recall(text=text, scope=scope, limit=k, depth=k).to_arrow()
        return list(zip(hits["key"].to_pylist(), hits["score"].to_pylist(), strict=True))

    return ask


def main() -> None:
    for texts in (short_texts(), long_texts()):
        ask = search(texts)
        for query, k in cases(texts):
            assert ask(query, k) == rank(texts, query, k), (query, k)
        rows = scattered(texts)
        ask, some = search_some(texts, rows), some_of(texts, rows)
        for query, k in cases(texts):
            assert ask(query, k) == rank_some(some, rows, query, k), (query, k)
    print("equal")


if __name__ == "__main__":
    main()
