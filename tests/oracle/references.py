"""BM25 as others compute it: SQLite's FTS5, bm25s, and the textbook formula in float64.

Each takes the documents of one scope (none of them null) and gives the score of every document, 0
where nothing matches.
"""

import math
import sqlite3
from collections.abc import Sequence

import bm25s
import numpy as np

from oracle.words import Phrase, Prefix, Query, Words, word_tokens


def textbook(
    variant: str, texts: Sequence[str], query: str, k1: float, b: float, delta: float = 0.0
) -> list[float]:
    """Sum over the query's words, repeats included, of idf x saturated term frequency; straight in
    float64.
    """
    docs = [word_tokens(text) for text in texts]
    mean = sum(map(len, docs)) / len(docs) or 1.0
    scores = [0.0] * len(docs)
    for word in word_tokens(query):
        doc_freq = sum(word in doc for doc in docs)
        if doc_freq == 0:
            continue
        idf = textbook_idf(variant, len(docs), doc_freq)
        for at, doc in enumerate(docs):
            tf = doc.count(word)
            if not tf:
                continue
            stretch = 1.0 - b + b * len(doc) / mean
            gain = tf / (tf + k1 * stretch)
            if variant == "bm25l":
                gain = (tf / stretch + delta) / (k1 + tf / stretch + delta)
            gain *= 1.0 if variant in ("lucene", "robertson") else k1 + 1.0
            scores[at] += idf * (gain + delta if variant == "bm25+" else gain)
    return scores


def textbook_idf(variant: str, n_docs: int, doc_freq: int) -> float:
    """The idf of Kamphuis et al.'s table, and those of okapi and FTS5."""
    odds = (n_docs - doc_freq + 0.5) / (doc_freq + 0.5)
    return {
        "lucene": math.log(odds + 1.0),
        "okapi": math.log(odds + 1.0),
        "fts5": max(math.log(odds), 0.0) or 1e-6,
        "robertson": math.log(odds),
        "atire": math.log(n_docs / doc_freq),
        "bm25+": math.log((n_docs + 1) / doc_freq),
        "bm25l": math.log((n_docs + 1) / (doc_freq + 0.5)),
    }[variant]


def fts5_match(query: Query) -> str:
    """A query in the syntax of FTS5, every word quoted."""
    match query:
        case Words(text):
            return " OR ".join(f'"{word}"' for word in word_tokens(text))
        case Phrase(text):
            return '"' + " ".join(word_tokens(text)) + '"'
        case Prefix(text):
            return f'"{text}"*'
    raise TypeError(f"not compared with FTS5: {query!r}")


class Fts5:
    """A table of SQLite's FTS5 in memory."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.n_docs = len(texts)
        self.database = sqlite3.connect(":memory:")
        self.database.execute(
            "create virtual table docs using fts5(body, tokenize = 'unicode61 remove_diacritics 0')"
        )
        self.database.executemany("insert into docs(rowid, body) values (?, ?)", enumerate(texts))

    def scores(self, query: Query) -> list[float]:
        """-bm25() of every document."""
        found = self.database.execute(
            "select rowid, -bm25(docs) from docs where docs match ?", [fts5_match(query)]
        )
        scores = dict(found)
        return [scores.get(at, 0.0) for at in range(self.n_docs)]

    def close(self) -> None:
        """Close the database."""
        self.database.close()


def bm25s_scores(
    method: str, texts: Sequence[str], query: str, k1: float, b: float, delta: float = 0.0
) -> list[float]:
    """Scores of a method of bm25s for a query without repeats, of the terms that a document holds.

    bm25s lets a term that a document does not hold add what its formula gives for tf = 0: for
    ``bm25+`` and ``bm25l`` that is not 0, and is taken off again. Its ``robertson`` floors idf at
    0: the query's words must each be held by fewer than half of the documents, or by none.
    """
    docs = [word_tokens(text) for text in texts]
    words = list(dict.fromkeys(word_tokens(query)))
    retriever = bm25s.BM25(method=method, k1=k1, b=b, delta=delta, dtype="float64")
    retriever.index([list(doc) for doc in docs], show_progress=False)
    scores = np.asarray(retriever.get_scores(words), np.float64).copy()
    for word in words:
        doc_freq = sum(word in doc for doc in docs)
        assert method != "robertson" or 2 * doc_freq < len(docs), word
        grants = {"bm25+": delta, "bm25l": (k1 + 1.0) * delta / (k1 + delta) if delta else 0.0}
        if doc_freq and method in grants:
            grant = textbook_idf(method, len(docs), doc_freq) * grants[method]
            scores -= grant * np.array([word not in doc for doc in docs])
    return scores.tolist()
