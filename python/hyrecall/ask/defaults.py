"""The default fusion and BM25 constants of a call with several arms that names neither.

``recipes.default`` uses these two, and ``recipes.conversation`` the stage and the constants for
threads; docs/evaluation.md has the measurements.
"""

from hyrecall.ask.scoring import WeightedSum
from hyrecall.ask.shaping.around import Around
from hyrecall.text.bm25 import BM25

__all__ = ["DEFAULT_AROUND", "DEFAULT_BM25", "DEFAULT_FUSION", "THREAD_BM25"]

DEFAULT_FUSION = WeightedSum(normalize="minmax", balance=0.85)
"""Fuses the lists of two or more arms."""

DEFAULT_BM25 = BM25("lucene", k1=0.75, b=0.25)
"""For text arms that are fused with others; a single arm uses the index's constants."""

DEFAULT_AROUND = Around(neighbours=(0.3, 0.15), thread=0.25, length=0.4)
"""Hears the rows around a hit in its thread."""

THREAD_BM25 = BM25("lucene", k1=0.75, b=(0.25, 0.9))
"""For text arms beside this stage: short turns, and conversations with long answers."""
