"""What every stage does where rows lead that hold a quoted string whole, against its definition."""

import re
from collections.abc import Callable
from typing import Any

import pytest

import hyrecall as hr
from laws.effort import Effort
from oracle import shaping as oracle
from seams import Dense, Lexical, Recipe, TieBreak
from shaped_corpus import NOW, WEIGHTS, Corpus, age, corpus, preference, signals, tokens

TEXTS = ['"elm fir"', '"ash"', "ash oak", '"ash oak elm fir yew bay"']
QUERIES = range(3)  # of the corpus: as many as it has vectors
PLAIN = Recipe(name="plain", arms=(Lexical(), Dense()), fusion=hr.RRF(), depth=60, exact=True)

Leads = Callable[[oracle.Doc], bool]
Expect = Callable[[oracle.Ranked, Leads], oracle.Ranked]


def lead(ranked: oracle.Ranked, leads: Leads) -> oracle.Ranked:
    """Those that lead, then the others, both in the order they had."""
    return sorted(ranked, key=lambda pair: not leads(pair[0]))


def reranked(ranked: oracle.Ranked, leads: Leads, score_of: Any, window: int) -> oracle.Ranked:
    """Those that lead share out their own places, the others theirs."""
    cut = sum(leads(doc) for doc, _ in ranked)
    first = oracle.rerank(ranked[:cut], score_of, window)
    return first + oracle.rerank(ranked[cut:], score_of, max(window - cut, 0))


STAGES: list[tuple[str, Any, Expect]] = [
    (
        "provenance",
        hr.Provenance("source", WEIGHTS, default=0.7),
        lambda r, leads: lead(oracle.provenance(r, lambda d: WEIGHTS.get(d["source"], 0.7)), leads),
    ),
    (
        "dedup",
        hr.Dedup(0.8),
        lambda r, leads: oracle.dedup(r, 0.8, unit=False, preference=lambda d: not leads(d)),
    ),
    (
        "dedup with preference",
        hr.Dedup(0.8, keep="source", prefer=("session", "memory")),
        lambda r, leads: oracle.dedup(
            r, 0.8, unit=False, preference=lambda d: 9 * (not leads(d)) + preference(d)
        ),
    ),
    (
        "recency",
        hr.Recency("at", half_life="30d"),
        lambda r, leads: lead(oracle.recency(r, age, 2592000.0, 1), leads),
    ),
    (
        "composite",
        hr.Composite(time="at", half_life="10h", rating="rating", recency=3, relevance=0.5),
        lambda r, leads: lead(oracle.composite(r, signals, (3.0, 1.0, 0.5)), leads),
    ),
    (
        "budget",
        hr.Budget(40),
        lambda r, leads: oracle.choose(
            r, 40, budget=40, tokens=tokens, use_vectors=False, leads=leads
        ),
    ),
    *(
        (
            f"mmr {relevance} {weight}",
            hr.MMR(weight, relevance=relevance),
            lambda r, leads, w=weight, s=relevance: oracle.choose(
                r, 40, weight=w, relevance=s, leads=leads
            ),
        )
        for relevance in ("raw", "max", "minmax")
        for weight in (0.0, 0.3, 1.0)
    ),
    (
        "budget and mmr",
        (hr.Budget(60), hr.MMR(0.7)),
        lambda r, leads: oracle.choose(
            r, 40, weight=0.7, relevance="max", budget=60, tokens=tokens, leads=leads
        ),
    ),
    ("gate", hr.Gate(0.02), lambda r, leads: [pair for pair in r if pair[1] >= 0.02]),
]


def ask(case: Corpus, shaping: Any, texts: list[str], **options: Any) -> hr.Hits:
    recipe = PLAIN.replace(shaping=shaping)
    options = {"limit": 40, "now": NOW, "recipe": recipe} | options
    return case.index.recall(text=texts, vectors=case.vectors, scope="ana", **options)


