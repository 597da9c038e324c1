"""Recalls memories together with the edges between them, as one plain reply."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

from hyrecall.base.arguments import as_int, check_keywords, check_object
from hyrecall.errors import OptionError, error
from hyrecall.memory import Episode, Matches, Memory, MemorySync
from hyrecall.memory.data.types import flag
from hyrecall.memory.recall.call import read_text
from hyrecall.recipes import hypergraph, hypergraph_regex

__all__ = ["ahm_recall", "hm_recall"]

MOST_RESULTS: Final = 50


@check_keywords
def hm_recall(
    memory: MemorySync,
    query: str,
    session_id: str = "default",
    max_results: int = 10,
    force_regex: bool = False,
    *,
    user_id: str | None = None,
    org: str | None = None,
    workspace: str | None = None,
    agent: str | None = None,
) -> dict[str, Any]:
    """Recall nodes, and answer in plain data.

    Parameters
    ----------
    memory : MemorySync
        Opened with ``recipe=recipes.hypergraph``.
    query : str
    session_id : str, default "default"
        The conversation: what it met ranks higher.
    max_results : int, default 10
        Clamped into [1, 50].
    force_regex : bool, default False
        The query is a pattern, and nothing else runs.
    user_id, org, workspace : str, optional
        Whose nodes.
    agent : str, optional
        In place of ``user_id``: what this agent of the workspace may see.

    Returns
    -------
    dict
        ``results`` (key, type, description, data, score in [0, 1], and expansion_context, whose
        nodes have the relationship as ``rel``), ``edges`` that connect two of them or of their
        context, first those whose own text was found, ``count`` and ``metadata`` (phase, weights,
        tiers, degraded, took_ms).

    Raises
    ------
    OptionError, DTypeError
        Blank text, a bad pattern by force, a store of another recipe, an argument of another type.
    ScopeError
        An agent without org or workspace.
    StoreError
        Content cannot be read.

    Notes
    -----
    One :meth:`hyrecall.memory.MemorySync.search`, which embeds the query once at most.

    Examples
    --------
    >>> with MemorySync.in_memory(recipe=hypergraph, embedder=None) as memory:
    ...     for key in ("jwt", "auth"):
    ...         kept = memory.remember(f"{key} decisions", id=key, kind="topic")
    ...     edge = memory.link(["jwt", "auth"], "decided by")
    ...     answer = hm_recall(memory, "decisions")
    >>> sorted((one["key"], one["type"]) for one in answer["results"])
    [('auth', 'topic'), ('jwt', 'topic')]
    >>> answer["edges"][0]["relationship"], answer["count"], answer["metadata"]["degraded"]
    ('decided by', 2, [])
    """
    check_object("memory", memory, "MemorySync", {})
    call = _GraphRecall.of(query, session_id, max_results, force_regex)
    if agent is None:
        matches = memory.search(user_id=user_id, org=org, workspace=workspace, **call.options)
    else:
        _check_one(user_id)
        matches = memory.agent(agent, **_place(org, workspace)).search(**call.options)
    return call.answer(matches)


@check_keywords
async def ahm_recall(
    memory: Memory,
    query: str,
    session_id: str = "default",
    max_results: int = 10,
    force_regex: bool = False,
    *,
    user_id: str | None = None,
    org: str | None = None,
    workspace: str | None = None,
    agent: str | None = None,
) -> dict[str, Any]:
    """Recall nodes of a :class:`hyrecall.memory.Memory`, as :func:`hm_recall` does.

    Parameters
    ----------
    memory : Memory
    query, session_id, max_results, force_regex, user_id, org, workspace, agent
        As of :func:`hm_recall`.

    Returns
    -------
    dict
        What :func:`hm_recall` gives.

    Raises
    ------
    OptionError, DTypeError, ScopeError, StoreError
        As of :func:`hm_recall`.

    Notes
    -----
    It takes what :func:`hm_recall` takes; the event loop goes on meanwhile.

    Examples
    --------
    >>> import asyncio
    >>> async def ask() -> int:
    ...     options = {"recipe": hypergraph, "embedder": None}
    ...     async with await Memory.in_memory(**options) as memory:
    ...         await memory.remember("JWT decisions", id="jwt")
    ...         return (await ahm_recall(memory, "decisions"))["count"]
    >>> asyncio.run(ask())
    1
    """
    check_object("memory", memory, "Memory", {})
    call = _GraphRecall.of(query, session_id, max_results, force_regex)
    if agent is None:
        matches = await memory.search(user_id=user_id, org=org, workspace=workspace, **call.options)
    else:
        _check_one(user_id)
        matches = await memory.agent(agent, **_place(org, workspace)).search(**call.options)
    return call.answer(matches)


def _place(org: object, workspace: object) -> dict[str, Any]:
    """Return the place of an agent, which itself refuses one that is missing."""
    return {"org": org, "workspace": workspace}


def _check_one(user_id: object) -> None:
    if user_id is not None:
        raise error(OptionError, "agent", "an agent, or user_id=", "both")


@dataclass(frozen=True)
class _GraphRecall:
    """One call: what it asks of a search, and when it began."""

    options: dict[str, Any]
    began: float

    @classmethod
    def of(
        cls, query: str, session_id: str, max_results: object, force_regex: object
    ) -> _GraphRecall:
        most = as_int(max_results)
        if most is None:
            raise error(OptionError, "max_results", "an int", repr(max_results))
        recipe = hypergraph_regex if flag("force_regex", force_regex) else hypergraph
        text = read_text("query", query)
        if not text.strip():
            raise error(OptionError, "query", f"words ({recipe.name})", "blank text")
        options = {
            "text": text,
            "limit": max(1, min(most, MOST_RESULTS)),
            "recipe": recipe.replace(normalize=True),
            "session_id": session_id,
        }
        return cls(options, time.perf_counter())

    def answer(self, matches: Matches) -> dict[str, Any]:
        context = matches.context or ((),) * len(matches)
        results = [
            {
                **_node(match.episode),
                "score": min(max(match.score, 0.0), 1.0),
                "expansion_context": [
                    {**_node(one), "rel": _relation(matches, match.episode, one)} for one in near
                ],
            }
            for match, near in zip(matches, context, strict=True)
        ]
        phase = matches.phase
        names = ("general", "topical", "session")
        return {
            "results": results,
            "edges": [
                {
                    "id": edge.id,
                    "relationship": edge.relationship,
                    "description": edge.description,
                    "data": edge.metadata,
                    "participants": [end.id for end in edge.participants],
                }
                for edge in matches.edges
            ],
            "count": len(results),
            "metadata": {
                "phase": None if phase is None else phase.name,
                "weights": None
                if phase is None
                else {name: getattr(phase, name) for name in names},
                "tiers": matches.tiers,
                "degraded": [str(reason) for reason in matches.reasons],
                "took_ms": (time.perf_counter() - self.began) * 1e3,
            },
        }


def _node(episode: Episode) -> dict[str, Any]:
    return {
        "key": episode.id,
        "type": episode.kind,
        "description": episode.full_text,
        "data": episode.metadata,
    }


def _relation(matches: Matches, one: Episode, other: Episode) -> str | None:
    """Say what connects two nodes: of several edges the first."""
    ends = {one.id, other.id}
    shared = (edge for edge in matches.edges if ends <= {end.id for end in edge.participants})
    return next((edge.relationship for edge in shared), None)
