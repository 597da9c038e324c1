"""Checks the arguments of one recall and freezes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import reduce
from operator import and_
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from hyrecall.ask.filter_like import FilterLike
from hyrecall.ask.filters import Filter
from hyrecall.ask.grouping import read_surrounding
from hyrecall.ask.recipe import Dense, Recipe
from hyrecall.ask.shaping import SessionSignals
from hyrecall.base.arguments import as_int, number, python_scalar
from hyrecall.embed.protocol import NORMS, norms
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.memory.data.fields import check_id, flag, in_utc
from hyrecall.memory.derived.row_filters import read_narrowing
from hyrecall.memory.recall.audience import EVERYONE, AskedBy
from hyrecall.memory.recall.recipe_options import (
    Floors,
    Reranker,
    adapted,
    balanced,
    check_floors,
    with_hints,
)

__all__ = ["Ask", "Hints", "TimeRange", "holding", "read_ask"]

TimeRange = tuple[date | None, date | None]
"""A first and a last time, both included; a date alone is the whole day in UTC."""

Hints: TypeAlias = "Sequence[str] | Mapping[str, float]"
"""Ids that a caller names: best first, or each with a score."""

_MOST: Final = 2**31 - 1  # what a depth may be


@dataclass(frozen=True, kw_only=True)
class Ask:
    """The checked arguments of one recall."""

    query: str
    by: AskedBy
    recipe: Recipe
    by_words: Recipe
    kind: str | None = None
    time_range: tuple[datetime | None, datetime | None] | None = None
    tags: tuple[str, ...] | None = None
    valid_at: datetime | None = None
    own_filter: Filter | None = None
    limit: int = 10
    offset: int = 0
    vector: npt.NDArray[np.float32] | None = None
    session_id: str | None = None
    touch: bool = False
    embed_timeout: float | None = None
    now: datetime | None = None
    candidates: Hints | None = None
    around: int = 0
    include_ended: bool = False
    holds_at: datetime | None = None

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to search for: a blank query and no vector."""
        return self.vector is None and not self.query.strip()

    @property
    def filter(self) -> Filter | None:
        """Kind, time range, tags, validity and the caller's own filter, joined as one."""
        parts: list[Filter] = []
        if self.kind is not None:
            parts.append(Filter(kind=self.kind))
        if self.time_range is not None and self.time_range != (None, None):
            parts.append(Filter(occurred_at=self.time_range))
        if self.tags is not None:
            parts.append(Filter(tags=list(self.tags)))
        if self.valid_at is not None:
            # Valid in [valid_from, valid_to): a range has both its ends, and no null.
            parts.append(Filter(valid_from=(None, self.valid_at)))
            parts.append(~Filter(valid_to=(None, self.valid_at)))
        if self.own_filter is not None:
            parts.append(self.own_filter)
        return reduce(and_, parts) if parts else None

    def of_what_holds(self, now: datetime) -> Ask:
        """Return the call without facts that do not hold; a time of its own decides instead."""
        if self.include_ended or self.valid_at is not None:
            return self
        holds = holding(now)
        own = holds if self.own_filter is None else self.own_filter & holds
        return replace(self, own_filter=own, holds_at=now)

    @property
    def uses_vector(self) -> bool:
        """Whether the query's vector affects the reply."""
        if self.is_blank or self.limit == 0:
            return False
        return any(isinstance(arm, Dense) and arm.weight > 0 for arm in self.recipe.arms)

    @property
    def wants_session(self) -> bool:
        """Whether the session affects the reply."""
        stages = self.recipe.shaping
        has = any(isinstance(stage, SessionSignals) for stage in stages)
        return self.session_id is not None and has


def holding(now: datetime) -> Filter:
    """Return the filter that all pass but facts that have ended by a time, or not begun then."""
    # What is no fact has no begin and no end, and these are in no range.
    last = datetime.max.replace(tzinfo=UTC) - timedelta.resolution
    begins_later = Filter(valid_from=(min(now, last) + timedelta.resolution, None))
    return ~Filter(valid_to=(None, now)) & ~begins_later


