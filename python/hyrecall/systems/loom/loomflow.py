"""loomflow's memory over a durable store: ``HyrecallMemory``, for ``Agent(memory=...)``.

A user is a user of the store, and so a cell; no user is the anonymous one, which sees no named
user's memories and is seen by none. Episodes and facts are those of the store. Working blocks are
memories of the kind "block", which no recall of episodes finds.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from hyrecall import Filter
from hyrecall.adapters.degraded import warn_if_degraded
from hyrecall.adapters.extras import needs_extra
from hyrecall.adapters.memories import ALL, OwnsStore
from hyrecall.base.arguments import check_keywords
from hyrecall.base.forks import free_in_children
from hyrecall.base.times import utc
from hyrecall.embed import AUTO
from hyrecall.embed.guard import from_async
from hyrecall.errors import DTypeError, KeyConflictError, OptionError, error
from hyrecall.memory import EVERYONE, Episode, Fact, MemorySync
from hyrecall.recipe import Recipe

with needs_extra("loomflow"):
    import loomflow


__all__ = ["HyrecallFacts", "HyrecallMemory"]


# ---- loomflow's facts over a durable store, and how its episodes and facts are kept there ----


FACT: Final = "fact"
OWN: Final = "loomflow"
"""The key of the metadata with what only loomflow reads."""


@check_keywords
class HyrecallFacts:
    """loomflow's ``FactStore`` over a durable store.

    Parameters
    ----------
    memory : MemorySync
        An open store, which the caller closes.

    Notes
    -----
    A fact that is followed by another one of its subject and predicate ends where that begins.
    """

    def __init__(self, memory: MemorySync) -> None:
        """Hold the store."""
        if not isinstance(memory, MemorySync):
            raise error(DTypeError, "memory", "a MemorySync", type(memory).__name__)
        self._memory = memory

    async def append(self, fact: loomflow.Fact) -> str:
        """Keep a fact; return the id of the fact that says so."""
        own: dict[str, Any] = {"confidence": fact.confidence, "sources": fact.sources}
        own["recorded_at"] = fact.recorded_at.isoformat()
        kept = Fact(
            id=fact.id, user_id=fact.user_id, subject=fact.subject, predicate=fact.predicate,
            object=fact.object, valid_from=fact.valid_from, valid_to=fact.valid_until,
            metadata={OWN: own},
        )  # fmt: skip
        done = await asyncio.to_thread(self._memory.remember_fact, kept)
        return done.id

    async def query(
        self,
        *,
        subject: str | None = None,
        predicate: str | None = None,
        object_: str | None = None,
        valid_at: datetime | None = None,
        limit: int = 10,
        user_id: str | None = None,
    ) -> list[loomflow.Fact]:
        """Return the facts of a user that are asked for, newest first."""
        if predicate is not None:  # as loomflow writes it
            predicate = loomflow.Fact(subject="s", predicate=predicate, object="o").predicate
        found = await self._read(
            user_id, subject=subject, predicate=predicate, object=object_, valid_at=valid_at
        )
        return found[:limit]

    async def recall_text(
        self,
        query: str,
        *,
        limit: int = 5,
        valid_at: datetime | None = None,
        user_id: str | None = None,
    ) -> list[loomflow.Fact]:
        """Return the facts of a user that hold at a time (default: now), best first."""
        facts = await asyncio.to_thread(
            self._memory.recall_facts, query, limit=limit, valid_at=valid_at, user_id=user_id
        )
        warn_if_degraded(facts.reasons)
        return [_their_fact(one) for one in facts]

    async def all_facts(self) -> list[loomflow.Fact]:
        """Return the facts of all users, newest first."""
        return await self._read(EVERYONE)

    async def delete(self, *, user_id: str | None = None, before: datetime | None = None) -> int:
        """Erase the facts of a user, or those recorded before a time; return how many."""
        cut = None if before is None else utc("before", before)
        facts = await self._read(user_id)
        old = [one.id for one in facts if cut is None or one.recorded_at < cut]

        def erase() -> int:
            return sum(self._memory.forget(one, user_id=user_id, erase=True) > 0 for one in old)

        return await asyncio.to_thread(erase)

    async def count(self, *, user_id: str | None = None) -> int:
        """Return how many facts a user has."""
        found = await asyncio.to_thread(self._memory.list_facts, user_id=user_id, limit=ALL)
        return len(found)

    async def aclose(self) -> None:
        """Do nothing: the store is its owner's."""

    async def _read(self, user_id: Any, **asked: Any) -> list[loomflow.Fact]:
        """Return the facts of a user that are asked for, the one recorded last first."""

        def read() -> list[loomflow.Fact]:
            found = self._memory.list_facts(user_id=user_id, limit=ALL, **asked)
            return [_their_fact(one, self._recorded_at(one)) for one in found]

        found = await asyncio.to_thread(read)
        return sorted(found, key=lambda one: one.recorded_at, reverse=True)

    def _recorded_at(self, fact: Fact) -> datetime | None:
        """Return when a fact of another writer was kept; one of loomflow's says so itself."""
        if "recorded_at" in own_fields(fact):
            return None
        versions = self._memory.history(fact.id, user_id=fact.user_id)
        return versions[0].recorded_at if versions else fact.valid_from  # forgotten meanwhile


