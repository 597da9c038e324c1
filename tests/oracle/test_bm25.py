"""The oracle's BM25 and typed queries by hand, and against others' implementations."""

import math
from dataclasses import replace

import numpy as np
import pytest

from oracle.bm25 import FTS5, LUCENE, OKAPI, PRESETS, Bm25, idf, mean_doc_length, weight
from oracle.corpus import VOCABULARY, Draw
from oracle.documents import Row, Shape
from oracle.recall import Oracle
from oracle.references import Fts5, bm25s_scores, textbook
from oracle.words import (
    All,
    Any,
    Boost,
    Leaf,
    Phrase,
    Prefix,
    Query,
    Words,
    leaves,
    matched,
    phrase_occurrences,
)

# ---- BM25 against bm25s, SQLite's FTS5, the textbook formula, and by hand ----

RELATIVE = 1e-6
ASCII = [word for word in VOCABULARY if word.isascii()]


def draw_texts(draw: Draw) -> list[str]:
    lengths = [draw.choice((0, 1, 3, 8, 20)) for _ in range(draw.randint(1, 30))]
    return [" ".join(draw.choices(ASCII, k=n)) for n in lengths] + ["ash"]


def oracle_scores(texts: list[str | None], query: Query, bm25: Bm25) -> list[float]:
    rows = [Row(at, (), {"text": text}, {}, {}) for at, text in enumerate(texts)]
    oracle = Oracle(Shape(cell=(), dense={}, integer_keys=True), rows)
    everything = np.ones(len(rows), bool)
    counted = oracle.counted("text", everything, everything)
    return oracle.lexical("text", query, counted, bm25)[0].astype(float).tolist()


@pytest.mark.plain_cases(3)
@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.variant)
def test_every_variant_equals_the_textbook_formula(preset: Bm25) -> None:
    draw = Draw(1)
    for _ in range(300):
        bm25 = replace(
            preset, k1=draw.choice((preset.k1, 0.0, 2.0)), b=draw.choice((preset.b, 0.0, 1.0))
        )
        texts, query = draw_texts(draw), " ".join(draw.choices(ASCII, k=draw.randint(1, 6)))
        expected = textbook(bm25.variant, texts, query, bm25.k1, bm25.b, bm25.delta or 0.0)
        # Robertson's terms may cancel each other: what is left has lost digits.
        slack = 1e-5 if bm25.variant == "robertson" else 0
        assert oracle_scores(texts, Words(query), bm25) == pytest.approx(
            expected, rel=RELATIVE, abs=slack
        )


@pytest.mark.parametrize("method", ["lucene", "robertson", "atire", "bm25+", "bm25l"])
def test_variants_equal_bm25s(method: str) -> None:
    draw = Draw(2)
    (bm25,) = (preset for preset in PRESETS if preset.variant == method)
    n_cases = 0
    while n_cases < 100:
        texts, query = draw_texts(draw), " ".join(draw.sample(ASCII, draw.randint(1, 5)))
        held = [sum(word in text.split() for text in texts) for word in query.split()]
        if method == "robertson" and 2 * max(held) >= len(texts):
            continue
        expected = bm25s_scores(method, texts, query, bm25.k1, bm25.b, bm25.delta or 0.0)
        assert oracle_scores(texts, Words(query), bm25) == pytest.approx(
            expected, rel=RELATIVE, abs=1e-9 if bm25.delta else 0
        )
        n_cases += 1


def test_fts5_equals_sqlite_for_words_phrases_and_prefixes() -> None:
    draw = Draw(3)
    for _ in range(150):
        texts = draw_texts(draw)
        table = Fts5(texts)
        few = ASCII[:4]
        queries = (
            Words(" ".join(draw.choices(ASCII, k=draw.randint(1, 5)))),
            Phrase(" ".join(draw.choices(few, k=draw.randint(1, 3)))),
            Prefix(draw.choice(("g", "gr", "gro", "grow", "a", "x", "gr a", "x g"))),
        )
        for query in queries:
            expected = table.scores(query)
            assert oracle_scores(texts, query, FTS5) == pytest.approx(
                expected, rel=RELATIVE, abs=0
            ), query
        table.close()


def test_idf_by_hand() -> None:
    assert idf(LUCENE, 10, 3) == math.log(1 + 7.5 / 3.5)
    assert idf(OKAPI, 10, 3) == math.log(1 + 7.5 / 3.5)
    assert idf(FTS5, 10, 3) == math.log(7.5 / 3.5)
    assert idf(FTS5, 10, 5) == 1e-6  # log 1 is 0, not positive
    assert idf(FTS5, 10, 9) == 1e-6
    by_name = {preset.variant: preset for preset in PRESETS}
    assert idf(by_name["robertson"], 10, 9) == math.log(1.5 / 9.5)
    assert idf(by_name["atire"], 10, 10) == 0.0
    assert idf(by_name["bm25+"], 10, 3) == math.log(11 / 3)
    assert idf(by_name["bm25l"], 10, 3) == math.log(11 / 3.5)


def test_logarithm_can_be_exchanged() -> None:
    assert idf(replace(LUCENE, log=lambda x: x), 10, 3) == 1 + 7.5 / 3.5


def test_weight_is_rounded_once() -> None:
    exact = math.log(1 + 7.5 / 3.5) * 6.0 * 2.5
    assert weight(OKAPI, 10, 3, 6.0) == np.float32(exact)
    assert weight(LUCENE, 10, 3, 6.0) == np.float32(exact / 2.5)


def test_mean_length_of_nothing_counts_as_one() -> None:
    assert mean_doc_length(0, 0) == mean_doc_length(3, 0) == 1.0
    assert mean_doc_length(2, 5) == 2.5


