"""Options of the arm that retrieves documents by the texts of their edges in a graph."""

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
    """Retrieves the documents of a graph's edges by BM25 over the edges' texts.

    The best ``depth`` edges in the query's scope are read, with statistics of the edges in scope. A
    document has the score of its best edge among them; ``hit.evidence(name)`` is that edge's key.

    Parameters
    ----------
    graph : Graph or str
        A graph over the recalled index, or its name in ``graphs=``. With a name, the arm is plain
        data.
    name : str, default "edges"
        The arm's name.
    depth : int, optional
        Number of edges that are read; default: the recall's depth.

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
