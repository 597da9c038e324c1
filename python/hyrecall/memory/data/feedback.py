"""What a store is told, and tells, of the memories that helped with a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.memory.data.fields import check_id

__all__ = ["QueryFeedback", "read_query", "read_used"]

MOST_USED = 1_000
"""Memories that one call may name."""

MOST_QUERY_BYTES = 65_536


@check_keywords
@dataclass(frozen=True)
class QueryFeedback:
    """A query and the memories that helped with it.

    Attributes
    ----------
    query : str
    used : tuple of str
        The ids of the memories, in the order in which they were first named.
    at : datetime
        When one of them was last named, in UTC.
    """

    query: str
    used: tuple[str, ...]
    at: datetime


def read_query(query: object) -> str:
    """Check the query of a feedback."""
    if not isinstance(query, str):
        raise error(DTypeError, "query", "a str", type(query).__name__)
    try:
        n_bytes = len(query.encode())
    except UnicodeEncodeError as fault:
        raise error(OptionError, "query", "valid Unicode", fault.reason) from None
    if not query.strip() or "\0" in query or n_bytes > MOST_QUERY_BYTES:
        wish = f"1 to {MOST_QUERY_BYTES:,} bytes, not blank, without NUL"
        raise error(OptionError, "query", wish, repr(query[:80]))
    return query


def read_used(used: object) -> tuple[str, ...]:
    """Check the ids of a feedback, and return each once."""
    if isinstance(used, str | bytes) or not isinstance(used, Sequence):
        raise error(DTypeError, "used", "a sequence of ids", type(used).__name__)
    if not 0 < len(used) <= MOST_USED:
        raise error(OptionError, "used", f"1 to {MOST_USED:,} ids", len(used))
    return tuple(dict.fromkeys(check_id(f"used[{at}]", one) for at, one in enumerate(used)))
