"""explain() recomputes a hit's score, to the last bit, from parts that add up by themselves."""

import math
import re
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from explained import check_equations
from laws.checks import apply, draw_change, live_after
from laws.effort import Effort
from laws.engine import EngineSubject, arguments
from oracle.corpus import Draw, draw_call, draw_mix, draw_rows, draw_shape
from oracle.recall import Oracle

F = np.float32


def bits(value: float) -> bytes:
    return struct.pack("d", value)


def check_hit(hits: hr.Hits, hit: hr.Hit, fusion: object, normalize: bool) -> hr.Explanation:
    """The explanation of a hit agrees with it and with itself."""
    made = hit.explain()
    assert bits(made.score) == bits(hit.score)
    assert [c.arm for c in made.components] == list(hits.trace.arms)
    for component in made.components:
        assert component.score == hit.arm_score(component.arm)
        assert component.rank == hit.arm_rank(component.arm)
        if component.dot is not None:
            check_cosine(component)
        if component.doc_length is not None:
            check_bm25(component)
    if not normalize:
        check_sum(made, fusion)
    shown = str(made)
    assert shown.splitlines()[0].startswith(f"score {hit.score:.6g}")
    assert all(len(line) <= 80 for line in shown.splitlines())
    for component in made.components:
        score = "no score" if component.score is None else f"score {component.score:.6g}"
        assert re.search(rf"^  {component.arm}: (BM25 |cosine )?{score}", shown, re.MULTILINE)
    check_equations(made)
    return made


def check_cosine(component: Any) -> None:
    """cosine = (dot x inverse norm) x inverse query norm, each product rounded to float32."""
    product = F(F(component.dot) * F(component.inverse_norm)) * F(component.inverse_query_norm)
    assert component.score == float(np.clip(product, F(-1), F(1))) + 0.0


def check_bm25(component: Any) -> None:
    """The terms come in UTF-8 order of their words, and their impacts add up in float32."""
    total = F(0)
    for term in component.terms:
        assert 0 <= term.doc_freq <= component.n_docs
        assert (term.term_freq > 0) <= (term.doc_freq > 0)
        if term.term_freq == 0:
            assert term.impact == 0
        elif term.weight != 0:
            assert (term.impact > 0) == (term.weight > 0)
        total = F(total + F(term.impact))
    if component.score != 0:  # 0 where the document does not match a typed query
        assert component.score == float(total)
    if component.terms:
        assert component.doc_length <= component.total_length


def check_sum(made: hr.Explanation, fusion: object) -> None:
    """Contributions are added largest first; Max takes the largest."""
    parts = sorted((c.contribution for c in made.components), reverse=True)
    if isinstance(fusion, hr.Max):
        assert made.score == max(parts)
    else:
        total = 0.0
        for part in parts:
            total += part
        assert made.score == total
    for component in made.components:
        if isinstance(fusion, hr.RRF) and component.rank is None:
            assert component.contribution == 0.0
        if component.score is None:
            assert component.contribution == 0.0


def test_every_explanation_has_the_bits_of_its_hit(effort: Effort) -> None:
    explained = 0
    kinds = set()
    for seed in range(effort.cases(quick=20, full=3000)):
        draw = Draw(f"explain {seed}")
        shape = draw_shape(draw)
        rows = draw_rows(draw, shape, replace(draw_mix(draw), n_rows=draw.choice((2, 12, 40))))
        subject = EngineSubject(shape, rows)
        for _ in range(4):
            call = draw_call(draw, Oracle(shape, rows), 6)
            asked = arguments(shape, call)
            asked["normalize"] = draw.chance(0.4)
            hits = subject.index.recall(**asked)
            change = draw_change(draw, shape, rows)
            rows = live_after(rows, change)
            try:  # a change after the call leaves its explanations as they were
                apply(subject, change)
            except hr.KeyConflictError:
                assert change[0] == "add"
            several = hr.recipes.default.fusion if len(hits.trace.arms) > 1 else None
            fusion = asked.get("fusion", several)
            for one in hits:
                for hit in one:
                    check_hit(hits, hit, fusion, asked["normalize"])
                    explained += 1
                    kinds.add((type(fusion).__name__, asked["normalize"], len(hits.trace.arms)))
    assert explained >= effort.cases(quick=1000, full=150_000), explained
    assert {kind for kind, _, _ in kinds} == {"NoneType", "RRF", "WeightedSum", "Max", "DBSF"}


@pytest.fixture(scope="module")
def index() -> hr.Index:
    table = pa.table(
        {
            "id": ["a", "b", "c", "d"],
            "user": ["ana", "ana", "ana", "bob"],
            "text": ["hot tea and hot milk", "tea", None, "hot hot tea"],
        }
    )
    vectors = np.array([[3, 4], [0, 0], [1, 0], [0, 1]], np.float32)
    schema = hr.Schema(key="id", cell="user", text="text", vector="v")
    return hr.Index.build(table, schema, vectors={"v": vectors}, analyzer=hr.Analyzer("word"))


