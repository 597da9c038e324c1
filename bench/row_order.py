"""What BM25 gains from the order of rows inside a cell, and what making that order costs.

    python -m bench.row_order [--texts 300000] [--queries 200] [--rounds 9]

Texts of ``questions.py`` (real words where ``HYRECALL_BENCH_DATA`` names sets, and Zipf 1.05 words)
are built with ``Schema(cluster=)`` over a column of places: as given; by ``minhash`` (texts that
share their least hashed words side by side); by ``bisection`` (Dhulipala et al., "Compressing
graphs and indexes with recursive graph bisection", KDD 2016); by ``k-means`` cluster of the vector
of the document in which a text begins (real words alone); and so with a random sample first.

All have the same ``seq``, so replies must be the same to the last bit. A kind of query is answered
in one call on one thread, all orders in turns. Figures are processor time as a share of that of the
given order, medians over the rounds.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

import hyrecall as hr
from bench import corpus, grown, ours, questions
from bench.corpus import VOCABULARY_SIZE, Ints, Texts, generator

LEAF_ROWS = 128  # a part of so few rows is not cut again
SWEEPS, CLUSTERS = 12, 256  # of swaps at a level, unless nothing is left to swap; of k-means
Words = npt.NDArray[np.int32]


def distinct_words(texts: Texts) -> tuple[Words, Ints]:
    """Return the distinct words of each text, text after text, and how many each has."""
    row = np.repeat(np.arange(texts.n_docs), np.diff(texts.offsets))
    pairs = np.sort(row * VOCABULARY_SIZE + texts.tokens)
    pairs = pairs[np.diff(pairs, prepend=-1) != 0]
    counts = np.bincount(pairs // VOCABULARY_SIZE, minlength=texts.n_docs)
    return (pairs % VOCABULARY_SIZE).astype(np.int32), counts


def bisection(texts: Texts, leaf_rows: int = LEAF_ROWS) -> Ints:
    """Return the rows in an order that brings those with equal words together."""
    words, counts = distinct_words(texts)
    done: list[Ints] = []
    waiting = [(np.arange(texts.n_docs), words, counts)]
    while waiting:
        rows, words, counts = waiting.pop()
        if len(rows) <= leaf_rows:
            done.append(rows)
            continue
        words, counts = _shared(words, counts)
        is_right = _halves(words, counts)
        waiting += [
            (rows[side], words[np.repeat(side, counts)], counts[side])
            for side in (is_right, ~is_right)  # the left one is next
        ]
    return np.concatenate(done)


def _shared(words: Words, counts: Ints) -> tuple[Words, Ints]:
    """Leave out words of a single row, which may lie anywhere, and number the others anew."""
    is_kept = np.bincount(words) > 1
    of_kept = is_kept[words]
    row = np.repeat(np.arange(len(counts)), counts)[of_kept]
    numbers = (np.cumsum(is_kept) - 1).astype(np.int32)
    return numbers[words[of_kept]], np.bincount(row, minlength=len(counts))


def _halves(words: Words, counts: Ints) -> npt.NDArray[np.bool_]:
    """Return which rows of a part belong into its right half.

    A word in d of the n rows of a half costs d log2(n / (d + 1)) bits there. Each sweep swaps the
    rows that gain most by it, pair by pair, while the two together gain.
    """
    n = len(counts)
    is_right = np.arange(n) >= n // 2
    row = np.repeat(np.arange(n, dtype=np.int32), counts)
    held = np.bincount(words)

    def bits(left: Ints) -> npt.NDArray[np.float64]:
        halves = ((left, n // 2), (held - left, n - n // 2))
        return np.asarray(sum(here * np.log2(size / (here + 1)) for here, size in halves))

    for _ in range(SWEEPS):
        of_right = is_right[row]
        left = np.bincount(words[~of_right], minlength=len(held))
        now = bits(left)
        from_left = now - bits(np.maximum(left - 1, 0))
        from_right = now - bits(np.minimum(left + 1, held))
        gains = np.bincount(row, np.where(of_right, from_right[words], from_left[words]), n)
        by_gain = np.argsort(-gains, kind="stable")
        lefts, rights = by_gain[~is_right[by_gain]], by_gain[is_right[by_gain]]
        n_swaps = np.count_nonzero(gains[lefts] + gains[rights[: len(lefts)]] > 0)
        is_right[lefts[:n_swaps]], is_right[rights[:n_swaps]] = True, False
        if n_swaps == 0:
            break
    return is_right


def minhash(texts: Texts) -> Ints:
    """Return the rows by their least hashed words, hash after hash."""
    words, counts = distinct_words(texts)
    begins = np.cumsum(counts) - counts
    drawn = [generator(f"minhash {i}").permutation(VOCABULARY_SIZE) for i in range(4)]
    return np.lexsort([np.minimum.reduceat(hash_of[words], begins) for hash_of in drawn[::-1]])


def by_cluster(texts: Texts) -> Ints:
    """Return the rows by k-means clusters of their documents' vectors."""
    columns = [
        pq.read_table(folder / "corpus.parquet", columns=["embedding"]).column(0).combine_chunks()
        for folder in grown.data_folders()
    ]
    of_documents = np.concatenate(
        [np.asarray(c.values.to_numpy(), np.float32).reshape(len(c), -1) for c in columns]
    )
    rows = of_documents[questions.window_documents(texts.n_docs)]
    sample = rows[:: max(len(rows) // 20_000, 1)]
    centres = sample[generator("k-means").choice(len(sample), CLUSTERS, replace=False)]
    for _ in range(10):
        sums = np.full_like(centres, 1e-9)
        np.add.at(sums, np.argmax(sample @ centres.T, axis=1), sample)
        centres = corpus.unit(sums)
    return np.argsort(np.argmax(rows @ centres.T, axis=1), kind="stable")


def sample_first(rows: Ints, n: int = 8_192) -> Ints:
    """Return the rows with a random sample of them moved to the first tile of postings."""
    is_first = np.zeros(len(rows), bool)
    is_first[generator("first tile").permutation(len(rows))[:n]] = True
    return np.concatenate([rows[is_first[rows]], rows[~is_first[rows]]])


def timed(call: Callable[..., Any], *args: object, **named: object) -> tuple[float, Any]:
    """Return the processor seconds of a call, and its result."""
    begin = time.process_time()
    result = call(*args, **named)
    return time.process_time() - begin, result


def report(name: str, texts: Texts, n_queries: int, rounds: int) -> None:
    """Print the table of a set of texts."""
    makers: dict[str, Callable[[Texts], Ints]] = {"minhash": minhash, "bisection": bisection}
    if name == "real words":
        makers["k-means"] = by_cluster
    orders = {"given": np.arange(texts.n_docs)}
    for order, maker in makers.items():
        seconds, orders[order] = timed(maker, texts)
        print(f"{order}: {seconds:.1f} s")
    for order in [order for order in orders if order in ("bisection", "k-means")]:
        orders[f"{order}, sample first"] = sample_first(orders[order])
    indexes: dict[str, hr.Index] = {}
    for order, rows in orders.items():
        column = {"texts": texts.strings, "columns": {"place": np.argsort(rows)}}
        built, index = timed(ours.build, texts.n_docs, cluster="place", threads=1, **column)
        indexes[order] = index
        print(f"{order}: build {built:.1f} s, texts {ours.parts(index)['lexical/text']:,} bytes")
    asked = {
        "picked words": corpus.text_queries(n_queries),
        "natural questions": questions.natural_questions(texts, n_queries),
        "frequent words": questions.drawn_by_frequency(texts, n_queries),
    }
    print(f"\n| {texts.n_docs:,} texts, {name} | k | {' | '.join(orders)} |")
    print("|---" * (2 + len(orders)) + "|")
    for (kind, words), k in itertools.product(asked.items(), (10, 100)):
        queries = [corpus.spell(query) for query in words]
        times: dict[str, list[float]] = {order: [] for order in indexes}
        replies = {}
        for _ in range(rounds + 1):
            for order, index in indexes.items():
                taken, hits = timed(index.recall, text=queries, limit=k, depth=k)
                times[order].append(taken)
                replies[order] = ours.arrays(hits, k)
        for reply in replies.values():
            assert np.array_equal(np.stack(reply), np.stack(replies["given"])), "other replies"
        first = np.array(times["given"][1:])  # the first round warms caches
        shares = [f"{np.median(np.array(some[1:]) / first):.2f}" for some in times.values()]
        shares[0] = f"{np.median(first) / len(queries) * 1e6:.0f} us"
        print(f"| {kind} | {k} | {' | '.join(shares)} |")


def main() -> None:
    """Print the tables of both sets of texts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("--texts", 300_000), ("--queries", 200), ("--rounds", 9)):
        parser.add_argument(name, type=int, default=default)
    options = parser.parse_args()
    texts, name = questions.real_texts(options.texts)
    report(name, texts, options.queries, options.rounds)
    texts = questions.frequent_texts(options.texts)
    report("Zipf 1.05 words", texts, options.queries, options.rounds)


if __name__ == "__main__":
    main()
