"""Compute right answers from the definitions, in float64 and by sorting, for a sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.corpus import VOCABULARY_SIZE, Floats, Ints, Texts

Ids = npt.NDArray[np.int64]
Scores = npt.NDArray[np.floating[Any]]

TOLERANCE = 1e-4
"""Absolute on cosines, relative on BM25: where ids differ, scores must agree to this."""

_SAMPLE = 16
_NO_ID = -1


@dataclass(frozen=True)
class Answer:
    """Best first, one row a query; short lists end in id -1 and score -inf."""

    ids: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64]


def sample(n_queries: int) -> Ints:
    """Return the queries whose answers are checked: all of a small batch, else 16 of it."""
    return np.unique(np.linspace(0, n_queries - 1, min(n_queries, _SAMPLE)).astype(np.int64))


def best(scores: npt.NDArray[np.float64], k: int, ids: Ints | None = None) -> Answer:
    """Sort scores, shape (n_queries, n), and keep k of each; -inf is no document."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    top = np.take_along_axis(scores, order, axis=1)
    found = order if ids is None else ids[order]
    missing = k - top.shape[1]
    top = np.pad(top, ((0, 0), (0, missing)), constant_values=-np.inf)
    found = np.pad(found, ((0, 0), (0, missing)), constant_values=_NO_ID)
    return Answer(np.where(np.isneginf(top), _NO_ID, found), top)


def dense(rows: Floats, queries: Floats, k: int) -> Answer:
    """Rank rows by cosine in float64."""
    wide = queries.astype(np.float64)
    wide /= np.linalg.norm(wide, axis=1, keepdims=True)
    scores = np.empty((len(queries), len(rows)))
    for begin in range(0, len(rows), 16_384):
        block = rows[begin : begin + 16_384].astype(np.float64)
        scores[:, begin : begin + len(block)] = wide @ block.T / np.linalg.norm(block, axis=1)
    return best(scores, k)


def check(
    expected: Answer,
    ids: npt.NDArray[np.int64],
    scores: npt.NDArray[np.floating],
    *,
    relative: bool = False,
) -> None:
    """Hold sampled rows of a reply to the reference: ids equal, or scores within tolerance."""
    assert ids.shape == expected.ids.shape, f"expected {expected.ids.shape} hits, got {ids.shape}"
    assert np.array_equal(ids == _NO_ID, expected.ids == _NO_ID), "lists of other lengths"
    if np.array_equal(ids, expected.ids):
        return
    here = expected.ids != _NO_ID
    want, got = expected.scores[here], scores[here].astype(np.float64)
    scale = np.maximum(np.abs(want), 1e-30) if relative else 1.0
    worst = float(np.max(np.abs(want - got) / scale))
    assert worst <= TOLERANCE, f"scores differ by {worst:.2e}"


def lucene_idf(n_docs: int, doc_freq: int) -> float:
    """Return ln(1 + (N - df + .5) / (df + .5))."""
    return float(np.log1p((n_docs - doc_freq + 0.5) / (doc_freq + 0.5)))


class Bm25:
    """BM25 as Lucene has it.

    idf = ln(1 + (N - df + .5) / (df + .5)), times tf / (tf + k1 (1 - b + b length / mean)).
    """

    def __init__(self, texts: Texts, *, k1: float = 1.2, b: float = 0.75) -> None:
        """Count every (term, document) once."""
        self.lengths = np.diff(texts.offsets)
        self.n_docs = texts.n_docs
        self._k1, self._b = k1, b
        pairs = texts.tokens.astype(np.int64) * self.n_docs
        pairs += np.repeat(np.arange(self.n_docs), self.lengths)
        pairs.sort()
        starts = np.flatnonzero(np.concatenate([[True], pairs[1:] != pairs[:-1]]))
        self.freqs = np.diff(np.append(starts, len(pairs))).astype(np.int32)
        terms, self.docs = np.divmod(pairs[starts], self.n_docs)
        self.begins = np.searchsorted(terms, np.arange(VOCABULARY_SIZE + 1))

    def impacts(self) -> npt.NDArray[np.float64]:
        """Return what each posting adds to its document, over all documents."""
        doc_freqs = np.diff(self.begins)
        idf = np.array([lucene_idf(self.n_docs, int(df)) for df in doc_freqs])
        norms = self._k1 * (1 - self._b + self._b * self.lengths[self.docs] / self.lengths.mean())
        added = np.repeat(idf, doc_freqs) * self.freqs
        out: npt.NDArray[np.float64] = added / (self.freqs + norms)
        return out

    def n_postings(self, queries: list[list[int]]) -> int:
        """Count the postings that the queries' words have."""
        return int(sum(self.begins[t + 1] - self.begins[t] for q in queries for t in q))

    def rank(
        self,
        queries: list[list[int]],
        k: int,
        *,
        lengths: Ints | None = None,
        of: Ints | None = None,
        idf: Callable[[int, int], float] = lucene_idf,
    ) -> Answer:
        """Rank documents by score; only those that hold a word.

        ``lengths`` replaces the documents' lengths (for rivals that round them), ``of`` names the
        documents of the scope, whose statistics then count alone; ``idf`` is of (N, df).
        """
        inside = np.ones(self.n_docs, bool)
        if of is not None:
            inside[:] = False
            inside[of] = True
        used = self.lengths if lengths is None else lengths
        n, mean = inside.sum(), self.lengths[inside].mean()
        parts = []
        for query in queries:
            scores = np.zeros(self.n_docs)
            for term in query:
                at = slice(self.begins[term], self.begins[term + 1])
                kept = inside[self.docs[at]]
                docs, freqs = self.docs[at][kept], self.freqs[at][kept]
                if len(docs) == 0:
                    continue
                scores[docs] += (
                    idf(int(n), len(docs))
                    * freqs
                    / (freqs + self._k1 * (1 - self._b + self._b * used[docs] / mean))
                )
            held = np.flatnonzero(scores)
            parts.append(best(scores[held][None], k, held))
        return Answer(
            np.concatenate([p.ids for p in parts]), np.concatenate([p.scores for p in parts])
        )
