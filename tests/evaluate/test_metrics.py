"""Measures against values computed by hand; what clones, gaps and ties do to them."""

import math

import numpy as np
import pytest

from hyrecall.errors import DTypeError, OptionError, ShapeError
from hyrecall.evaluate import MEASURES, Scores, compare, score_run
from seams import read_measure

pytest.importorskip("ir_measures", reason="the extra [evaluate] is not installed")
pytest.importorskip("scipy", reason="the extra [evaluate] is not installed")


ALL = (
    "nDCG@10",
    "nDCG",
    "R@1",
    "R@5",
    "R@10",
    "R@100",
    "any@5",
    "all@5",
    "RR",
    "RR@10",
    "AP",
    "P@5",
)
TEN_WRONG = [f"x{at}" for at in range(10)]


def score(found: list[str], grades: dict[str, int], measure: str) -> float:
    return score_run({"q": found}, {"q": grades}, measures=[measure]).means[read_measure(measure)]


@pytest.mark.parametrize(
    ("measure", "found", "grades", "expected"),
    [
        ("nDCG@10", ["a"], {"a": 1}, 1.0),
        ("nDCG@10", ["x", "a"], {"a": 1}, 1 / math.log2(3)),
        # Linear gains: c adds 1 at rank 1, a adds 3 at rank 2, b (2) is missing.
        (
            "nDCG@10",
            ["c", "a"],
            {"a": 3, "b": 2, "c": 1},
            (1 + 3 / math.log2(3)) / (3 + 2 / math.log2(3) + 1 / 2),
        ),
        ("nDCG@10", [*TEN_WRONG, "a"], {"a": 1}, 0.0),
        ("R@5", ["a", "x", "b"], {"a": 1, "b": 2, "c": 1, "d": 1}, 0.5),
        ("R@5", [*TEN_WRONG[:5], "a"], {"a": 1}, 0.0),
        ("RR@10", ["x", "y", "a", "b"], {"a": 1, "b": 1}, 1 / 3),
        ("RR@10", [*TEN_WRONG, "a"], {"a": 1}, 0.0),
        # a at rank 1, b at rank 3, c never: (1 + 2/3 + 0) / 3.
        ("AP", ["a", "x", "b"], {"a": 1, "b": 1, "c": 1}, (1 + 2 / 3) / 3),
        ("any@5", ["x", "a"], {"a": 1, "b": 1}, 1.0),
        ("any@1", ["x", "a"], {"a": 1, "b": 1}, 0.0),
        ("all@5", ["x", "a"], {"a": 1, "b": 1}, 0.0),
        ("all@3", ["b", "x", "a"], {"a": 1, "b": 2, "x": 0}, 1.0),
        ("all@2", ["b", "x", "a"], {"a": 1, "b": 2, "x": 0}, 0.0),
        ("all@1", ["a", "b"], {"a": 1, "b": 1}, 0.0),
        ("P@5", ["a", "b"], {"a": 1, "b": 1}, 0.4),
        ("AP", ["z", "a"], {"a": 1, "z": 0}, 0.5),
    ],
)
def test_G02_a_measure_is_what_a_hand_computes(measure, found, grades, expected):
    assert score(found, grades, measure) == pytest.approx(expected, rel=1e-12)


def test_a_mean_is_over_all_judged_queries_with_those_that_found_nothing_at_0():
    run = {"p": ["a"], "q": [], "unjudged": ["a"]}
    judgements = {"p": {"a": 1}, "q": {"b": 1}, "r": {"c": 1}, "unjudged": {}}
    scores = score_run(run, judgements, measures=ALL)
    assert scores.queries == ("p", "q", "r")
    for measure in set(ALL) - {"P@5"}:
        assert scores.values[measure].tolist() == [1.0, 0.0, 0.0]
        assert scores.means[measure] == pytest.approx(1 / 3)
    assert scores.values["P@5"].tolist() == [0.2, 0.0, 0.0]


@pytest.mark.parametrize(
    ("run", "judgements"),
    [
        ({}, {}),
        ({"q": ["a"]}, {}),
        ({"q": ["a"]}, {"q": {}}),
        ({}, {"q": {"a": 1}}),
        ({"q": []}, {"q": {"a": 1}}),
        ({"q": ["a"]}, {"q": {"a": 0}}),
        ({"q": ["a"]}, {"q": {"a": -1}}),
        ({"q": ["a"]}, {"q": {"b": 1}}),
    ],
)
def test_G02_where_there_is_nothing_to_find_or_nothing_found_all_is_0_and_never_nan(
    run, judgements
):
    means = score_run(run, judgements, measures=ALL).means
    assert means == dict.fromkeys(ALL, 0.0)


