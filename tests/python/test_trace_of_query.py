"""What the trace of a batch says of one query is what the query's own trace says, of any arm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import UnionType
from typing import Any, get_args

import numpy as np
import pytest

import hyrecall as hr
from hyrecall.arms import Arm, EdgeLexical, Listed, Newest, Regex, Tags
from hyrecall.recipe import Dense, Fill, Lexical, Recipe, Tables
from seams import STAGES, ArmQueries, Stage, Trace
from several_recipes import NOW, RECIPES, World, asks, world

TEXTS = ("oak ash", "o(", "...", '"fir"', "o(", "k03", "*", "elm", '"yew ash"', "no-where7")
SECRET = "only-they-ask-(this"


def fails_on_some(query: str, texts: list[str]) -> list[float]:
    if query in TEXTS[::3]:
        raise RuntimeError(query)
    if query in TEXTS[::2]:
        raise ValueError(query)
    return [float(len(text)) for text in texts]


BY_ARM: dict[type, Callable[[hr.Graph], Arm]] = {
    Regex: lambda graph: Regex(("id", "text"), on_bad="literal"),
    Newest: lambda graph: Newest("at"),
    Listed: lambda graph: Listed("hints"),
    EdgeLexical: EdgeLexical,
    Tags: lambda graph: Tags("tags"),
}
BY_STAGE: dict[type, Callable[[hr.Graph], Stage]] = {
    hr.Feedback: lambda graph: hr.Feedback(terms=3),
    hr.Around: lambda graph: hr.Around(),
    hr.Prior: lambda graph: hr.Prior("rating", {3: 0.5}),
    hr.Linear: lambda graph: hr.Linear({"fused": 1.0}),
    hr.Provenance: lambda graph: hr.Provenance("user", {"ann": 2.0}, default=1.0),
    hr.Rerank: lambda graph: hr.Rerank(window=5),
    hr.RerankBy: lambda graph: hr.RerankBy(fails_on_some),
    hr.Dedup: lambda graph: hr.Dedup(0.9),
    hr.Recency: lambda graph: hr.Recency("at", half_life="3d"),
    hr.Composite: lambda graph: hr.Composite(time="at", half_life="5d", rating="rating"),
    hr.SessionSignals: hr.SessionSignals,
    hr.Budget: lambda graph: hr.Budget(40),
    hr.MMR: lambda graph: hr.MMR(0.5),
    hr.Gate: lambda graph: hr.Gate(0.1),
}
WORDS = (Lexical(),)
BY_RECIPE = {
    "exact without words": Recipe(
        name="exact", arms=(Lexical(weight=0.0), Dense()), exact=True, fusion=hr.WeightedSum()
    ),
    "exact": Recipe(name="exact", arms=WORDS, exact=True, fusion=hr.RRF()),
    "one table": Recipe(name="t", arms=WORDS, tables=Tables("kind", ("a",)), fusion=hr.RRF()),
    "unfilled": Recipe(
        name="u", arms=WORDS, fill=Fill("at"), shaping=(hr.Budget(40),), fusion=hr.RRF()
    ),
    "unused": Recipe(name="unused", arms=(Lexical(weight=2.0, scale="clip"),), fusion=hr.Max()),
    "idle": Recipe(name="i", arms=WORDS, more=(Listed("none"),), fusion=hr.RRF()),
}
BALANCED = hr.WeightedSum({"v": 0, "text": 1}, balance=0.5)
SINGLE = {
    "weights": {"fusion": hr.RRF(weights={"v": 0})},
    "alpha": {"fusion": hr.RRF(alpha=0.5), "vectors": None},
    "balance": {"fusion": BALANCED},
}


@pytest.fixture(scope="module")
def here() -> World:
    return world(3)


def options(here: World, texts: tuple[str, ...], more: Mapping[str, Any]) -> dict[str, Any]:
    """A batch of these texts: others may see other cells."""
    made: dict[str, Any] = {
        "text": list(texts),
        "vectors": np.array([[1.0, len(text), 0.5, -1.0] for text in texts], np.float32),
        "scope": [("ann", "bob")[len(text) % 2] for text in texts],
        "now": NOW,
    }
    for name in ("arms", "shaping"):
        if name in more:
            made[name] = (more[name](here.graph),)
    made |= {name: value for name, value in more.items() if name not in made}
    if "vectors" in more:
        del made["vectors"]
    if isinstance(made.get("arms", (None,))[0], Listed):
        made["candidates"] = {"hints": [["k03", "k07"]] * len(texts)}
    if isinstance(made.get("shaping", (None,))[0], hr.SessionSignals):
        made["session"] = [hr.Session({"k03": NOW}, len(text)) for text in texts]
    return made


def told(trace: Trace) -> tuple[Any, ...]:
    """All of a query's trace but what is of the batch: times, and the counts of stages."""
    return (
        *(trace.n_queries, trace.arms, trace.depth, trace.exact),
        *(trace.degraded, trace.notes, trace.about, dict(trace.feedback)),
    )


