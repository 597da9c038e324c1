"""explain() recomputes a hit's score, to the last bit, from parts that add up by themselves."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import UnionType
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from explained import check_equations
from hyrecall.arms import Arm, EdgeLexical, Listed, Newest, Regex, Tags
from hyrecall.recipe import Dense, Fill, Lexical, Recipe, Tables
from laws.checks import apply, draw_change, live_after
from laws.effort import Effort
from laws.engine import EngineSubject, arguments
from oracle.corpus import Draw, draw_call, draw_mix, draw_rows, draw_shape
from oracle.recall import Oracle
from seams import STAGES, ArmQueries, Stage, Trace
from several_recipes import NOW, RECIPES, World, asks, world

# ---- explanations ----

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
    for seed in range(effort.cases(quick=10, full=3000)):
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
            except (hr.KeyConflictError, hr.NotFoundError):
                assert change[0] in ("add", "update", "replace")
            several = hr.recipes.default.fusion if len(hits.trace.arms) > 1 else None
            fusion = asked.get("fusion", several)
            for one in hits:
                for hit in one:
                    check_hit(hits, hit, fusion, asked["normalize"])
                    explained += 1
                    kinds.add((type(fusion).__name__, asked["normalize"], len(hits.trace.arms)))
    assert explained >= effort.cases(quick=500, full=150_000), explained
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
        "  confidence of the hit 0.95859 = 1 / (1 + 2.71828^(-3.14194)), by words",
        "    logit 3.14194 = (-2.171) + 1.81545 + 0 + 3.49749",
        "    words: adds 1.81545 = 2.743 x 0.661848, share of the greatest BM25",
        "    behind: adds 0 = (-9.352) x 0, behind the best document",
        "    query: adds 3.49749 = 0.8073 x 4.33233, logit of the reply",
        "  confidence of the reply 0.987033 = 1 / (1 + 2.71828^(-4.33233)), by words",
        "    logit 4.33233 = (-1.85) + 6.18233 + 0",
        "    lead: adds 6.18233 = 9.341 x 0.661848, the best ahead of the 6th to 20th",
        "    names: adds 0 = (-1.817) x 0, names that the scope lacks",
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


# ---- what the trace of a batch says of one query is what its own trace says ----

TEXTS = ("oak ash", "o(", "...", '"fir"', "o(", "k03", "*", "elm", '"yew ash"', "no-where7")
SECRET = "only-they-ask-(this"


def fails_on_some(query: str, texts: list[str]) -> list[float]:
    if query in TEXTS[::3]:
        raise RuntimeError(query)
    if query in TEXTS[::2]:
        raise ValueError(query)
    return [float(len(text)) for text in texts]


BY_ARM: dict[type, Callable[[hr.Graph], Arm]] = {
    Regex: lambda graph: Regex(("id", "text"), on_bad="literal"),
    Newest: lambda graph: Newest("at"),
    Listed: lambda graph: Listed("hints"),
    EdgeLexical: EdgeLexical,
    Tags: lambda graph: Tags("tags"),
}
BY_STAGE: dict[type, Callable[[hr.Graph], Stage]] = {
    hr.Feedback: lambda graph: hr.Feedback(terms=3),
    hr.Around: lambda graph: hr.Around(),
    hr.Prior: lambda graph: hr.Prior("rating", {3: 0.5}),
    hr.Linear: lambda graph: hr.Linear({"fused": 1.0}),
    hr.Provenance: lambda graph: hr.Provenance("user", {"ann": 2.0}, default=1.0),
    hr.Rerank: lambda graph: hr.Rerank(window=5),
    hr.RerankBy: lambda graph: hr.RerankBy(fails_on_some),
    hr.Dedup: lambda graph: hr.Dedup(0.9),
    hr.Recency: lambda graph: hr.Recency("at", half_life="3d"),
    hr.Composite: lambda graph: hr.Composite(time="at", half_life="5d", rating="rating"),
    hr.SessionSignals: hr.SessionSignals,
    hr.Budget: lambda graph: hr.Budget(40),
    hr.MMR: lambda graph: hr.MMR(0.5),
    hr.Gate: lambda graph: hr.Gate(0.1),
}
WORDS = (Lexical(),)
BY_RECIPE = {
    "exact without words": Recipe(
        name="exact", arms=(Lexical(weight=0.0), Dense()), exact=True, fusion=hr.WeightedSum()
    ),
    "exact": Recipe(name="exact", arms=WORDS, exact=True, fusion=hr.RRF()),
    "one table": Recipe(name="t", arms=WORDS, tables=Tables("kind", ("a",)), fusion=hr.RRF()),
    "unfilled": Recipe(
        name="u", arms=WORDS, fill=Fill("at"), shaping=(hr.Budget(40),), fusion=hr.RRF()
    ),
    "unused": Recipe(name="unused", arms=(Lexical(weight=2.0, scale="clip"),), fusion=hr.Max()),
    "idle": Recipe(name="i", arms=WORDS, more=(Listed("none"),), fusion=hr.RRF()),
}
BALANCED = hr.WeightedSum({"v": 0, "text": 1}, balance=0.5)
SINGLE = {
    "weights": {"fusion": hr.RRF(weights={"v": 0})},
    "alpha": {"fusion": hr.RRF(alpha=0.5), "vectors": None},
    "balance": {"fusion": BALANCED},
}


@pytest.fixture(scope="module")
def here() -> World:
    return world(3)


def options(here: World, texts: tuple[str, ...], more: Mapping[str, Any]) -> dict[str, Any]:
    """A batch of these texts: others may see other cells."""
    made: dict[str, Any] = {
        "text": list(texts),
        "vectors": np.array([[1.0, len(text), 0.5, -1.0] for text in texts], np.float32),
        "scope": [("ann", "bob")[len(text) % 2] for text in texts],
        "now": NOW,
    }
    for name in ("arms", "shaping"):
        if name in more:
            made[name] = (more[name](here.graph),)
    made |= {name: value for name, value in more.items() if name not in made}
    if "vectors" in more:
        del made["vectors"]
    if isinstance(made.get("arms", (None,))[0], Listed):
        made["candidates"] = {"hints": [["k03", "k07"]] * len(texts)}
    if isinstance(made.get("shaping", (None,))[0], hr.SessionSignals):
        made["session"] = [hr.Session({"k03": NOW}, len(text)) for text in texts]
    return made


def told(trace: Trace) -> tuple[Any, ...]:
    """All of a query's trace but what is of the batch: times, and the counts of stages."""
    return (
        *(trace.n_queries, trace.arms, trace.depth, trace.exact),
        *(trace.degraded, trace.notes, trace.about, dict(trace.feedback)),
    )


