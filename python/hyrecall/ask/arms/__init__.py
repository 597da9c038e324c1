"""Ways to retrieve beside text and vectors: patterns, edges, tags, recency, and the caller's own.

Each is a frozen dataclass, plain data that a recall takes as ``arms=``. Its documents join the
fusion as those of other arms do, with a score and a rank of their own; a document that it does not
list has neither.
"""

from hyrecall.ask.arms.batch import Batch, Candidates
from hyrecall.ask.arms.edges import EdgeLexical
from hyrecall.ask.arms.listed import Listed, Newest, newest_rows
from hyrecall.ask.arms.regex import Edges, Regex, is_pattern
from hyrecall.ask.arms.run import Arm
from hyrecall.ask.arms.tags import Related, Tags, related

__all__ = [
    "Arm",
    "Batch",
    "Candidates",
    "EdgeLexical",
    "Edges",
    "Listed",
    "Newest",
    "Regex",
    "Related",
    "Tags",
    "is_pattern",
    "newest_rows",
    "related",
]