def test_single_document_with_its_one_word_by_hand() -> None:
    # N = n = 1: idf = ln(1 + 0.5 / 1.5); tf = 1, c = 1.2; every operation in float32.
    worth = np.float32(math.log(1 + 0.5 / 1.5))
    expected = worth / (np.float32(1) + np.float32(1.2))
    assert oracle_scores(["ash"], Words("ash"), LUCENE) == [float(expected)]


def test_null_text_is_not_in_n_and_empty_text_is() -> None:
    alone = oracle_scores(["ash"], Words("ash"), LUCENE)
    assert oracle_scores(["ash", None], Words("ash"), LUCENE) == [*alone, 0.0]
    assert oracle_scores(["ash", ""], Words("ash"), LUCENE)[0] > alone[0]


def test_impacts_are_summed_in_the_order_of_utf8_bytes() -> None:
    draw = Draw(4)
    differs = 0
    for _ in range(200):
        texts, words = draw_texts(draw), draw.sample(VOCABULARY, 6)
        forward = oracle_scores(texts, Words(" ".join(words)), LUCENE)
        assert forward == oracle_scores(texts, Words(" ".join(reversed(words))), LUCENE)
        parts = [np.array(oracle_scores(texts, Words(word), LUCENE), np.float32) for word in words]
        by_query = np.zeros(len(texts), np.float32)
        for part in parts:
            by_query = by_query + part
        differs += by_query.tolist() != forward
        by_bytes = np.zeros(len(texts), np.float32)
        for _, part in sorted(zip(words, parts, strict=True), key=lambda item: item[0].encode()):
            by_bytes = by_bytes + part
        assert by_bytes.tolist() == forward
    assert differs > 20


# ---- typed text queries by hand: what matches and how often ----

DOCS = ("ash bay grove", "bay ash", "grow growth ash ash", "", "fog")


def found(query: Query) -> list[int]:
    texts = [(tuple(doc.split()),) for doc in DOCS]

    def held(leaf: Leaf) -> np.ndarray:
        return np.array([leaf.occurrences(text) > 0 for text in texts])

    return np.flatnonzero(matched(query, held) & np.ones(len(DOCS), bool)).tolist()


def test_a_bag_of_words_matches_any_of_them() -> None:
    assert found(Words("bay fog")) == [0, 1, 4]
    assert found(Words("")) == found(Words("--")) == []


def test_phrases_are_adjacent_and_in_order() -> None:
    assert found(Phrase("ash bay")) == [0]
    assert found(Phrase("ash")) == [0, 1, 2]
    assert found(Phrase("")) == []


def test_prefixes_match_any_word_that_begins_so() -> None:
    assert found(Prefix("gro")) == [0, 2]
    assert found(Prefix("x")) == []


def test_trees_match_by_their_logic() -> None:
    assert found(All((Words("ash"), Words("bay")))) == [0, 1]
    assert found(All((Words("ash"), Any((Phrase("bay ash"), Prefix("growt")))))) == [1, 2]
    assert found(Any((Words("fog"), Boost(Words("grove"), 2.0)))) == [0, 4]
    assert found(All((Words("ash"), Words("absent")))) == []


def test_leaves_carry_counts_and_boosts() -> None:
    query = Any((Words("ash ash bay"), Boost(Boost(Phrase("ash bay"), 2.0), 3.0)))
    assert list(leaves(query)) == [
        (Leaf("term", ("ash",)), 1.0, 2),
        (Leaf("term", ("bay",)), 1.0, 1),
        (Leaf("phrase", ("ash", "bay")), 6.0, 1),
    ]


def test_occurrences_do_not_cross_fields() -> None:
    text = ("ash", "bay"), ("bay", "ash", "ash")
    assert Leaf("term", ("ash",)).occurrences(text) == 3
    assert Leaf("phrase", ("bay", "bay")).occurrences(text) == 0
    assert Leaf("phrase", ("bay", "ash")).occurrences(text) == 1
    assert Leaf("prefix", ("a",)).occurrences(text) == 3


def test_every_word_under_all_is_a_part_and_no_word_asks_for_nothing() -> None:
    assert found(All((Words("ash bay"),))) == [0, 1]
    assert found(All((Words("ash"), Words("")))) == [0, 1, 2]
    assert found(All((Words(""), Any((Words("--"),))))) == []
    assert found(All((Boost(Words("bay grove"), 2.0),))) == [0]


def test_phrases_overlap() -> None:
    field = ("a", "a", "a", "b", "x", "c")
    assert phrase_occurrences(field, ("a", "a"), 0) == 2
    assert phrase_occurrences(field, ("a", "b"), 0) == 1
    assert phrase_occurrences(field, ("b", "c"), 0) == 0


def test_slop_is_how_far_displacements_may_lie_apart() -> None:
    field = ("a", "a", "a", "b", "x", "c")
    assert phrase_occurrences(field, ("b", "c"), 1) == 1
    # From the third a: b in its place, c one position late; from the second: one and two late.
    assert [phrase_occurrences(field, ("a", "b", "c"), slop) for slop in range(4)] == [0, 1, 2, 3]
    assert [phrase_occurrences(("b", "a"), ("a", "b"), slop) for slop in range(3)] == [0, 0, 1]


def test_leaves_are_summed_in_the_order_of_their_utf8_bytes() -> None:
    query = Any((Prefix("gr"), Phrase("gr ash"), Words("gr zen éclair ash")))
    order = sorted({leaf for leaf, _, _ in leaves(query)}, key=Leaf.order)
    assert [(leaf.kind, *leaf.words) for leaf in order] == [
        ("term", "ash"),
        ("term", "gr"),
        ("prefix", "gr"),
        ("phrase", "gr", "ash"),
        ("term", "zen"),
        ("term", "éclair"),
    ]
