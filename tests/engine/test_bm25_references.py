"""The lexical arm against BM25 as others compute it, on tables that hold another tenant too."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

import hyrecall as hr
from laws.effort import Effort
from laws.engine import engine_bm25, engine_query
from oracle.bm25 import FTS5, LUCENE, OKAPI, Bm25
from oracle.corpus import VOCABULARY, Draw
from oracle.references import Fts5, bm25s_lucene, textbook
from oracle.words import Phrase, Prefix, Query, Words

RELATIVE = 1e-6
ASCII = [word for word in VOCABULARY if word.isascii()]


def draw_texts(draw: Draw, most: int) -> list[str]:
    """Texts of 0 to 20 words; the last one has a word, so that no table is without."""
    lengths = [draw.choice((0, 1, 3, 8, 20)) for _ in range(draw.randint(0, most))]
    return [" ".join(draw.choices(ASCII, k=n)) for n in lengths] + ["ash"]


def build(draw: Draw, texts: Sequence[str], device: str) -> hr.Index:
    """An index of these texts for one tenant, among those of another."""
    foreign = draw_texts(draw, 20)
    table = pa.table(
        {
            "id": pa.array([*range(len(texts)), *range(len(foreign))], pa.int64()),
            "tenant": ["mine"] * len(texts) + ["foreign"] * len(foreign),
            "text": [*texts, *foreign],
        }
    )
    schema = hr.Schema(key="id", cell=("tenant",), text="text", vector=())
    return hr.Index.build(table, schema, analyzer=hr.Analyzer("word"), device=device)


def scores(index: hr.Index, queries: Sequence[Query], bm25: Bm25, n_docs: int) -> list[list[float]]:
    """The score of every document for every query, 0 where it was not found."""
    reply = index.recall(
        text=[engine_query(query) for query in queries],
        scope="mine",
        limit=n_docs,
        bm25=engine_bm25(bm25),
    ).to_arrow()
    out = [[0.0] * n_docs for _ in queries]
    for query, key, score in zip(
        *(reply[name].to_pylist() for name in ("query", "key", "score")), strict=True
    ):
        out[query][key] = score
    return out


def close_to(expected: Sequence[float]) -> object:
    return pytest.approx(expected, rel=RELATIVE, abs=0)


@pytest.mark.parametrize("preset", [OKAPI, LUCENE, FTS5], ids=lambda preset: preset.variant)
def test_every_variant_equals_the_textbook_formula(
    preset: Bm25, device: str, effort: Effort
) -> None:
    draw = Draw(21)
    for _ in range(effort.cases(quick=150, full=1000)):
        texts = draw_texts(draw, 30)
        index = build(draw, texts, device)
        bm25 = replace(
            preset, k1=draw.choice((preset.k1, 0.0, 2.0)), b=draw.choice((preset.b, 0.0, 1.0))
        )
        words = [" ".join(draw.choices(ASCII, k=draw.randint(1, 6))) for _ in range(4)]
        found = scores(index, [Words(query) for query in words], bm25, len(texts))
        for query, got in zip(words, found, strict=True):
            assert got == close_to(textbook(bm25.variant, texts, query, bm25.k1, bm25.b)), query


def test_lucene_equals_bm25s(device: str, effort: Effort) -> None:
    draw = Draw(22)
    for _ in range(effort.cases(quick=100, full=1000)):
        texts = draw_texts(draw, 30)
        words = " ".join(draw.sample(ASCII, draw.randint(1, 5)))
        (got,) = scores(build(draw, texts, device), [Words(words)], LUCENE, len(texts))
        assert got == close_to(bm25s_lucene(texts, words, LUCENE.k1, LUCENE.b))


def test_fts5_equals_sqlite_for_words_phrases_and_prefixes(device: str, effort: Effort) -> None:
    draw = Draw(23)
    for _ in range(effort.cases(quick=100, full=1000)):
        texts = draw_texts(draw, 30)
        queries: list[Query] = [
            Words(" ".join(draw.choices(ASCII, k=draw.randint(1, 5)))),
            Phrase(" ".join(draw.choices(ASCII[:4], k=draw.randint(1, 3)))),
            Prefix(draw.choice(("g", "gr", "gro", "grow", "a", "x"))),
        ]
        table = Fts5(texts)
        found = scores(build(draw, texts, device), queries, FTS5, len(texts))
        for query, got in zip(queries, found, strict=True):
            assert got == close_to(table.scores(query)), query
        table.close()


def test_a_wrong_constant_would_be_seen(device: str) -> None:
    draw = Draw(24)
    texts = draw_texts(draw, 30)
    (got,) = scores(
        build(draw, texts, device), [Words("ash bay")], replace(LUCENE, k1=1.3), len(texts)
    )
    assert got != close_to(bm25s_lucene(texts, "ash bay", LUCENE.k1, LUCENE.b))
