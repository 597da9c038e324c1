"""Frequent words may be left out of a tile's sums; replies stay those of a full sort."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr

N_ROWS = 40_000  # five document tiles: the first one only makes the threshold
N_WORDS = 3_000

Corpus = tuple[hr.Index, list[str]]


def zipf_rows(rng: np.random.Generator, n: int, *, bursts: bool) -> list[str]:
    """Draw texts of 20 to 60 words by Zipf's law; with bursts a few words come many times."""
    share = 1.0 / np.arange(1, N_WORDS + 1)
    share /= share.sum()
    rows = []
    for _ in range(n):
        words = rng.choice(N_WORDS, size=rng.integers(20, 61), p=share)
        text = [f"w{word}" for word in words]
        if bursts and rng.random() < 0.03:
            text += [text[0]] * int(rng.integers(8, 40))
        rows.append(" ".join(text))
    return rows


@cache
def drawn_rows(*, bursts: bool) -> tuple[str, ...]:
    """Return the texts of all rows; the eighth has no word: the shortest length is 0."""
    rows = zipf_rows(np.random.default_rng(5), N_ROWS, bursts=bursts)
    return (*rows[:7], "...", *rows[8:])


def questions(rng: np.random.Generator, rows: Sequence[str], n: int) -> list[str]:
    """Take runs of 6 to 14 words out of the texts: frequent words are among them."""
    out = []
    for row in rng.integers(8, len(rows), size=n):
        words = rows[row].split()
        begin = int(rng.integers(len(words) - 6))
        out.append(" ".join(words[begin : begin + int(rng.integers(6, 15))]))
    return out


def indexed(rows: Sequence[str]) -> hr.Index:
    table = pa.table(
        {
            "id": np.arange(N_ROWS),
            "user": [f"u{i % 3}" for i in range(N_ROWS)],
            "day": np.random.default_rng(7).integers(0, 10, N_ROWS),
            "text": rows,
        }
    )
    schema = hr.Schema(key="id", cell="user", text="text", attributes=("day",))
    return hr.Index.build(table, schema, device="cpu", threads=1)


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "bursts"])
def corpus(request: pytest.FixtureRequest) -> Corpus:
    rows = drawn_rows(bursts=request.param)
    return indexed(rows), questions(np.random.default_rng(8), rows, 12)


@pytest.fixture(scope="module")
def topical() -> Corpus:
    """Most of the first rows of each user are of one topic, and few of the others.

    So a long list has its threshold early, and few rows of later tiles reach it: otherwise so many
    are to be scored that adding every word costs less, and none is left out.
    """
    rng = np.random.default_rng(9)
    share = np.where(np.arange(N_ROWS) < 4_500, 0.9, 0.002)
    times = (rng.random(N_ROWS) < share) * rng.integers(1, 4, N_ROWS)
    rows = [f"{row} {'topic ' * n}" for row, n in zip(drawn_rows(bursts=False), times, strict=True)]
    frequent = [rng.choice(6, size=4, replace=False) for _ in range(6)]
    return indexed(rows), [" ".join(["topic", *(f"w{w}" for w in some)]) for some in frequent]


def n_left_out(index: hr.Index) -> int:
    """Return how many postings scans of an index have left out so far."""
    return sum(segment.lexical["text"].n_left_out() for segment in index._state.segments)


def full_sort(index: hr.Index, limit: int, **options: Any) -> pa.Table:
    """Return the top of lists that hold every row, so that no word can be left out."""
    before = n_left_out(index)
    whole = index.recall(**options, limit=limit, depth=N_ROWS).to_arrow()
    assert n_left_out(index) == before
    return whole


def shortened(index: hr.Index, limit: int, **options: Any) -> pa.Table:
    """Return the reply of a scan that must leave words out."""
    before = n_left_out(index)
    reply = index.recall(**options, limit=limit, depth=limit).to_arrow()
    assert n_left_out(index) > before, "no word was left out"
    return reply


SCOPES = {
    "one cell": "u1",
    "all cells": hr.Scope(["u0", "u1", "u2"]),
    "two cells": hr.Scope(["u0", "u2"]),
}


@pytest.mark.plain_cases(4)
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    "depth", [10, *(pytest.param(depth, marks=pytest.mark.slow) for depth in (1, 100))]
)
@pytest.mark.parametrize("filtered", [False, True])
def test_the_best_rows_are_those_of_a_full_sort(
    corpus: Corpus, scope: str, depth: int, filtered: bool
) -> None:
    index, asked = corpus
    options = {
        "text": asked,
        "scope": SCOPES[scope],
        "filter": hr.Filter(day=(2, None)) if filtered else None,
    }
    whole = full_sort(index, depth, **options)
    if depth == 100 and scope == "one cell":  # too many rows to score: all words are added
        assert index.recall(**options, limit=depth, depth=depth).to_arrow().equals(whole)
    else:
        assert shortened(index, depth, **options).equals(whole)


