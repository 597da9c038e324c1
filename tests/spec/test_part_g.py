"""Rows of part G: the golden set, the measures, the gate, what each part earns, conformance."""

import math
import re
from typing import Any

import numpy as np
import pytest

import golden_run
import hyrecall as hr
from hyrecall import recipes
from hyrecall.evaluate import (
    GATE,
    Dataset,
    Indexes,
    Scores,
    Setting,
    ablate,
    alpha_grid,
    check,
    read_measure,
    run_setting,
    score_run,
    score_setting,
    study_text,
    with_each,
    without_each,
)
from spec.episodes import stores
from spec.loom_by_definition import lexical_ranking, overlap, vector_ranking, voted

pytest.importorskip("pytrec_eval", reason="the extra [eval] is not installed")
pytest.importorskip("scipy", reason="the extra [eval] is not installed")


@pytest.fixture(scope="module")
def golden() -> Dataset:
    return golden_run.golden_set()


@pytest.fixture(scope="module")
def golden_indexes(golden: Dataset) -> Indexes:
    return Indexes(golden)


def tokens(text: str) -> set[str]:
    """Words in lower case, without a difference between cafe and café; each Chinese sign is one."""
    found = {token.term for token in hr.Analyzer("unicode61").explain(text)}
    signs = set(re.findall(r"[\u4e00-\u9fff]", text))
    return {one for one in found if not re.search(r"[\u4e00-\u9fff]", one)} | signs


def test_G01_the_golden_set_holds_pairs_without_a_common_word(golden: Dataset) -> None:
    texts = dict(zip(*(golden.corpus[name].to_pylist() for name in ("id", "text")), strict=True))
    asked = dict(zip(*(golden.queries[name].to_pylist() for name in ("id", "text")), strict=True))
    pairs = [
        (asked[query], texts[doc])
        for query, grades in golden.judgements.items()
        for doc, grade in grades.items()
        if grade > 0
    ]
    assert len(texts) >= 200
    assert len(asked) >= 300
    strangers = [pair for pair in pairs if not tokens(pair[0]) & tokens(pair[1])]
    assert len(strangers) >= 0.4 * len(pairs)


X = [f"x{at}" for at in range(20)]
# Measure, list, grades, value by hand.
BY_HAND: list[tuple[str, list[str], dict[str, int], float]] = [
    ("success@1", ["a", "x0"], {"a": 1}, 1.0),
    ("success@1", ["x0", "a"], {"a": 1, "b": 1}, 0.0),
    ("success@5", [*X[:4], "a"], {"a": 1, "b": 1}, 1.0),
    ("success@10", [*X[:10], "a"], {"a": 1}, 0.0),
    ("recall@1", ["a", "b"], {"a": 1, "b": 1}, 0.5),
    ("recall@5", ["a", *X[:3], "b", "c"], {"a": 1, "b": 1, "c": 1, "d": 1}, 0.5),
    ("recall@10", [*X[:9], "a", "b"], {"a": 1, "b": 1}, 0.5),
    ("mrr", [*X[:3], "a", "b"], {"a": 1, "b": 1}, 0.25),
    ("mrr", X[:5], {"a": 1}, 0.0),
    ("ndcg@10", ["a", "x0", "b"], {"a": 1, "b": 1}, (1 + 1 / 2) / (1 + 1 / math.log2(3))),
    ("ndcg@10", ["b", "a"], {"a": 3, "b": 1}, (1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3))),
    ("ndcg@10", [*X[:9], "a", "b"], {"a": 2, "b": 1},
     (2 / math.log2(11)) / (2 + 1 / math.log2(3))),
]  # fmt: skip


@pytest.mark.parametrize(("measure", "found", "grades", "expected"), BY_HAND)
def test_G02_a_measure_is_what_a_hand_computes(
    measure: str, found: list[str], grades: dict[str, int], expected: float
) -> None:
    name = read_measure(measure)
    means = score_run({"q": found}, {"q": grades}, measures=[measure]).means
    assert means[name] == pytest.approx(expected, rel=1e-12)


def test_G02_without_judgements_a_measure_is_0() -> None:
    assert len(BY_HAND) == 12
    means = score_run({"q": ["a"]}, {"q": {}}, measures=["ndcg@10", "mrr", "recall@5"]).means
    assert list(means.values()) == [0.0, 0.0, 0.0]


