"""Our default: the sum of BM25 and cosine, each scaled over the candidates of both arms.

Documents that contain an identifier or a quoted string as a whole come first. Otherwise the arm
that distinguishes the query's candidates better counts more. docs/evaluation.md has measurements,
made with this depth.

Where a query's scope holds threads (a schema with ``thread=``, a store with sessions), it ranks as
:data:`conversation` does: ``recipes.default.for_threads()``.
"""

from hyrecall.ask.defaults import DEFAULT_BM25, DEFAULT_FUSION
from hyrecall.ask.recipe import Dense, Lexical, Recipe, WithThreads
from hyrecall.ask.thread_defaults import DEFAULT_AROUND, THREAD_BM25

default = Recipe(
    name="default",
    arms=(Lexical(bm25=DEFAULT_BM25), Dense()),
    fusion=DEFAULT_FUSION,
    depth=100,
    exact=True,
    with_threads=WithThreads(DEFAULT_AROUND, THREAD_BM25),
)
