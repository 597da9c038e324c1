"""The lexical arm against SQLite's FTS5, on tables that hold another tenant too, and its corners.

The other variants are those of the oracle (laws), which oracle/test_bm25.py holds against others.
"""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

import hyrecall as hr
from laws.effort import Effort
from laws.engine import engine_bm25, engine_query
from oracle.bm25 import FTS5, LUCENE, Bm25
from oracle.corpus import VOCABULARY, Draw
from oracle.references import Fts5, textbook
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
    return pytest.approx(expected, rel=RELATIVE, abs=0.0)


@pytest.mark.parametrize("variant", ["robertson", "atire"])
def test_every_match_is_listed_whatever_its_score(variant: str, device: str) -> None:
    texts = ["ash bay", "ash", "ash elm elm", "", "ash fog"]
    index = build(Draw(25), texts, device)
    bm25 = replace(LUCENE, variant=variant)
    # ash is in four of five: idf < 0; in four of four: ln 1 = 0.
    expected = textbook(variant, texts, "ash", bm25.k1, bm25.b)
    asked = {"scope": "mine", "bm25": engine_bm25(bm25), "limit": 9}
    for query in ("ash", hr.Any("ash"), hr.All("ash"), "ash absent"):
        hits = index.recall_one(text=query, **asked)
        assert sorted(hits.keys) == [0, 1, 2, 4]
        assert [hit.score for hit in hits] == pytest.approx([expected[key] for key in hits.keys])
        assert [hit.score for hit in hits] == sorted((h.score for h in hits), reverse=True)
    assert variant == "atire" or max(expected) == 0.0
    everywhere = build(Draw(26), ["ash", "ash ash"], device)
    found = everywhere.recall_one(text="ash bay", **asked)
    assert sorted(found.keys) == [0, 1]
    assert all(hit.score <= 0.0 for hit in found)
    floor = everywhere.recall_one(text="ash", **asked, min_score=found[0].score)
    assert [hit.key for hit in floor if hit.score < found[0].score] == []


def test_fts5_equals_sqlite_for_words_phrases_and_prefixes(device: str, effort: Effort) -> None:
    draw = Draw(23)
    for _ in range(effort.cases(quick=20, full=1000)):
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
    texts = draw_texts(Draw(24), 30)
    index, table = build(Draw(24), texts, device), Fts5(texts)
    (got,) = scores(index, [Words("ash bay")], replace(FTS5, k1=1.3), len(texts))
    assert got != close_to(table.scores(Words("ash bay")))
    table.close()


def nested(*factors: float) -> hr.Boost:
    query: hr.Boost | str = "ash"
    for factor in factors:
        query = hr.Boost(query, factor)
    assert isinstance(query, hr.Boost)
    return query


@pytest.mark.parametrize("factors", [(2.0**20, 2.0), (2.0**-20, 0.5), (2.0**20,) * 8])
def test_boosts_that_multiply_out_of_range_are_refused(
    factors: tuple[float, ...], device: str
) -> None:
    index = build(Draw(27), ["ash", "ash bay"], device)
    with pytest.raises(hr.OptionError, match=r"^text\[0\]: expected nested boosts .*, got "):
        index.recall_one(text=hr.All("bay", nested(*factors)), scope="mine")


def test_boosts_multiply_within_the_range(device: str) -> None:
    index = build(Draw(27), ["ash", "ash bay"], device)
    plain, boosted = (
        index.recall_one(text=q, scope="mine")[0].score for q in ("ash", nested(2.0**20, 2.0**-19))
    )
    assert boosted == 2 * plain
