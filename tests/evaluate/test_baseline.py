"""The gate: a run equal to its baseline passes, planted broken rankers do not."""

import json

import numpy as np
import pytest

from hyrecall.errors import DTypeError, OptionError
from hyrecall.evaluate import Scores, read_setting, run_setting, score_run
from seams import GATE, check, read_baseline, write_baseline

pytest.importorskip("ir_measures", reason="the extra [evaluate] is not installed")
pytest.importorskip("scipy", reason="the extra [evaluate] is not installed")


@pytest.fixture(scope="module")
def lists(data, indexes):
    return run_setting(indexes, data, read_setting("rrf")).documents


@pytest.fixture
def baseline(data, lists, tmp_path):
    path = tmp_path / "baseline.json"
    write_baseline(path, data.name, [scored(data, lists)])
    return read_baseline(path)


def scored(data, lists) -> Scores:
    return score_run(lists, data.judgements, name="rrf")


def test_a_run_equal_to_the_baseline_passes_without_a_difference(data, lists, baseline):
    checks = check(scored(data, lists), baseline)
    assert [one.measure for one in checks] == list(GATE)
    assert not any(one.has_fallen for one in checks)
    assert {one.difference for one in checks} == {0.0}


def reversed_lists(lists):
    return {query: documents[::-1] for query, documents in lists.items()}


def shuffled_lists(lists):
    random = np.random.default_rng(0)
    return {query: tuple(random.permutation(documents)) for query, documents in lists.items()}


def lists_of_another_query(lists):
    return dict(zip(lists, [*list(lists.values())[1:], ()], strict=True))


def no_lists(lists):
    return {}


def a_first_hit_lost(lists):
    return {query: documents[1:] for query, documents in lists.items()}


@pytest.mark.parametrize(
    "broken", [reversed_lists, shuffled_lists, lists_of_another_query, no_lists, a_first_hit_lost]
)
def test_G04_a_broken_ranker_fails(data, lists, baseline, broken):
    checks = check(scored(data, broken(lists)), baseline)
    assert all(one.has_fallen for one in checks)


def fall(differences: np.ndarray) -> bool:
    """Whether a fall of nDCG@10 by these differences fails."""
    n = len(differences)
    queries = tuple(f"q{at}" for at in range(n))
    before = Scores("s", queries, {measure: np.full(n, 0.5) for measure in GATE})
    now = {**before.values, "nDCG@10": before.values["nDCG@10"] + differences}
    checks = check(Scores("s", queries, now), {"s": before})
    assert not any(one.has_fallen for one in checks if one.measure != "nDCG@10")
    return any(one.has_fallen for one in checks)


def few(n: int, of: int, size: float) -> np.ndarray:
    differences = np.zeros(of)
    differences[:n] = size
    return differences


@pytest.mark.parametrize(
    ("differences", "fails"),
    [
        (np.full(100, -0.019), False),  # small, however sure
        (np.full(100, -0.02), False),
        (np.full(100, -0.021), True),  # sure: p is about 1e-4
        (few(6, 100, -0.5), False),  # 0.03 on six queries alone: p is 1/32
        (few(9, 100, -0.39), True),  # 0.0351 on nine: p is 1/256
        (few(4, 100, -1.0), False),  # 0.04 exactly: p is 1/8
        (few(5, 100, -0.85), True),  # 0.0425 on five: too far in any case
        (np.full(100, 0.3), False),  # better is no fault
    ],
)
def test_G04_the_gate_is_0_02_with_p_below_0_01_or_0_04(differences, fails):
    assert fall(differences) is fails


def test_a_baseline_comes_back_as_it_was_written(data, lists, tmp_path):
    path = tmp_path / "b.json"
    one = scored(data, lists)
    other = Scores("other", one.queries, {m: np.zeros(len(one.queries)) for m in GATE})
    write_baseline(path, "small", [one, other])
    read = read_baseline(path)
    assert list(read) == ["rrf", "other"]
    assert read["rrf"].queries == one.queries
    for measure, values in one.values.items():
        assert read["rrf"].values[measure] == pytest.approx(values, abs=1e-6)
    assert json.loads(path.read_text())["dataset"] == "small"
    written = path.read_bytes()
    write_baseline(path, "small", [one, other])
    assert path.read_bytes() == written


def test_a_run_that_the_baseline_does_not_speak_of_is_refused(data, lists, baseline):
    with pytest.raises(OptionError, match="baseline: expected a baseline with 'bm25', got rrf"):
        check(score_run(lists, data.judgements, name="bm25"), baseline)
    fewer = dict(list(data.judgements.items())[:-1])
    with pytest.raises(OptionError, match="run 'rrf': expected the 54 queries"):
        check(score_run(lists, fewer, name="rrf"), baseline)
    with pytest.raises(OptionError, match="expected measures with R@5"):
        check(score_run(lists, data.judgements, name="rrf", measures=["AP"]), baseline)


def test_a_run_without_the_measures_of_the_gate_is_not_written(data, lists, tmp_path):
    scores = score_run(lists, data.judgements, measures=["AP"])
    with pytest.raises(OptionError, match="run 'run': expected the queries"):
        write_baseline(tmp_path / "b.json", "small", [scores])
    assert not (tmp_path / "b.json").exists()


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "[]",
        "{}",
        '{"format": 2, "queries": [], "settings": {}}',
        '{"format": 1, "queries": ["q"], "settings": {"s": {"AP": {"values": [NaN]}}}}',
        '{"format": 1, "queries": ["q"], "settings": {"s": {"AP": {"values": ["x"]}}}}',
        '{"format": 1, "queries": ["q"], "settings": {"s": {"AP": {"values": [1, 2]}}}}',
        '{"format": 1, "queries": ["q"], "settings": {"s": {"best": {"values": [1]}}}}',
        '{"format": 1, "queries": ["q"], "settings": {"s": []}}',
    ],
)
def test_a_file_that_is_no_baseline_is_refused_by_name(tmp_path, text):
    path = tmp_path / "b.json"
    path.write_text(text)
    with pytest.raises(DTypeError, match=r"b\.json: expected a baseline of format 1"):
        read_baseline(path)
