"""BM25 with every rounding, from its definition.

Robertson et al., TREC-3, in three variants: ``okapi`` (idf + 1, times k1 + 1), ``lucene`` (the same
idf, without k1 + 1) and ``fts5`` (the classical idf, which may be negative and then becomes 1e-6,
times k1 + 1).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oracle.arithmetic import F32

Log = Callable[[float], float]

SMALLEST_FTS5_IDF = 1e-6


@dataclass(frozen=True)
class Bm25:
    """A variant and its constants; the logarithm can be exchanged for the engine's own."""

    variant: str = "lucene"
    k1: float = 1.2
    b: float = 0.75
    log: Log = math.log


OKAPI = Bm25("okapi", 1.5, 0.75)
LUCENE = Bm25("lucene", 1.2, 0.75)
FTS5 = Bm25("fts5", 1.2, 0.75)


def mean_doc_length(n_docs: int, total_length: int) -> float:
    """Mean length in tokens, of two integers; a mean of 0 counts as 1."""
    return total_length / n_docs if total_length else 1.0


def idf(bm25: Bm25, n_docs: int, doc_freq: int) -> float:
    """Inverse document frequency in float64."""
    odds = (n_docs - doc_freq + 0.5) / (doc_freq + 0.5)
    if bm25.variant == "fts5":
        value = bm25.log(odds)
        return value if value > 0 else SMALLEST_FTS5_IDF
    return bm25.log(1.0 + odds)


def weight(bm25: Bm25, n_docs: int, doc_freq: int, multiplicity: float) -> np.float32:
    """What a query term is worth: idf x (boost x count in the query) x (k1 + 1 where the variant
    has it), rounded once.
    """
    factor = 1.0 if bm25.variant == "lucene" else bm25.k1 + 1.0
    return np.float32(idf(bm25, n_docs, doc_freq) * multiplicity * factor)


def length_norms(bm25: Bm25, doc_lengths: np.ndarray, mean: float) -> F32:
    """c(doc_length) = k1 (1 - b + b doc_length / mean), in float64, rounded once to float32."""
    return (bm25.k1 * (1.0 - bm25.b + bm25.b * doc_lengths.astype(np.float64) / mean)).astype(
        np.float32
    )


def impacts(term_weight: np.float32, term_freqs: np.ndarray, norms: F32) -> F32:
    """w tf / (tf + c), each operation rounded to float32; 0 where the term is absent."""
    tf = term_freqs.astype(np.float32)
    present = term_freqs > 0
    below = np.where(present, tf + norms, np.float32(1))
    return np.where(present, (term_weight * tf) / below, np.float32(0))
