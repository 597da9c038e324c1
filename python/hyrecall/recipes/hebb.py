"""Hebb: memories by the best score of their arms, with recency of access and importance."""

from hyrecall.ask.arms.tags import Tags
from hyrecall.ask.expansion import SharedTags
from hyrecall.ask.recipe import Dense, Lexical, Recipe, TieBreak
from hyrecall.ask.scoring import Max
from hyrecall.ask.shaping import Composite
from hyrecall.text.bm25 import BM25

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
