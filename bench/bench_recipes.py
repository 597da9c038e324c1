"""Every recipe over one user's memories: a batch in one call, and one query at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import hyrecall as hr
from bench import episodes, reference
from bench.episodes import LIMIT, N_QUERIES, NOW, USER, Episodes, Found
from bench.sizes import Size
from bench.turns import OURS
from hyrecall import recipes
from hyrecall.ask.recipe import Recipe

RECIPES = ("loom", "hypergraph", "l0", "honeycomb", "hebb", "default")
N_SINGLE = 32  # queries of a round, one call each


@dataclass
class Case:
    """A recipe, the index it asks, and what a call gives beside the queries."""

    name: str
    made: Episodes
    recipe: Recipe
    index: hr.Index
    beside: dict[str, Any]
    texts: list[str]
    expected: Found  # as the index without scopes answers

    def batch(self) -> Found:
        """Ask all queries in one call and read every hit."""
        return ask_batch(self.index, self.recipe, self.texts, self.made, self.beside)

    def single(self) -> Found:
        """Ask the first queries in a call each."""
        given = self.beside | {"recipe": self.recipe, "limit": LIMIT, "now": NOW}
        sessions = given.pop("session", None)
        out = []
        for at in range(N_SINGLE):
            if sessions is not None:
                given["session"] = sessions[at]
            vector = self.made.queries[at]
            out.append(
                episodes.found(self.index.recall_one(text=self.texts[at], vector=vector, **given))
            )
        return out


def ask_batch(
    index: hr.Index, recipe: Recipe, texts: list[str], made: Episodes, beside: dict[str, Any]
) -> Found:
    hits = index.recall(
        text=texts, vectors=made.queries, recipe=recipe, limit=LIMIT, now=NOW, **beside
    )
    return [episodes.found(one) for one in hits]


@pytest.fixture(scope="module")
def made(size: Size) -> Episodes:
    return Episodes(*size.recipes)


@pytest.fixture(scope="module", params=RECIPES)
def case(request: pytest.FixtureRequest, made: Episodes) -> Case:
    """The replies must be those of an index that holds nothing but what is in scope."""
    recipe = getattr(recipes, request.param)
    beside: dict[str, Any] = {}
    if recipe.name == "hypergraph":
        beside["session"] = made.sessions
    index, alone = made.index(recipe), made.index(recipe, scoped=False)
    graphs = [{"graphs": {"graph": made.graph(one)}} for one in (index, alone)]
    if recipe.name != "hypergraph":
        graphs = [{}, {}]
    texts = made.strings(recipe)
    expected = ask_batch(alone, recipe, texts, made, beside | graphs[1])
    assert any(len(one) == LIMIT for one in expected)
    if recipe.name == "loom":
        check_loom(made, expected)
    beside |= graphs[0] | {"scope": USER}
    return Case(request.param, made, recipe, index, beside, texts, expected)


def check_loom(made: Episodes, expected: Found) -> None:
    """Scores are sums of ranks: a tie inside an arm moves them."""
    at = reference.sample(N_QUERIES)
    answer = episodes.loom_by_definition(made, at)
    got = np.array([[score for _, score in expected[q]] for q in at])
    close = np.abs(got - answer.scores) <= reference.TOLERANCE
    assert close.mean() >= 0.98, f"{1 - close.mean():.1%} of the fused scores differ"


def describe(benchmark: BenchmarkFixture, case: Case, how: str, n_queries: int) -> None:
    asked = f"{n_queries} queries in one call" if how == "batch" else "one query a call"
    benchmark.group = f"recipe {case.name}, {case.made.n:,} x {case.made.dim}, {asked}, k={LIMIT}"
    benchmark.extra_info.update(
        who=OURS,
        kind="recipe",
        docs=case.made.n,
        dim=case.made.dim,
        queries=n_queries,
        recipe=case.name,
        how=how,
    )


def test_batch(case: Case, benchmark: BenchmarkFixture) -> None:
    describe(benchmark, case, "batch", N_QUERIES)
    assert benchmark(case.batch) == case.expected


def test_one_query_a_call(case: Case, benchmark: BenchmarkFixture) -> None:
    describe(benchmark, case, "single", N_SINGLE)
    assert benchmark(case.single) == case.expected[:N_SINGLE]
