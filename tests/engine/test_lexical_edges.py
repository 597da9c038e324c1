"""Packed postings say exactly what texts do: at the ends of their bits, at the borders of tiles,
at full buffers, and in scopes of many ranges.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from engine import lexical_edges
from engine.lexical_edges import TILE, Ranking, Texts, cases, long_texts, rank, search, short_texts
from laws.isa import skip_without

Ask = Callable[[tuple[int, ...], int], Ranking]
MAKERS = {"short": short_texts, "long": long_texts}


@pytest.fixture(scope="module", params=MAKERS)
def texts(request: pytest.FixtureRequest) -> Texts:
    return MAKERS[request.param]()


@pytest.fixture(scope="module")
def ask(texts: Texts) -> Ask:
    return search(texts)


def test_lists_are_those_of_a_full_sort_to_the_bit(texts: Texts, ask: Ask) -> None:
    for query, k in cases(texts):
        assert ask(query, k) == rank(texts, query, k), (query, k)


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize("isa", ["scalar", "avx2", "avx512"])  # the others share kernels of scores
def test_every_instruction_set_gives_these_lists(isa: str) -> None:
    skip_without(isa)
    paths = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-m", lexical_edges.__name__],
        env={**os.environ, "PYTHONPATH": paths, "HYRECALL_ISA": isa},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "equal\n", done.stderr


def clipped_frequency(texts: Texts, query: tuple[int, ...], k: int) -> Ranking:
    return rank(replace(texts, counts=np.minimum(texts.counts, 7)), query, k)


def clipped_wide_frequency(texts: Texts, query: tuple[int, ...], k: int) -> Ranking:
    return rank(replace(texts, counts=np.minimum(texts.counts, 31)), query, k)


def clipped_length(texts: Texts, query: tuple[int, ...], k: int) -> Ranking:
    return rank(replace(texts, lengths=np.minimum(texts.lengths, 255)), query, k)


def clipped_wide_length(texts: Texts, query: tuple[int, ...], k: int) -> Ranking:
    return rank(replace(texts, lengths=np.minimum(texts.lengths, 16_383)), query, k)


def lost_border(texts: Texts, query: tuple[int, ...], k: int) -> Ranking:
    return [hit for hit in rank(texts, query, k + 1) if hit[0] != TILE][:k]


def later_row_first(texts: Texts, query: tuple[int, ...], k: int) -> Ranking:
    return sorted(rank(texts, query, k), key=lambda hit: (-hit[1], -hit[0]))


def one_short_of_all(texts: Texts, query: tuple[int, ...], k: int) -> Ranking:
    found = rank(texts, query, k)
    return found[:-1] if len(found) == k else found


def other_order_of_terms(texts: Texts, query: tuple[int, ...], k: int) -> Ranking:
    backwards = replace(texts, counts=texts.counts[:, ::-1])
    return rank(backwards, tuple(len(lexical_edges.WORDS) - 1 - w for w in query), k)


BUGS = {
    "short": [clipped_frequency, clipped_length, clipped_wide_length, later_row_first],
    "long": [clipped_wide_frequency, clipped_length, clipped_wide_length],
}


@pytest.mark.parametrize(
    ("maker", "bug"),
    [
        (maker, bug)
        for maker, bugs in BUGS.items()
        for bug in (*bugs, lost_border, one_short_of_all, other_order_of_terms)
    ],
    ids=lambda of: of if isinstance(of, str) else of.__name__,
)
def test_a_wrong_bit_would_be_seen(maker: str, bug: Callable[..., Ranking]) -> None:
    texts = MAKERS[maker]()
    assert any(bug(texts, query, k) != rank(texts, query, k) for query, k in cases(texts))


# ---- scopes of many ranges ----

CELLS = 3000
SCOPES = {
    "two cells": [5, 2000],
    "every second": list(range(0, CELLS, 2)),
    "a run and some": [*range(100, 900), 1000, 1002, 1004, 1006, 1008, 2999],
    "all": list(range(CELLS)),
}


def of_cells(cells: np.ndarray) -> hr.Index:
    rng = np.random.default_rng(43)
    words = np.array([f"w{i}" for i in range(40)])
    texts = [" ".join(words[(rng.random(12) ** 2 * 40).astype(int)]) for _ in range(6 * CELLS)]
    texts[7] = "w0 " * 300  # of no three bytes
    cell = np.repeat(np.arange(CELLS), 6)
    rows = np.isin(cell, cells).nonzero()[0]
    table = pa.table({"id": rows, "cell": cell[rows], "text": pa.array(texts).take(rows)})
    schema = hr.Schema(key="id", cell=("cell",), text="text", stored=())
    return hr.Index.build(table, schema, analyzer=hr.Analyzer("word"))


def ask_all(index: hr.Index, k: int, **options: object) -> pa.Table:
    queries = ["w0", "w0 w1 w2", "w30 w5 w12 w39", hr.All("w3", "w1"), hr.Phrase("w0 w1")]
    return index.recall(text=queries, limit=k, depth=k, **options).to_arrow()


@pytest.fixture(scope="module")
def everything() -> hr.Index:
    return of_cells(np.arange(CELLS))


@pytest.mark.plain_cases(3)
@pytest.mark.parametrize("name", SCOPES)
@pytest.mark.parametrize("k", [3, 200])
def test_a_scope_of_many_ranges_is_an_index_of_its_rows(
    name: str, k: int, everything: hr.Index
) -> None:
    cells = SCOPES[name]
    scope = hr.Scope([(cell,) for cell in cells])
    alone = ask_all(of_cells(np.array(cells)), k, scope=scope)
    assert ask_all(everything, k, scope=scope).equals(alone)
    # One cell more, or one less, is another reply.
    for other in (cells[1:], [*cells, (set(range(CELLS)) - set(cells) or {-1}).pop()]):
        if other != [*cells, -1]:
            wrong = hr.Scope([(cell,) for cell in other])
            assert not ask_all(everything, k, scope=wrong).equals(alone)


def large(threads: int) -> hr.Index:
    """Index 24 tiles of few words: a query's postings are enough for several threads.

    The rare word stands in the first tile of either half alone, so that a threshold guessed from
    there is too high.
    """
    rng = np.random.default_rng(45)
    n = 24 * TILE + 100
    held = rng.random((n, 4)) < [1.0, 0.8, 0.6, 100 / TILE]
    held[:, 3] &= np.isin(np.arange(n) // TILE, [0, 12])
    words = np.array(["ash ", "bay ", "elm ", "fir"])
    texts = ["".join(words[row]) for row in held]
    table = pa.table({"id": np.arange(n), "text": texts, "part": np.arange(n) % 3})
    schema = hr.Schema(key="id", cell=None, text="text", attributes=("part",), stored=())
    return hr.Index.build(table, schema, analyzer=hr.Analyzer("word"), threads=threads)


@pytest.fixture(scope="module")
def by_threads() -> dict[int, hr.Index]:
    return {threads: large(threads) for threads in (1, 2, 4)}


LARGE_QUERIES = {
    "ties": "ash bay elm",
    "rarest first": "ash bay elm fir",
    "all": hr.All("ash", "bay", "elm"),
    "phrase": hr.Any(hr.Phrase("ash bay"), "elm", "ash bay"),
}


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize("query", LARGE_QUERIES)
@pytest.mark.parametrize(
    "k", [1, 200, *(pytest.param(k, marks=pytest.mark.slow) for k in (10, 700, 20_000))]
)
def test_threads_share_the_tiles_of_one_query(
    query: str, k: int, by_threads: dict[int, hr.Index]
) -> None:
    options: list[dict[str, Any]] = [{}, {"filter": hr.Filter(part=1)}, {"min_score": 0.5}]
    options.append({"bm25": hr.BM25("robertson")})  # negative weights: no bound holds
    for more in options:
        replies = {
            threads: index.recall(text=[LARGE_QUERIES[query]], limit=k, depth=k, **more).to_arrow()
            for threads, index in by_threads.items()
        }
        assert replies[2].equals(replies[1])
        assert replies[4].equals(replies[1])
        if query == "ties" and not more:  # half of all rows have the best score: each k cuts ties
            assert len(set(replies[1]["score"].to_pylist())) == 1


@pytest.mark.slow
def test_threads_share_the_tiles_of_what_still_lives() -> None:
    replies = []
    for threads in (1, 2):
        index = large(threads)
        index.delete(list(range(0, 3 * TILE, 2)))
        replies.append(index.recall(text=["ash bay elm fir"], limit=300, depth=300).to_arrow())
    assert replies[0].equals(replies[1])
    assert len(replies[0]) == 300
