"""Frequent words may be left out of a tile's sums; replies stay those of a full sort."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr

N_ROWS = 40_000  # five document tiles: the first one only makes the threshold
N_WORDS = 3_000


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


def questions(rng: np.random.Generator, rows: list[str], n: int) -> list[str]:
    """Take runs of 6 to 14 words out of the texts: frequent words are among them."""
    out = []
    for row in rng.integers(8, len(rows), size=n):
        words = rows[row].split()
        begin = int(rng.integers(len(words) - 6))
        out.append(" ".join(words[begin : begin + int(rng.integers(6, 15))]))
    return out


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "bursts"])
def corpus(request: pytest.FixtureRequest) -> tuple[hr.Index, list[str]]:
    rng = np.random.default_rng(5)
    rows = zipf_rows(rng, N_ROWS, bursts=request.param)
    rows[7] = "..."  # a text without a word: the shortest length is 0
    table = pa.table(
        {
            "id": np.arange(N_ROWS),
            "user": [f"u{i % 3}" for i in range(N_ROWS)],
            "day": rng.integers(0, 10, N_ROWS),
            "text": rows,
        }
    )
    schema = hr.Schema(key="id", cell="user", text="text", attributes=("day",))
    return hr.Index.build(table, schema, device="cpu", threads=1), questions(rng, rows, 12)


SCOPES = {
    "one cell": "u1",
    "all cells": hr.Scope(["u0", "u1", "u2"]),
    "two cells": hr.Scope(["u0", "u2"]),
}


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    "depth", [10, *(pytest.param(depth, marks=pytest.mark.slow) for depth in (1, 100))]
)
@pytest.mark.parametrize("filtered", [False, True])
def test_the_best_rows_are_those_of_a_full_sort(
    corpus: tuple[hr.Index, list[str]], scope: str, depth: int, filtered: bool
) -> None:
    """A depth of all rows leaves nothing out, so its list is the full sort."""
    index, asked = corpus
    options = {
        "text": asked,
        "scope": SCOPES[scope],
        "filter": hr.Filter(day=(2, None)) if filtered else None,
    }
    whole = index.recall(**options, limit=depth, depth=N_ROWS).to_arrow()
    assert index.recall(**options, limit=depth, depth=depth).to_arrow().equals(whole)


@pytest.mark.parametrize(
    "variant", ["lucene", "okapi", "robertson", "atire", "bm25+", "bm25l", "fts5"]
)
def test_every_variant(corpus: tuple[hr.Index, list[str]], variant: str) -> None:
    index, asked = corpus
    options = {"text": asked, "scope": SCOPES["all cells"], "bm25": hr.BM25(variant)}
    whole = index.recall(**options, limit=10, depth=N_ROWS).to_arrow()
    assert index.recall(**options, limit=10, depth=10).to_arrow().equals(whole)


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
        whole = index.recall(text=asked, scope=scope, limit=100, depth=N_ROWS).to_arrow()
        assert index.recall(text=asked, scope=scope, limit=100, depth=100).to_arrow().equals(whole)


def test_after_deletes(corpus: tuple[hr.Index, list[str]]) -> None:
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
        whole = copy.recall(**options, limit=10, depth=N_ROWS).to_arrow()
        assert copy.recall(**options, limit=10, depth=10).to_arrow().equals(whole)
        assert not set(best.to_pylist()) & set(whole["key"].to_pylist())
