"""A store as one agent sees it, for programs with an event loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import ParamSpec, Protocol, TypeVar, Unpack

from hyrecall.ask.filter_expression import FilterLike
from hyrecall.ask.recipe import Recipe
from hyrecall.base.keywords import check_keywords
from hyrecall.memory.changing import Remembered
from hyrecall.memory.data.given_fields import Changes, OwnFields
from hyrecall.memory.data.matches import Matches
from hyrecall.memory.data.types import Episode, Visibility
from hyrecall.memory.faces.browse import Browse
from hyrecall.memory.reads import Edges, Episodes, Facts, Versions
from hyrecall.memory.recall.adapting import Reranker
from hyrecall.memory.recall.call import Hints, TimeRange
from hyrecall.memory.view import AgentMemorySync

__all__ = ["AgentMemory", "Runner"]

P_ = ParamSpec("P_")
T_ = TypeVar("T_")


class Runner(Protocol):
    """Calls a function off the event loop."""

    async def __call__(
        self, function: Callable[P_, T_], /, *args: P_.args, **options: P_.kwargs
    ) -> T_:
        """Return what the function gives."""


@check_keywords
class AgentMemory:
    """What :meth:`hyrecall.memory.Memory.agent` gives; methods are those of the sync one."""

    def __init__(self, sync: AgentMemorySync, run: Runner) -> None:
        """Hold the sync one, and what runs its methods off the event loop.

        Parameters
        ----------
        sync : AgentMemorySync
        run : Runner
        """
        self._sync, self._run = sync, run

    async def search(
        self,
        query: str,
        *,
        kind: str | None = None,
        limit: int = 10,
        offset: int = 0,
        time_range: TimeRange | None = None,
        tags: Sequence[str] | None = None,
        filter: FilterLike | None = None,  # noqa: A002
        metadata: Mapping[str, object] | None = None,
        alpha: float | None = None,
        recipe: Recipe | None = None,
        vector: object = None,
        session_id: str | None = None,
        reranker: Reranker | None = None,
        diversity: float | None = None,
        normalize: bool = False,
        min_score: float | None = None,
        weights: Mapping[str, float] | None = None,
        token_budget: int | None = None,
        candidates: Hints | None = None,
        touch: bool = False,
        embed_timeout: float | None = None,
        now: datetime | None = None,
    ) -> Matches:
        """Recall what the agent may see, as :meth:`hyrecall.memory.AgentMemorySync.search`."""
        return await self._run(
            self._sync.search, query, kind=kind, limit=limit, offset=offset,
            time_range=time_range, tags=tags, filter=filter, metadata=metadata, alpha=alpha,
            recipe=recipe, vector=vector, session_id=session_id, reranker=reranker,
            diversity=diversity, normalize=normalize, min_score=min_score, weights=weights,
            token_budget=token_budget, candidates=candidates, touch=touch,
            embed_timeout=embed_timeout, now=now,
        )  # fmt: skip

    async def recall_facts(
        self, query: str, *, limit: int = 5, valid_at: datetime | None = None
    ) -> Facts:
        """Recall facts that hold, as :meth:`hyrecall.memory.AgentMemorySync.recall_facts`."""
        return await self._run(self._sync.recall_facts, query, limit=limit, valid_at=valid_at)

    async def get(self, id: str, *, visibility: Visibility | None = None) -> Episode | None:  # noqa: A002
        """Return an episode by its id, as :meth:`hyrecall.memory.AgentMemorySync.get`."""
        return await self._run(self._sync.get, id, visibility=visibility)

    async def history(self, id: str) -> Versions:  # noqa: A002
        """Return every version of a memory, as :meth:`hyrecall.memory.AgentMemorySync.history`."""
        return await self._run(self._sync.history, id)

    async def list(
        self,
        *,
        kind: str | None = None,
        tags: Sequence[str] | None = None,
        pinned: bool | None = None,
        filter: FilterLike | None = None,  # noqa: A002
        metadata: Mapping[str, object] | None = None,
        limit: int = 200,
        offset: int = 0,
    ) -> Episodes:
        """Return episodes, newest first, as :meth:`hyrecall.memory.AgentMemorySync.list`."""
        return await self._run(
            self._sync.list, kind=kind, tags=tags, pinned=pinned, filter=filter,
            metadata=metadata, limit=limit, offset=offset,
        )  # fmt: skip

    async def links(self, id: str) -> Edges:  # noqa: A002
        """Return the edges of a memory, as :meth:`hyrecall.memory.AgentMemorySync.links`."""
        return await self._run(self._sync.links, id)

    def browse(self) -> Browse:
        """Return files without await, as :meth:`hyrecall.memory.AgentMemorySync.browse`."""
        return self._sync.browse()

    async def remember(
        self,
        text: str,
        *,
        visibility: Visibility = "private",
        embed_timeout: float | None = None,
        **fields: Unpack[OwnFields],
    ) -> Remembered:
        """Keep a memory of this agent, as :meth:`hyrecall.memory.AgentMemorySync.remember`."""
        return await self._run(
            self._sync.remember, text, visibility=visibility, embed_timeout=embed_timeout, **fields,
        )  # fmt: skip

    async def update(
        self,
        id: str,  # noqa: A002
        *,
        reason: str,
        embed_timeout: float | None = None,
        **changes: Unpack[Changes],
    ) -> Remembered:
        """Change a memory of its own, as :meth:`hyrecall.memory.AgentMemorySync.update`."""
        return await self._run(
            self._sync.update, id, reason=reason, embed_timeout=embed_timeout, **changes
        )

    async def forget(self, id: str, *, reason: str) -> int:  # noqa: A002
        """Forget a memory of its own, as :meth:`hyrecall.memory.AgentMemorySync.forget`."""
        return await self._run(self._sync.forget, id, reason=reason)

    def __repr__(self) -> str:
        """Show who it is."""
        return repr(self._sync)