def read_ask(
    query: object,
    by: AskedBy,
    recipe: Recipe,
    *,
    kind: str | None = None,
    limit: int = 10,
    offset: int = 0,
    time_range: TimeRange | None = None,
    tags: Sequence[str] | None = None,
    valid_at: datetime | None = None,
    filter: FilterLike | None = None,  # noqa: A002
    metadata: Mapping[str, object] | None = None,
    alpha: float | None = None,
    vector: object = None,
    session_id: str | None = None,
    reranker: Reranker | None = None,
    diversity: float | None = None,
    normalize: bool = False,
    min_score: Floors = None,
    token_budget: int | None = None,
    candidates: Hints | None = None,
    around: int = 0,
    touch: bool = False,
    embed_timeout: float | None = None,
    now: datetime | None = None,
    include_ended: bool = False,
    deepen: bool = False,
) -> Ask:
    """Check the arguments of a recall; ``deepen`` lets the recipe's depth follow the limit."""
    if by.user is EVERYONE:
        raise error(OptionError, "user_id", "a user, or None for the anonymous one", "EVERYONE")
    text = _text(query)
    if not text.strip() and vector is None and recipe.on_empty == "error":
        raise error(OptionError, "query", f"words ({recipe.name})", "blank text")
    n, skipped = _count("limit", limit), _count("offset", offset)
    if deepen:
        recipe = recipe.replace(depth=min(max(recipe.depth, n + skipped), _MOST))
    elif n + skipped > recipe.depth:
        wish = f"limit + offset <= {recipe.depth} (the recipe's depth)"
        mend = f"recipe=recipe.replace(depth={n + skipped})"
        raise error(OptionError, "limit", wish, n + skipped, mend)
    hints = read_hints(candidates)
    by_words = adapted(
        recipe if hints is None else with_hints(recipe),
        reranker=reranker,
        diversity=diversity,
        normalize=normalize,
        min_score=min_score,
        token_budget=token_budget,
    )
    recipe = balanced(by_words, alpha)
    check_floors(recipe, min_score)
    return Ask(
        query=text,
        by=by,
        recipe=recipe,
        by_words=by_words,
        kind=None if kind is None else check_id("kind", kind),
        time_range=read_times(time_range),
        tags=read_tags(tags),
        valid_at=None if valid_at is None else in_utc(_time("valid_at", valid_at)),
        own_filter=read_narrowing(filter, metadata),
        limit=n,
        offset=skipped,
        vector=_vector(vector),
        session_id=None if session_id is None else check_id("session_id", session_id),
        touch=flag("touch", touch),
        embed_timeout=read_seconds("embed_timeout", embed_timeout),
        now=None if now is None else in_utc(_time("now", now)),
        candidates=hints,
        around=read_surrounding("around", around),
        include_ended=flag("include_ended", include_ended),
    )


def read_seconds(argument: str, seconds: object) -> float | None:
    """Read the seconds to wait for an embedder; 0 does not wait."""
    if seconds is None:
        return None
    return number(argument, seconds, 0.0, 3600.0, "seconds in [0, 3600]")


# ---- arguments ----


def _text(query: object) -> str:
    if not isinstance(query, str):
        raise error(DTypeError, "query", "a str", type(query).__name__)
    try:
        query.encode()
    except UnicodeEncodeError as fault:
        raise error(OptionError, "query", "valid Unicode", fault.reason) from None
    return query


def _count(argument: str, value: object) -> int:
    count = as_int(value)
    if count is None or not 0 <= count <= _MOST:
        raise error(OptionError, argument, "an int >= 0", repr(value))
    return count


def _time(argument: str, value: object) -> datetime:
    if not isinstance(value, datetime):
        raise error(DTypeError, argument, "a datetime", type(value).__name__)
    return value


def _vector(given: object) -> npt.NDArray[np.float32] | None:
    if given is None:
        return None
    try:
        with np.errstate(over="ignore"):  # becomes an infinity, which is refused
            row = np.asarray(python_scalar(given), np.float32)
    except (TypeError, ValueError, OverflowError):  # an int that no float holds
        raise error(DTypeError, "vector", "a row of numbers", type(given).__name__) from None
    if row.ndim != 1 or not len(row):
        raise error(OptionError, "vector", "one row of numbers", f"shape {row.shape}")
    if not np.isfinite(row).all():
        raise error(OptionError, "vector", "finite numbers", "NaN or infinity")
    found, is_taken = norms(row[np.newaxis])
    if not is_taken.all():
        raise error(OptionError, "vector", NORMS, f"{found[0]:g}")
    return row


def read_hints(given: object) -> Hints | None:
    """Read ids, best first, or ids with scores."""
    if given is None:
        return None
    if isinstance(given, Mapping):
        wish = "a finite number of float32"
        return {
            check_id("candidates", key): number(f"candidates[{key!r}]", score, -3e38, 3e38, wish)
            for key, score in given.items()
        }
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise error(DTypeError, "candidates", "ids, or a mapping of ids to scores", repr(given))
    return tuple(check_id("candidates", key) for key in given)


def read_tags(tags: object) -> tuple[str, ...] | None:
    """Read tags, of which a memory must have at least one; None admits every memory."""
    if tags is None:
        return None
    if isinstance(tags, str | bytes) or not isinstance(tags, Sequence):
        raise error(DTypeError, "tags", "a sequence of str", repr(tags))
    return tuple(check_id("tags", tag) for tag in tags)


def read_times(time_range: object) -> tuple[datetime | None, datetime | None] | None:
    """Read a first and a last time, both included, as datetimes in UTC."""
    # None is an open end, a date the whole day; naive times are UTC.
    if time_range is None:
        return None
    if not isinstance(time_range, tuple | list) or len(time_range) != 2:
        raise error(DTypeError, "time_range", "(first, last)", repr(time_range))
    first, last = time_range
    return _in_utc(first, time.min), _in_utc(last, time.max)


def _in_utc(end: object, of_day: time) -> datetime | None:
    if end is None:
        return None
    if isinstance(end, date) and not isinstance(end, datetime):
        end = datetime.combine(end, of_day)
    if not isinstance(end, datetime):
        raise error(DTypeError, "time_range", "a datetime or a date", type(end).__name__)
    return in_utc(end)
