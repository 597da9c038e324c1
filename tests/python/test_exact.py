"""An identifier or a quoted string: what is one, which rows come first for it, and who is told."""

import re
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import recipes
from seams import Dense, Fill, Lexical, Newest, Recipe, TieBreak, exact_text
from seams import ask_Listed as Listed
from shaped_corpus import NOW as STAGED_NOW
from shaped_corpus import WEIGHTS, Corpus, corpus

# ---- the rule, and what comes first ----

BOTH = Recipe(name="both", arms=(Lexical(), Dense()), fusion=hr.RRF(), exact=True)
WORDS = Recipe(name="words", arms=(Lexical(),), fusion=hr.RRF(), exact=True)

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ALONE = (hr.Phase("only", 0, general=0.5, topical=0.0, session=0.5),)

RULE = {
    "INV-2026-0042": "INV-2026-0042",
    "  mp3\n": "mp3",
    "555-1234": "555-1234",
    "a\u20111": "a\u20111",  # a hyphen that does not break
    "価格2026": "価格2026",
    "x٣": "x٣",  # an Arabic digit
    '"green tea"': "green tea",
    '  " green tea " ': "green tea",
    '"tea"': "tea",
    "2026": None,  # no letter, no hyphen
    "tea-cup": None,  # no digit
    "tea": None,
    "INV 2026": None,
    "m\u00b2": None,  # no digit to count with
    "1.5": None,
    'say "green tea"': None,
    '"green" "tea"': None,
    '"a-1': None,
    '"': None,
    '""': None,
    '" "': None,
    "": None,
    " ": None,
    "“green tea”": None,
}


@pytest.mark.parametrize("text", RULE)
def test_an_identifier_is_one_word_and_a_quoted_string_is_all_of_the_text(text: str) -> None:
    assert exact_text(text) == RULE[text]


@pytest.mark.parametrize("text", [None, hr.Phrase("a-1"), 5, b"a-1"])
def test_what_is_no_plain_text_is_neither(text: object) -> None:
    assert exact_text(text) is None


def built(
    texts: list[str | None],
    vectors: Any = None,
    *,
    analyzer: str = "word",
    **columns: list[Any],
) -> hr.Index:
    table = pa.table({"id": [f"k{at}" for at in range(len(texts))], "text": texts, **columns})
    schema = hr.Schema(
        key="id", cell="cell" if "cell" in columns else None, text="text", vector="v",
        attributes=tuple(name for name in columns if name != "cell"),
    )  # fmt: skip
    given = np.eye(len(texts), dtype=np.float32) if vectors is None else np.float32(vectors)
    return hr.Index.build(table, schema, vectors={"v": given}, analyzer=hr.Analyzer(analyzer))


def misleading(n: int = 300, *, at: int = 250) -> tuple[hr.Index, Any]:
    """One row of many holds A-17; 200 are nearer, and one of them repeats the parts of the name."""
    texts: list[str | None] = [f"an order of day {day}" for day in range(n)]
    texts[at] = "this is the order A-17 of a customer who said much and bought little"
    texts[0] = "17 17 17 a a a"
    vectors = np.random.default_rng(1).standard_normal((n, 8))
    query = np.float32([3, 0, 0, 0, 0, 0, 0, 0])
    vectors[:200] += 9 * query
    vectors[at] = -query
    return built(texts, vectors), query


@pytest.mark.parametrize(
    "fusion", [hr.RRF(), hr.WeightedSum(), hr.WeightedSum(balance=0.85), hr.Max(), hr.DBSF()],
    ids=repr,
)  # fmt: skip
def test_the_row_that_holds_it_whole_is_first_however_many_are_nearer(fusion: Any) -> None:
    index, query = misleading()
    recipe = BOTH.replace(fusion=fusion)
    old = index.recall_one(text="A-17", vector=query, recipe=recipe.replace(exact=False))
    found = index.recall(text=["A-17"], vectors=query[np.newaxis], recipe=recipe)
    assert old.keys[0] != "k250"
    assert found[0].keys[0] == "k250"
    assert found.trace.exact == {0: 1}
    first = found[0][0].explain()
    assert first.holds == {"text": "A-17"}
    assert str(first).splitlines()[1] == "  comes first: text holds A-17 whole"
    assert found[0][1].explain().holds == {}
    assert "comes first" not in str(found[0][1].explain())