@pytest.mark.parametrize("n_clones", [1, 3, 8])
def test_G03_clones_of_a_document_leave_every_measure_as_it_was(n_clones):
    found = ["x", "a", "b", "y", "c"]
    grades = {"a": 2, "b": 1, "c": 3}
    before = score_run({"q": found}, {"q": grades}, measures=ALL)
    clones = [f"a{at}" for at in range(n_clones)]
    # The clones stand everywhere: some before b, some after; as good as the first one.
    with_clones = [*found[:2], *clones[::2], *found[2:], *clones[1::2]]
    graded = {**grades, **dict.fromkeys(clones, 2)}
    classes = {**dict.fromkeys(clones, "class of a"), "a": "class of a"}
    after = score_run({"q": with_clones}, {"q": graded}, classes=classes, measures=ALL)
    assert after.means == before.means
    uncollapsed = score_run({"q": with_clones}, {"q": graded}, measures=ALL)
    assert uncollapsed.means["nDCG@10"] != before.means["nDCG@10"]


def test_a_class_is_credited_at_its_best_rank_with_its_largest_grade():
    classes = {"a": "1", "b": "1"}
    judgements = {"q": {"a": 1, "b": 3, "c": 1}}
    one = score_run({"q": ["a", "x", "b"]}, judgements, classes=classes, measures=["nDCG@10"])
    assert one.means["nDCG@10"] == pytest.approx(3 / (3 + 1 / math.log2(3)))


def test_a_class_is_never_taken_for_a_document_of_its_name():
    one = score_run({"q": ["a"]}, {"q": {"a": 1}}, classes={"b": "a"}, measures=["RR"])
    other = score_run({"q": ["b"]}, {"q": {"a": 1}}, classes={"b": "a"}, measures=["RR"])
    assert (one.means["RR"], other.means["RR"]) == (1.0, 0.0)


def test_the_order_of_a_list_counts_and_not_the_names_in_it():
    # Equal scores would be put in the order of the names; here the names run both ways.
    for found in (["a", "b", "c"], ["c", "b", "a"]):
        means = [score(found, {name: 1}, "RR@10") for name in found]
        assert means == [1.0, 1 / 2, pytest.approx(1 / 3)]


def test_a_long_list_keeps_its_order():
    found = [f"d{at:05d}" for at in range(3000)]
    assert score(found, {"d02999": 1}, "RR") == pytest.approx(1 / 3000)
    assert score(found[::-1], {"d02999": 1}, "RR") == 1.0


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("recall@5", "R@5"),
        ("R@5", "R@5"),
        ("ndcg@10", "nDCG@10"),
        ("MRR@10", "RR@10"),
        ("map", "AP"),
        ("success@3", "any@3"),
        ("All@3", "all@3"),
        ("precision@1", "P@1"),
    ],
)
def test_a_measure_has_one_name(given, name):
    assert read_measure(given) == name
    assert read_measure(name) == name


def test_a_document_twice_in_a_list_is_refused():
    with pytest.raises(OptionError, match=r"run\['q'\]: expected each document once"):
        score_run({"q": ["a", "a"]}, {"q": {"a": 1}})


def test_a_text_in_place_of_a_list_is_refused_and_one_measure_is_taken():
    with pytest.raises(DTypeError, match=r"^run\['q'\]: expected a list of ids, got str 'd1'$"):
        score_run({"q": "d1"}, {"q": {"d1": 1}})
    scores = score_run({"q": ["d1"]}, {"q": {"d1": 1}}, measures="ndcg@10")
    assert scores.means == {"nDCG@10": 1.0}
    assert compare(scores, scores, measures="nDCG@10")[0].measure == "nDCG@10"


def test_values_that_are_not_one_per_query_are_refused():
    with pytest.raises(ShapeError, match=r"AP: expected a value for each of 2"):
        Scores("run", ("p", "q"), {"AP": np.zeros(3)})


def test_the_measures_taken_by_default_are_those_that_the_page_names():
    assert MEASURES == ("nDCG@10", "R@5", "R@10", "R@100", "RR@10", "AP")
