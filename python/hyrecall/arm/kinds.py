"""All arms other than text and vectors; who adds one names it here and in hyrecall.arms."""

from __future__ import annotations

from typing import Final, TypeAlias, get_args

from hyrecall.arm.edge_lexical import EdgeLexical
from hyrecall.arm.listed import Listed
from hyrecall.arm.newest import Newest
from hyrecall.arm.regex import Edges, Regex
from hyrecall.arm.tags import Tags

Arm: TypeAlias = Regex | EdgeLexical | Tags | Newest | Listed
"""Arms other than text and vectors: patterns, edges, tags, newest documents, the caller's lists.

Each arm is a frozen dataclass, passed to a recall as ``arms=``. Its documents take part in the
fusion like those of other arms, with their own score and rank; a document that is not in its list
has neither.
"""

PARTS: Final[tuple[type, ...]] = (*get_args(Arm), Edges)
"""The classes of arms, with Edges, which is a part of Regex."""

OF_A_RECIPE: Final = "Regex, EdgeLexical, Tags, Newest and Listed"
OF_A_CALL: Final = "Regex, Newest, Listed, EdgeLexical or Tags of hr.arms"
"""Their names in messages."""
