"""What a conversation has met so far: documents with the times of their last access."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from hyrecall.errors import DTypeError, OptionError, error

__all__ = ["Session"]

MOST_ACCESSED = 512
LONGEST = timedelta(hours=24)


@dataclass(frozen=True)
class Session:
    """The documents that a conversation got, for :class:`hyrecall.SessionSignals`.

    Parameters
    ----------
    accessed : mapping of key to datetime, default {}
        When each document was last given to this conversation; naive is UTC.
    n_recalls : int, default 0
        How often the conversation recalled before.

    Examples
    --------
    >>> from datetime import datetime
    >>> first = Session().after(["ann", "bo"], now=datetime(2026, 1, 1))
    >>> first.n_recalls, sorted(first.accessed)
    (1, ['ann', 'bo'])
    """

    accessed: Mapping[Any, datetime] = field(default_factory=dict)
    n_recalls: int = 0

    def __post_init__(self) -> None:
        """Check the parts and take a copy."""
        if not isinstance(self.accessed, Mapping):
            raise error(DTypeError, "accessed", "a mapping of key to datetime", repr(self.accessed))
        times = {}
        for key, time in self.accessed.items():
            if not isinstance(time, datetime):
                raise error(DTypeError, f"accessed[{key!r}]", "a datetime", repr(time))
            times[key] = time.replace(tzinfo=UTC) if time.tzinfo is None else time
        object.__setattr__(self, "accessed", times)
        count = self.n_recalls
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise error(OptionError, "n_recalls", "an int >= 0", repr(count))

    def after(self, keys: Iterable[Any], *, now: datetime) -> Session:
        """Give the session after one more recall that returned these documents.

        The newest 512 documents of the last 24 hours are kept; equal times by key.

        Parameters
        ----------
        keys : iterable
            What was returned: ``hits[0].keys``. What only surrounds it is no access.
        now : datetime
            Time of the recall: ``hits.now``.
        """
        at = now.replace(tzinfo=UTC) if now.tzinfo is None else now
        times = {**self.accessed, **dict.fromkeys(keys, at)}
        recent = [(key, time) for key, time in times.items() if time > at - LONGEST]
        recent.sort(key=lambda one: (-one[1].timestamp(), one[0]))
        return Session(dict(recent[:MOST_ACCESSED]), self.n_recalls + 1)
