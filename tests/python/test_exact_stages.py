"""What is told of rows that lead since they hold a quoted string whole, with stages and without."""

import re
from typing import Any

import hyrecall as hr
from seams import Dense, Lexical, Recipe, TieBreak
from shaped_corpus import NOW, WEIGHTS, Corpus, corpus

TEXTS = ['"elm fir"', '"ash"', "ash oak", '"ash oak elm fir yew bay"']
QUERIES = range(3)  # of the corpus: as many as it has vectors
STAGES = (hr.Provenance("source", WEIGHTS), hr.Rerank(20), hr.Dedup(0.9), hr.MMR(0.7))
PLAIN = Recipe(name="plain", arms=(Lexical(), Dense()), fusion=hr.RRF(), depth=60, exact=True)


def ask(case: Corpus, shaping: Any, texts: list[str], **options: Any) -> hr.Hits:
    recipe = PLAIN.replace(shaping=shaping)
    options = {"limit": 40, "now": NOW, "recipe": recipe} | options
    return case.index.recall(text=texts, vectors=case.vectors, scope="ana", **options)


def batches(case: Corpus) -> list[list[str]]:
    return [[TEXTS[(at + shift) % len(TEXTS)] for at in QUERIES] for shift in (0, 2)]


def test_the_trace_counts_what_leads_and_explanations_say_what_it_holds() -> None:
    mixed = 0
    for seed in range(4):
        case = corpus(seed)
        for texts in batches(case):
            plain, shaped = ask(case, (), texts, limit=60), ask(case, STAGES, texts)
            assert shaped.trace.exact == plain.trace.exact
            for query, hits in enumerate(plain):
                inside = re.fullmatch('"(.*)"', texts[query])
                held = {"text": inside[1]} if inside else {}
                leads = [
                    bool(held) and f" {inside[1]} " in f" {case.docs[key]['text']} "
                    for key in hits.keys
                ]
                assert leads == sorted(leads, reverse=True)
                assert plain.trace.exact.get(query, 0) == sum(leads)
                mixed += 0 < sum(leads) < len(leads)
                of_key = dict(zip(hits.keys, leads, strict=True))
                for hit in [*hits[:6], *shaped[query][:6]]:
                    explained = hit.explain()
                    assert explained.score == hit.score
                    assert explained.holds == (held if of_key[hit.key] else {})
    assert mixed


def test_tie_break_columns_order_each_of_both_groups() -> None:
    case = corpus(5)
    recipe = PLAIN.replace(tie_break=TieBreak("id", descending=True))
    hits = ask(case, (), ['"ash"'] * 3, recipe=recipe)
    for one in hits:
        leads = [case.docs[hit.key]["text"].split().count("ash") > 0 for hit in one]
        places = [(not lead, -hit.score, -hit.key) for lead, hit in zip(leads, one, strict=True)]
        assert places == sorted(places)
        assert any(leads)
