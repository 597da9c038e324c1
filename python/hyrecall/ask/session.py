"""What a conversation has met so far: documents with the times of their last access."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from hyrecall.base.ages import utc
from hyrecall.base.arguments import listed, plain, set_fields, whole
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, OptionError, error

__all__ = ["Session"]

MOST_ACCESSED = 512
LONGEST = timedelta(hours=24)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@check_keywords
@dataclass(frozen=True)
class Session:
    """The documents that a conversation got, for :class:`hyrecall.SessionSignals`.

    Parameters
    ----------
    accessed : mapping of key to datetime, default {}
        When each document was last given to this conversation; naive is UTC. Keys are all str or
        all ints.
    n_recalls : int, default 0
        How often the conversation recalled before.

    Raises
    ------
    DTypeError
        Not a mapping, keys of several types or of another one, or a time that is no datetime.
    OptionError
        A number of recalls below 0.

    Notes
    -----
    Documents are known by key alone, though (cell, key) is what names one: a key that lies in
    several cells of a query's scope stands for all of them, as in :class:`hyrecall.Graph`.

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
        keys = _read_keys("accessed", self.accessed)
        times = [utc(f"accessed[{key!r}]", time) for key, time in self.accessed.items()]
        set_fields(self, accessed=dict(zip(keys, times, strict=True)))
        count = whole(self.n_recalls)
        if count is None or count < 0:
            raise error(OptionError, "n_recalls", "an int >= 0", repr(self.n_recalls))
        set_fields(self, n_recalls=count)

    def after(self, keys: Iterable[Any], *, now: datetime) -> Session:
        """Return the session after one more recall that returned these documents.

        The newest 512 documents of the last 24 hours are kept; equal times by key.

        Parameters
        ----------
        keys : iterable
            What was returned: ``hits[0].keys``. What only surrounds it is no access.
        now : datetime
            Time of the recall: ``hits.now``; naive is UTC.

        Returns
        -------
        Session
            Another one; this one stays.

        Raises
        ------
        DTypeError
            Not keys, keys of another type than those before, or a time that is no datetime.
        """
        at = utc("now", now)
        met = _read_keys("keys", keys)
        times = {**self.accessed, **dict.fromkeys(met, at)}
        _read_keys("keys", times)  # old and new ones are of one type
        recent = [(key, time) for key, time in times.items() if at - time < LONGEST]
        recent.sort(key=lambda one: (_EPOCH - one[1], one[0]))
        return Session(dict(recent[:MOST_ACCESSED]), self.n_recalls + 1)


def _read_keys(argument: str, given: object) -> list[Any]:
    """Take keys of one type; one str alone is none: it would fall into letters."""
    given = listed(given)
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise error(DTypeError, argument, "a sequence of keys", repr(given))
    keys = [plain(key) for key in given]
    for key in keys:
        kind = str if isinstance(keys[0], str) else int
        if not isinstance(key, kind) or isinstance(key, bool):
            got = f"{type(key).__name__} {key!r}"
            raise error(DTypeError, argument, "keys that are all str or all int", got)
    return keys
