"""Hebb Mind's routes: search, memories and their state, with its shapes.

A partition of Hebb is the ``kind`` of a memory: a label that narrows what a user sees.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Annotated, Any, TypeVar

from fastapi import Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from hyrecall import Filter, __version__
from hyrecall.errors import NotFoundError, error
from hyrecall.memory import Episode
from hyrecall.memory.ops import Text
from hyrecall.recipes import hebb
from hyrecall.serve.bodies import Whole
from hyrecall.serve.errors import check_lists, check_query, check_size, options_of
from hyrecall.serve.routing import PathId, Router
from hyrecall.serve.scoped_store import (
    EditStore,
    Reader,
    ReadStore,
    WriteStore,
    memory_of,
    recipe_for,
    require,
)
from hyrecall.systems.hebb.replies import (
    MOST,
    MOST_CHARACTERS,
    NOTHING,
    PARTITION,
    as_results,
    shown,
)
from hyrecall.systems.route_shapes import BY_REST, ERRORS, tell_degraded

router = Router(tags=["hebb"], responses=ERRORS)

STRICT = 0.8
"""The least score with ``strict_recall``."""
MOST_LISTED = 200
MOST_COUNTED = 10_000
"""Memories beyond a page that its ``total`` counts at most."""

Weight = Annotated[float | None, Field(ge=0, le=1e6, allow_inf_nan=False)]
Rating = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
Content = Annotated[Text, Field(max_length=MOST_CHARACTERS)]


class _HebbBody(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class SearchBody(_HebbBody):
    """A search.

    Parameters
    ----------
    query : str
    partition_ids, tags : list of str, optional
        One of them is enough; none or an empty list is any.
    top_k : int, default 10
        In [1, 100].
    weight_recency, weight_importance, weight_relevance : float, optional
        Of this search; default: those of the served recipe, which ``hyrecall config`` sets.
    min_score : float, default 0
        In [0, 1].
    strict_recall : bool, default False
        A least score of 0.8, and an access is counted for each result.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "query": "recent deployment issues",
                    "top_k": 10,
                    "weight_recency": 3.0,
                    "weight_relevance": 1.0,
                    "weight_importance": 1.0,
                }
            ]
        }
    )

    query: str = Field(min_length=1)
    partition_ids: list[str] | None = None
    tags: list[str] | None = None
    top_k: Whole = Field(default=10, ge=1, le=MOST)
    weight_recency: Weight = None
    weight_importance: Weight = None
    weight_relevance: Weight = None
    min_score: float = Field(default=0.0, ge=0, le=1)
    strict_recall: bool = False

    def options(self) -> dict[str, Any]:
        """Return the options of a store's search."""
        given = {
            name: getattr(self, f"weight_{name}") for name in ("recency", "importance", "relevance")
        }
        floor = max(self.min_score, STRICT) if self.strict_recall else self.min_score
        return {
            "limit": self.top_k,
            "tags": self.tags or None,
            "filter": Filter(kind=self.partition_ids) if self.partition_ids else None,
            "weights": {name: one for name, one in given.items() if one is not None} or None,
            "min_score": floor or None,
            "touch": self.strict_recall,
        }


