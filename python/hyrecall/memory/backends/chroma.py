"""A backend that keeps episodes in a collection of Chroma, which embeds and ranks them."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from hyrecall.base.keywords import check_keywords
from hyrecall.memory.backends.ranked_backend import RankedBackend
from hyrecall.memory.data.fields import ANONYMOUS
from hyrecall.memory.data.types import Episode
from hyrecall.memory.recall.call import Ask
from hyrecall.memory.sql.codec import to_micros

__all__ = ["ChromaMemory"]


@check_keywords
class ChromaMemory(RankedBackend):
    """Episodes in a Chroma collection; each recall asks it within the user's own.

    Parameters
    ----------
    collection : object
        A ``chromadb`` collection: ``upsert``, ``query``, ``get``, ``delete``.

    Notes
    -----
    ``remember`` is one ``upsert``, which embeds the episode there. A recall is one ``query``, whose
    order is the reply's; for a blank query a ``get``, which reads all that the filters leave.
    ``forget`` is a ``get`` of the ids that the user has, and a ``delete``. A recall or an export
    raises PermissionError where the collection returns an episode of another user.
    """

    def __init__(self, collection: Any) -> None:
        """Hold the collection."""
        self._collection = collection

    def _keep(self, episode: Episode) -> None:
        kept = {
            "user": _owner(episode.user_id),
            "kind": episode.kind,
            "at": to_micros(episode.occurred_at),
            "episode": episode.model_dump_json(),
        }
        self._collection.upsert(
            ids=[_place(episode.user_id, episode.id)],
            documents=[episode.text or " "],
            metadatas=[kept],
        )

    def _recall(self, user: str | None, ask: Ask) -> list[Episode]:
        if ask.limit == 0:
            return []
        where = _where(user, ask)
        if ask.is_blank:
            found = self._collection.get(where=where, include=["metadatas"])
            kept = sorted(found["metadatas"], key=lambda one: one["at"], reverse=True)
        else:
            found = self._collection.query(
                query_texts=[ask.query],
                n_results=ask.limit,
                where=where,
                include=["metadatas"],
            )
            kept = found["metadatas"][0]
        return [_episode(one, user) for one in kept[: ask.limit]]

    def _read(self, user: str | None) -> list[Episode]:
        found = self._collection.get(where={"user": _owner(user)}, include=["metadatas"])
        return sorted((_episode(one, user) for one in found["metadatas"]), key=lambda one: one.id)

    def _remove(self, user: str | None, key: str | None) -> int:
        found = self._collection.get(where={"user": _owner(user)}, include=[])
        ids = [one for one in found["ids"] if key is None or one == _place(user, key)]
        if ids:
            self._collection.delete(ids=ids)
        return len(ids)


def _owner(user: str | None) -> str:
    """Return the name of a user where there is no null: nobody may have that of the anonymous."""
    return ANONYMOUS if user is None else user


def _place(user: str | None, key: str) -> str:
    return json.dumps([user, key], ensure_ascii=False)


def _where(user: str | None, ask: Ask) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"user": _owner(user)}]
    if ask.kind is not None:
        parts.append({"kind": ask.kind})
    times: tuple[datetime | None, datetime | None] = ask.time_range or (None, None)
    for sign, time in zip(("$gte", "$lte"), times, strict=True):
        if time is not None:
            parts.append({"at": {sign: to_micros(time)}})
    return parts[0] if len(parts) == 1 else {"$and": parts}


def _episode(kept: dict[str, Any], user: str | None) -> Episode:
    """Read an episode; one that is another user's, whatever the server says, is refused."""
    episode = Episode.model_validate_json(kept["episode"])
    if episode.user_id != user:
        raise PermissionError("the collection gave an episode of another user")
    return episode
