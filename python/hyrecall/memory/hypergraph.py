"""The face of a store whose memories are nodes of a graph: one call, one plain answer."""

from __future__ import annotations

import time
from typing import Any, Final

from hyrecall.arguments import whole
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.memory.matches import Matches
from hyrecall.memory.sync import MemorySync
from hyrecall.recipes import hypergraph, hypergraph_regex

__all__ = ["hm_recall"]

MOST_RESULTS: Final = 50


def hm_recall(
    memory: MemorySync,
    query: str,
    session_id: str = "default",
    max_results: int = 10,
    force_regex: bool = False,
    *,
    user_id: str | None = None,
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
    user_id : str, optional
        Whose nodes.

    Returns
    -------
    dict
        ``results`` (key, description, score in [0, 1], expansion_context), ``edges``, ``count`` and
        ``metadata`` (phase, weights, tiers, degraded, took_ms).

    Raises
    ------
    OptionError, DTypeError
        Blank text, a bad pattern by force, a store of another recipe, an argument of another type.
    StoreError
        Content cannot be read.

    Notes
    -----
    One :meth:`hyrecall.memory.MemorySync.search`, which embeds the query once at most.

    Examples
    --------
    >>> import tempfile
    >>> with MemorySync.open(tempfile.mkdtemp(), recipe=hypergraph, embedder=None) as memory:
    ...     kept = memory.remember("Deploys run on Friday", id="deploy")
    ...     answer = hm_recall(memory, "deploys")
    >>> answer["count"], answer["results"][0]["key"], answer["metadata"]["degraded"]
    (1, 'deploy', [])
    """
    most = whole(max_results)
    if most is None:
        raise error(OptionError, "max_results", "an int", repr(max_results))
    if not isinstance(force_regex, bool):
        raise error(DTypeError, "force_regex", "True or False", repr(force_regex))
    began = time.perf_counter()
    matches = memory.search(
        query,
        user_id=user_id,
        limit=max(1, min(most, MOST_RESULTS)),
        recipe=(hypergraph_regex if force_regex else hypergraph).replace(normalize=True),
        session_id=session_id,
    )
    results = [
        {
            "key": match.episode.id,
            "description": match.episode.text,
            "score": min(max(match.score, 0.0), 1.0),
            "expansion_context": [
                {"key": one.id, "description": one.text} for one in _context(matches, at)
            ],
        }
        for at, match in enumerate(matches)
    ]
    phase = matches.phase
    return {
        "results": results,
        "edges": [
            {
                "id": edge.id,
                "relationship": edge.relationship,
                "description": edge.description,
                "participants": [end.id for end in edge.participants],
            }
            for edge in matches.edges
        ],
        "count": len(results),
        "metadata": {
            "phase": None if phase is None else phase.name,
            "weights": None
            if phase is None
            else {
                "general": phase.general,
                "topical": phase.topical,
                "session": phase.session,
            },
            "tiers": matches.tiers,
            "degraded": [str(reason) for reason in matches.reasons],
            "took_ms": (time.perf_counter() - began) * 1e3,
        },
    }


def _context(matches: Matches, at: int) -> tuple[Any, ...]:
    return matches.context[at] if at < len(matches.context) else ()