def test_numbers_of_a_bag_of_words_are_those_of_the_formula(index: hr.Index) -> None:
    hit = index.recall_one(text="hot tea tea", scope="ana", bm25=hr.BM25("lucene", k1=1.2, b=0.5))[
        0
    ]
    (component,) = hit.explain().components
    assert (component.n_docs, component.total_length, component.doc_length) == (2, 6, 5)
    hot, tea = component.terms
    assert (hot.term, hot.term_freq, hot.doc_freq, hot.multiplicity) == ("hot", 2, 1, 1.0)
    assert (tea.term, tea.term_freq, tea.doc_freq, tea.multiplicity) == ("tea", 1, 2, 2.0)
    for term in component.terms:
        idf = math.log(1 + (2 - term.doc_freq + 0.5) / (term.doc_freq + 0.5))
        norm = 1.2 * (1 - 0.5 + 0.5 * 5 / 3)
        assert term.idf == pytest.approx(idf, rel=1e-12)
        assert term.weight == pytest.approx(idf * term.multiplicity, rel=1e-6)
        impact = term.weight * term.term_freq / (term.term_freq + norm)
        assert term.impact == pytest.approx(impact, rel=1e-6)
    assert "idf 0.693147 = ln(1 + (2 - 1 + 0.5) / (1 + 0.5)): in 1 of 2 docu" in str(hit.explain())


def test_the_text_has_every_number_of_a_sum_and_no_python(index: hr.Index) -> None:
    fusion = hr.WeightedSum({"text": 0.7, "v": 0.3}, normalize={"v": "unit"})
    asked: dict[str, Any] = {"text": "hot tea", "vector": [3, 1], "scope": "ana"}
    hit = index.recall_one(**asked, fusion=fusion, bm25=hr.BM25("bm25+", k1=1.5, b=0.5))[0]
    assert str(hit.explain()).splitlines() == [
        "score 0.973329 = 0.7 + 0.273329: weighted sum",
        "  text: BM25 score 3.21523, rank 1, adds 0.7 = 0.7 x 1",
        "    scaled 1 = (3.21523 - 0.912297) / (3.21523 - 0.912297): min-max of the",
        "      candidates",
        "    BM25 bm25+, k1 1.5, b 0.5, delta 1; mean length 3 = 6 / 2 documents, this",
        "      one 5",
        "    length norm 2 = 1.5 x (1 - 0.5 + 0.5 x 5 / 3)",
        "    each term adds idf x boost x (k1 + 1) x tf / (tf + length norm) + idf x",
        "      boost x delta",
        "    sum 3.21523 = 2.47188 + 0.743353",
        "    hot: adds 2.47188 = 1.09861 x 1 x (1.5 + 1) x 2 / (2 + 2) + 1.09861 x 1 x 1",
        "      idf 1.09861 = ln((2 + 1) / 1): in 1 of 2 documents",
        "    tea: adds 0.743353 = 0.405465 x 1 x (1.5 + 1) x 1 / (1 + 2) + 0.405465 x 1 x",
        "      1",
        "      idf 0.405465 = ln((2 + 1) / 2): in 2 of 2 documents",
        "  v: cosine score 0.822192, rank 2, adds 0.273329 = 0.3 x 0.911096",
        "    scaled 0.911096 = (1 + 0.822192) / 2",
        "    cosine 0.822192 = 13 x 0.2 x 0.316228: dot x 1 / |row| x 1 / |query|",
    ]


def test_the_calculator_of_these_tests_finds_a_wrong_number(index: hr.Index) -> None:
    made = index.recall_one(text="hot tea", vector=[1, 0], scope="ana", fusion=hr.DBSF())[0]
    right = made.explain()
    assert check_equations(right) >= 10
    (first, *rest) = right.components
    for wrong in (
        replace(first, length_norm=first.length_norm * 1.0001),
        replace(first, contribution=first.contribution + 1e-4),
        replace(first, terms=(replace(first.terms[0], idf=0.5), *first.terms[1:])),
    ):
        with pytest.raises(AssertionError, match=" = "):
            check_equations(replace(right, components=(wrong, *rest)))


def test_typed_queries_name_their_leaves(index: hr.Index) -> None:
    query = hr.Any(
        hr.Phrase("hot tea"), hr.Boost(hr.Prefix("mi"), 3), "and", hr.Phrase("tea hot", slop=4)
    )
    hit = index.recall_one(text=query, scope="ana")[0]
    (component,) = hit.explain().components
    leaves = {term.term: (term.multiplicity, term.term_freq) for term in component.terms}
    assert leaves == {'"hot tea"': (1, 1), "mi*": (3, 1), "and": (1, 1), '"tea hot"~4': (1, 1)}


def test_missing_parts_are_null_not_0(index: hr.Index) -> None:
    for fusion in (None, hr.WeightedSum(), hr.Max(normalize="none"), hr.DBSF()):
        found = index.recall_one(text="tea", vector=[1, 0], scope="ana", fusion=fusion)
        by_key = {hit.key: hit.explain() for hit in found}
        b, c = by_key["b"].components, by_key["c"].components
        assert (b[1].score, b[1].rank, b[1].contribution, b[1].dot) == (None, None, 0.0, None)
        assert (c[0].score, c[0].doc_length, c[0].terms, c[0].contribution) == (None, None, (), 0.0)
        assert by_key["a"].components[1].dot == 3.0
        assert by_key["a"].components[1].inverse_norm == float(F(1 / 5))
        assert "not in its list" in str(by_key["c"])
