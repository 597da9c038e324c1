"""How several arms are ranked where a call names neither fusion nor BM25 constants.

``recipes.default`` is made of the same two; docs/evaluation.md has what was measured.
"""

from hyrecall.ask.scoring import WeightedSum
from hyrecall.text.bm25 import BM25

__all__ = ["DEFAULT_BM25", "DEFAULT_FUSION"]

DEFAULT_FUSION = WeightedSum(normalize="minmax", balance=0.85)
"""Joins the lists of two or more arms."""

DEFAULT_BM25 = BM25("lucene", k1=0.75, b=0.25)
"""Scores the text arms beside others; an arm alone has the index's own constants."""
