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


def textbook(variant: str, texts: Sequence[str], query: str, k1: float, b: float) -> list[float]:
    """Sum over the query's words, repeats included, of idf x saturated term frequency; straight in
    float64.
    """
    docs = [word_tokens(text) for text in texts]
    mean = sum(map(len, docs)) / len(docs) or 1.0
    scores = [0.0] * len(docs)
    for word in word_tokens(query):
        doc_freq = sum(word in doc for doc in docs)
        odds = (len(docs) - doc_freq + 0.5) / (doc_freq + 0.5)
        classical = max(math.log(odds), 0.0) or 1e-6
        idf = classical if variant == "fts5" else math.log(odds + 1.0)
        for at, doc in enumerate(docs):
            tf = doc.count(word)
            if tf:
                gain = tf / (tf + k1 * (1.0 - b + b * len(doc) / mean))
                scores[at] += idf * gain * (1.0 if variant == "lucene" else k1 + 1.0)
    return scores


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


def bm25s_lucene(texts: Sequence[str], query: str, k1: float, b: float) -> list[float]:
    """Scores of bm25s's ``lucene`` method for a query without repeats."""
    retriever = bm25s.BM25(method="lucene", k1=k1, b=b, dtype="float64")
    retriever.index([list(word_tokens(text)) for text in texts], show_progress=False)
    return np.asarray(retriever.get_scores(list(dict.fromkeys(word_tokens(query))))).tolist()
