"""Weights learnt from judged queries."""

import importlib
import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.errors import OptionError
from hyrecall.evaluate import Dataset, Indexes, Learnt, Setting, learn, read_setting, run_setting
from seams import Stage, _cross_entropy, _Pools, fit_weights, learnt_text, learnt_to_dict
from seams import evaluate_CELL as CELL

pytest.importorskip("ir_measures", reason="the extra [evaluate] is not installed")
pytest.importorskip("scipy", reason="the extra [evaluate] is not installed")

fitting = importlib.import_module("hyrecall.evaluate.learn")  # a function has its name

WORDS = ("amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "haven")
DIM = 8


def chats(n_queries: int, *, said_by: str | None) -> Dataset:
    """A set whose relevant documents are those of one speaker, or of nobody in particular."""
    random = np.random.default_rng(11)
    n_docs = 4 * n_queries
    vectors = random.standard_normal((n_docs, DIM)).astype(np.float32)
    texts = [" ".join(random.choice(WORDS, 3)) + f" t{row // 4}" for row in range(n_docs)]
    corpus = pa.table(
        {
            "id": [f"d{row}" for row in range(n_docs)],
            "text": texts,
            "role": [("user", "assistant")[row % 2] for row in range(n_docs)],
            "embedding": pa.FixedSizeListArray.from_arrays(vectors.ravel(), DIM),
        }
    )
    right = []
    for query in range(n_queries):
        at = int(random.integers(0, 4))
        if said_by is not None:
            at = at // 2 * 2 + (said_by == "assistant")
        right.append(4 * query + at)
    near = vectors[right] + 1.5 * random.standard_normal((n_queries, DIM)).astype(np.float32)
    queries = pa.table(
        {
            "id": [f"q{query}" for query in range(n_queries)],
            "text": [f"t{query}" for query in range(n_queries)],
            "embedding": pa.FixedSizeListArray.from_arrays(near.ravel(), DIM),
        }
    )
    judgements = {f"q{query}": {f"d{doc}": 1} for query, doc in enumerate(right)}
    return Dataset("chats", corpus, queries, judgements)


BASE = read_setting("default")


Taught = tuple[Dataset, Indexes, Learnt]


@pytest.fixture(scope="module")
def taught() -> Taught:
    """A set whose user is always right, and what is learnt of it."""
    data = chats(100, said_by="user")
    indexes = Indexes(data)
    return data, indexes, learn(indexes, data, base=BASE, features=("role=user",))


def test_what_tells_right_from_wrong_is_learnt_and_better_on_other_queries(taught: Taught) -> None:
    data, indexes, learnt = taught
    assert learnt.is_better
    assert learnt.against_base.difference > 0.02
    assert learnt.weights["role=user"] > 0.1
    assert [one.name for one in learnt.report.settings] == [
        "default", "bm25", "dense", "default learnt",
    ]  # fmt: skip
    # What is written down ranks as what was measured.
    again = hr.Recipe.from_json(learnt.recipe.to_json())
    odd = data.split("odd")
    setting = Setting("again", {"recipe": again}, attributes=("role",))
    ranked = run_setting(indexes, odd, learnt.setting).documents
    assert run_setting(indexes, odd, setting).documents == ranked
    assert ranked != run_setting(indexes, odd, learnt.base).documents
    text = learnt_text(learnt)
    assert "default learnt is better than default, nDCG@10: +" in text
    told = learnt_to_dict(learnt)
    assert hr.Recipe.from_json(json.dumps(told["recipe"])) == learnt.recipe
    assert told["is_better"] is True


def test_weights_that_only_fit_their_own_half_are_not_called_better() -> None:
    data = chats(100, said_by=None)
    learnt = learn(Indexes(data), data, base=BASE, features=("role=user",))
    assert not learnt.is_better
    assert "is not better (p < 0.05 is needed) than" in learnt_text(learnt)


def test_the_even_queries_alone_decide_the_weights(taught: Taught) -> None:
    data, _, one = taught
    odd = set(data.split("odd").judgements)
    turned = {
        query: {f"d{int(next(iter(docs))[1:]) ^ 1}": 1} if query in odd else docs
        for query, docs in data.judgements.items()
    }
    other = replace(data, judgements=turned)
    two = learn(Indexes(other), other, base=BASE, features=("role=user",))
    assert one.weights == two.weights
    assert one.against_base != two.against_base


def test_grades_weigh_and_a_relevant_candidate_competes_with_wrong_ones_only() -> None:
    random = np.random.default_rng(0)
    features = random.standard_normal((30, 4))
    starts = np.array([0, 10, 22, 30])
    share = np.zeros(30)
    share[[1, 4, 12, 23, 29]] = 0.5, 0.5, 1.0, 0.3, 0.7
    pools = _Pools(features, starts, share, np.zeros(3, np.int64))
    weights = random.standard_normal(4)
    losses, gradient = _cross_entropy(pools, weights)
    value = losses.mean()
    scores = features @ weights
    by_hand = 0.0
    for begin, end in pairwise(starts):
        own, parts = scores[begin:end], share[begin:end]
        rivals = np.exp(own[parts == 0]).sum()
        for score, part in zip(own[parts > 0], parts[parts > 0], strict=True):
            by_hand -= part * np.log(np.exp(score) / (np.exp(score) + rivals)) / 3
    assert value == pytest.approx(by_hand, rel=1e-12)
    for at in range(4):
        moved = weights.copy()
        moved[at] += 1e-6
        assert gradient[at] == pytest.approx(
            (_cross_entropy(pools, moved)[0].mean() - value) / 1e-6, abs=1e-4
        )


@pytest.mark.slow
def test_evidence_of_threads_is_learnt_where_the_setting_names_them() -> None:
    data = chats(60, said_by="user")
    corpus = data.corpus.append_column("chat", [[f"c{row // 8}" for row in range(240)]])
    threaded = replace(data, corpus=corpus)
    base = replace(read_setting("default"), thread="chat")
    setting, n_queries = fit_weights(Indexes(threaded), threaded, base)
    around, linear = setting.options["recipe"].shaping
    assert isinstance(around, hr.Around)
    assert {"fused", "neighbour_1", "neighbour_2", "thread", "length"} <= set(linear.names)
    assert n_queries > 50


def followed(n_queries: int) -> Dataset:
    """A set whose answer follows the row that has the words, among other rows beside it."""
    random = np.random.default_rng(3)
    n_docs = 5 * n_queries
    texts = [" ".join(random.choice(WORDS, 3)) for _ in range(n_docs)]
    for query in range(n_queries):
        texts[5 * query + 2] += f" t{query}"
    corpus = pa.table(
        {
            "id": [f"d{row}" for row in range(n_docs)],
            "text": texts,
            "chat": [f"c{row // 5}" for row in range(n_docs)],
            "place": list(range(n_docs)),
        }
    )
    names = [f"q{query}" for query in range(n_queries)]
    queries = pa.table({"id": names, "text": [f"t{query}" for query in range(n_queries)]})
    judgements = {f"q{query}": {f"d{5 * query + 3}": 1} for query in range(n_queries)}
    return Dataset("followed", corpus, queries, judgements)


def test_on_which_side_of_a_row_the_answer_stands_is_learnt() -> None:
    data = followed(60)
    base = replace(read_setting("default"), arms=("text",), thread="chat", place="place")
    learnt = learn(Indexes(data), data, base=base, measure="RR@10")
    assert learnt.is_better
    assert learnt.weights["text_before_1"] > abs(learnt.weights.get("text_after_1", 0))


def asked_of(n_queries: int) -> Dataset:
    """A set whose queries name who said the answer, and have another word of somebody else."""
    random = np.random.default_rng(5)
    roles = [("ann", "bob")[row % 2] for row in range(4 * n_queries)]
    words = [random.choice(WORDS, 3) for _ in roles]
    rows = [f"{' '.join(some)} t{row // 4}" for row, some in enumerate(words)]
    corpus = pa.table({"id": [f"d{row}" for row in range(len(rows))], "text": rows, "role": roles})
    right = [4 * query + int(random.integers(4)) for query in range(n_queries)]
    names = [f"q{query}" for query in range(n_queries)]
    texts = [f"t{row // 4} {words[row ^ 1][0]} {roles[row]}" for row in right]
    judgements = {name: {f"d{row}": 1} for name, row in zip(names, right, strict=True)}
    return Dataset("asked of", corpus, pa.table({"id": names, "text": texts}), judgements)


def test_a_further_text_arm_is_learnt_and_changes_nothing_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = asked_of(60)
    plain = replace(read_setting("default"), arms=("text",))
    base = replace(plain, more_arms=("role",))
    learnt = learn(Indexes(data), data, base=base, measure="RR@10")
    assert learnt.is_better
    assert learnt.weights["role_score"] > 0.1
    monkeypatch.setattr(fitting, "_best_weights", lambda pools, own: own)
    before, _ = fit_weights(Indexes(data), data, base)
    alone, beside = (run_setting(Indexes(data), data, one) for one in (plain, before))
    for query, found in beside.documents.items():
        score = dict(zip(alone.documents[query], alone.scores[query], strict=True))
        ranked = [score[document] for document in found if document in score]
        assert len(ranked) == len(score)
        assert ranked == sorted(ranked, reverse=True)  # the arm decides between equal scores alone


def drawn(random: np.random.Generator, n_queries: int, *, pull: float) -> _Pools:
    """Queries of ten candidates; the first feature chooses the right one, the second with pull."""
    features = random.standard_normal((10 * n_queries, 4))
    scores = (2 * features[:, 0] + pull * features[:, 1]).reshape(n_queries, 10)
    share = np.zeros((n_queries, 10))
    share[np.arange(n_queries), (scores + random.gumbel(size=scores.shape)).argmax(axis=1)] = 1
    starts = np.arange(0, 10 * n_queries + 1, 10)
    return _Pools(features, starts, share.ravel(), np.arange(n_queries) % 5)


def test_features_that_tell_nothing_leave_the_base_as_it_is() -> None:
    random = np.random.default_rng(2)
    own = np.array([1.0, 0.0, 0.0, 0.0])
    kept = [fitting._best_weights(drawn(random, 80, pull=0.0), own) for _ in range(10)]
    assert sum(np.allclose(found, own, rtol=1e-12) for found in kept) >= 8
    told = fitting._best_weights(drawn(random, 80, pull=2.0), own)
    assert told[1] > 0.5


STAGES: list[tuple[Stage, str]] = [
    (hr.Prior("role", {"assistant": 0.4}), "prior"),
    (hr.Provenance("role", {"assistant": 2.0}), "provenance"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("stage", "feature"), STAGES, ids=lambda given: str(given)[:10])
def test_a_stage_that_weighs_speakers_stays_and_its_weight_is_learnt(
    stage: Stage, feature: str
) -> None:
    data = chats(60, said_by="user")
    look = hr.Feedback(dense=0.1)
    misled = hr.recipes.default.replace(name="misled", shaping=(look, stage, hr.Gate(-9.0)))
    base = Setting("misled", {"recipe": misled})
    learnt = learn(Indexes(data), data, base=base)
    assert learnt.is_better
    assert learnt.weights[feature] < 0.5  # the base has 1
    kinds = [type(one) for one in learnt.recipe.shaping]
    assert kinds == [hr.Feedback, type(stage), hr.Linear, hr.Gate]
    # Where the stage is right, its weight stays.
    right = chats(40, said_by="assistant")
    kept, _ = fit_weights(Indexes(right), right, base)
    (linear,) = [one for one in kept.options["recipe"].shaping if isinstance(one, hr.Linear)]
    assert dict(linear.weights)[feature] > 0.5


def test_weights_at_their_centre_rank_as_the_base_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The candidates, the features and the stages are the base's own."""
    data = chats(60, said_by="user")
    corpus = data.corpus.append_column("chat", [[f"c{row // 8}" for row in range(240)]])
    threaded = replace(data, corpus=corpus)
    prior = (hr.Around(), hr.Prior("role", {"user": 0.2}), hr.Provenance("role", {"user": 0.7}))
    recipe = hr.recipes.conversation.replace(name="many", shaping=prior)
    base = Setting("many", {"recipe": recipe}, thread="chat", attributes=("role",))
    monkeypatch.setattr(fitting, "_best_weights", lambda pools, own: own)
    setting, _ = fit_weights(Indexes(threaded), threaded, base)
    runs = [run_setting(Indexes(threaded), threaded, one) for one in (base, setting)]
    assert runs[0].documents == runs[1].documents


@pytest.mark.slow
def test_weights_are_learnt_further_from_those_of_a_learnt_recipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = chats(60, said_by="user")
    indexes = Indexes(data)
    first, _ = fit_weights(indexes, data, BASE, features=("role=user",))
    known = fitting._weights(first.options["recipe"])
    base = replace(first, attributes=())  # as a recipe that comes from a file
    again, _ = fit_weights(indexes, data, base)
    assert fitting._weights(again.options["recipe"]).keys() == known.keys()
    monkeypatch.setattr(fitting, "_best_weights", lambda pools, own: own)
    same, _ = fit_weights(indexes, data, base)
    assert fitting._weights(same.options["recipe"]) == known


def test_a_fold_has_all_queries_of_a_tenant() -> None:
    data = chats(60, said_by="user")
    tenants = pa.array([f"t{at % 7}" for at in range(60)])
    owned = replace(
        data,
        corpus=data.corpus.append_column(CELL, pa.array([f"t{at % 7}" for at in range(240)])),
        queries=data.queries.append_column(CELL, tenants),
    )
    folds = fitting._folds(owned)
    assert len(set(zip(folds, tenants.to_pylist(), strict=True))) == 7
    assert set(folds) == set(range(5))
    assert set(fitting._folds(data)) == set(range(5))


def test_too_few_queries_and_recipes_without_a_column_are_refused() -> None:
    data = chats(12, said_by="user")
    indexes = Indexes(data)
    with pytest.raises(OptionError, match="at least 10 judged queries with a relevant candidate"):
        learn(indexes, data, base=BASE)
    with pytest.raises(OptionError, match="base: expected a setting with one recipe, got 'rrf'"):
        fit_weights(indexes, data, read_setting("rrf"))
    stage = hr.Prior(None, {"user": 1.0})
    weighed = hr.recipes.default.replace(name="weighed", shaping=(stage,))
    with pytest.raises(OptionError, match="base: expected a recipe whose Prior names its column"):
        fit_weights(indexes, data, Setting("weighed", {"recipe": weighed}))
    with pytest.raises(OptionError, match="luck: expected one column of the table, got none"):
        fit_weights(indexes, data, BASE, features=("luck=1",))
