"""Ours: BM25 and cosine by a sum of scores, each scaled over the candidates of both.

What holds an identifier or a quoted string whole comes first; else the arm that tells a query's
candidates apart counts more. Measured in docs/evaluation.md; the depth
is part of what was measured.
"""

from hyrecall.recipe import Dense, Lexical, Recipe
from hyrecall.scoring import BM25, WeightedSum

default = Recipe(
    name="default",
    arms=(Lexical(bm25=BM25("lucene", k1=0.75, b=0.25)), Dense()),
    fusion=WeightedSum(normalize="minmax", balance=0.85),
    depth=100,
    exact=True,
)
