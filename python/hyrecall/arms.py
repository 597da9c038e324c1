"""Ways to retrieve beside text and vectors: patterns, edges, tags, recency, and the caller's own.

Each is a frozen dataclass, plain data that a recall takes as ``arms=``. Its documents join the
fusion as those of other arms do, with a score and a rank of their own; a document that it does not
list has neither.
"""

from hyrecall.ask.arms import Arm, EdgeLexical, Edges, Listed, Newest, Regex, Tags, is_pattern
from hyrecall.hits.around import Related
from hyrecall.recall.related import related

__all__ = [
    "Arm",
    "EdgeLexical",
    "Edges",
    "Listed",
    "Newest",
    "Regex",
    "Related",
    "Tags",
    "is_pattern",
    "related",
]
