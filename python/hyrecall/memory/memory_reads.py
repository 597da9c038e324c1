"""The reading methods of :class:`hyrecall.memory.Memory`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import ParamSpec, Protocol, TypeVar

from hyrecall.ask.filter_expression import FilterLike
from hyrecall.ask.recipe import Recipe
from hyrecall.base.keywords import check_keywords
from hyrecall.memory.data.matches import Matches
from hyrecall.memory.data.types import Episode, Visibility
from hyrecall.memory.faces.browse import Browse
from hyrecall.memory.reads import Edges, Episodes, Facts, User, Versions
from hyrecall.memory.recall.adapting import Reranker
from hyrecall.memory.recall.audience import Partition
from hyrecall.memory.recall.call import Hints, TimeRange
from hyrecall.memory.sync import MemorySync

__all__ = ["AsyncReads"]

P_ = ParamSpec("P_")
T_ = TypeVar("T_")


class _Twin(Protocol):
    """What has the sync twin, and a way to run its methods off the event loop."""

    @property
    def _sync(self) -> MemorySync: ...

    async def _run(
        self, function: Callable[P_, T_], /, *args: P_.args, **options: P_.kwargs
    ) -> T_: ...


@check_keywords
class AsyncReads:
    """Each as in :class:`hyrecall.memory.MemorySync`, off the event loop."""

    async def recall(
        self: _Twin,
        query: str,
        *,
        kind: str | None = "episodic",
        limit: int = 5,
        time_range: TimeRange | None = None,
        user_id: str | None = None,
        alpha: float = 0.5,
    ) -> Episodes:
        """Recall episodes, as :meth:`hyrecall.memory.MemorySync.recall`."""
        return await self._run(
            self._sync.recall, query, kind=kind, limit=limit, time_range=time_range,
            user_id=user_id, alpha=alpha,
        )  # fmt: skip

    async def recall_scored(
        self: _Twin,
        query: str,
        *,
        kind: str | None = "episodic",
        limit: int = 5,
        time_range: TimeRange | None = None,
        user_id: str | None = None,
        alpha: float = 0.5,
        normalize: bool = False,
    ) -> Matches:
        """Recall episodes with scores, as :meth:`hyrecall.memory.MemorySync.recall_scored`."""
        return await self._run(
            self._sync.recall_scored, query, kind=kind, limit=limit, time_range=time_range,
            user_id=user_id, alpha=alpha, normalize=normalize,
        )  # fmt: skip

    async def recall_facts(
        self: _Twin,
        query: str,
        *,
        limit: int = 5,
        valid_at: datetime | None = None,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
    ) -> Facts:
        """Recall facts, as :meth:`hyrecall.memory.MemorySync.recall_facts`."""
        return await self._run(
            self._sync.recall_facts, query, limit=limit, valid_at=valid_at, user_id=user_id,
            org=org, workspace=workspace,
        )  # fmt: skip

    async def search(
        self: _Twin,
        query: str,
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        partitions: Sequence[Partition] | None = None,
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
        """Recall with every option there is, as :meth:`hyrecall.memory.MemorySync.search`."""
        return await self._run(
            self._sync.search, query, user_id=user_id, org=org, workspace=workspace,
            partitions=partitions, kind=kind, limit=limit, offset=offset, time_range=time_range,
            tags=tags, filter=filter, metadata=metadata, alpha=alpha, recipe=recipe, vector=vector,
            session_id=session_id, reranker=reranker, diversity=diversity, normalize=normalize,
            min_score=min_score, weights=weights, token_budget=token_budget, candidates=candidates,
            touch=touch, embed_timeout=embed_timeout, now=now,
        )  # fmt: skip

    async def get(
        self: _Twin,
        id: str,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        visibility: Visibility | None = None,
    ) -> Episode | None:
        """Return an episode by its id or None, as :meth:`hyrecall.memory.MemorySync.get`."""
        return await self._run(
            self._sync.get, id, user_id=user_id, org=org, workspace=workspace,
            visibility=visibility,
        )  # fmt: skip

    async def history(
        self: _Twin,
        id: str,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
    ) -> Versions:
        """Return every version of a memory, as :meth:`hyrecall.memory.MemorySync.history`."""
        return await self._run(
            self._sync.history, id, user_id=user_id, org=org, workspace=workspace,
        )  # fmt: skip

    async def list(
        self: _Twin,
        *,
        user_id: User = None,
        org: str | None = None,
        workspace: str | None = None,
        kind: str | None = None,
        tags: Sequence[str] | None = None,
        pinned: bool | None = None,
        filter: FilterLike | None = None,  # noqa: A002
        metadata: Mapping[str, object] | None = None,
        limit: int = 200,
        offset: int = 0,
    ) -> Episodes:
        """Return episodes, newest first, as :meth:`hyrecall.memory.MemorySync.list`."""
        return await self._run(
            self._sync.list, user_id=user_id, org=org, workspace=workspace, kind=kind, tags=tags,
            pinned=pinned, filter=filter, metadata=metadata, limit=limit, offset=offset,
        )  # fmt: skip

    async def links(
        self: _Twin,
        id: str,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
    ) -> Edges:
        """Return the edges of a memory, as :meth:`hyrecall.memory.MemorySync.links`."""
        return await self._run(self._sync.links, id, user_id=user_id, org=org, workspace=workspace)

    def browse(
        self: _Twin,
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
    ) -> Browse:
        """Return files to read, without await, as :meth:`hyrecall.memory.MemorySync.browse`."""
        return self._sync.browse(user_id=user_id, org=org, workspace=workspace)
