"""loomflow's facts over a durable store, and how its episodes and facts are kept there."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any, Final

from hyrecall.adapters.degraded import warn_if_degraded
from hyrecall.adapters.extras import needs_extra
from hyrecall.adapters.memories import ALL
from hyrecall.base.ages import utc
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, error
from hyrecall.memory import EVERYONE, Episode, Fact, MemorySync

with needs_extra("loomflow"):
    import loomflow

__all__ = ["FACT", "OWN", "HyrecallFacts", "own_fields", "their_episode"]

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

    Raises
    ------
    DTypeError
        Not a store.

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
        occurred_at=one.occurred_at, input=one.input, output=one.output, **own_fields(one),
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
