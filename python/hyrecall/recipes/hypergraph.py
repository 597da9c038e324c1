"""Hypergraph: nodes of a graph by four arms, with session signals and graph neighbours.

Pass the graph by name: ``recall(recipe=hypergraph, graphs={"graph": ...}, session=...)``.
"""

from hyrecall.ask.arms.edges import EdgeLexical
from hyrecall.ask.arms.regex import Edges, Regex
from hyrecall.ask.expansion import Context
from hyrecall.ask.recipe import Dense, Lexical, Recipe, TieBreak
from hyrecall.ask.scoring import RRF
from hyrecall.ask.shaping import Phase, SessionSignals

hypergraph = Recipe(
    name="hypergraph",
    arms=(Lexical(), Dense(min_score=0.35)),
    more=(
        EdgeLexical("graph"),
        Regex(("key", "description", Edges("graph"), "data"), only_patterns=True),
    ),
    on_no_match=(
        Regex(("key", "description", Edges("graph"), "data"), on_bad="literal"),
    ),
    fusion=RRF(rank_constant=60),
    shaping=(
        SessionSignals(
            "graph",
            half_life="1800s",
            hops=3,
            n_hot=10,
            min_hot=0.05,
            phases=(
                Phase("early", 0, general=0.8, topical=0.1, session=0.1),
                Phase("mid", 3, general=0.6, topical=0.2, session=0.2),
                Phase("deep", 10, general=0.5, topical=0.25, session=0.25),
            ),
        ),
    ),
    expansion=(Context("graph", top=5, n=3),),
    tie_break=(TieBreak("key"),),
    depth=250,
    on_empty="error",
)  # fmt: skip

# The query is a pattern for the only arm. Matches in the same column have equal scores and are
# ordered by key, so the depth must include all of them. The conversation's phase is told, but its
# signals change nothing.
hypergraph_regex = Recipe(
    name="hypergraph_regex",
    arms=(),
    more=(Regex(("key", "description", Edges("graph"), "data")),),
    fusion=RRF(rank_constant=60),
    shaping=(
        SessionSignals(
            phases=(
                Phase("early", 0, general=1.0, topical=0.0, session=0.0),
                Phase("mid", 3, general=1.0, topical=0.0, session=0.0),
                Phase("deep", 10, general=1.0, topical=0.0, session=0.0),
            ),
        ),
    ),
    expansion=(Context("graph", top=5, n=3),),
    tie_break=(TieBreak("key"),),
    depth=1_000_000,
    on_empty="error",
)
