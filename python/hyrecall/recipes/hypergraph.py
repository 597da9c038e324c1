"""Nodes of a graph by words of their descriptions and by cosine from 0.35 on."""

from hyrecall.recipe import Dense, Lexical, Recipe, TieBreak
from hyrecall.scoring import RRF

hypergraph = Recipe(
    name="hypergraph",
    arms=(Lexical(), Dense(min_score=0.35)),
    fusion=RRF(rank_constant=60),
    tie_break=(TieBreak("key"),),
    depth=250,
    normalize=True,
    on_empty="error",
)