ANALYSED = {
    # One term, several, a compound beside its parts, and scripts without spaces.
    "word": ("A-17", ["a 17 x", "17 a", "a-170", "the A-17!"], ["k3", "k0"]),
    "unicode": ("A-17", ["A-17 x", "17 a", "A-170"], ["k0"]),
    "unicode61": ("Ä-17", ["x a-17", "17 a"], ["k0"]),
    "porter": ('"running dogs"', ["run dog", "dogs running"], ["k0"]),
}


@pytest.mark.parametrize("name", ANALYSED)
def test_it_is_held_as_the_analyzer_reads_it(name: str) -> None:
    asked, texts, held = ANALYSED[name]
    index = built([*texts, None, ""], analyzer=name)
    found = index.recall(text=[asked], recipe=WORDS)
    assert found.trace.exact == {0: len(held)}
    assert sorted(found[0].keys[: len(held)]) == sorted(held)


def test_scripts_without_spaces_are_read_in_pairs() -> None:
    index = built(["東京2026年の価格", "価格2026", "2026 価格", "格価2026"], analyzer="unicode")
    found = index.recall(text=["価格2026", '"東京"'], recipe=WORDS)
    assert found[0].keys[0] == "k1"
    assert found[1].keys == ["k0"]
    assert found.trace.exact == {0: 1, 1: 1}


def test_a_text_that_the_analyzer_drops_or_that_is_too_long_for_a_phrase_is_none() -> None:
    stops = hr.Analyzer("word", stopwords=["a", "1"])
    table = pa.table({"id": [1, 2], "text": ["a 1", "b"]})
    index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"), analyzer=stops)
    long = "-".join(["b"] * 5000) + "7"
    found = index.recall(text=["a-1", '"a"', long, "\0-1", "b"], recipe=WORDS)
    assert found.trace.exact == {}
    assert [one.keys for one in found] == [[], [], [2], [], [2]]


def test_what_runs_where_nothing_matches_does_not_hide_it() -> None:
    index = built(["see A-1", "other"], at=[1, 2])
    recipe = WORDS.replace(arms=(Lexical(min_score=1000.0),), on_no_match=(Newest("at"),))
    found = index.recall(text=["A-1", "A-2", "see"], recipe=recipe)
    assert [one.keys for one in found] == [["k0"], ["k1", "k0"], ["k1", "k0"]]
    assert found.trace.exact == {0: 1, 1: 0}


def test_fill_and_listed_candidates_come_behind_it() -> None:
    index = built(["see A-1", "other", "more", "rest"], at=[1, 2, 3, 4])
    recipe = WORDS.replace(fill=Fill("at"), more=(Listed("hints"),))
    found = index.recall(
        text=["A-1", "rest"], candidates={"hints": [["k1", "k2"], None]}, recipe=recipe, limit=4
    )
    assert found[0].keys == ["k0", "k1", "k2"]
    filled = index.recall(text=["A-1"], recipe=WORDS.replace(fill=Fill("at")), limit=4)
    assert filled[0].keys == ["k0", "k3", "k2", "k1"]
    assert filled.to_arrow()["origin"].to_pylist() == ["hit", "fill", "fill", "fill"]


def test_recipes_of_one_batch_put_first_what_their_own_queries_hold() -> None:
    index, query = misleading()
    off = BOTH.replace(name="off", exact=False)
    found = index.recall(
        text=["A-17"] * 3, vectors=np.stack([query] * 3), recipe=[off, BOTH, WORDS]
    )
    assert [one.keys[0] == "k250" for one in found] == [False, True, True]
    assert found.trace.exact == {1: 1, 2: 1}
    assert found[1][0].explain().holds == {"text": "A-17"}


