"""loomflow's facts over a durable store, and how its episodes and facts are kept there."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any, Final

from hyrecall.adapters.degraded import warn_if_degraded
from hyrecall.adapters.extras import needs_extra
from hyrecall.base.ages import utc
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, error
from hyrecall.memory import EVERYONE, Episode, Fact, MemorySync

with needs_extra("loomflow"):
    import loomflow

__all__ = ["ALL", "FACT", "OWN", "HyrecallFacts", "own_fields", "their_episode"]

ALL: Final = 2**31 - 1
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
    :meth:`query` and :meth:`all_facts` read all that the users have.
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
        asked = {"subject": subject, "predicate": predicate, "object": object_}
        found = [
            one
            for one in await asyncio.to_thread(self._read, user_id)
            if all(want is None or getattr(one, name) == want for name, want in asked.items())
            and (valid_at is None or _holds(one, valid_at))
        ]
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
        return await asyncio.to_thread(self._read, EVERYONE)

    async def delete(self, *, user_id: str | None = None, before: datetime | None = None) -> int:
        """Erase the facts of a user, or those recorded before a time; return how many."""

        def delete() -> int:
            cut = None if before is None else utc("before", before)
            old = [one for one in self._read(user_id) if cut is None or one.recorded_at < cut]
            return sum(self._memory.forget(one.id, user_id=user_id, erase=True) > 0 for one in old)

        return await asyncio.to_thread(delete)

    async def count(self, *, user_id: str | None = None) -> int:
        """Return how many facts a user has."""
        found = await asyncio.to_thread(self._memory.list, user_id=user_id, kind=FACT, limit=ALL)
        return len(found)

    async def aclose(self) -> None:
        """Do nothing: the store is its owner's."""

    def _read(self, user_id: Any) -> list[loomflow.Fact]:
        """Return the facts of a user, the one recorded last first."""
        lines = self._memory.export(user_id=user_id)
        assert isinstance(lines, list)  # no file is written
        versions = (line["version"] for line in lines if "fact" in line.get("version", {}))
        found = [
            _their_fact(
                Fact(id=one["id"], user_id=one.get("user_id"), **one["fact"]), one["recorded_at"]
            )
            for one in versions
        ]
        return sorted(found, key=lambda one: one.recorded_at, reverse=True)


def own_fields(episode: Episode) -> dict[str, Any]:
    """Return what only loomflow reads."""
    own: Any = episode.metadata.get(OWN)
    return own if isinstance(own, dict) else {}


def their_episode(one: Episode) -> loomflow.Episode:
    """Return an episode of the store as one of loomflow's; its vector stays in the store."""
    return loomflow.Episode(
        id=one.id, session_id=one.session_id or "", user_id=one.user_id,
        occurred_at=one.occurred_at, input=one.input, output=one.output, **own_fields(one),
    )  # fmt: skip


def _their_fact(one: Fact, recorded_at: str | None = None) -> loomflow.Fact:
    """Return a fact of ours as one of theirs, which says when it was recorded if we know."""
    own: Any = one.metadata.get(OWN)
    fields = dict(own) if isinstance(own, dict) else {}
    if recorded_at is not None:
        fields.setdefault("recorded_at", recorded_at)
    return loomflow.Fact(
        id=one.id, user_id=one.user_id, subject=one.subject, predicate=one.predicate,
        object=one.object, valid_from=one.valid_from, valid_until=one.valid_to, **fields,
    )  # fmt: skip


def _holds(fact: loomflow.Fact, time: datetime) -> bool:
    at = utc("valid_at", time)
    return fact.valid_from <= at and (fact.valid_until is None or at < fact.valid_until)
