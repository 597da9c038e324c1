"""Ours: BM25 and cosine by a sum of scores, each scaled over the candidates of both.

What holds an identifier or a quoted string whole comes first; else the arm that tells a query's
candidates apart counts more. Measured in docs/evaluation.md; the depth
is part of what was measured.
"""

from hyrecall.ask.defaults import DEFAULT_BM25, DEFAULT_FUSION
from hyrecall.ask.recipe import Dense, Lexical, Recipe

default = Recipe(
    name="default",
    arms=(Lexical(bm25=DEFAULT_BM25), Dense()),
    fusion=DEFAULT_FUSION,
    depth=100,
    exact=True,
)
