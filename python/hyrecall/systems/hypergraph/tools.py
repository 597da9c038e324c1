"""The tool that hypergraph documents: ``hm_recall``."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from hyrecall.recipes import hypergraph
from hyrecall.serve.mcp.session import CallerSession
from hyrecall.serve.mcp.tool import Arguments, Query, Structure, Tool, ToolReply
from hyrecall.systems.hypergraph.graph_recall import ahm_recall


class _Recall(Arguments):
    query: Query
    session_id: Annotated[
        str,
        Field(
            min_length=1, max_length=512, description="The conversation: what it met ranks higher."
        ),
    ] = "default"
    max_results: Annotated[int, Field(ge=1, le=50, description="The most nodes to return.")] = 10
    force_regex: Annotated[
        bool, Field(description="The query is a pattern, and nothing else runs.")
    ] = False


class Near(Structure):
    """A neighbour of a node that was found."""

    key: str
    type: str
    description: str
    data: dict[str, Any]
    rel: str | None


class Node(Structure):
    """A node that was found."""

    key: str
    type: str
    description: str
    data: dict[str, Any]
    score: float = Field(ge=0, le=1)
    expansion_context: list[Near]


class Edge(Structure):
    """What connects two nodes of the answer."""

    id: str
    relationship: str
    description: str
    data: dict[str, Any]
    participants: list[str]


class Metadata(Structure):
    """How the recall was answered."""

    phase: str | None
    weights: dict[str, float] | None
    tiers: dict[str, int]
    degraded: list[str]
    took_ms: float


class Recalled(Structure):
    """The answer of ``hm_recall``."""

    results: list[Node]
    edges: list[Edge]
    count: int
    metadata: Metadata


async def _recall(session: CallerSession, given: _Recall) -> ToolReply:
    found = await ahm_recall(
        session.memory, given.query, given.session_id, given.max_results, given.force_regex,
        agent=session.caller.agent, **session.where,
    )  # fmt: skip
    return ToolReply(Recalled.model_validate(found))


TOOLS: Final = (
    Tool(
        "hm_recall", "Recall nodes",
        "Recall nodes of the memory graph by words, meaning, edge labels and patterns, with the "
        "edges between them.",
        _Recall, Recalled, "reads", _recall, recipe=hypergraph.name,
    ),
)  # fmt: skip