class NewMemory(_HebbBody):
    """A memory to keep.

    Parameters
    ----------
    content : str
        1 to 10,000 characters.
    partition_id : str, default "mem_hippocampus"
    importance_score : float, default 5
        In [0, 10].
    tags : list of str, default []
    metadata : dict, default {}
    source : str, optional
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"content": "The deploy failed", "tags": ["deploy"]}]}
    )

    content: Content
    partition_id: str = Field(default=PARTITION, min_length=1, max_length=512)
    importance_score: Rating = 5.0
    tags: list[str] = Field(default_factory=list)
    metadata: dict[str, Any] = Field(default_factory=dict)
    source: str | None = None

    def fields(self) -> dict[str, Any]:
        """Return the fields of an episode beside its text."""
        return {
            "kind": self.partition_id,
            "importance": self.importance_score,
            "tags": self.tags,
            "metadata": self.metadata,
            "source": self.source,
        }


class ChangedMemory(_HebbBody):
    """What changes of a memory; what is not named stays."""

    content: Content | None = None
    importance_score: Rating | None = None
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None

    def changes(self) -> dict[str, Any]:
        """Return the fields of an episode that change."""
        names = {"content": "text", "importance_score": "importance"}
        given = {name: getattr(self, name) for name in self.model_fields_set}
        made = {names.get(name, name): one for name, one in given.items() if one is not None}
        return made | ({"input": ""} if "text" in made else {})


@router.post("/api/v1/search", summary="Search memories")
async def search(
    body: SearchBody, who: Reader, store: ReadStore, request: Request, response: Response
) -> dict[str, Any]:
    """Search as Hebb's documents say; a query without a word finds nothing.

    ``strict_recall`` counts accesses: needs the right to write.
    """
    if body.strict_recall:
        require(who, "write")
    recipe, options = recipe_for(store, hebb), options_of(request)
    check_lists(options, tags=body.tags, partition_ids=body.partition_ids)
    check_query(options, body.query)
    if not body.query.strip():
        return NOTHING
    matches = await store.call("search", body.query, recipe=recipe, **body.options())
    tell_degraded(response, matches)
    return await as_results(store, matches)


@router.post("/api/v1/memories", status_code=201, summary="Keep a memory")
async def create(body: NewMemory, store: EditStore) -> dict[str, Any]:
    """Keep a memory, and return it."""
    kept = await store.call("remember", body.content, **body.fields())
    (made,) = await shown(store, [await store.existing(kept.id)])
    return made


@router.post("/api/v1/memories/batch", status_code=201, summary="Keep several memories")
async def create_batch(
    body: list[NewMemory], store: EditStore, request: Request
) -> list[dict[str, Any]]:
    """Keep memories one after the other, and return them."""
    check_size("memories", len(body), options_of(request).max_batch, "in a request")
    kept = [await store.call("remember", one.content, **one.fields()) for one in body]
    return await shown(store, [await store.existing(one.id) for one in kept])


@router.get("/api/v1/memories", summary="List memories")
async def list_memories(
    store: ReadStore,
    partition_id: Annotated[str | None, Query(max_length=512)] = None,
    tags: Annotated[str | None, Query(description="Several are separated by commas.")] = None,
    offset: Annotated[int, Query(ge=0, lt=2**31)] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_LISTED)] = 50,
) -> dict[str, Any]:
    """List memories, newest first; ``total`` counts at most 10,000 beyond the page."""
    wanted = [one for part in (tags or "").split(",") if (one := part.strip())] or None
    options: dict[str, Any] = {"kind": partition_id, "tags": wanted}
    page = await store.call("list", limit=limit, offset=offset, **options)
    total = offset + len(page) if page else 0
    if len(page) == limit:
        most = total + MOST_COUNTED
        total = await store.run(lambda: store.view.count(**options, most=most))
    items = await shown(store, page)
    return {"items": items, "total": total, "offset": offset, "limit": limit}


@router.get("/api/v1/memories/{id}", summary="Get a memory")
async def get(id: PathId, store: ReadStore) -> dict[str, Any]:  # noqa: A002
    """Return a memory; no access is counted."""
    (made,) = await shown(store, [await store.existing(id)])
    return made


@router.patch("/api/v1/memories/{id}", summary="Change a memory")
async def change(
    id: PathId,  # noqa: A002
    body: ChangedMemory,
    store: EditStore,
) -> dict[str, Any]:
    """Change fields of a memory, and return it."""
    if changes := body.changes():
        await store.call("update", id, reason=BY_REST, **changes)
    (made,) = await shown(store, [await store.existing(id)])
    return made


@router.delete("/api/v1/memories/{id}", status_code=204, summary="Forget a memory")
async def forget(id: PathId, store: WriteStore) -> None:  # noqa: A002
    """Take a memory out of recall; its history stays."""
    await store.forget(id, reason=BY_REST)


@router.get("/health", summary="The process answers")
async def health() -> dict[str, str]:
    """Answer, without a token and without a look at the store."""
    return {"status": "ok", "version": __version__}


@router.get("/status", summary="Version, recipe and embedding model")
async def status(who: Reader, request: Request) -> dict[str, Any]:
    """Tell what the store embeds with; numbers of memories are in ``/metrics``."""
    store = memory_of(request)._sync._store
    model = store.guard.model
    return {
        "version": __version__,
        "recipe": store.recipe.name,
        "embedding": {
            "enabled": model is not None,
            "model": model,
            "dimension": None if model is None else store.dim,
            "available": store.guard.is_ready,
        },
    }


# ---- Hebb Mind's routes of the graph of tags: tags are nodes, memories with two of them are edges
# The graph is made of the caller's own memories at each call, the newest 10,000, so it holds
# nothing of others and nothing that was forgotten.

T_ = TypeVar("T_")

graph_router = Router(prefix="/api/v1/graph", tags=["hebb"], responses=ERRORS)

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


async def _graph(store: ReadStore, asked: Callable[[TagGraph], T_]) -> T_:
    """Answer from the graph, on a thread: it takes as long as there are pairs of tags."""
    return await store.run(lambda: asked(tag_graph(store.view.each_newest(MOST_READ))))


@graph_router.get("/tags", summary="List tags")
async def tags(
    store: ReadStore, q: Annotated[str, Query(max_length=512)] = ""
) -> list[dict[str, Any]]:
    """List tags, those of most memories first; ``q`` is a part of their names."""
    return await _graph(store, lambda graph: graph.tags(plain(q)))


@graph_router.get("/tags/{id}", summary="Get a tag")
async def tag(id: PathId, store: ReadStore) -> dict[str, Any]:  # noqa: A002
    """Return a tag with the ids of its memories."""

    def node(graph: TagGraph) -> dict[str, Any]:
        if plain(id) not in graph.memories:
            raise error(NotFoundError, "id", "a tag of the caller's memories", "none")
        return graph.node(plain(id))

    return await _graph(store, node)


@graph_router.get("/neighbors/{id}", summary="Tags within some steps of one")
async def neighbors(
    id: PathId,  # noqa: A002
    store: ReadStore,
    depth: Annotated[int, Query(ge=1, le=5)] = 1,
) -> dict[str, Any]:
    """Return the tags within ``depth`` steps, and the edges between them; none of a missing tag."""

    def beside(graph: TagGraph) -> dict[str, Any]:
        return {**graph.among(graph.near(plain(id), depth)), "paths": []}

    return await _graph(store, beside)


@graph_router.get("/path", summary="A shortest path between two tags")
async def path(
    store: ReadStore,
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

    return await _graph(store, between)


@graph_router.get("/export", summary="The whole graph")
async def export(store: ReadStore) -> dict[str, Any]:
    """Return all tags and edges."""
    return await _graph(store, lambda graph: graph.among(graph.memories))


ROUTERS = (router, graph_router)