def differences(here: World, more: Mapping[str, Any]) -> list[Any]:
    """What a batch's trace says of its queries, where it is not what they are told alone."""
    hits = here.index.recall(**options(here, TEXTS, more))
    out: list[Any] = []
    for at, text in enumerate(TEXTS):
        alone = here.index.recall(**options(here, (text,), more)).trace
        if told(hits.trace.of_query(at)) != told(alone.of_query(0)):
            out.append((at, hits.trace.of_query(at), alone))
    return out


def kinds(union: object) -> set[type]:
    assert isinstance(union, UnionType)
    return set(get_args(union))


CASES: dict[str, dict[str, Any]] = {
    **{of.__name__: {"arms": make} for of, make in BY_ARM.items()},
    **{of.__name__: {"shaping": make} for of, make in BY_STAGE.items()},
    **{name: {"recipe": one} for name, one in BY_RECIPE.items()},
    **SINGLE,
}
NOTED = {
    "Regex": "is no pattern, searched as text",
    "RerankBy": "RerankBy kept the order: ",
    "exact without words": "exact has no effect: no text arm runs",
    "one table": "one table: ",
    "unfilled": "fill has no effect",
    "unused": "has no effect: only text runs",
    "idle": "did not run: nothing was asked",
    "weights": "v left out: weight 0",
    "alpha": "alpha has no effect",
    "balance": "balance has no effect",
}


def test_there_is_a_case_for_every_arm_and_every_stage() -> None:
    assert set(BY_ARM) == kinds(Arm)
    assert {kind.__name__ for kind in BY_STAGE} == set(STAGES)


@pytest.mark.parametrize("name", CASES)
def test_a_query_is_told_what_it_is_told_alone(here: World, name: str) -> None:
    assert differences(here, CASES[name]) == []
    trace = here.index.recall(**options(here, TEXTS, CASES[name])).trace
    lines = " | ".join((*trace.degraded, *trace.notes))
    assert NOTED.get(name, "") in lines
    if "exact" not in name:
        assert "text[2] has no indexable token" in lines


@pytest.mark.parametrize("name", CASES)
def test_no_query_is_told_what_another_one_asks(here: World, name: str) -> None:
    hits = here.index.recall(**options(here, (SECRET, "oak", "fir"), CASES[name]))
    for at in (1, 2):
        assert SECRET not in repr(hits.trace.of_query(at))


def test_a_query_of_several_recipes_is_told_what_its_own_note(here: World) -> None:
    drawn = [one for one in asks(5, 40) if one.recipe is not RECIPES["graph"]]
    asked = [replace(one, text=TEXTS[at % len(TEXTS)]) for at, one in enumerate(drawn)]
    hits = here.together(asked)
    n_notes = 0
    for at, ask in enumerate(asked):
        alone = here.together([ask]).trace.of_query(0)
        own = hits.trace.of_query(at)
        assert (own.degraded, own.notes) == (alone.degraded, alone.notes), (at, ask)
        n_notes += len(own.notes)
    assert n_notes > 3


def test_notes_that_tell_all_queries_of_each_are_caught(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: an arm whose notes are taken as those of the whole batch."""
    made = ArmQueries.__init__

    def careless(self: ArmQueries, entries: Any, notes: Any = ()) -> None:
        made(self, entries, dict.fromkeys(notes))

    monkeypatch.setattr(ArmQueries, "__init__", careless)
    assert differences(here, CASES["Regex"])
    hits = here.index.recall(**options(here, (SECRET, "oak"), CASES["Regex"]))
    assert SECRET in repr(hits.trace.of_query(1))
