"""A backend that keeps episodes in Redis, a hash for each user, and ranks them here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hyrecall.base.keywords import check_keywords
from hyrecall.memory.backends.ranked_backend import RankedBackend
from hyrecall.memory.data.types import Episode

if TYPE_CHECKING:
    import redis

__all__ = ["RedisMemory"]


@check_keywords
class RedisMemory(RankedBackend):
    """Episodes in a Redis server; each recall reads the user's own and ranks them by words.

    Parameters
    ----------
    client : redis.Redis
        The sync client; calls run off the event loop.
    prefix : str, default "hyrecall:memory"
        Of the keys.

    Notes
    -----
    ``remember`` is one HSET. A recall or an export is one HVALS, which reads all that the user has,
    whatever the limit. ``forget`` is one HDEL; for all an HLEN, and a DELETE after it.
    """

    def __init__(self, client: redis.Redis, *, prefix: str = "hyrecall:memory") -> None:
        """Hold the client."""
        self._client: Any = client
        self._prefix = prefix

    def _keep(self, episode: Episode) -> None:
        self._client.hset(self._key(episode.user_id), episode.id, episode.model_dump_json())

    def _read(self, user: str | None) -> list[Episode]:
        kept = self._client.hvals(self._key(user))
        return sorted(map(Episode.model_validate_json, kept), key=lambda one: one.id)

    def _remove(self, user: str | None, key: str | None) -> int:
        at = self._key(user)
        if key is not None:
            return int(self._client.hdel(at, key))
        n = int(self._client.hlen(at))
        self._client.delete(at)
        return n

    def _key(self, user: str | None) -> str:
        # JSON tells None from "None", and no user's name can end another's.
        return f"{self._prefix}:{json.dumps(user, ensure_ascii=False)}"

    def __repr__(self) -> str:
        """Show the prefix; the client may hold a password."""
        return f"RedisMemory(prefix={self._prefix!r})"
