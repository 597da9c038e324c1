"""What a batch by several recipes gives beside its hits, takes, and refuses."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hyrecall as hr
from hyrecall import arms
from seams import Dense, EdgeLexical, Fill, Lexical, Newest, Recipe, Regex, reply_of
from seams import ask_Listed as Listed
from several_recipes import DIM, NOW, RECIPES, World, asks, world

ONE = np.ones((1, DIM), np.float32)
BOTH, WORDS, GRAPH, LISTED = (RECIPES[name] for name in ("both", "words", "graph", "listed"))
FALLBACK, FORCED = RECIPES["fallback"], RECIPES["forced"]
PLAIN = Recipe(name="plain", arms=(Lexical(),), fusion=hr.RRF())


@pytest.fixture(scope="module")
def here() -> World:
    return world(4)


def ask(here: World, texts: Any, recipe: Any, **options: Any) -> hr.Hits:
    return here.index.recall(text=texts, recipe=recipe, scope="ann", now=NOW, **options)


def net(here: World) -> dict[str, hr.Graph]:
    return {"net": here.graph}


# ---- beside the hits


def test_related_documents_are_those_of_each_part(here: World) -> None:
    asked = asks(8, 20)
    hits = here.together(asked)
    assert len(hits.parts) > 4
    found = arms.related(hits, "tags", n=3, columns=("data",))
    assert len(found) == 20
    for query, one in enumerate(asked):
        alone = hr.Hits(reply_of(here.alone(one)))
        assert [found[query]] == arms.related(alone, "tags", n=3, columns=("data",))
    assert sum(map(bool, found)) > 5
    with pytest.raises(hr.OptionError, match="column: expected an attribute column"):
        arms.related(hits, "nope")


# ---- where nothing was found


def test_what_runs_where_nothing_matches_has_arms_of_its_own(here: World) -> None:
    hits = ask(here, ["oak", "(o", "nowhere", "ak"], FALLBACK)
    assert [list(one.n_candidates) for one in hits] == [["text"], *[["pattern"]] * 3]
    assert [len(one) > 0 for one in hits] == [True, True, False, True]
    assert hits.trace.arms == ("text", "pattern")
    score, rank = hits.arm_scores("pattern"), hits.arm_ranks("pattern")
    fell = np.array([hit.query > 0 for one in hits for hit in one])
    assert score.is_null().to_numpy(zero_copy_only=False).tolist() == (~fell).tolist()
    assert rank.is_null().to_numpy(zero_copy_only=False).tolist() == (~fell).tolist()
    assert hits.arm_scores("text").is_null().to_numpy(zero_copy_only=False).tolist() == (
        fell.tolist()
    )
    assert {hit.evidence("pattern") for hit in hits[1]} == {"data"}
    assert {hit.evidence("pattern") for hit in hits[3]} >= {"text"}
    assert any("is no pattern" in note for note in hits.trace.notes)
    with pytest.raises(hr.OptionError, match="arm: expected an arm of"):
        hits[0][0].arm_score("pattern")  # its part has no such arm, as if it were alone


def test_nothing_runs_instead_where_the_call_gives_it_nothing_to_read(here: World) -> None:
    near = Recipe(
        name="near",
        arms=(Lexical(), Dense(min_score=1.0)),
        on_no_match=(Regex(("text",)), Listed("last")),
        fusion=hr.RRF(),
    )
    options: dict[str, Any] = {"scope": "ann", "recipe": near, "now": NOW}
    alone = here.index.recall(vectors=ONE, **options)
    assert [one.n_candidates for one in alone] == [{"v": 0}]
    newest = near.replace(on_no_match=(Newest("at"),))
    found = here.index.recall(vectors=ONE, **options | {"recipe": newest})
    assert list(found[0].n_candidates) == ["newest"]
    assert len(found[0]) == 10
    two = here.index.recall(text=["nowhere", "fir"], **options | {"recipe": newest})
    assert [list(one.n_candidates) for one in two] == [["newest"], ["text"]]
    last = ["k03", "k07", "k05", "k01"]
    listed = here.index.recall(vectors=ONE, candidates={"last": [last]}, **options)
    assert list(listed[0].n_candidates) == ["last"]
    assert listed[0].keys == [key for key in last if key in listed[0].keys] != []


# ---- queries without words


def test_blank_texts_get_what_their_own_recipe_says(here: World) -> None:
    texts = ["", "oak", "  ", "\t", "oak"]
    hits = ask(here, texts, [WORDS, WORDS, PLAIN, FALLBACK, PLAIN], limit=25)
    assert [len(hits[query]) for query in (0, 2, 3)] == [25, 0, 0]
    assert {hit.score for hit in hits[0]} == {1.0}
    times = [hit["at"] for hit in hits[0]]
    assert times == sorted(times, reverse=True)
    origins = hits.to_arrow().select(["query", "origin"]).to_pylist()
    assert {row["origin"] for row in origins if row["query"] == 0} == {"fill"}
    assert {row["origin"] for row in origins if row["query"] == 1} == {"fill", "hit"}
    assert {row["origin"] for row in origins if row["query"] == 4} == {None}
    assert "pattern" not in hits.trace.arms  # a blank query finds nothing, and asks nothing
    with pytest.raises(hr.OptionError, match=r"text\[3\]: expected words \(forced\), got blank"):
        ask(here, texts, [WORDS, WORDS, PLAIN, FORCED, PLAIN], graphs=net(here))


def test_what_filled_a_list_goes_where_something_else_is_found(here: World) -> None:
    recipe = FALLBACK.replace(fill=Fill("at", when="no_match"))
    hits = ask(here, ["ak", "nowhere", "oak"], recipe, limit=4)
    origins = hits.to_arrow().select(["query", "rank", "origin"]).to_pylist()
    assert [row["origin"] for row in origins] == ["hit"] * 4 + ["fill"] * 4 + ["hit"] * 4
    assert [row["rank"] for row in origins] == [1, 2, 3, 4] * 3
    assert hits.n_hits == len(hits.to_arrow()) == 12


# ---- what only some of the recipes read


ALONE = Recipe(name="alone", arms=(Lexical(),), on_no_match=(EdgeLexical("net"),), fusion=hr.RRF())


def test_a_recipe_that_names_no_graph_is_not_made_again(here: World) -> None:
    assert PLAIN.bind(graphs={}) is PLAIN
    alone = ALONE.bind(graphs=net(here))
    assert alone.on_no_match == (EdgeLexical(here.graph),)
    assert alone == dataclasses.replace(ALONE, on_no_match=alone.on_no_match)


def test_bind_refuses_a_name_without_a_graph_and_a_graph_without_a_name(here: World) -> None:
    with pytest.raises(hr.OptionError, match=r"graphs: expected \{'net': hr.Graph\}, which EdgeL"):
        ALONE.bind(graphs={})
    with pytest.raises(hr.OptionError, match=r"graphs: expected graphs that are named \(\[\]\)"):
        PLAIN.bind(graphs=net(here))
    with pytest.raises(hr.DTypeError, match=r"graphs: expected \{name: hr.Graph\}, got list"):
        ALONE.bind(graphs=[here.graph])  # type: ignore[arg-type]


def test_a_graph_is_for_all_that_runs_even_what_runs_seldom(here: World) -> None:
    for text, found in (("oak", "text"), ("nowhere", "edges")):
        hits = ask(here, [text], ALONE, graphs=net(here))
        assert list(hits[0].n_candidates) == [found]
        with pytest.raises(hr.OptionError, match=r"graphs: expected {'net': hr\.Graph}"):
            ask(here, [text], ALONE)  # whether or not it would have run


Call = Callable[[World], object]
REFUSED: list[tuple[Call, type[Exception], str]] = [
    (lambda w: ask(w, ["oak"], []), hr.OptionError, "recipe: expected an hr.Recipe, or one per"),
    (lambda w: ask(w, ["oak"], (PLAIN,)), hr.DTypeError, "recipe: expected an hr.Recipe, or a l"),
    (lambda w: ask(w, ["oak"], "loom"), hr.DTypeError, "recipe: expected an hr.Recipe, or a lis"),
    (lambda w: ask(w, ["a", "b"], [PLAIN, "x"]), hr.DTypeError, "recipe[1]: expected an hr.Recipe"),
    (lambda w: ask(w, ["a", "b"], [PLAIN, None]), hr.DTypeError, "recipe[1]: expected an hr.Rec"),
    (lambda w: ask(w, ["oak"] * 3, [PLAIN]), hr.ShapeError, "recipe: expected 3 entries, one per"),
    (lambda w: ask(w, ["oak", ""], [PLAIN]), hr.ShapeError, "recipe: expected 2 entries, one per"),
    (lambda w: ask(w, ["oak"], [PLAIN, WORDS]), hr.ShapeError, "recipe: expected 1 entries, one"),
    (lambda w: ask(w, ["oak"], [PLAIN] * 2), hr.ShapeError, "recipe: expected 1 entries, one pe"),
    (lambda w: ask(w, [], [PLAIN]), hr.ShapeError, "recipe: expected 0 entries, one per query"),
    (
        lambda w: ask(w, ["oak"] * 2, [PLAIN, WORDS], fusion=hr.RRF()),
        hr.OptionError,
        "fusion: expected none beside recipe=",
    ),
    (
        lambda w: ask(w, ["oak"] * 2, [PLAIN, WORDS], graphs={"net": w.graph}),
        hr.OptionError,
        "graphs: expected graphs that are named ([]), got 'net'",
    ),
    (
        lambda w: ask(w, ["oak"] * 2, [PLAIN, GRAPH], graphs={"net": w.graph, "x": w.graph}),
        hr.OptionError,
        "graphs: expected graphs that are named (",
    ),
    (
        lambda w: ask(w, ["oak"] * 2, [PLAIN, GRAPH]),
        hr.OptionError,
        "graphs: expected {'net': hr.Graph}, which EdgeLexical names, got []",
    ),
    (
        lambda w: ask(w, ["oak"] * 2, [PLAIN, GRAPH], graphs=[w.graph]),
        hr.DTypeError,
        "graphs: expected {name: hr.Graph}, got list",
    ),
    (
        lambda w: ask(w, ["oak"] * 2, [PLAIN, WORDS], session=hr.Session()),
        hr.OptionError,
        "session: expected SessionSignals among the stages, got none",
    ),
    (
        lambda w: ask(w, ["oak"] * 2, [PLAIN, GRAPH], graphs={"net": w.graph}, session=[None]),
        hr.ShapeError,
        "session: expected 2 entries, one per query, got 1",
    ),
    (
        lambda w: ask(w, ["oak"] * 2, [PLAIN, LISTED], candidates={"hint": [None, None]}),
        hr.OptionError,
        "candidates: expected arms of [] (arms.Listed), got 'hint'",
    ),
    (
        lambda w: ask(
            w,
            ["oak"] * 2,
            [BOTH, LISTED],
            vectors=np.repeat(ONE, 2, 0),
            candidates={"hints": [None]},
        ),
        hr.ShapeError,
        "candidates['hints']: expected 2 queries as vectors['v'] has, got 1",
    ),
    (
        lambda w: w.index.recall_one(text="oak", recipe=[PLAIN, WORDS], scope="ann"),
        hr.ShapeError,
        "recipe: expected 1 entries, one per query, got 2",
    ),
]


@pytest.mark.parametrize("at", range(len(REFUSED)))
def test_what_does_not_fit_is_refused_by_name(at: int, here: World) -> None:
    call, kind, start = REFUSED[at]
    with pytest.raises(kind) as caught:
        call(here)
    assert str(caught.value).startswith(start)


# ---- small batches


def test_a_recipe_that_reads_nothing_of_a_query_answers_each(here: World) -> None:
    newest = Recipe(name="newest", arms=(), more=(Newest("at"),), fusion=hr.RRF())
    for options in ({"text": ["oak", "fir"]}, {"vectors": np.repeat(ONE, 2, 0)}):
        hits = here.index.recall(recipe=newest, scope="ann", **options)
        assert [one.keys for one in hits] == [hits[0].keys] * 2
        assert len(hits[0]) == 10
    mixed = ask(here, ["oak", "oak", "fir"], [newest, PLAIN, newest])
    assert [one.keys for one in mixed] == [hits[0].keys, ask(here, ["oak"], PLAIN)[0].keys,
                                           hits[0].keys]  # fmt: skip
    with pytest.raises(hr.ShapeError, match="recipe: expected 2 entries"):
        ask(here, ["oak", "fir"], [newest] * 3)


def test_a_list_of_one_recipe_is_that_recipe(here: World) -> None:
    for recipe, options in ((BOTH, {}), (GRAPH, {"graphs": net(here)})):
        texts = ["oak fir", "elm", "nowhere"]
        options |= {"vectors": np.repeat(ONE, 3, 0)}
        listed = ask(here, texts, [recipe] * 3, **options)
        assert listed.to_arrow().equals(ask(here, texts, recipe, **options).to_arrow())
    assert here.index.recall_one(text="oak", recipe=[PLAIN], scope="ann").keys == (
        ask(here, ["oak"], PLAIN)[0].keys
    )


@pytest.mark.parametrize("name", RECIPES)
def test_no_query_gets_an_empty_reply(name: str, here: World) -> None:
    recipe = RECIPES[name]
    graphs = net(here) if '"net"' in recipe.to_json() else None
    hits = ask(here, [], recipe, graphs=graphs, vectors=ONE[:0])
    assert len(hits) == hits.n_hits == hits.to_arrow().num_rows == 0
    assert hits.to_list() == list(hits) == []


def test_limit_and_offset_cut_each_list(here: World) -> None:
    texts, recipes = ["oak", "fir", "oak ash"], [PLAIN, WORDS, RECIPES["sum"]]
    options: dict[str, Any] = {"vectors": np.repeat(ONE, 3, 0)}
    whole = ask(here, texts, recipes, limit=20, **options)
    part = ask(here, texts, recipes, limit=3, offset=2, **options)
    assert [one.keys for one in part] == [one.keys[2:5] for one in whole]
    assert [[hit.rank for hit in one] for one in part] == [[3, 4, 5]] * 3
    assert ask(here, texts, recipes, limit=0, **options).n_hits == 0