def batches(case: Corpus) -> list[list[str]]:
    return [[TEXTS[(at + shift) % len(TEXTS)] for at in QUERIES] for shift in (0, 2)]


def leads_of(text: str) -> Leads:
    inside = re.fullmatch('"(.*)"', text)
    return lambda doc: inside is not None and f" {inside[1]} " in f" {doc['text']} "


def before(case: Corpus, hits: hr.QueryHits) -> oracle.Ranked:
    return [(case.docs[hit.key], hit.score) for hit in hits]


def check(hits: hr.QueryHits, expected: oracle.Ranked) -> None:
    assert hits.keys == [doc["id"] for doc, _ in expected]
    scores = [hit.score for hit in hits]
    assert scores == pytest.approx([score for _, score in expected], rel=1e-12, abs=1e-15)


@pytest.mark.plain_cases(6)
@pytest.mark.parametrize(("stage", "expect"), [c[1:] for c in STAGES], ids=[c[0] for c in STAGES])
def test_what_leads_stays_first_in_every_stage(stage: Any, expect: Expect, effort: Effort) -> None:
    mixed = 0
    for seed in range(effort.cases(quick=1, full=40)):
        case = corpus(seed)
        for texts in batches(case):
            plain = ask(case, (), texts, limit=60)
            shaped = ask(case, stage, texts)
            assert shaped.trace.exact == plain.trace.exact
            for query, hits in enumerate(shaped):
                leads = leads_of(texts[query])
                ranked = before(case, plain[query])
                assert ranked == lead(ranked, leads)
                check(hits, expect(ranked, leads)[:40])
                n_leading = sum(leads(doc) for doc, _ in ranked)
                assert plain.trace.exact.get(query, 0) == n_leading
                mixed += 0 < n_leading < len(ranked)
                for hit in hits[:6]:
                    explained = hit.explain()
                    assert explained.score == hit.score
                    held = {"text": texts[query].strip('"')} if leads(case.docs[hit.key]) else {}
                    assert explained.holds == held
    assert mixed


def test_all_stages_together_run_in_their_order(effort: Effort) -> None:
    stages = (
        hr.Provenance("source", WEIGHTS),
        hr.Rerank(20),
        hr.Dedup(0.9),
        hr.Recency("at", half_life="5d"),
        hr.Budget(200),
        hr.MMR(0.7),
    )
    for seed in range(effort.cases(quick=1, full=40)):
        case = corpus(seed)
        for texts in batches(case):
            plain = ask(case, (), texts, limit=60)
            for query, hits in enumerate(ask(case, stages, texts)):
                leads = leads_of(texts[query])
                cosine = {hit.key: hit.vector_score for hit in plain[query]}
                r = before(case, plain[query])
                r = lead(oracle.provenance(r, lambda d: WEIGHTS.get(d["source"], 1.0)), leads)
                r = reranked(r, leads, lambda doc, c=cosine: c[doc["id"]], 20)
                r = oracle.dedup(r, 0.9, unit=False, preference=lambda d, f=leads: not f(d))
                r = lead(oracle.recency(r, age, 432000.0, 1, by_place=True), leads)
                r = oracle.choose(
                    r, 40, weight=0.7, relevance="max", budget=200, tokens=tokens, leads=leads
                )
                check(hits, r)
                assert all(hit.explain().score == hit.score for hit in hits[:6])


def test_tie_break_columns_order_each_of_both_groups() -> None:
    case = corpus(5)
    recipe = PLAIN.replace(tie_break=TieBreak("id", descending=True))
    hits = ask(case, (), ['"ash"'] * 3, recipe=recipe)
    for one in hits:
        leads = [case.docs[hit.key]["text"].split().count("ash") > 0 for hit in one]
        places = [(not lead, -hit.score, -hit.key) for lead, hit in zip(leads, one, strict=True)]
        assert places == sorted(places)
        assert any(leads)