def own_fields(one: Episode | Fact) -> dict[str, Any]:
    """Return what only loomflow reads."""
    own: Any = one.metadata.get(OWN)
    return dict(own) if isinstance(own, dict) else {}


def their_episode(one: Episode) -> loomflow.Episode:
    """Return an episode of the store as one of loomflow's; its vector stays in the store."""
    return loomflow.Episode(
        id=one.id, session_id=one.session_id or "", user_id=one.user_id,
        occurred_at=one.occurred_at, input=one.input, output=one.text, **own_fields(one),
    )  # fmt: skip


def _their_fact(one: Fact, recorded_at: datetime | None = None) -> loomflow.Fact:
    """Return a fact of ours as one of theirs, which says when it was recorded if we know."""
    told = own_fields(one)
    if recorded_at is not None:
        told.setdefault("recorded_at", recorded_at)
    return loomflow.Fact(
        id=one.id, user_id=one.user_id, subject=one.subject, predicate=one.predicate,
        object=one.object, valid_from=one.valid_from, valid_until=one.valid_to, **told,
    )  # fmt: skip


# ---- loomflow's memory over a durable store: ``HyrecallMemory``, for ``Agent(memory=...)`` ----


BLOCK: Final = "block"
EPISODE: Final = "episodic"
_BACKENDS: Final = ("sqlite:", "chroma:", "postgres:", "postgresql:", "redis:", "rediss:")
_END: Final = datetime.max.replace(tzinfo=UTC)
_TimeRange = tuple[datetime, datetime]


