"""L0: notes by prefixes of all words (BM25 of FTS5) and cosine without a floor; pins break ties.

Documents that contain an identifier or a quoted string as a whole, or else every word of the query,
come first: exact matches stay ahead of what only the vectors or prefixes find.

Vectors are opt-in: a store of this recipe has none until an embedder is named.
"""

from hyrecall.ask.recipe import Dense, Lexical, Recipe, TieBreak
from hyrecall.ask.scoring import RRF
from hyrecall.text.bm25 import BM25

l0 = Recipe(
    name="l0",
    arms=(Lexical(mode="and_prefix", bm25=BM25("fts5", k1=1.2, b=0.75)), Dense()),
    fusion=RRF(rank_constant=60),
    tie_break=(
        TieBreak("pinned", descending=True),
        TieBreak("updated_at", descending=True),
        TieBreak("id", descending=True),
    ),
    depth=150,
    analyzer="unicode61",
    semantic="opt-in",
    exact="words",
)
