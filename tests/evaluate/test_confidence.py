"""Coefficients of confidence that are learnt from judged queries."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import hyrecall as hr
from hyrecall.errors import DTypeError, OptionError
from hyrecall.evaluate import Dataset, Indexes, Setting, learn_confidence, read_setting
from hyrecall.recipe import Coefficients, Lexical
from retrieval_set import small_set
from seams import (
    PROBES,
    ask,
    calibration,
    confidence_text,
    confidence_to_dict,
    fit_models,
    squared_errors,
    value_of,
)
from seams import evaluate_CELL as CELL

pytest.importorskip("ir_measures", reason="the extra [evaluate] is not installed")
pytest.importorskip("scipy", reason="the extra [evaluate] is not installed")

BASE = read_setting("default")
WRONG = Coefficients(
    query={"base": 3.0, "cosine": -4.0, "names": 2.0}, hit={"base": 0.0, "query": -1.0}
)


def wrong() -> Setting:
    return BASE.but("wrong", recipe=hr.recipes.default.replace(confidence=WRONG))


@pytest.fixture(scope="module")
def many() -> Dataset:
    return small_set(n_docs=400, n_queries=160)


def without_tenants(data: Dataset, name: str, first: int, n_docs: int) -> Dataset:
    """Some documents of the set, with the queries that one of them answers."""
    corpus = data.corpus.drop_columns([CELL]).slice(first, n_docs)
    known = set(corpus["id"].to_pylist())
    judgements = {
        query: kept
        for query, grades in data.judgements.items()
        if (kept := {doc: grade for doc, grade in grades.items() if doc in known})
    }
    return Dataset(name, corpus, data.queries.drop_columns([CELL]), judgements)


def test_planted_wrong_coefficients_are_put_right(many: Dataset) -> None:
    told: list[str] = []
    found = learn_confidence(Indexes(many), many, base=wrong(), tell=told.append)
    assert found.before_by == "recipe"
    assert found.is_better
    assert found.against_base.p_value < 0.001
    assert found.after.auroc > 0.7
    assert found.before.auroc < 0.5
    assert found.after.ece < 0.15 < found.before.ece
    assert found.after.squared_error < 0.25 < found.before.squared_error
    made = found.recipe.confidence
    assert made is not None
    assert dict(made.query)["cosine"] > 0
    assert told == ["the even queries", "the odd queries"]
    again = learn_confidence(Indexes(many), many, base=wrong())
    assert again.recipe == found.recipe
    assert again.against_base == found.against_base
    # What was measured is what the recipe says, and the difference is that of the two figures.
    odd = many.split("odd")
    asked = ask(Indexes(many), odd, found.setting)
    values = np.array([one.value for one in asked])
    assert calibration(asked, values) == found.after
    difference = found.after.squared_error - found.before.squared_error
    assert found.against_base.difference == pytest.approx(difference)


def test_right_coefficients_are_not_replaced(many: Dataset) -> None:
    first = learn_confidence(Indexes(many), many, base=wrong())
    second = learn_confidence(Indexes(many), many, base=first.setting)
    assert second.recipe.confidence == first.recipe.confidence
    assert not second.is_better


def test_what_is_asked_has_answers_or_none(many: Dataset) -> None:
    recipe = hr.recipes.default.replace(confidence=PROBES["both"])
    asked = ask(Indexes(many), many, BASE.but("probe", recipe=recipe))
    kinds = {
        kind: [one for one in asked if one.kind == kind] for kind in ("own", "gone", "foreign")
    }
    ids = many.judged["id"].to_pylist()
    assert [[one.query for one in of] for of in kinds.values()] == [ids] * 3
    assert not any(one.holds for one in (*kinds["gone"], *kinds["foreign"]))
    own = many.judged[CELL].to_pylist()
    assert [one.group for one in kinds["own"]] == own
    assert all(one.group != mine for one, mine in zip(kinds["foreign"], own, strict=True))
    pairs = zip(kinds["own"], kinds["gone"], strict=True)
    assert any(one.value != other.value for one, other in pairs)
    index = Indexes(many).get(BASE)
    for at, one in enumerate(kinds["own"][:10]):
        row = many.judged.slice(at, 1).to_pylist()[0]
        hits = index.recall_one(
            text=row["text"], vector=row["embedding"], scope=row[CELL],
            recipe=hr.recipes.default, limit=10,
        )  # fmt: skip
        right = [many.judgements[row["id"]].get(hit.key, 0) > 0 for hit in hits]
        assert one.right == right
        assert one.holds == any(right)


def test_the_answers_of_a_class_are_taken_away_together(many: Dataset) -> None:
    by_day = many.count_by("day")
    twins = replace(by_day, classes=dict.fromkeys(many.corpus["id"].to_pylist(), "one"))
    recipe = hr.recipes.default.replace(confidence=PROBES["both"])
    asked = ask(Indexes(twins), twins, BASE.but("probe", recipe=recipe))
    assert all(not one.signals and not one.hits for one in asked if one.kind == "gone")


def test_a_set_without_tenants_is_asked_the_queries_of_others(many: Dataset) -> None:
    mine, other = (without_tenants(many, name, at, 200) for name, at in (("m", 0), ("o", 200)))
    for arms in (("text", "vectors"), ("text",), ("vectors",)):
        found = learn_confidence(
            Indexes(mine), mine, base=replace(BASE, arms=arms), foreign=[other]
        )
        made = found.recipe.confidence
        assert made is not None
        assert (made.reads_texts, made.reads_vectors) == ("text" in arms, "vectors" in arms)
        assert found.before_by == ("words" if "text" in arms else "mean")
    known = learn_confidence(Indexes(mine), mine, foreign=[other], model="all-MiniLM-L6-v2")
    assert known.before_by == "minilm"


def test_answers_that_are_far_apart_have_finite_coefficients(many: Dataset) -> None:
    recipe = hr.recipes.default.replace(confidence=PROBES["both"])
    asked = ask(Indexes(many), many, BASE.but("probe", recipe=recipe))
    apart = [replace(one, signals=one.signals | {"cosine": float(one.holds)}) for one in asked]
    made = fit_models([apart], "both")
    assert all(math.isfinite(value) for part in made for value in part.values())
    values = np.array([value_of(made, one) for one in apart])
    assert calibration(apart, values).auroc == 1.0
    assert squared_errors("apart", apart, values).means["squared error"] < 0.01


def test_it_is_told_as_text_and_as_data(many: Dataset) -> None:
    found = learn_confidence(Indexes(many), many, base=wrong())
    text = confidence_text(found, width=120)
    assert "learnt is better, squared error: -" in text
    one = found.against_base
    assert f"{one.worse} queries better, {one.better} worse" in text
    data = json.loads(json.dumps(confidence_to_dict(found)))
    assert hr.Recipe.from_json(json.dumps(data["recipe"])) == found.recipe
    assert data["before"]["ece"] == found.before.ece


def test_what_cannot_be_learnt_from_is_refused(many: Dataset) -> None:
    indexes = Indexes(many)
    alone = without_tenants(many, "alone", 0, 400)
    few = replace(many, judgements=dict(list(many.judgements.items())[:8]))
    words = replace(alone, queries=alone.queries.drop_columns(["embedding"]))
    newest = hr.recipes.default.replace(arms=(), more=hr.arms.Newest("day"))
    no_arm = BASE.but("newest", recipe=newest)
    cases: tuple[tuple[Dataset, dict[str, Any], str], ...] = (
        (many, {"base": read_setting("rrf")}, "base: expected a setting with one recipe"),
        (many, {"base": BASE.but("x", filter=hr.Filter(day=1))}, "base: expected a setting with"),
        (
            many,
            {"base": no_arm},
            "base: expected a recipe that reads texts or vectors",
        ),
        (many, {"foreign": [alone]}, "foreign: expected none with two tenants or more"),
        (alone, {}, "foreign: expected a set whose queries nothing here answers"),
        (alone, {"foreign": [words]}, "foreign: expected queries with a column 'embedding'"),
        (few, {}, "small: expected at least 10 even queries whose reply holds"),
    )
    for data, given, told in cases:
        with pytest.raises(OptionError, match=told):
            learn_confidence(indexes, data, **given)
    with pytest.raises(DTypeError, match="foreign: expected a sequence of Dataset"):
        learn_confidence(Indexes(alone), alone, foreign=["x"])  # type: ignore[list-item]
    lexical = BASE.but("words", recipe=hr.recipes.default.replace(arms=(Lexical(),)))
    made = learn_confidence(indexes, many, base=lexical).recipe.confidence
    assert made is not None
    assert not made.reads_vectors
