"""Keeps conversations in Redis, for several processes that serve the same ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from hyrecall import Session
from hyrecall.base.arguments import check_keywords
from hyrecall.memory.data.sessions import SessionName, still_known
from hyrecall.memory.sql.codec import from_micros, to_micros
from hyrecall.stages.session import LONGEST

if TYPE_CHECKING:
    import redis


@check_keywords
class RedisSessions:
    """As :class:`InProcessSessions`, in a Redis server; a conversation is one value there.

    It has no end but that of 24 hours: the server forgets by itself.

    Parameters
    ----------
    client : redis.Redis
        With timeouts of its own, so that a call that is left behind ends too.
    prefix : str, default "hyrecall:session"
        Of the keys, per store: stores that share a server must not share conversations.
    """

    def __init__(self, client: redis.Redis, *, prefix: str = "hyrecall:session") -> None:
        """Hold the client; nothing is asked yet."""
        self._client: Any = client  # its stubs give unions of sync and async replies
        self._prefix = prefix

    def session(self, name: SessionName, *, now: datetime) -> Session:
        """Return what it met in 24 hours, as :meth:`hyrecall.memory.SessionTracker.session`.

        One GET; what the client raises, it raises.
        """
        return _read(self._client.get(self._key(name)), now)

    def record(self, name: SessionName, ids: Sequence[str], *, now: datetime) -> None:
        """Keep what a recall gave, as :meth:`hyrecall.memory.SessionTracker.record`.

        A watched transaction, tried again where others record at the same time.
        """
        key = self._key(name)

        def add(pipe: Any) -> None:
            session = _read(pipe.get(key), now).after(ids, now=now)
            pipe.multi()
            pipe.set(key, _written(session, now), ex=int(LONGEST.total_seconds()))

        self._client.transaction(add, key)

    def _key(self, name: SessionName) -> str:
        # JSON, because joined names would let ("a:b", "c") meet ("a", "b:c").
        return f"{self._prefix}:{json.dumps(name, ensure_ascii=False)}"

    def __repr__(self) -> str:
        """Show the prefix; the client may hold a password."""
        return f"RedisSessions(prefix={self._prefix!r})"


def _written(session: Session, last: datetime) -> str:
    accessed = {str(key): to_micros(at) for key, at in session.accessed.items()}
    kept = {"last": to_micros(last), "n_recalls": session.n_recalls, "accessed": accessed}
    return json.dumps(kept, ensure_ascii=False)


def _read(raw: bytes | str | None, now: datetime) -> Session:
    if raw is None:
        return Session()
    kept = json.loads(raw)
    accessed = {key: from_micros(at) for key, at in kept["accessed"].items()}
    return still_known(Session(accessed, kept["n_recalls"]), from_micros(kept["last"]), now)
