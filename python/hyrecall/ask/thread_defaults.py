"""The stage and the BM25 constants of our own recipes where rows are in threads.

``recipes.default`` and ``recipes.conversation`` use them; docs/evaluation.md has the measurements.
"""

from hyrecall.ask.shaping.around import Around
from hyrecall.text.bm25 import BM25

__all__ = ["DEFAULT_AROUND", "THREAD_BM25"]

DEFAULT_AROUND = Around(neighbours=(0.3, 0.15), thread=0.25, length=0.4)
"""Hears the rows around a hit in its thread."""

THREAD_BM25 = BM25("lucene", k1=0.75, b=(0.25, 0.9))
"""For text arms beside this stage: short turns, and conversations with long answers."""
