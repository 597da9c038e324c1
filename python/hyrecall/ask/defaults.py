"""The default fusion and BM25 constants of a call with several arms that names neither.

``recipes.default`` uses these two; docs/evaluation.md has the measurements.
"""

from hyrecall.ask.scoring import WeightedSum
from hyrecall.text.bm25 import BM25

__all__ = ["DEFAULT_BM25", "DEFAULT_FUSION"]

DEFAULT_FUSION = WeightedSum(normalize="minmax", balance=0.85)
"""Fuses the lists of two or more arms."""

DEFAULT_BM25 = BM25("lucene", k1=0.75, b=0.25)
"""For text arms that are fused with others; a single arm uses the index's constants."""
