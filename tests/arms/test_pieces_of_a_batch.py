"""Arms that search by themselves do so for a part of a batch at a time, in the candidates step."""

import time
from typing import Any

import pytest

import hyrecall as hr
from arms.channels import every_arm, indexes, say_everything
from arms.world import Draw, said
from hyrecall import arms
from seams import ArmQueries, Batch, FoundDocs, Lexical, RecallSource, Recipe, Steps, reply_of
from seams import recall_batch_module as recall

SCOPE = ("ann", "cy")
HINTS = ("n3", "n1", "n4", "n15")


@pytest.fixture
def world() -> tuple[hr.Index, hr.Graph]:
    draw = Draw(11)
    return indexes(draw.docs(40), draw.edges(25, 40))


def in_pieces(monkeypatch: pytest.MonkeyPatch, n: int) -> None:
    for name in ("BATCH_QUERIES", "SHAPED_QUERIES"):
        monkeypatch.setattr(recall, name, n)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_batch_in_pieces_says_what_it_says_whole(
    n: int, world: tuple[hr.Index, hr.Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = say_everything(*world, SCOPE, HINTS)
    in_pieces(monkeypatch, n)
    assert say_everything(*world, SCOPE, HINTS) == whole


@pytest.mark.parametrize("n", [1, 2])
def test_shaped_and_exact_lists_and_lists_of_scopes_come_in_pieces_too(
    n: int, world: tuple[hr.Index, hr.Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    index, graph = world
    recipe = Recipe(
        name="all", arms=(Lexical(),), more=every_arm(graph), fusion=hr.RRF(), exact=True,
        shaping=(hr.Gate(0.0),),
    )  # fmt: skip

    def ask(recipe: Recipe) -> tuple[Any, ...]:
        hits = index.recall(
            text=['"oak"', "fir tea", None, "(", '"elm"'],
            candidates={"hints": [["n1"], None, {"n2": 0.5, "n3": 2.0}, ["n4", "n5"], []]},
            scope=[said(SCOPE), "bob", "ann", "cy", said(("bob", "cy"))],
            recipe=recipe,
        )
        evidence = [[hit.evidence(arm.name) for arm in recipe.more] for one in hits for hit in one]
        scores = [[hit.explain().score for hit in one] for one in hits]
        assert scores == [[hit.score for hit in one] for one in hits]
        sizes = [one.n_candidates for one in hits]
        return hits.to_arrow(), evidence, sizes, hits.trace.notes, hits.trace.exact

    for one in (recipe, recipe.replace(shaping=())):
        whole = ask(one)
        assert whole[0].num_rows > 20
        assert any(whole[4].values())
        with monkeypatch.context() as patch:
            in_pieces(patch, n)
            assert ask(one) == whole


def test_an_arm_is_handed_a_piece_of_the_queries_and_its_time_is_that_of_the_candidates(
    world: tuple[hr.Index, hr.Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    search = arms.Regex._search

    def slow(arm: arms.Regex, batch: Batch, asked: ArmQueries) -> FoundDocs:
        seen.append((batch.n_queries, list(asked.entries)))
        time.sleep(0.05)
        return search(arm, batch, asked)

    monkeypatch.setattr(arms.Regex, "_search", slow)
    in_pieces(monkeypatch, 2)
    texts = ["o.k", "elm", "f.r", None, "tea"]
    hits = world[0].recall(text={"regex": texts}, arms=arms.Regex("text"), scope=said(SCOPE))
    assert seen == [(2, ["o.k", "elm"]), (2, ["f.r", None]), (1, ["tea"])]
    assert hits.trace.milliseconds["candidates"] >= 150
    assert {"plan", "statistics", "candidates", "fusion"} == set(hits.trace.milliseconds)
    source = reply_of(hits[0]).source
    assert isinstance(source, RecallSource)
    assert source.plan.searches.asked == ()  # a reply keeps no query


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"text": {"regex": ["a", "b", "("]}}, r"text\['regex'\]\[2\]: expected a regular"),
        ({"text": {"tags": ["a", "b", 5]}}, r"text\['tags'\]\[2\]: expected a str or None"),
        ({"text": {"edges": ["a", "b", 5]}}, r"text\['edges'\]\[2\]: expected a str, hr\.Phrase"),
        ({"candidates": {"hints": [[], [], [4]]}}, r"candidates\['hints'\]: expected str keys"),
        ({"candidates": {"hints": [[], [], 4]}}, r"candidates\['hints'\]\[2\]: expected a seq"),
    ],
    ids=["pattern", "tags", "edges", "keys", "hints"],
)
def test_a_bad_query_is_named_before_any_piece_runs(
    asked: Any, message: str, world: tuple[hr.Index, hr.Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    index, graph = world
    in_pieces(monkeypatch, 1)
    given = [arms.Regex("text"), *every_arm(graph)[1:3], arms.Listed("hints")]
    ran = []
    monkeypatch.setattr(Steps, "run", lambda *args: ran.append(args))
    with pytest.raises(hr.HyrecallError, match=message):
        index.recall(**asked, arms=given, scope="ann")
    assert ran == []
