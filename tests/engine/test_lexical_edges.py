"""Packed postings say what texts do, and a column made from parts checks what scans follow."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import hyrecall as hr
from engine import lexical_edges
from engine.lexical_edges import TILE, Ranking, Texts, cases, long_texts, rank, search, short_texts
from hyrecall import _core
from laws.isa import NEEDED_FLAGS, skip_without

# ---- at the ends of their bits, at the borders of tiles, at full buffers ----

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
@pytest.mark.parametrize(
    "isa", [isa for isa in NEEDED_FLAGS if isa not in {"avx512vnni", "amx", "neondot"}]
)  # those have no kernels of scores of their own
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


# ---- a lexical column made from parts ----

Parts = dict[str, Any]
Change = Callable[[Parts], None]

TEXTS = ["tea oak", "oak " * 300, None, "", "ash tea tea", *["tea fir"] * 8200, "oak yew"]


@pytest.fixture(scope="module")
def column() -> _core.LexicalColumn:
    """Postings in two tiles of rows, and some whose length does not fit into their bits."""
    table = pa.table({"id": range(len(TEXTS)), "text": pa.array(TEXTS, pa.string())})
    index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"), device="cpu")
    return index._state.segments[0].lexical["text"]


@pytest.fixture
def parts(column: _core.LexicalColumn) -> Parts:
    """Copies of its parts, to be changed."""
    return {
        name: np.array(part) if isinstance(part, np.ndarray) else part
        for name, part in column.parts().items()
    }


def made(parts: Parts) -> _core.LexicalColumn:
    return _core.LexicalColumn.from_parts("body", parts, 2)


def test_the_parts_of_a_column_make_the_same_column(
    column: _core.LexicalColumn, parts: Parts
) -> None:
    assert len(parts["escapes"]) > 0
    assert len(parts["runs"]) // 2 > column.n_terms, "some term is in two tiles"
    again = made(parts).parts()
    for name, part in column.parts().items():
        np.testing.assert_array_equal(again[name], part, err_msg=name)


def put(name: str, at: int, value: int) -> Change:
    def change(parts: Parts) -> None:
        parts[name][at] = value

    change.__name__ = f"{name}[{at}] = {value}"
    return change


def cut(name: str, n: int = 1) -> Change:
    def change(parts: Parts) -> None:
        parts[name] = parts[name][:-n]

    change.__name__ = f"{name} without its last {n}"
    return change


def scale(name: str, step: int) -> Change:
    def change(parts: Parts) -> None:
        parts[name] = parts[name] + np.asarray(step).astype(parts[name].dtype)

    change.__name__ = f"{name} + {step}"
    return change


def width(value: int) -> Change:
    def change(parts: Parts) -> None:
        parts["posting_width"] = value

    change.__name__ = f"width {value}"
    return change


def turned(name: str) -> Change:
    def change(parts: Parts) -> None:
        parts[name] = parts[name][::-1].copy()

    change.__name__ = f"{name} turned round"
    return change


def first_token(value: int) -> Change:
    """Another byte as the first token of the first document."""
    return put("forward_bytes", 0, value)


CHANGES = [
    *(put(name, -1, 2**40) for name in ("term_offsets", "posting_offsets", "forward_offsets")),
    *(put(name, -1, 2**31) for name in ("run_offsets", "escape_offsets")),
    *(put(name, 1, 2**62) for name in ("term_offsets", "posting_offsets", "forward_offsets")),
    put("term_offsets", 0, -1),
    put("term_offsets", 0, -(2**63)),
    *(turned(f"{name}_offsets") for name in ("term", "posting", "forward", "run", "escape")),
    *(cut(name) for name in ("posting_offsets", "forward_offsets", "run_offsets")),
    *(cut(name) for name in ("doc_lengths", "postings", "forward_bytes", "term_bytes")),
    *(cut(name, 2) for name in ("runs", "escapes")),
    *(scale("runs", step) for step in (1, 2**31)),
    scale("escapes", 1),
    scale("doc_lengths", 1),
    put("doc_lengths", 0, 2**32 - 1),
    *(put("doc_lengths", 3, length) for length in (1, 5, 2**32 - 257)),  # of no tokens
    *(put("doc_lengths", 1, length) for length in (299, 301)),  # of postings without a length
    *(put("postings", at, 255) for at in (0, 1, 2, -1, -2, -3)),
    *(width(value) for value in (0, 1, 2, 4, 5, 2**32 - 1)),
    *(first_token(value) for value in (0, 0x7F, 0x80, 0xFF, 3)),
    put("forward_bytes", -1, 0x80),
    put("forward_bytes", -1, 0),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_parts_that_no_build_makes_are_refused(parts: Parts, change: Change) -> None:
    change(parts)
    with pytest.raises(hr.CorruptIndexError, match=r"^body: expected .*, got ") as caught:
        made(parts)
    assert caught.value.argument == "body"


def test_tokens_and_postings_of_different_documents_are_refused(parts: Parts) -> None:
    """Each is well made; only together they do not fit."""
    tokens = parts["forward_bytes"]
    begin, end = parts["forward_offsets"][[4, 5]]
    tokens[begin:end] = tokens[begin:end][::-1]  # ash tea tea: one occurrence more or less of each
    tokens[begin + 1] = tokens[begin + 2]
    with pytest.raises(hr.CorruptIndexError, match="postings of the documents' tokens"):
        made(parts)


@pytest.mark.parametrize("seed", range(8))
def test_random_changes_make_a_column_that_can_be_read_or_none(parts: Parts, seed: int) -> None:
    """Whatever passes the checks survives being read from end to end."""
    draw = np.random.default_rng(seed)
    whole = {name: part.copy() for name, part in parts.items() if isinstance(part, np.ndarray)}
    for _ in range(12):
        name = draw.choice(sorted(whole))
        changed: npt.NDArray[Any] = whole[name].copy()
        raw = changed.view(np.uint8)
        raw[draw.integers(len(raw))] ^= 1 << draw.integers(8)
        try:
            column = made({**parts, name: changed})
        except hr.CorruptIndexError:
            continue
        rows = np.arange(len(TEXTS), dtype=np.uint32)
        _core.LexicalColumn.merge([column], np.zeros(len(TEXTS), np.uint32), rows)