def differences(here: World, more: Mapping[str, Any]) -> list[Any]:
    """What a batch's trace says of its queries, where it is not what they are told alone."""
    hits = here.index.recall(**options(here, TEXTS, more))
    out: list[Any] = []
    for at, text in enumerate(TEXTS):
        alone = here.index.recall(**options(here, (text,), more)).trace
        if told(hits.trace.of_query(at)) != told(alone.of_query(0)):
            out.append((at, hits.trace.of_query(at), alone))
    return out


def kinds(union: object) -> set[type]:
    assert isinstance(union, UnionType)
    return set(get_args(union))


CASES: dict[str, dict[str, Any]] = {
    **{of.__name__: {"arms": make} for of, make in BY_ARM.items()},
    **{of.__name__: {"shaping": make} for of, make in BY_STAGE.items()},
    **{name: {"recipe": one} for name, one in BY_RECIPE.items()},
    **SINGLE,
}
NOTED = {
    "Regex": "is no pattern, searched as text",
    "RerankBy": "RerankBy kept the order: ",
    "exact without words": "exact has no effect: no text arm runs",
    "one table": "one table: ",
    "unfilled": "fill has no effect",
    "unused": "has no effect: only text runs",
    "idle": "did not run: nothing was asked",
    "weights": "v left out: weight 0",
    "alpha": "alpha has no effect",
    "balance": "balance has no effect",
}


def test_there_is_a_case_for_every_arm_and_every_stage() -> None:
    assert set(BY_ARM) == kinds(Arm)
    assert {kind.__name__ for kind in BY_STAGE} == set(STAGES)


@pytest.mark.parametrize("name", CASES)
def test_a_query_is_told_what_it_is_told_alone(here: World, name: str) -> None:
    assert differences(here, CASES[name]) == []
    trace = here.index.recall(**options(here, TEXTS, CASES[name])).trace
    lines = " | ".join((*trace.degraded, *trace.notes))
    assert NOTED.get(name, "") in lines
    if "exact" not in name:
        assert "text[2] has no indexable token" in lines


@pytest.mark.parametrize("name", CASES)
def test_no_query_is_told_what_another_one_asks(here: World, name: str) -> None:
    hits = here.index.recall(**options(here, (SECRET, "oak", "fir"), CASES[name]))
    for at in (1, 2):
        assert SECRET not in repr(hits.trace.of_query(at))


def test_a_query_of_several_recipes_is_told_what_its_own_note(here: World) -> None:
    drawn = [one for one in asks(5, 40) if one.recipe is not RECIPES["graph"]]
    asked = [replace(one, text=TEXTS[at % len(TEXTS)]) for at, one in enumerate(drawn)]
    hits = here.together(asked)
    n_notes = 0
    for at, ask in enumerate(asked):
        alone = here.together([ask]).trace.of_query(0)
        own = hits.trace.of_query(at)
        assert (own.degraded, own.notes) == (alone.degraded, alone.notes), (at, ask)
        n_notes += len(own.notes)
    assert n_notes > 3


def test_notes_that_tell_all_queries_of_each_are_caught(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: an arm whose notes are taken as those of the whole batch."""
    made = ArmQueries.__init__

    def careless(self: ArmQueries, entries: Any, notes: Any = ()) -> None:
        made(self, entries, dict.fromkeys(notes))

    monkeypatch.setattr(ArmQueries, "__init__", careless)
    assert differences(here, CASES["Regex"])
    hits = here.index.recall(**options(here, (SECRET, "oak"), CASES["Regex"]))
    assert SECRET in repr(hits.trace.of_query(1))
