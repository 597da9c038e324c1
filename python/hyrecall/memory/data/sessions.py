"""Keeps the documents that each conversation has received, in the memory of the process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from hyrecall.base.arguments import check_keywords, check_objects
from hyrecall.base.forks import free_in_children
from hyrecall.stages.session import LONGEST, Session

MOST_SESSIONS = 10_000


class SessionName(NamedTuple):
    """Names a conversation: within one reader's partition, so that nobody meets another's."""

    org: str | None
    workspace: str | None
    user: str | None
    session_id: str


@runtime_checkable
class SessionTracker(Protocol):
    """Keeps the documents that conversations received; any object with these members fits.

    It may raise or hang: a recall then goes on without it, and says so.
    """

    def session(self, name: SessionName, *, now: datetime) -> Session:
        """Return what a conversation has met; an unknown one is empty.

        Parameters
        ----------
        name : SessionName
        now : datetime
            In UTC.

        Returns
        -------
        Session
            Ids with the time of their last recall, and the number of recalls.
        """

    def record(self, name: SessionName, ids: Sequence[str], *, now: datetime) -> None:
        """Keep that a recall gave these memories.

        Parameters
        ----------
        name : SessionName
        ids : sequence of str
            None of them: it counts as a recall too.
        now : datetime
            In UTC.
        """


@check_keywords
class InProcessSessions:
    """Conversations in this process' memory.

    Each keeps the newest 512 memories of its last 24 hours, and is forgotten after 24 hours
    without a recall; of more than ``most`` conversations, those that recalled last are kept.

    Parameters
    ----------
    most : int, default 10,000
        Conversations.

    Examples
    --------
    >>> from datetime import UTC
    >>> sessions, noon = InProcessSessions(), datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> chat = SessionName(None, None, "alice", "chat-1")
    >>> sessions.record(chat, ["m1"], now=noon)
    >>> sorted(sessions.session(chat, now=noon).accessed)
    ['m1']
    """

    def __init__(self, most: int = MOST_SESSIONS) -> None:
        """Start empty."""
        self._most = most
        self._lock = free_in_children(threading.Lock())
        self._known: OrderedDict[SessionName, tuple[datetime, Session]] = OrderedDict()

    @check_objects
    def session(self, name: SessionName, *, now: datetime) -> Session:
        """Return what a conversation met in 24 hours, as :meth:`SessionTracker.session`."""
        with self._lock:
            last, session = self._known.get(name, (now, Session()))
        return still_known(session, last, now)

    @check_objects
    def record(self, name: SessionName, ids: Sequence[str], *, now: datetime) -> None:
        """Keep what a recall gave, as :meth:`SessionTracker.record`."""
        with self._lock:
            last, session = self._known.pop(name, (now, Session()))
            self._known[name] = (now, still_known(session, last, now).after(ids, now=now))
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def __len__(self) -> int:
        """Count the conversations that are kept."""
        return len(self._known)


def still_known(session: Session, last: datetime, now: datetime) -> Session:
    """Return a session without what is older than 24 hours."""
    # A clock that was set back takes nothing away: an access in the future is one of just now.
    if now - last >= LONGEST:
        return Session()
    recent = {key: at for key, at in session.accessed.items() if now - at < LONGEST}
    if len(recent) == len(session.accessed):
        return session
    return Session(recent, session.n_recalls)
