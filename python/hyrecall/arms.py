"""Arms other than text and vectors: patterns, edges, tags, newest documents, the caller's lists.

Each arm is a frozen dataclass, passed to a recall as ``arms=``. Its documents take part in the
fusion like those of other arms, with their own score and rank; a document that is not in its list
has neither.
"""

from hyrecall.arm.edge_lexical import EdgeLexical
from hyrecall.arm.kinds import Arm
from hyrecall.arm.listed import Listed
from hyrecall.arm.newest import Newest
from hyrecall.arm.regex import Edges, Regex, is_pattern
from hyrecall.arm.tags import Tags
from hyrecall.hits.around import Related
from hyrecall.recall.reach import related

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
