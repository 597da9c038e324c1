"""Our default for conversations: what stands around a row in its thread speaks for it.

It is :data:`default` with :class:`hyrecall.Around` and BM25 constants for short and long turns
alike. On an index whose schema has no thread, the stage has no effect. docs/evaluation.md has
measurements.
"""

from hyrecall.ask.defaults import DEFAULT_FUSION
from hyrecall.ask.recipe import Dense, Lexical, Recipe
from hyrecall.ask.shaping import Around
from hyrecall.text.bm25 import BM25

conversation = Recipe(
    name="conversation",
    arms=(Lexical(bm25=BM25("lucene", k1=0.75, b=0.5)), Dense()),
    fusion=DEFAULT_FUSION,
    shaping=(Around(neighbours=(0.3, 0.15), thread=0.25, length=0.4),),
    depth=100,
    exact=True,
)
