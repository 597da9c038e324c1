"""Loom: episodes by BM25 Okapi and cosine, joined by reciprocal rank fusion.

Documents that contain an identifier or a quoted string as a whole come first.
"""

from hyrecall.ask.recipe import Dense, Fill, Lexical, Recipe, TieBreak
from hyrecall.ask.scoring import RRF, Above
from hyrecall.text.bm25 import BM25

loom = Recipe(
    name="loom",
    arms=(
        Lexical(bm25=BM25("okapi", k1=1.5, b=0.75)),
        # Only documents with a positive cosine are candidates.
        Dense(min_score=Above(0.0)),
    ),
    fusion=RRF(alpha=0.5),
    tie_break=(TieBreak("occurred_at", descending=True), TieBreak("id")),
    fill=Fill("occurred_at"),
    on_empty="newest",
    exact=True,
)
