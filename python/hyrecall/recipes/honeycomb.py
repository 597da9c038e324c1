"""Honeycomb: facts weigh more than raw dialogue, near-duplicates are removed, recency is neutral.

Dialogue needs a much stronger signal than a fact: the first of one arm comes after the first 92
facts of an arm, and the first of both arms after the first 16.

If the index has a cell column ``table``, facts, summaries and dialogue are tables with separate
arms. A single arm is fused too, because provenance weighs ranks: otherwise raw dialogue would rank
higher without vectors. Documents that contain an identifier or a quoted string as a whole come
first.
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
    exact=True,
)