@check_keywords
class HyrecallMemory(OwnsStore):
    """loomflow's ``Memory`` protocol over a durable store.

    Parameters
    ----------
    memory : MemorySync
        An open store, which the caller closes.

    Notes
    -----
    Recalls go by Loom's formula, unless the store was opened with a recipe. ``kind="semantic"``
    recalls facts, as the protocol says. ``forget`` erases every byte, history too, and the whole
    index is written again. Calls of one user's blocks from several processes are not serialised.

    Examples
    --------
    >>> import asyncio
    >>> async def main() -> list[str]:
    ...     with HyrecallMemory.open(":memory:", embedder=None) as memory:
    ...         await memory.remember(
    ...             loomflow.Episode(session_id="s", user_id="ann", input="tea?", output="At four")
    ...         )
    ...         found = await memory.recall_scored("tea", user_id="ann")
    ...         return [one.episode.output for one in found]
    >>> asyncio.run(main())
    ['At four']
    """

    def __init__(self, memory: MemorySync) -> None:
        """Hold the store."""
        self.facts = HyrecallFacts(memory)
        self._memory = memory
        self._blocks = free_in_children(threading.Lock())

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        embedder: Any = AUTO,
        recipe: Recipe | None = None,
    ) -> HyrecallMemory:
        """Open a store, which :meth:`close` closes; it is made if there is none.

        Parameters
        ----------
        path, embedder, recipe
            As of :meth:`hyrecall.memory.MemorySync.open`; the embedder may be one of loomflow's.

        Returns
        -------
        HyrecallMemory

        Raises
        ------
        HyrecallError
            As of :meth:`hyrecall.memory.MemorySync.open`.
        """
        if isinstance(path, str) and path.startswith(_BACKENDS):
            got = f"one of {path.partition(':')[0]!r}"  # the rest may hold a password
            raise error(OptionError, "path", "a folder, not a backend of loomflow", got)
        made = cls(MemorySync.open(path, embedder=_embedder(embedder), recipe=recipe))
        made._opened = made._memory
        return made

    # ---- episodes and facts ----

    async def remember(self, episode: loomflow.Episode) -> str:
        """Keep an episode, in place of the one of its user that has its id; return the id.

        Raises
        ------
        KeyConflictError
            The id is that of a fact or a block of the user.
        """
        theirs = episode.model_dump(mode="json", include={"tool_calls", "tool_transcript"})
        fields: dict[str, Any] = {
            "session_id": episode.session_id or None,
            "occurred_at": episode.occurred_at,
            "input": episode.input,
            "metadata": {OWN: {name: one for name, one in theirs.items() if one is not None}},
        }

        def keep() -> None:
            try:
                self._memory.remember(
                    episode.output, id=episode.id, user_id=episode.user_id,
                    vector=episode.embedding, **fields,
                )  # fmt: skip
            except KeyConflictError:
                held = self._memory.get(episode.id, user_id=episode.user_id)
                if held is not None and held.kind != EPISODE:
                    raise
                self._memory.update(
                    episode.id, user_id=episode.user_id, text=episode.output, **fields
                )

        await asyncio.to_thread(keep)
        key: str = episode.id
        return key

    async def recall(
        self,
        query: str,
        *,
        kind: str = EPISODE,
        limit: int = 5,
        time_range: _TimeRange | None = None,
        user_id: str | None = None,
    ) -> list[loomflow.Episode]:
        """Return the episodes of :meth:`recall_scored`, in its order."""
        found = await self.recall_scored(
            query, kind=kind, limit=limit, time_range=time_range, user_id=user_id
        )
        return [one.episode for one in found]

    async def recall_scored(
        self,
        query: str,
        *,
        kind: str = EPISODE,
        limit: int = 5,
        time_range: _TimeRange | None = None,
        user_id: str | None = None,
        alpha: float = 0.5,
    ) -> list[loomflow.EpisodeMatch]:
        """Return the best episodes of a user with their scores, as ``MemorySync.recall_scored``."""
        found = await asyncio.to_thread(
            self._memory.recall_scored, query, kind=FACT if kind == "semantic" else kind,
            limit=limit, time_range=time_range, user_id=user_id, alpha=alpha,
        )  # fmt: skip
        warn_if_degraded(found.reasons)
        return [
            loomflow.EpisodeMatch(
                episode=their_episode(one.episode), score=one.score, bm25_score=one.bm25_score,
                vector_score=one.vector_score, rerank_score=one.rerank_score,
            )
            for one in found
        ]  # fmt: skip

    async def recall_facts(
        self,
        query: str,
        *,
        limit: int = 5,
        valid_at: datetime | None = None,
        user_id: str | None = None,
    ) -> list[loomflow.Fact]:
        """Return the facts of a user that hold at a time (default: now), best first."""
        return await self.facts.recall_text(query, limit=limit, valid_at=valid_at, user_id=user_id)

    async def session_messages(
        self, session_id: str, *, user_id: str | None = None, limit: int = 20
    ) -> list[loomflow.Message]:
        """Return the last messages of a session, oldest first."""
        found = await asyncio.to_thread(
            self._memory.list, user_id=user_id, kind=EPISODE,
            filter=Filter(session_id=session_id), limit=max(1, limit // 2),
        )  # fmt: skip
        messages: list[loomflow.Message] = []
        for one in map(their_episode, reversed(found)):
            if one.input:
                messages.append(loomflow.Message(role=loomflow.Role.USER, content=one.input))
            messages += getattr(one, "tool_transcript", None) or []  # older releases have none
            if one.output:
                messages.append(loomflow.Message(role=loomflow.Role.ASSISTANT, content=one.output))
        return messages

    async def consolidate(self) -> None:
        """Do nothing; ``loomflow.memory.AutoExtractMemory`` around this one extracts facts."""

    # ---- working blocks ----

    async def working(self, *, user_id: str | None = None) -> list[loomflow.MemoryBlock]:
        """Return the working blocks of a user, in the order in which they were made."""
        return await asyncio.to_thread(self._working, user_id)

    async def update_block(self, name: str, content: str, *, user_id: str | None = None) -> None:
        """Replace the content of a user's block; make it if there is none."""
        await asyncio.to_thread(self._write_block, name, lambda _: content, user_id)

    async def append_block(self, name: str, content: str, *, user_id: str | None = None) -> None:
        """Add to the content of a user's block; make it if there is none."""
        await asyncio.to_thread(self._write_block, name, lambda old: old + content, user_id)

    def _working(self, user_id: str | None) -> list[loomflow.MemoryBlock]:
        found = self._memory.list(user_id=user_id, kind=BLOCK, limit=ALL)
        blocks = [
            loomflow.MemoryBlock(updated_at=one.occurred_at, content=one.text, **own_fields(one))
            for one in found
        ]
        return sorted(blocks, key=lambda one: one.pinned_order)

    def _write_block(self, name: str, write: Callable[[str], str], user_id: str | None) -> None:
        with self._blocks:
            key, now = f"{BLOCK}:{name}", datetime.now(UTC)
            old = self._memory.get(key, user_id=user_id)
            if old is not None:
                self._memory.update(key, user_id=user_id, text=write(old.text), occurred_at=now)
                return
            orders = (one.pinned_order + 1 for one in self._working(user_id))
            kept = {"name": name, "pinned_order": max(orders, default=0)}
            self._memory.remember(
                write(""), id=key, user_id=user_id, kind=BLOCK, occurred_at=now,
                metadata={OWN: kept},
            )  # fmt: skip

    # ---- what is known of a user ----

    async def profile(self, *, user_id: str | None = None) -> loomflow.MemoryProfile:
        """Return what there is of a user: counts, the last sessions and facts."""
        episodes, facts = await self._everything(user_id)
        sessions = dict.fromkeys(one.session_id or "" for one in episodes)
        return loomflow.MemoryProfile(
            user_id=user_id,
            episode_count=len(episodes),
            fact_count=len(facts),
            last_seen=episodes[0].occurred_at if episodes else None,
            recent_sessions=list(sessions)[:10],
            sample_facts=facts[:10],
        )

    async def export(self, *, user_id: str | None = None) -> loomflow.MemoryExport:
        """Return everything that a user has: episodes and facts, oldest first, and blocks."""
        episodes, facts = await self._everything(user_id)
        return loomflow.MemoryExport(
            user_id=user_id,
            episodes=[their_episode(one) for one in reversed(episodes)],
            facts=facts[::-1],
            blocks=await self.working(user_id=user_id),
        )

    async def _everything(self, user_id: str | None) -> tuple[list[Episode], list[loomflow.Fact]]:
        read = partial(self._memory.list, user_id=user_id, kind=EPISODE, limit=ALL)
        return await asyncio.to_thread(read), await self.facts.query(user_id=user_id, limit=ALL)

    async def forget(
        self,
        *,
        user_id: str | None = None,
        session_id: str | None = None,
        before: datetime | None = None,
    ) -> int:
        """Erase what a user has, of a session or from before a time; return how many memories.

        Parameters
        ----------
        user_id : str, optional
            None is the anonymous user, never everybody.
        session_id : str, optional
            Only its episodes.
        before : datetime, optional
            Only what happened before; a fact happened when it began to hold.

        Returns
        -------
        int
        """
        if session_id is None and before is None:
            before = _END
        return await asyncio.to_thread(
            self._memory.forget, user_id=user_id, session_id=session_id, before=before, erase=True
        )


def _embedder(given: Any) -> Any:
    """Return an embedder of loomflow's, whose methods are async, as one of ours."""
    if asyncio.iscoroutinefunction(embed_batch := getattr(given, "embed_batch", None)):
        return from_async(
            lambda texts: embed_batch(list(texts)), model=given.name, dim=given.dimensions
        )
    return given
