"""Options of the arms other than text and vectors; see :mod:`hyrecall.arms`."""

from typing import TypeAlias

from hyrecall.ask.arms.edges import EdgeLexical
from hyrecall.ask.arms.listed import Listed, Newest
from hyrecall.ask.arms.regex import Edges, Regex, is_pattern
from hyrecall.ask.arms.tags import Tags

__all__ = ["Arm", "EdgeLexical", "Edges", "Listed", "Newest", "Regex", "Tags", "is_pattern"]

Arm: TypeAlias = Regex | Newest | Listed | EdgeLexical | Tags
