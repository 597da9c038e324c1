"""Hebb Mind's routes of the graph of tags: tags are nodes, memories with two of them are edges.

The graph is made of the caller's own memories at each call, the newest 10,000, so it holds nothing
of others and nothing that was forgotten.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Annotated, Any, TypeVar

from fastapi import Query, Request

from hyrecall.errors import NotFoundError, error
from hyrecall.memory import Episode
from hyrecall.serve.doors.shapes import ERRORS
from hyrecall.serve.limits import check_size
from hyrecall.serve.routing import PathId, Router
from hyrecall.serve.scoped_store import ReadScope, ScopedStore, memory_of

__all__ = ["TagGraph", "router", "tag_graph"]

T_ = TypeVar("T_")

router = Router(prefix="/api/v1/graph", tags=["hebb"], responses=ERRORS)

MOST_READ = 10_000
MOST_PAIRS = 200_000
"""Pairs of tags that lie in one memory, of all memories; each takes 400 bytes."""


@dataclass(frozen=True)
class TagGraph:
    """Tags with the memories that have them, and how many memories have two of them."""

    memories: dict[str, list[str]] = field(default_factory=dict)
    edges: Counter[tuple[str, str]] = field(default_factory=Counter)

    def node(self, tag: str) -> dict[str, Any]:
        """Return a tag in Hebb's shape."""
        ids = self.memories[tag]
        return {
            "id": tag, "label": tag, "description": "", "memory_ids": ids, "weight": len(ids),
        }  # fmt: skip

    def edge(self, one: str, other: str) -> dict[str, Any]:
        """Return an edge in Hebb's shape."""
        weight = self.edges[(min(one, other), max(one, other))]
        return {"source": one, "target": other, "relation": "related", "weight": weight}

    def tags(self, part: str = "") -> list[dict[str, Any]]:
        """Return the tags that hold a text, those of most memories first."""
        found = [tag for tag in self.memories if part in tag]
        return [self.node(tag) for tag in sorted(found, key=self._place)]

    def among(self, tags: Iterable[str]) -> dict[str, Any]:
        """Return tags and the edges between them."""
        wanted = set(tags)
        pairs = sorted(pair for pair in self.edges if wanted.issuperset(pair))
        return {
            "nodes": [self.node(tag) for tag in sorted(wanted, key=self._place)],
            "edges": [self.edge(*pair) for pair in pairs],
        }

    def near(self, tag: str, depth: int) -> dict[str, int]:
        """Return the tags within some steps of one, each with its distance."""
        if tag not in self.memories:
            return {}
        beside = self._beside()
        found, front = {tag: 0}, [tag]
        for step in range(1, depth + 1):
            front = sorted({other for one in front for other in beside[one]} - found.keys())
            found |= dict.fromkeys(front, step)
        return found

    def path(self, begin: str, end: str) -> list[str]:
        """Return a shortest path, of several the first in the alphabet; or an empty list."""
        distances = self.near(end, len(self.memories))
        if begin not in distances:
            return []
        beside, found = self._beside(), [begin]
        while (here := found[-1]) != end:
            nearer = (one for one in beside[here] if distances[one] == distances[here] - 1)
            found.append(min(nearer))
        return found

    def _place(self, tag: str) -> tuple[int, str]:
        return -len(self.memories[tag]), tag

    def _beside(self) -> dict[str, set[str]]:
        beside: dict[str, set[str]] = defaultdict(set)
        for one, other in self.edges:
            beside[one].add(other)
            beside[other].add(one)
        return beside


def tag_graph(episodes: Iterable[Episode]) -> TagGraph:
    """Make the graph of the tags of memories."""
    memories: dict[str, list[str]] = defaultdict(list)
    edges: Counter[tuple[str, str]] = Counter()
    n_pairs = 0
    for episode in episodes:
        tags = sorted({name for tag in episode.tags if (name := plain(tag))})
        n_pairs += len(tags) * (len(tags) - 1) // 2
        check_size("the graph", n_pairs, MOST_PAIRS, "pairs of tags")
        for tag in tags:
            memories[tag].append(episode.id)
        edges.update(combinations(tags, 2))
    return TagGraph({tag: sorted(ids) for tag, ids in memories.items()}, edges)


def plain(tag: str) -> str:
    """Return a tag as it names a node."""
    return tag.strip().lower()


async def _graph(request: Request, scope: ReadScope, asked: Callable[[TagGraph], T_]) -> T_:
    """Answer from the graph, on a thread: it takes as long as there are pairs of tags."""
    store = ScopedStore(memory_of(request), scope)
    return await store.run(lambda store: asked(tag_graph(store.view().each_newest(MOST_READ))))


@router.get("/tags", summary="List tags")
async def tags(
    scope: ReadScope, request: Request, q: Annotated[str, Query(max_length=512)] = ""
) -> list[dict[str, Any]]:
    """List tags, those of most memories first; ``q`` is a part of their names."""
    return await _graph(request, scope, lambda graph: graph.tags(plain(q)))


@router.get("/tags/{id}", summary="Get a tag")
async def tag(id: PathId, scope: ReadScope, request: Request) -> dict[str, Any]:  # noqa: A002
    """Return a tag with the ids of its memories."""

    def node(graph: TagGraph) -> dict[str, Any]:
        if plain(id) not in graph.memories:
            raise error(NotFoundError, "id", "a tag of the caller's memories", "none")
        return graph.node(plain(id))

    return await _graph(request, scope, node)


@router.get("/neighbors/{id}", summary="Tags within some steps of one")
async def neighbors(
    id: PathId,  # noqa: A002
    scope: ReadScope,
    request: Request,
    depth: Annotated[int, Query(ge=1, le=5)] = 1,
) -> dict[str, Any]:
    """Return the tags within ``depth`` steps, and the edges between them; none of a missing tag."""

    def beside(graph: TagGraph) -> dict[str, Any]:
        return {**graph.among(graph.near(plain(id), depth)), "paths": []}

    return await _graph(request, scope, beside)


@router.get("/path", summary="A shortest path between two tags")
async def path(
    scope: ReadScope,
    request: Request,
    begin: Annotated[str, Query(alias="from", max_length=512)],
    end: Annotated[str, Query(alias="to", max_length=512)],
) -> dict[str, Any]:
    """Return a shortest path; none where the tags are not connected or one is missing."""

    def between(graph: TagGraph) -> dict[str, Any]:
        found = graph.path(plain(begin), plain(end))
        return {
            "nodes": [graph.node(one) for one in found],
            "edges": [graph.edge(*pair) for pair in pairwise(found)],
            "paths": [found] if found else [],
        }

    return await _graph(request, scope, between)


@router.get("/export", summary="The whole graph")
async def export(scope: ReadScope, request: Request) -> dict[str, Any]:
    """Return all tags and edges."""
    return await _graph(request, scope, lambda graph: graph.among(graph.memories))
