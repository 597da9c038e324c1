"""Texts with the words of a language, and queries that hold its frequent words.

Queries of picked words leave out the words that are in every second text. Agents ask whole
questions: twelve to twenty words, half of them frequent. Such words are most of the postings of a
query and say almost nothing, which is where engines that skip postings are strong.

Real texts are windows of those of ``HYRECALL_BENCH_DATA``. Each distinct word becomes a number, and
is spelled as ``corpus.word`` spells it: frequencies and neighbours are real, letters are not, so
that all engines split the texts alike.
"""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from bench.corpus import VOCABULARY_SIZE, Ints, Texts, generator, zipf_texts
from bench.grown import data_folders

SHORTEST, LONGEST = 40, 80  # words of a text
_WORD = re.compile(r"\w+")


def real_texts(n: int) -> tuple[Texts, str]:
    """Return n windows of real texts, or of drawn ones where none are named, and which they are."""
    words, _ = _real_words()
    if not len(words):
        return zipf_texts(n), "drawn words"
    begins, lengths = _windows(n, len(words))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    at = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - begins, lengths)
    return Texts(words[at], offsets), "real words"


def window_documents(n: int) -> Ints:
    """Return in which document of the real sets each window of :func:`real_texts` begins."""
    words, ends = _real_words()
    return np.searchsorted(ends, _windows(n, len(words))[0], side="right").astype(np.int64)


def _windows(n: int, n_words: int) -> tuple[Ints, Ints]:
    """Return the first words of n windows, and their lengths."""
    rng = generator("windows")
    lengths = rng.integers(SHORTEST, LONGEST + 1, size=n)
    return rng.integers(n_words - LONGEST, size=n), lengths


def _real_words() -> tuple[npt.NDArray[np.int32], Ints]:
    """Return all words of the real sets one after the other, and where each document ends.

    Words are numbered by falling frequency. Without real sets there are none.
    """
    texts = [
        _WORD.findall((text or "").lower())
        for folder in data_folders()
        for text in pq.read_table(folder / "corpus.parquet", columns=["text"])["text"].to_pylist()
    ]
    most = Counter(w for text in texts for w in text).most_common(VOCABULARY_SIZE)
    numbers = {w: i for i, (w, _) in enumerate(most)}
    kept = [[numbers[w] for w in text if w in numbers] for text in texts]
    words = np.fromiter((w for text in kept for w in text), np.int32)
    return words, np.cumsum([len(text) for text in kept], dtype=np.int64)


def natural_questions(texts: Texts, n: int, fewest: int = 12, most: int = 20) -> list[list[int]]:
    """Return the distinct words of runs of 12 to 20 words, each run from one text."""
    rng = generator("natural questions")
    asked = []
    for length in rng.integers(fewest, most + 1, size=n):
        text = rng.integers(texts.n_docs)
        begin, end = texts.offsets[text], texts.offsets[text + 1]
        start = begin + rng.integers(end - begin - length + 1)
        asked.append(list(dict.fromkeys(texts.tokens[start : start + length].tolist())))
    return asked


FREQUENT_WORDS, FREQUENT_EXPONENT = 40_000, 1.05


def frequent_texts(n: int) -> Texts:
    """Return n texts of 40,000 words whose frequencies fall as rank^-1.05."""
    return zipf_texts(
        n, vocabulary=FREQUENT_WORDS, exponent=FREQUENT_EXPONENT, shift=1.0, name="frequent texts"
    )


def frequent_queries(n: int, words: int = 6) -> list[list[int]]:
    """Draw six different words for each query, by their frequency in :func:`frequent_texts`."""
    rng = generator("frequent queries")
    share = (np.arange(FREQUENT_WORDS) + 1.0) ** -FREQUENT_EXPONENT
    share /= share.sum()
    return [rng.choice(FREQUENT_WORDS, words, replace=False, p=share).tolist() for _ in range(n)]


def drawn_by_frequency(texts: Texts, n: int, words: int = 6) -> list[list[int]]:
    """Draw six different words for each query, by how often the texts hold them."""
    share = np.bincount(texts.tokens) / len(texts.tokens)
    rng = generator("frequent words of texts")
    return [rng.choice(len(share), words, replace=False, p=share).tolist() for _ in range(n)]