def test_no_word_is_left_out_of_more_words_than_a_row_is_counted_for(corpus: Corpus) -> None:
    index, _ = corpus
    words = [f"w{word}" for word in (*range(10), *range(100, 2_000, 4))]
    options: dict[str, Any] = {"text": [" ".join(words)], "scope": "u1"}
    before = n_left_out(index)
    reply = index.recall(**options, limit=10, depth=10).to_arrow()
    assert n_left_out(index) == before
    assert reply.equals(full_sort(index, 10, **options))


@pytest.mark.plain_cases(2)
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("filtered", [False, True])
def test_lists_of_a_thousand_are_those_of_a_full_sort(
    topical: Corpus, scope: str, filtered: bool
) -> None:
    index, asked = topical
    options = {
        "text": asked,
        "scope": SCOPES[scope],
        "filter": hr.Filter(day=(2, None)) if filtered else None,
    }
    assert shortened(index, 1_000, **options).equals(full_sort(index, 1_000, **options))


def check_floors(corpus: Corpus, scope: str, limit: int, *, is_strict: bool) -> None:
    """Check that floors cut the full sort; each is the score of a hit."""
    index, asked = corpus
    options = {"text": asked, "scope": SCOPES[scope]}
    whole = full_sort(index, limit, **options)
    scores = whole["text_score"].to_numpy()
    for share in (0.2, 0.8):
        floor = float(np.sort(scores)[int(share * len(scores))])
        passes = scores > floor if is_strict else scores >= floor
        assert 0 < np.count_nonzero(passes) < len(scores)
        floored = options | {"min_score": {"text": hr.Above(floor) if is_strict else floor}}
        assert shortened(index, limit, **floored).equals(whole.filter(pa.array(passes)))


@pytest.mark.plain_cases(4)
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("is_strict", [False, True], ids=["at least", "above"])
def test_a_floor_cuts_the_full_sort(corpus: Corpus, scope: str, is_strict: bool) -> None:
    check_floors(corpus, scope, 10, is_strict=is_strict)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("is_strict", [False, True], ids=["at least", "above"])
def test_a_floor_cuts_lists_of_a_thousand(topical: Corpus, scope: str, is_strict: bool) -> None:
    check_floors(topical, scope, 1_000, is_strict=is_strict)


@pytest.mark.plain_cases(5)
@pytest.mark.parametrize(
    "variant", ["lucene", "okapi", "robertson", "atire", "bm25+", "bm25l", "fts5"]
)
def test_every_variant(corpus: Corpus, variant: str) -> None:
    index, asked = corpus
    options = {"text": asked, "scope": SCOPES["all cells"], "bm25": hr.BM25(variant)}
    whole = full_sort(index, 10, **options)
    before = n_left_out(index)
    assert index.recall(**options, limit=10, depth=10).to_arrow().equals(whole)
    # Robertson's impacts may be negative: no sum of them bounds a row.
    assert (n_left_out(index) > before) == (variant != "robertson")


def test_where_many_rows_are_equal() -> None:
    """Each of them reaches the threshold, so whole tiles are added after all."""
    rng = np.random.default_rng(6)
    # Where a word comes often, its frequency lies beside the posting.
    kinds = [f"{row} {'w1 ' * int(rng.integers(0, 20))}" for row in zipf_rows(rng, 6, bursts=False)]
    kinds += zipf_rows(rng, 300, bursts=False)
    share = np.r_[np.full(6, 0.1), np.full(300, 0.4 / 300)]
    table = pa.table(
        {
            "id": np.arange(N_ROWS),
            "user": [f"u{i % 3}" for i in range(N_ROWS)],
            "text": [kinds[i] for i in rng.choice(306, size=N_ROWS, p=share)],
        }
    )
    schema = hr.Schema(key="id", cell="user", text="text")
    index = hr.Index.build(table, schema, device="cpu", threads=1)
    asked = [*questions(rng, kinds, 12), *(" ".join(row.split()[:9]) for row in kinds[:6])]
    for scope in SCOPES.values():
        whole = full_sort(index, 100, text=asked, scope=scope)
        assert index.recall(text=asked, scope=scope, limit=100, depth=100).to_arrow().equals(whole)


def test_after_deletes(corpus: Corpus) -> None:
    """A row that is dead is never offered, whatever its sum."""
    index, asked = corpus
    best = index.recall(text=asked, scope=SCOPES["all cells"], limit=1).to_arrow()["key"]
    with hr.Index.build(
        index.get(
            list(range(N_ROWS)), scope=SCOPES["all cells"], columns=["day", "text"]
        ).rename_columns(["id", "user", "day", "text"]),
        index.schema,
        device="cpu",
    ) as copy:
        copy.delete(best.to_pylist(), scope=SCOPES["all cells"])
        options = {"text": asked, "scope": SCOPES["all cells"]}
        whole = full_sort(copy, 10, **options)
        assert shortened(copy, 10, **options).equals(whole)
        assert not set(best.to_pylist()) & set(whole["key"].to_pylist())
