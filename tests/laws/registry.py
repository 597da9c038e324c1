"""What a call may say beside its queries: every stage, group and recipe, under all laws.

An entry adds itself to a drawn call, and names the planted bugs that the laws must catch. What it
means is in tests/oracle, in :class:`oracle.recipe.RecipeOracle`. A new stage is under the laws by
an entry here, a method there, and its bugs in laws/planted_stages.py.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import hyrecall as hr
from laws import planted, planted_stages
from laws.planted import Mutation
from oracle.corpus import KINDS, Draw, draw_call, draw_shape
from oracle.documents import Call, Row, Shape
from oracle.exact import quoting
from oracle.fusion import Weighted
from oracle.recall import Oracle

Add = Callable[[Draw, Shape, Call], Any]


def as_they_are(rows: Sequence[Row]) -> list[Row]:
    """The rows of a table, as they were drawn."""
    return list(rows)


@dataclass(frozen=True)
class Entry:
    """Something that a call may say; ``add`` gives a stage, a changed call, or None."""

    name: str
    add: Add
    planted: Mapping[str, Mutation]
    rows: Callable[[Sequence[Row]], list[Row]] = as_they_are
    often: tuple[str, ...] = ()  # entries that are in half of its calls
    shape: Callable[[Draw], Shape] = draw_shape

    def put(self, draw: Draw, shape: Shape, call: Call) -> Call | None:
        """The call with it; None where it does not fit."""
        made = self.add(draw, shape, call)
        if made is None or isinstance(made, Call):
            return made
        phases = [stage.phase for stage in call.shaping]
        if phases and made.phase == phases[-1] != hr.MMR.phase:
            return None  # one of several that may stand there
        return replace(call, shaping=(*call.shaping, made))

    def call(self, draw: Draw, oracle: Oracle, n_queries: int, others: float | None = None) -> Call:
        """A call with it, and now and then with others."""
        chance = OTHERS if others is None else others
        entries = () if self is PLAIN else ENTRIES if self in ENTRIES else (self,)
        while True:
            made: Call | None = draw_call(draw, oracle, n_queries)
            for one in entries:
                often = 0.5 if one.name in self.often else chance
                if made is not None and (one is self or draw.chance(often)):
                    put = one.put(draw, oracle.shape, made)
                    made = put if put is not None or one is self else made
            if made is not None:
                is_deep = made.recipe == "threads" or made.shaping or made.is_grouped or made.more
                return made.deep() if is_deep else made


def runs(call: Call, arm: str) -> bool:
    """Whether an arm of the call runs."""
    alpha = getattr(call.fusion, "alpha", None)
    return arm in call.arms and not (alpha == 0.0 and arm in call.vectors)


# Arms


def with_arm(call: Call, arm: Any, inputs: Sequence[Any] | None = None) -> Call | None:
    """The call with an arm; recipes have arms of their own."""
    if call.recipe:
        return None
    if getattr(call.fusion, "alpha", None) is not None:
        call = replace(call, fusion=None)  # alpha is between one text and one vector arm
    given = call.inputs if inputs is None else {**call.inputs, arm.name: tuple(inputs)}
    return replace(call, more=(*call.more, arm), inputs=given)


def newest(draw: Draw, shape: Shape, call: Call) -> Any:
    return with_arm(call, hr.arms.Newest(draw.choice(("at", "number", "price"))))


def listed(draw: Draw, shape: Shape, call: Call) -> Any:
    keys = [number - 3 if shape.integer_keys else f"k{number}" for number in range(30)]
    given = [None if draw.chance(0.1) else draw.sample(keys, 8) for _ in call.scopes]
    return with_arm(call, hr.arms.Listed("hints"), given)


def regex(draw: Draw, shape: Shape, call: Call) -> Any:
    patterns = ("gr.*w", "^a", "ash|bay", "(?:o|e){1,2}", "zen$", "nowhere", None)
    given = [draw.choice(patterns) for _ in call.scopes]
    return with_arm(call, hr.arms.Regex(shape.text_columns), given)


def tags(draw: Draw, shape: Shape, call: Call) -> Any:
    queries = ("red", "a green one", "blue Red", "nothing", None)
    given = [draw.choice(queries) for _ in call.scopes]
    return with_arm(call, hr.arms.Tags("tags", depth=draw.choice((0, 1, 2))), given)


# Stages, in their order


def feedback(draw: Draw, shape: Shape, call: Call) -> Any:
    if draw.chance(0.6):
        return hr.Feedback(3, 0.4, 6, 0.2)
    options = (1, 2.0, 0, 0.2), (5, 0.0, 3, 1.5), (100, 0.7, 100, 10.0), (2, 100.0, 1, 2.0**-20)
    return hr.Feedback(*draw.choice(options))


def around(draw: Draw, shape: Shape, call: Call) -> Any:
    if call.recipe == "threads":
        return None  # which has its own
    if draw.chance(0.6):
        return hr.Around()
    options = ((), 0.25, 0.4), ((0.5,), 0.0, 0.0), ((0.0, 0.7, 0.2), 1.5, 0.0), ((0.3,), 0.0, 3.0)
    return hr.Around(*draw.choice(options))


def prior(draw: Draw, shape: Shape, call: Call) -> Any:
    if call.recipe == "threads":
        return None
    if draw.chance(0.7):
        return hr.Prior("kind", {KINDS[0]: -0.3, KINDS[1]: 0.2, "nowhere": 9.0})
    return hr.Prior("number", {1: 0.5, -3: -0.25, 2**62: 3.0})


def provenance(draw: Draw, shape: Shape, call: Call) -> Any:
    weights = {kind: draw.choice((0.0, 0.3, 1.0, 2.5)) for kind in KINDS[:2]}
    return hr.Provenance("kind", weights, default=draw.choice((1.0, 0.7, 0.0)))


def linear(draw: Draw, shape: Shape, call: Call) -> Any:
    if call.recipe == "threads":
        return None
    arms = (*shape.lexical, *shape.dense)
    names = ["fused", "agreement", f"kind={KINDS[0]}", "number=3", "shared(tags)", "shared(kind)",
             "recency(at, 0.000002s)"]  # fmt: skip
    names += [f"{arm}_{what}" for arm in arms for what in ("score", "rank")]
    if (stage := call.stage("Around")) is not None:
        names += [f"neighbour_{n + 1}" for n in range(len(stage.neighbours))]
        names += ["thread", "length"]
        names += [f"{a}_{side}_{n}" for a in arms for side in ("before", "after") for n in (1, 2)]
    needed = [one for one in ("Prior", "Provenance") if call.stage(one)]
    chosen = [*map(str.lower, needed), *draw.sample(names, draw.randint(1, len(names)))]
    return hr.Linear({name: draw.choice((-0.2, 0.1, 0.3, 0.9, 1.5)) for name in chosen})


def rerank(draw: Draw, shape: Shape, call: Call) -> Any:
    arm = draw.choice(list(shape.dense))
    return hr.Rerank(draw.choice((1, 3, 50)), vector=arm) if runs(call, arm) else None


def longest(query: str, texts: list[str]) -> list[float]:
    """The length of each text, so that many tie."""
    return [float(len(text) // 3) for text in texts]


def rerank_by(draw: Draw, shape: Shape, call: Call) -> Any:
    return hr.RerankBy(longest, window=draw.choice((1, 4, 50)), timeout="60s")


def dedup(draw: Draw, shape: Shape, call: Call) -> Any:
    scale = draw.choice(("raw", "raw", "unit"))
    threshold = draw.choice((0.0, 0.0, 0.5, 0.8, 0.95, 1.0))
    keep = {"keep": "kind", "prefer": draw.sample(KINDS, 2)} if draw.chance(0.5) else {}
    return hr.Dedup(threshold, scale=scale, vector=draw.choice(list(shape.dense)), **keep)


def recency(draw: Draw, shape: Shape, call: Call) -> Any:
    by = {"by": "kind", "half_lives": {KINDS[0]: 1e-6, KINDS[1]: 7e-6}} if draw.chance(0.4) else {}
    exponent = draw.choice((0.0, 0.5, 1.0, 1.0, 100.0))
    return hr.Recency("at", half_life=draw.choice((1e-6, 3e-6)), exponent=exponent, **by)


def composite(draw: Draw, shape: Shape, call: Call) -> Any:
    weights = {name: draw.choice((0.0, 0.5, 3.0)) for name in ("recency", "importance")}
    relevance = draw.choice((0.3, 1.0))
    return hr.Composite(time="at", half_life=2e-6, rating="number", relevance=relevance,
                        scale=5.0, default=2.0, **weights)  # fmt: skip


def budget(draw: Draw, shape: Shape, call: Call) -> Any:
    if call.is_grouped:
        return None  # tests/python/test_grouping.py: a budget counts what stands around hits
    return hr.Budget(draw.choice((None, 1, 5, 12, 30)))


def mmr(draw: Draw, shape: Shape, call: Call) -> Any:
    relevance = draw.choice(("raw", "max", "minmax"))
    weight, arm = draw.choice((0.0, 0.3, 0.7, 1.0)), draw.choice(list(shape.dense))
    return hr.MMR(weight, relevance=relevance, vector=arm)


def gate(draw: Draw, shape: Shape, call: Call) -> Any:
    return hr.Gate(draw.choice((0.0, 0.25, 1 / 61, 1.0)))


# What is no stage


def grouping(draw: Draw, shape: Shape, call: Call) -> Any:
    if call.stage("Budget"):
        return None
    by_thread, n_around = draw.choice(((True, 0), (False, 1), (True, 2), (False, 2), (False, 3)))
    if by_thread and not n_around:
        column = draw.choice((None, "kind", "number", "price", "at"))
        call = replace(call, group=column, per_group=draw.choice((1, 5, 5, 7)))
    return replace(call, by_thread=by_thread, n_around=n_around)


def exact(draw: Draw, shape: Shape, call: Call) -> Any:
    """Three of four bags of words are asked in quotes; what such a recipe refuses is left out."""
    call = replace(call, depth=draw.choice((call.depth, 1)))
    if call.fusion is None and len(call.arms) == 1:
        call = replace(call, min_score={})  # a row that holds it below the floor has no score
    else:
        call = call.deep()
    largest = isinstance(call.fusion, Weighted) and call.fusion.largest
    if largest and call.bm25 is not None and call.bm25.variant == "robertson":
        call = replace(call, bm25=replace(call.bm25, variant="lucene"))
    return quoting(replace(call, recipe="exact"))


def threads(draw: Draw, shape: Shape, call: Call) -> Any:
    """Without the options that the recipe has of its own."""
    bare = {"fusion": None, "min_score": {}, "min_fused": None, "bm25": None}
    return None if call.recipe else replace(call, recipe="threads", **bare)


def sparse(rows: Sequence[Row]) -> list[Row]:
    """The same rows, of which only some of every second cell keep their thread."""
    return [
        row
        if crc32(repr(row.cell).encode()) % 2 and not crc32(repr(row.key).encode()) % 5
        else replace(row, attributes={**row.attributes, "kind": None})
        for row in rows
    ]


PLANTS = planted_stages.PLANTS
ENTRIES = (
    Entry("exact", exact, PLANTS["exact"]),
    Entry("threads", threads, PLANTS["threads"], sparse),
    Entry("Newest", newest, PLANTS["Newest"]),
    Entry("Listed", listed, PLANTS["Listed"]),
    Entry("Regex", regex, PLANTS["Regex"]),
    Entry("Tags", tags, PLANTS["Tags"]),
    Entry("Feedback", feedback, PLANTS["Feedback"]),
    Entry("Around", around, PLANTS["Around"]),
    Entry("Prior", prior, PLANTS["Prior"], often=("Around",)),
    Entry("Provenance", provenance, PLANTS["Provenance"]),
    Entry("Linear", linear, PLANTS["Linear"], often=("Around",)),
    Entry("Rerank", rerank, PLANTS["Rerank"]),
    Entry("RerankBy", rerank_by, PLANTS["RerankBy"]),
    Entry("Dedup", dedup, PLANTS["Dedup"]),
    Entry("Recency", recency, PLANTS["Recency"], often=("RerankBy",)),
    Entry("Composite", composite, PLANTS["Composite"]),
    Entry("Budget", budget, PLANTS["Budget"]),
    Entry("MMR", mmr, PLANTS["MMR"]),
    Entry("Gate", gate, PLANTS["Gate"]),
    Entry("grouping", grouping, PLANTS["grouping"]),
)
ELSEWHERE = {
    "SessionSignals": "reads a graph and a session: tests/arms/test_oracles.py",
    "EdgeLexical": "reads the edges of a graph: tests/arms/test_laws_of_arms.py",
}
"""Public stages and arms without an entry, and where their laws are tested."""
BY_NAME = {entry.name: entry for entry in ENTRIES}
PLAIN = Entry("plain", lambda draw, shape, call: call, planted.PLANTS)
OTHERS = 0.05
"""How often another entry is in a call that is drawn for one of them."""
