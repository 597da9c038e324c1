"""How hits are shown: one a row or one a thread, and how many rows around each."""

from __future__ import annotations

from typing import NamedTuple

from hyrecall.base.arguments import as_int
from hyrecall.errors import OptionError, error

__all__ = ["Grouping", "read_grouping", "read_surrounding"]

MOST_AROUND = 100
"""Rows on either side of a hit."""


class Grouping(NamedTuple):
    """How hits are shown: one a thread or one a row, and how many rows on either side of each."""

    by_thread: bool
    n_around: int


def read_grouping(group: object, surrounding: object, *, has_threads: bool) -> Grouping | None:
    """Read ``group=`` and ``surrounding=``; None: neither is asked for."""
    if group is not None and not (isinstance(group, str) and group == "thread"):
        raise error(OptionError, "group", "'thread', or None", repr(group))
    n_around = read_surrounding("surrounding", surrounding)
    if group is None and not n_around:
        return None
    if not has_threads:
        argument = "surrounding" if group is None else "group"
        raise error(OptionError, argument, "a schema with thread=", "one without")
    return Grouping(group is not None, n_around)


def read_surrounding(argument: str, given: object) -> int:
    """Read how many rows on either side of a hit are shown."""
    n_around = as_int(given)
    if n_around is None or not 0 <= n_around <= MOST_AROUND:
        raise error(OptionError, argument, f"an int in [0, {MOST_AROUND}]", repr(given))
    return n_around
