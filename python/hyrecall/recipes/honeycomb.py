"""Distilled facts weigh more than raw dialogue, near-duplicates collapse, recency is neutral.

Dialogue needs a much stronger signal to stand above a fact: first in one arm it comes after the
first 92 facts of an arm, first by words and by vectors after the first 16.

Facts, summaries and dialogue are tables with arms of their own, where the index has a cell column
``table``. One arm is fused too: provenance weighs ranks, so that raw dialogue does not rise where
there are no vectors.
"""

from hyrecall.ask.recipe import Dense, Lexical, Recipe, Tables, TieBreak
from hyrecall.ask.scoring import RRF
from hyrecall.ask.shaping import MMR, Dedup, Provenance, Recency

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
)
