"""BM25 with every rounding, from its definition.

Robertson et al., TREC-3: ``okapi`` (idf + 1, times k1 + 1), ``lucene`` (the same idf, without
k1 + 1), ``fts5`` (the classical idf, which may be negative and then becomes 1e-6, times k1 + 1) and
``robertson`` (the classical idf as it is, without k1 + 1). Kamphuis et al., ECIR 2020: ``atire``.
Lv and Zhai, 2011: ``bm25+`` and ``bm25l``.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

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
    delta: float | None = None
    b_mixed: float | None = None  # where lengths differ much; None: b
    log: Log = math.log


OKAPI = Bm25("okapi", 1.5, 0.75)
LUCENE = Bm25("lucene", 1.2, 0.75)
FTS5 = Bm25("fts5", 1.2, 0.75)
ROBERTSON = Bm25("robertson", 1.2, 0.75)
ATIRE = Bm25("atire", 1.2, 0.75)
PLUS = Bm25("bm25+", 1.2, 0.75, 1.0)
LONG = Bm25("bm25l", 1.2, 0.75, 0.5)
PRESETS = (OKAPI, LUCENE, FTS5, ROBERTSON, ATIRE, PLUS, LONG)


def mean_doc_length(n_docs: int, total_length: int) -> float:
    """Mean length in tokens, of two integers; a mean of 0 counts as 1."""
    return total_length / n_docs if total_length else 1.0


def length_share(lengths: np.ndarray) -> float:
    """How much lengths say: all where their variance is at most half their squared mean, nothing
    from three quarters on.
    """
    total, squares = int(lengths.sum()), int((lengths * lengths).sum())
    if not total:
        return 0.0
    spread = float(len(lengths)) * float(squares) / (float(total) * float(total)) - 1.0
    return min(max((0.75 - spread) * 4.0, 0.0), 1.0)


def for_lengths(bm25: Bm25, lengths: np.ndarray) -> Bm25:
    """The constants in a scope whose documents have these lengths."""
    if bm25.b_mixed is None:
        return bm25
    b = bm25.b_mixed + length_share(lengths) * (bm25.b - bm25.b_mixed)
    return replace(bm25, b=b, b_mixed=None)


def idf(bm25: Bm25, n_docs: int, doc_freq: int) -> float:
    """Inverse document frequency in float64; doc_freq is at least 1."""
    if bm25.variant == "atire":
        return bm25.log(n_docs / doc_freq)
    if bm25.variant == "bm25+":
        return bm25.log((n_docs + 1) / doc_freq)
    if bm25.variant == "bm25l":
        return bm25.log((n_docs + 1) / (doc_freq + 0.5))
    odds = (n_docs - doc_freq + 0.5) / (doc_freq + 0.5)
    if bm25.variant == "fts5":
        value = bm25.log(odds)
        return value if value > 0 else SMALLEST_FTS5_IDF
    if bm25.variant == "robertson":
        return bm25.log(odds)
    return bm25.log(1.0 + odds)


def weight(bm25: Bm25, n_docs: int, doc_freq: int, multiplicity: float) -> np.float32:
    """What a query term is worth: idf x (boost x count in the query) x (k1 + 1 where the variant
    has it), rounded once.
    """
    factor = 1.0 if bm25.variant in ("lucene", "robertson") else bm25.k1 + 1.0
    return np.float32(idf(bm25, n_docs, doc_freq) * multiplicity * factor)


def shift(bm25: Bm25, n_docs: int, doc_freq: int, multiplicity: float) -> np.float32:
    """What ``bm25+`` adds wherever the term occurs: idf x (boost x count) x delta, rounded once."""
    if bm25.variant != "bm25+":
        return np.float32(0)
    assert bm25.delta is not None
    return np.float32(idf(bm25, n_docs, doc_freq) * multiplicity * bm25.delta)


def length_norms(bm25: Bm25, doc_lengths: np.ndarray, mean: float) -> F32:
    """c(doc_length) = k1 (1 - b + b doc_length / mean), in float64, rounded once to float32;
    ``bm25l`` has no k1 there.
    """
    factors = 1.0 - bm25.b + bm25.b * doc_lengths.astype(np.float64) / mean
    return (factors if bm25.variant == "bm25l" else bm25.k1 * factors).astype(np.float32)


def impacts(
    bm25: Bm25, term_weight: np.float32, term_shift: np.float32, term_freqs: np.ndarray, norms: F32
) -> F32:
    """What a term adds to each document, each operation rounded to float32; 0 where it is absent.

    w tf / (tf + c); ``bm25+``: that + shift; ``bm25l``: w (x / (k1 + x)) with x = tf / c + delta.
    """
    present = term_freqs > 0
    tf = np.where(present, term_freqs, 1).astype(np.float32)
    if bm25.variant == "bm25l":
        # A document of length 0 holds no term.
        x = tf / np.where(present, norms, np.float32(1)) + np.float32(bm25.delta)
        found = term_weight * (x / (np.float32(bm25.k1) + x))
    else:
        found = (term_weight * tf) / (tf + norms)
        if bm25.variant == "bm25+":
            found = found + term_shift
    return np.where(present, found, np.float32(0))
