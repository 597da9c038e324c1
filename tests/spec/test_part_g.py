"""Rows of part G: the golden set, what each part earns, conformance with Loom."""

import re
from typing import Any

import pytest

import golden_run
import hyrecall as hr
from hyrecall import recipes
from hyrecall.evaluate import (
    Dataset,
    Indexes,
    Setting,
    ablate,
    grid,
    read_setting,
    study_text,
    with_each,
    without_each,
)
from seams import GATE
from spec.episodes import stores
from spec.loom_by_definition import lexical_ranking, overlap, vector_ranking, voted

pytest.importorskip("pytrec_eval", reason="the extra [evaluate] is not installed")
pytest.importorskip("scipy", reason="the extra [evaluate] is not installed")


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
    alphas = {f"alpha={alpha:g}": hr.RRF(alpha=alpha) for alpha in (0.0, 0.5, 1.0)}
    off, on = without_each(base, "shaping"), with_each(base, "shaping")
    settings = [*off, *on, *grid(read_setting("rrf"), fusion=alphas)]
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
