"""Records which documents a conversation has received, with the time of the last access."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from hyrecall.base.arguments import as_int, as_list, check_keywords, python_scalar, set_fields
from hyrecall.base.times import utc
from hyrecall.errors import DTypeError, OptionError, error

MOST_ACCESSED = 512
LONGEST = timedelta(hours=24)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@check_keywords
@dataclass(frozen=True)
class Session:
    """The documents that a conversation has received, for :class:`hyrecall.SessionSignals`.

    Parameters
    ----------
    accessed : mapping of key to datetime, default {}
        The time when this conversation last received each document; naive times are UTC. Keys are
        all str or all int.
    n_recalls : int, default 0
        Number of earlier recalls of the conversation.

    Raises
    ------
    DTypeError
        Not a mapping, keys of mixed or other types, or a time that is not a datetime.
    OptionError
        A negative number of recalls.

    Notes
    -----
    Documents are identified by key only, not by (cell, key): a key in several cells of a query's
    scope means all of its documents, as in :class:`hyrecall.Graph`.

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
        """Check the fields and copy the mapping."""
        if not isinstance(self.accessed, Mapping):
            raise error(DTypeError, "accessed", "a mapping of key to datetime", repr(self.accessed))
        keys = _read_keys("accessed", self.accessed)
        times = [utc(f"accessed[{key!r}]", time) for key, time in self.accessed.items()]
        set_fields(self, accessed=dict(zip(keys, times, strict=True)))
        count = as_int(self.n_recalls)
        if count is None or count < 0:
            raise error(OptionError, "n_recalls", "an int >= 0", repr(self.n_recalls))
        set_fields(self, n_recalls=count)

    def after(self, keys: Iterable[Any], *, now: datetime) -> Session:
        """Return the session after one more recall that returned these documents.

        It keeps the newest 512 documents of the last 24 hours; equal times are ordered by key.

        Parameters
        ----------
        keys : iterable
            The keys of the hits, ``hits[0].keys``, without documents shown beside them.
        now : datetime
            Time of the recall: ``hits.now``; a naive time is UTC.

        Returns
        -------
        Session
            A new session; this one does not change.

        Raises
        ------
        DTypeError
            Not a sequence of keys, keys of another type than the earlier ones, or a time that is
            not a datetime.
        """
        at = utc("now", now)
        met = _read_keys("keys", keys)
        times = {**self.accessed, **dict.fromkeys(met, at)}
        _read_keys("keys", times)  # old and new keys must have one type
        recent = [(key, time) for key, time in times.items() if at - time < LONGEST]
        recent.sort(key=lambda one: (_EPOCH - one[1], one[0]))
        return Session(dict(recent[:MOST_ACCESSED]), self.n_recalls + 1)


def _read_keys(argument: str, given: object) -> list[Any]:
    """Check keys of one type and return a list; a str alone is refused, not split into letters."""
    given = as_list(given)
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise error(DTypeError, argument, "a sequence of keys", repr(given))
    keys = [python_scalar(key) for key in given]
    for key in keys:
        kind = str if isinstance(keys[0], str) else int
        if not isinstance(key, kind) or isinstance(key, bool):
            got = f"{type(key).__name__} {key!r}"
            raise error(DTypeError, argument, "keys that are all str or all int", got)
    return keys