def test_G03_clones_count_once(golden: Dataset, golden_indexes: Indexes) -> None:
    """Every second memory of each list gets two clones right behind it: nDCG stays."""
    lists = run_setting(golden_indexes, golden, golden_run.setting("default")).documents
    judged = {query: golden.judgements[query] for query in lists if golden.judgements.get(query)}
    before = score_run(lists, judged, measures=GATE)
    classes: dict[str, str] = {}
    cloned: dict[str, list[str]] = {}
    graded: dict[str, dict[str, int]] = {}
    for query, found in lists.items():
        cloned[query] = []
        for at, doc in enumerate(found):
            cloned[query].append(doc)
            if at % 2:
                copies = [f"{doc} copy {one}" for one in range(2)]
                cloned[query] += copies
                classes |= dict.fromkeys([doc, *copies], f"class of {doc}")
    for query, grades in judged.items():
        copies = [doc for doc in cloned[query] if " copy " in doc]
        graded[query] = grades | {
            doc: grades[doc.split(" copy ")[0]]
            for doc in copies
            if doc.split(" copy ")[0] in grades
        }
    after = score_run(cloned, graded, classes=classes, measures=GATE)
    assert after.means == pytest.approx(before.means, rel=1e-12)
    without_classes = score_run(cloned, graded, measures=GATE)
    assert without_classes.means["nDCG@10"] != pytest.approx(before.means["nDCG@10"], abs=0.01)


@pytest.mark.parametrize("measure", GATE)
def test_G04_a_fall_of_a_twentieth_fails(measure: str) -> None:
    queries = tuple(f"q{at}" for at in range(200))
    level = {name: np.full(200, 0.6) for name in GATE}

    def scored(value: float) -> Scores:
        return Scores("x", queries, level | {measure: np.full(200, value)})

    failed = {
        value: [one.comparison.measure for one in check(scored(value), {"x": scored(0.6)})
                if one.failed]
        for value in (0.6, 0.7, 0.59, 0.55, 0.549, 0.3)
    }  # fmt: skip
    assert failed == {0.6: [], 0.7: [], 0.59: [], 0.55: [measure], 0.549: [measure], 0.3: [measure]}


def test_G05_vectors_add_to_words(golden: Dataset, golden_indexes: Indexes) -> None:
    measures = ("R@1", "R@5", "R@10", "RR", "nDCG@10")
    lexical, hybrid = (
        score_setting(golden_indexes, golden, golden_run.setting(name), measures=measures).means
        for name in ("bm25", "default")
    )
    assert all(hybrid[name] >= lexical[name] for name in measures)
    assert any(hybrid[name] > lexical[name] + 0.05 for name in measures)


STAGES = (
    hr.Rerank(window=20),
    hr.Dedup(0.9, scale="unit"),
    hr.Recency("created_at", half_life="30d"),
    hr.Budget(300),
)


@pytest.mark.slow
def test_G06_each_stage_is_measured_on_and_off(golden: Dataset, golden_indexes: Indexes) -> None:
    options: dict[str, Any] = {"shaping": STAGES, "depth": 100, "limit": 20, "now": golden_run.NOW}
    base = Setting("all", options, attributes=("created_at",))
    off, on = without_each(base, "shaping"), with_each(base, "shaping")
    settings = [*off, *on, *alpha_grid((0.0, 0.5, 1.0))]
    study = ablate(golden_indexes, golden.split("even"), settings, measures=GATE)
    means = [scores.means["nDCG@10"] for scores in study.scores]
    assert len(set(means[: len(STAGES) + 1])) == len(STAGES) + 1  # no stage is without effect
    assert len(set(means)) >= len(settings) - 2
    report = study_text(study)
    assert all(setting.name in report for setting in settings)
    assert [len(one) for one in study.comparisons] == [len(GATE)] * (len(settings) - 1)


def test_G07_loom_is_followed_as_it_is_published() -> None:
    """By its formulas; tests/parity asks the installed projects themselves."""
    made = stores(200, seed=70)
    overlaps = []
    for alpha in (0.2, 0.5, 0.8):
        fusion = hr.RRF(alpha=alpha, alpha_mode="votes")
        recipe = recipes.loom.replace(fusion=fusion, fill=None, on_empty="empty")
        for store, hits in enumerate(made.ask(recipe=recipe, limit=10)):
            keys = made.documents(store)
            expected = voted(
                lexical_ranking([made.texts[key] for key in keys], made.queries[store]),
                vector_ranking(made.vectors[keys.start : keys.stop], made.query_vectors[store]),
                alpha,
            )
            overlaps.append(overlap([key - keys.start for key in hits.keys], expected))
    assert len(overlaps) == 600
    assert min(overlaps) >= 0.95
