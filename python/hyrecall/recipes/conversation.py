"""Our default for conversations: what stands around a row in its thread speaks for it.

It is :data:`default` with :class:`hyrecall.Around` and BM25 constants for short and long turns
alike. On an index whose schema has no thread, the stage has no effect. :data:`default` ranks like
this by itself where a query's scope holds threads. docs/evaluation.md has measurements.
"""

from hyrecall.ask.defaults import DEFAULT_FUSION
from hyrecall.ask.recipe import Dense, Lexical, Recipe
from hyrecall.ask.thread_defaults import DEFAULT_AROUND, THREAD_BM25

conversation = Recipe(
    name="conversation",
    arms=(Lexical(bm25=THREAD_BM25), Dense()),
    fusion=DEFAULT_FUSION,
    shaping=(DEFAULT_AROUND,),
    depth=100,
    exact=True,
)