def test_the_largest_of_robertsons_scores_is_refused() -> None:
    index, query = misleading()
    recipe = BOTH.replace(
        arms=(Lexical(bm25=hr.BM25("robertson")), Dense()), fusion=hr.Max(normalize="none")
    )
    for text in ("A-17", "order"):  # whatever is asked
        with pytest.raises(hr.OptionError, match="bm25: expected another BM25 beside Max"):
            index.recall_one(text=text, vector=query, recipe=recipe)
    index.recall_one(text="A-17", vector=query, recipe=recipe.replace(exact=False))


def test_which_recipes_have_it() -> None:
    exact = {name: getattr(recipes, name).exact for name in recipes.__all__}
    assert {name: how for name, how in exact.items() if how} == {
        "conversation": True, "default": True, "honeycomb": True, "l0": "words", "loom": True,
    }  # fmt: skip
    first = "  first     what holds an identifier or a quoted string whole"
    assert first in recipes.loom.explain().splitlines()
    assert f"{first}, or every word" in recipes.l0.explain().splitlines()
    assert hr.Recipe.from_json(recipes.l0.to_json()) == recipes.l0
    with pytest.raises(hr.OptionError, match="exact: expected True, False or 'words', got 'word'"):
        recipes.l0.replace(exact="word")  # type: ignore[arg-type]
    index, query = misleading()
    asked: dict[str, Any] = {"text": ["A-17"], "vectors": query[np.newaxis]}
    assert index.recall(**asked).trace.exact == {}  # a call without a recipe has none
    assert index.recall(**asked, fusion=hr.RRF()).trace.exact == {}
    assert index.recall(**asked, recipe=recipes.default)[0].keys[0] == "k250"


def test_a_signal_of_a_session_weighs_by_the_best_score_of_the_list() -> None:
    index, query = misleading()
    recipe = BOTH.replace(shaping=(hr.SessionSignals(phases=ALONE),), fusion=hr.WeightedSum())
    [hits] = index.recall(
        text=["A-17"],
        vectors=query[np.newaxis],
        recipe=recipe,
        session=hr.Session({"k0": NOW}),
        now=NOW,
    )
    assert hits.keys[0] == "k250"
    general = [dict(hit.explain().steps[0].factors)["general"] for hit in hits]
    assert max(general) == 1.0
    assert all(hit.explain().score == hit.score for hit in hits)


def test_each_hit_says_whether_it_holds_the_query_whole() -> None:
    index = built(["0042 of INV 2026", "the INV-2026-0042 of May", "INV-2026 and 0042"])
    texts = ["INV-2026-0042", "INV 2026"]
    hits = index.recall(text=texts, recipe=WORDS)
    assert [{hit.key: hit.is_exact for hit in one} for one in hits] == [
        {key: key == "k1" for key in hits[0].keys}, dict.fromkeys(hits[1].keys, False),
    ]  # fmt: skip
    assert hits[0].keys[0] == "k1"
    marked = [line for line in str(hits).splitlines() if "exact" in line]
    assert [line.strip() for line in marked] == ["exact  the INV-2026-0042 of May"]
    plain = WORDS.replace(exact=False)
    assert not any(hit.is_exact for one in index.recall(text=texts, recipe=plain) for hit in one)
    assert not any(hit.is_exact for one in index.recall(text=texts) for hit in one)


# ---- what is told of rows that lead, with stages and without ----

TEXTS = ['"elm fir"', '"ash"', "ash oak", '"ash oak elm fir yew bay"']
QUERIES = range(3)  # of the corpus: as many as it has vectors
STAGES = (hr.Provenance("source", WEIGHTS), hr.Rerank(20), hr.Dedup(0.9), hr.MMR(0.7))
PLAIN = Recipe(name="plain", arms=(Lexical(), Dense()), fusion=hr.RRF(), depth=60, exact=True)


def ask(case: Corpus, shaping: Any, texts: list[str], **options: Any) -> hr.Hits:
    recipe = PLAIN.replace(shaping=shaping)
    options = {"limit": 40, "now": STAGED_NOW, "recipe": recipe} | options
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
