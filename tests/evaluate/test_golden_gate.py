"""No recipe may fall on the golden set, and a broken ranker shows that it would be noticed."""

import pytest

import golden_run
from hyrecall import recipes
from hyrecall.evaluate import Dataset, Indexes, Scores, run_setting, score_run
from seams import GATE, check, read_baseline, score_setting

pytest.importorskip("pytrec_eval", reason="the extra [evaluate] is not installed")


@pytest.fixture(scope="module")
def golden() -> Dataset:
    return golden_run.golden_set()


@pytest.fixture(scope="module")
def golden_indexes(golden: Dataset) -> Indexes:
    return Indexes(golden)


@pytest.fixture(scope="module")
def baseline() -> dict[str, Scores]:
    return read_baseline(golden_run.BASELINE)


def test_every_recipe_has_a_baseline(baseline: dict[str, Scores]) -> None:
    assert set(baseline) == set(golden_run.NAMES)
    assert set(recipes.__all__) - golden_run.PATTERNS <= set(golden_run.NAMES)


@pytest.mark.parametrize("name", golden_run.NAMES)
def test_G04_a_recipe_does_not_fall_below_its_baseline(
    name: str, golden: Dataset, golden_indexes: Indexes, baseline: dict[str, Scores]
) -> None:
    setting = golden_run.setting(name)
    scores = score_setting(golden_indexes, golden, setting, measures=GATE)
    fallen = [str(one) for one in check(scores, baseline) if one.has_fallen]
    assert fallen == []


@pytest.mark.parametrize("name", ["bm25", "default"])
def test_G04_a_ranker_that_turns_its_lists_round_fails_the_gate(
    name: str, golden: Dataset, golden_indexes: Indexes, baseline: dict[str, Scores]
) -> None:
    run = run_setting(golden_indexes, golden, golden_run.setting(name))
    turned = {query: list(reversed(found[:20])) for query, found in run.documents.items()}
    judgements = {query: golden.judgements[query] for query in golden.judged["id"].to_pylist()}
    scores = score_run(turned, judgements, classes=golden.classes, measures=GATE, name=name)
    assert [one.has_fallen for one in check(scores, baseline)] == [True] * len(GATE)


def test_G05_meaning_adds_to_words(baseline: dict[str, Scores]) -> None:
    lexical, hybrid = baseline["bm25"].means, baseline["default"].means
    assert all(hybrid[measure] >= lexical[measure] for measure in GATE)
    assert any(hybrid[measure] > lexical[measure] + 0.05 for measure in GATE)
