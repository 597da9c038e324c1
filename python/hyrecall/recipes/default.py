"""Ours: BM25 and cosine by a sum of scores, each scaled over the candidates of both."""

from hyrecall.recipe import Dense, Lexical, Recipe
from hyrecall.scoring import BM25, WeightedSum

default = Recipe(
    name="default",
    arms=(Lexical(bm25=BM25("lucene", k1=0.9, b=0.4)), Dense()),
    fusion=WeightedSum(normalize="minmax"),
)
