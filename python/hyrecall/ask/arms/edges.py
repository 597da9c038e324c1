"""Documents by the texts of the edges that they take part in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hyrecall.ask.arms.checks import read_arm_name
from hyrecall.ask.graphs import GraphLike
from hyrecall.ask.shaping.checks import integer
from hyrecall.base.arguments import convert_field
from hyrecall.base.keywords import check_keywords

if TYPE_CHECKING:
    pass

__all__ = ["EdgeLexical"]


@check_keywords
@dataclass(frozen=True)
class EdgeLexical:
    """BM25 over the texts of a graph's edges, credited to the documents that take part in them.

    A document's score is that of its best edge among the best ``depth`` edges of the query's scope;
    ``hit.evidence(name)`` gives that edge's key. Statistics are those of the edges in scope.

    Parameters
    ----------
    graph : Graph or str
        A graph over the index that is asked. A name stands for one that is put in its place before
        the arm runs, so that the arm is plain data.
    name : str, default "edges"
        The arm's name.
    depth : int, optional
        How many edges are read; default: the recall's depth.

    Examples
    --------
    >>> EdgeLexical("knowledge").name
    'edges'
    """

    graph: GraphLike | str
    name: str = field(default="edges", kw_only=True)
    depth: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Check the options."""
        read_arm_name(self.name)
        if self.depth is not None:
            convert_field(self, "depth", integer, 1)
