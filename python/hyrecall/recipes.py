"""Recipes that reproduce five published memory systems, and our own defaults.

The index must have the columns that a recipe reads, as attributes or stored columns of the same
names; ``recipe.replace(...)`` changes them.
"""

from __future__ import annotations

from hyrecall.arm.edge_lexical import EdgeLexical
from hyrecall.arm.regex import Edges, Regex
from hyrecall.arm.tags import Tags
from hyrecall.ask.expansion import Context, SharedTags
from hyrecall.ask.recipe import Dense, Fill, Lexical, Recipe, Tables, TieBreak, WithThreads
from hyrecall.ask.scoring import (
    DEFAULT_BM25,
    DEFAULT_FUSION,
    RRF,
    Above,
    Max,
)
from hyrecall.stages.age import Composite, Recency
from hyrecall.stages.choice import MMR
from hyrecall.stages.dedup import Dedup
from hyrecall.stages.evidence import Around
from hyrecall.stages.provenance import Provenance
from hyrecall.stages.session_signals import Phase, SessionSignals
from hyrecall.text.bm25 import BM25

__all__ = [
    "conversation",
    "default",
    "hebb",
    "honeycomb",
    "hypergraph",
    "hypergraph_regex",
    "l0",
    "loom",
]

# The stage and the BM25 constants of our own recipes where rows are in threads (`default` and
# `conversation`): for short turns, and conversations with long answers. Measured in
# docs/evaluation.md.
_DEFAULT_AROUND = Around(neighbours=(0.3, 0.15), thread=0.25, length=0.4)
_THREAD_BM25 = BM25("lucene", k1=0.75, b=(0.25, 0.9))


# ---- Our default for conversations: rows around a row in its thread raise its score ----
# It is :data:`default` with :class:`hyrecall.Around` and BM25 constants for short and long turns
# alike. On an index whose schema has no thread, the stage has no effect. :data:`default` ranks like
# this by itself where a query's scope holds threads. docs/evaluation.md has measurements.

conversation = Recipe(
    name="conversation",
    arms=(Lexical(bm25=_THREAD_BM25), Dense()),
    fusion=DEFAULT_FUSION,
    shaping=(_DEFAULT_AROUND,),
    depth=100,
    exact=True,
)


# ---- Our default: the sum of BM25 and cosine, each scaled over the candidates of both arms ----
# Documents that contain an identifier or a quoted string as a whole come first. Otherwise the arm
# that distinguishes the query's candidates better counts more. docs/evaluation.md has measurements,
# made with this depth.
#
# Where a query's scope holds threads (a schema with ``thread=``, a store with sessions), it ranks
# as :data:`conversation` does: ``recipes.default.for_threads()``.

default = Recipe(
    name="default",
    arms=(Lexical(bm25=DEFAULT_BM25), Dense()),
    fusion=DEFAULT_FUSION,
    depth=100,
    exact=True,
    with_threads=WithThreads(_DEFAULT_AROUND, _THREAD_BM25),
)


# ---- Hebb: memories by the best score of their arms, with recency of access and importance ----

hebb = Recipe(
    name="hebb",
    arms=(
        Lexical(phrases=True, max_terms=32, bm25=BM25("fts5", k1=1.2, b=0.75), scale="best"),
        Dense(scale="clip"),
    ),
    more=(Tags("tags"),),
    fusion=Max(normalize="none"),
    shaping=(
        Composite(
            # A factor of 0.99 per hour: the half-life is ln 2 / -ln 0.99 hours.
            time="last_accessed", half_life="248283.23017s", rating="importance",
            recency=1.0, importance=1.0, relevance=1.0,
        ),
    ),
    expansion=(SharedTags("tags", n=5, hops=1),),
    tie_break=(TieBreak("id"),),
    depth=300,
    on_empty="error",
    analyzer="porter",
)  # fmt: skip


# ---- Honeycomb: facts weigh more than raw dialogue, near-duplicates are removed,
# recency is neutral
# Dialogue needs a much stronger signal than a fact: the first of one arm comes after the first 92
# facts of an arm, and the first of both arms after the first 16.
#
# If the index has a cell column ``table``, facts, summaries and dialogue are tables with separate
# arms. A single arm is fused too, because provenance weighs ranks: otherwise raw dialogue would
# rank higher without vectors. Documents that contain an identifier or a quoted string as a whole
# come first.

honeycomb = Recipe(
    name="honeycomb",
    arms=(Lexical(), Dense()),
    fusion=RRF(rank_constant=60),
    fuse_one_arm=True,
    budget_mmr=MMR(0.7),
    tables=Tables("table", ("memory", "summary", "session")),
    shaping=(
        Provenance("source", {"memory": 1.0, "summary": 1.0, "session": 0.4}),
        Dedup(0.9, scale="unit", keep="source", prefer=("memory", "summary", "session")),
        Recency("created_at", half_life="36500d"),
    ),
    tie_break=(TieBreak("source", prefer=("memory", "summary", "session")), TieBreak("id")),
    depth=600,
    exact=True,
)


# ---- Hypergraph: nodes of a graph by four arms, with session signals and graph neighbours ----
# Pass the graph by name: ``recall(recipe=hypergraph, graphs={"graph": ...}, session=...)``.

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


# ---- L0: notes by prefixes of all words (BM25 of FTS5) and cosine without a floor; pins break ties
# Documents that contain an identifier or a quoted string as a whole, or else every word of the
# query, come first: exact matches stay ahead of what only the vectors or prefixes find.
#
# Vectors are opt-in: a store of this recipe has none until an embedder is named.

l0 = Recipe(
    name="l0",
    arms=(Lexical(mode="and_prefix", bm25=BM25("fts5", k1=1.2, b=0.75)), Dense()),
    fusion=RRF(rank_constant=60),
    tie_break=(
        TieBreak("pinned", descending=True),
        TieBreak("updated_at", descending=True),
        TieBreak("id", descending=True),
    ),
    depth=150,
    analyzer="unicode61",
    semantic="opt-in",
    exact="words",
)


# ---- Loom: episodes by BM25 Okapi and cosine, joined by reciprocal rank fusion ----
# Documents that contain an identifier or a quoted string as a whole come first.

loom = Recipe(
    name="loom",
    arms=(
        Lexical(bm25=BM25("okapi", k1=1.5, b=0.75)),
        # Only documents with a positive cosine are candidates.
        Dense(min_score=Above(0.0)),
    ),
    fusion=RRF(alpha=0.5),
    tie_break=(TieBreak("occurred_at", descending=True), TieBreak("id")),
    fill=Fill("occurred_at"),
    on_empty="newest",
    exact=True,
)
