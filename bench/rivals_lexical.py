"""Lexical rivals: each gets its queries as strings and returns row numbers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from bench.corpus import VOCABULARY_SIZE, Ints, Texts, word

Reply = tuple[
    npt.NDArray[np.int64], npt.NDArray[np.float64]
]  # ids (-1: none) and scores, each (n_queries, k)
Searcher = Callable[[list[str], int], Reply]


# ---- bm25s, numba backend ----


def bm25s_index(texts: Texts) -> Any:
    """Index word numbers, which spares bm25s its tokenizer; skips without bm25s and numba."""
    bm25s = pytest.importorskip("bm25s")
    pytest.importorskip("numba")
    index = bm25s.BM25(method="lucene", k1=1.2, b=0.75, backend="numba")
    documents = [
        texts.tokens[a:b].tolist()
        for a, b in zip(texts.offsets[:-1], texts.offsets[1:], strict=True)
    ]
    index.index((documents, {word(i): i for i in range(VOCABULARY_SIZE)}), show_progress=False)
    return index


def bm25s_searcher(index: Any, threads: int) -> Searcher:
    """Exhaustive scoring over a sparse matrix; numba compiles before any timing."""

    def search(queries: list[str], k: int) -> Reply:
        import numba

        numba.set_num_threads(threads)
        ids, scores = index.retrieve(
            [q.split() for q in queries], k=k, n_threads=threads, show_progress=False
        )
        scores = np.asarray(scores, np.float64)
        held = scores > 0.0
        return np.where(held, np.asarray(ids, np.int64), -1), np.where(held, scores, -np.inf)

    search([word(0)], 1)  # compiles
    return search


# ---- tantivy ----


def tantivy_index(texts: list[str], threads: int) -> Any:
    """Index texts in memory, one commit; skips without tantivy."""
    tantivy = pytest.importorskip("tantivy")
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", stored=False, tokenizer_name="default", index_option="position")
    builder.add_unsigned_field("id", stored=True, indexed=False)
    index = tantivy.Index(builder.build())
    writer = index.writer(heap_size=512_000_000, num_threads=threads)
    for row, text in enumerate(texts):
        writer.add_document(tantivy.Document(text=text, id=row))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    return index


def tantivy_searcher(index: Any, threads: int) -> Searcher:
    """Block-max WAND, a query at a time; threads run since tantivy lets the interpreter go."""
    import tantivy

    searcher, schema = index.searcher(), index.schema

    def one(text: str, k: int) -> list[tuple[float, Any]]:
        terms = [
            (tantivy.Occur.Should, tantivy.Query.term_query(schema, "text", w))
            for w in text.split()
        ]
        return list(searcher.search(tantivy.Query.boolean_query(terms), k, count=False).hits)

    def search(queries: list[str], k: int) -> Reply:
        if threads == 1:
            lists = [one(q, k) for q in queries]
        else:
            with ThreadPoolExecutor(
                threads
            ) as pool:  # a share each: a task a query would cost more than some queries
                shares = pool.map(
                    lambda share: [one(q, k) for q in share],
                    np.array_split(np.array(queries), threads),
                )
                lists = [hits for share in shares for hits in share]
        ids = np.full((len(queries), k), -1)
        scores = np.full((len(queries), k), -np.inf)
        for q, hits in enumerate(lists):
            ids[q, : len(hits)] = [at.segment_ord << 32 | at.doc for _, at in hits]
            scores[q, : len(hits)] = [
                score / 2.2 for score, _ in hits
            ]  # it keeps the factor k1 + 1
        return ids, scores

    return search


def tantivy_rows(index: Any, addresses: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the row numbers of its document addresses (for checking: it reads each document)."""
    import tantivy

    searcher = index.searcher()

    def row(address: int) -> int:
        if address < 0:
            return -1
        return int(searcher.doc(tantivy.DocAddress(address >> 32, address & 0xFFFFFFFF))["id"][0])

    rows = [row(int(address)) for address in addresses.ravel()]
    return np.array(rows, np.int64).reshape(addresses.shape)


def rounded_lengths(lengths: Ints) -> Ints:
    """Round lengths down as tantivy and Lucene do: exact to 40, then 4 leading bits above 24."""
    above = np.maximum(lengths - 24, 0)
    shift = np.maximum(np.floor(np.log2(np.maximum(above, 1))).astype(np.int64) - 3, 0)
    return np.where(lengths < 24, lengths, 24 + (above >> shift << shift))
