"""Words may be left out of sums, and thresholds guessed: replies stay those of a full sort."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr

# ---- frequent words that are left out of a tile's sums ----

N_ROWS = 40_000  # five document tiles: the first one only makes the threshold
N_WORDS = 3_000

Corpus = tuple[hr.Index, list[str]]


def zipf_rows(rng: np.random.Generator, n: int, *, bursts: bool) -> list[str]:
    """Draw texts of 20 to 60 words by Zipf's law; with bursts a few words come many times."""
    share = 1.0 / np.arange(1, N_WORDS + 1)
    share /= share.sum()
    sizes = rng.integers(20, 61, n)
    names = np.array([f"w{word}" for word in range(N_WORDS)])
    drawn = names[rng.choice(N_WORDS, size=sizes.sum(), p=share)].tolist()
    rows = []
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        text = drawn[end - size : end]
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


# ---- batches of the dense scan that start from a guessed threshold ----
# The sample is one block of 16 rows in 16 (`csrc/engine/dense/first_threshold.cpp`), so rows can be
# laid such that it misleads. A scan that trusted its guess would lose rows in every case of
# `MISLEADING`.

N, DIM, BATCH, DEPTH = 4_096, 24, 32, 100
Floats = np.ndarray


def in_sample(n: int) -> np.ndarray:
    """Whether the guess looks at a row: of every other tile it takes a block, the next one each."""
    row = np.arange(n)
    tile = row // 128
    return (tile % 2 == 0) & (row % 128 // 16 == tile // 2 % 8)


def few_good_rows(rng: np.random.Generator, query: Floats) -> Floats:
    """40 rows near the query, all of them in the sample; 100 are asked for."""
    rows = rng.standard_normal((N, DIM))
    rows[np.flatnonzero(in_sample(N))[::6][:40]] += 4 * query
    return rows


def as_many_as_asked(rng: np.random.Generator, query: Floats) -> Floats:
    """99 rows in the sample are alike, so the guess is their score; the hundredth is outside."""
    rows = rng.standard_normal((N, DIM))
    rows[np.flatnonzero(in_sample(N))[:99]] = query
    return rows


def sample_is_another_cluster(rng: np.random.Generator, query: Floats) -> Floats:
    """Every row of the sample is nearer than any other; half of them are deleted."""
    rows = rng.standard_normal((N, DIM))
    rows[in_sample(N)] += 4 * query
    return rows


MISLEADING: dict[str, Callable[[np.random.Generator, Floats], Floats]] = {
    "few good rows": few_good_rows,
    "as many as asked": as_many_as_asked,
    "another cluster": sample_is_another_cluster,
}


def built(rows: Floats, threads: int = 2) -> hr.Index:
    n = len(rows)
    return hr.Index.build(
        pa.table({"id": np.arange(n), "at": np.arange(n) % 5}),
        hr.Schema(key="id", cell=None, text=(), vector="embedding", attributes=("at",)),
        vectors={"embedding": rows.astype(np.float32)},
        device="cpu",
        threads=threads,
    )


def replies(index: hr.Index, queries: Floats) -> list[pa.Table]:
    floors = (None, {"embedding": 0.3}, {"embedding": hr.Above(0.99)})
    return [
        index.recall(
            vectors=queries, limit=limit, depth=limit, min_score=floor, filter=kept
        ).to_arrow()
        for limit in (DEPTH, 7)
        for floor in floors
        for kept in (None, hr.Filter(at=(1, 3)))
    ]


def windows(index: hr.Index) -> int:
    return int(index.stats()["segments"][0]["plane"]["embedding"]["windows"])


@pytest.mark.parametrize("world", MISLEADING)
def test_a_guess_that_misleads_changes_no_reply(
    world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(1)
    query = rng.standard_normal(DIM)
    rows = MISLEADING[world](rng, query)
    queries = (query + 0.01 * rng.standard_normal((BATCH, DIM))).astype(np.float32)
    index = built(rows)
    if world == "another cluster":
        index.delete(np.flatnonzero(in_sample(N))[::2])
    through_plane = replies(index, queries)
    assert windows(index) > 0
    monkeypatch.setenv("HYRECALL_FRONT_PLANE", "rows")
    assert all(a.equals(b) for a, b in zip(through_plane, replies(index, queries), strict=True))


def test_queries_scan_again_where_and_only_where_the_guess_was_too_high() -> None:
    rng = np.random.default_rng(2)
    query = rng.standard_normal(DIM)
    queries = rng.standard_normal((BATCH, DIM)).astype(np.float32)
    queries[:5] = query
    index = built(few_good_rows(rng, query), threads=1)
    index.recall(vectors=queries, limit=DEPTH, depth=DEPTH)
    # The whole index is one window. Of the others some three in a thousand scan again.
    assert BATCH + 5 <= windows(index) <= BATCH + 8


def test_guesses_hold_on_rows_in_no_order() -> None:
    rng = np.random.default_rng(3)
    rows, queries = rng.standard_normal((20_000, DIM)), rng.standard_normal((1_024, DIM))
    index = built(rows, threads=1)
    for depth in (10, 100):
        before = windows(index)
        index.recall(vectors=queries.astype(np.float32), limit=depth, depth=depth)
        assert windows(index) - before <= 1.02 * 1_024 * 5  # windows of 4,096 rows
