"""Scores the entries of fused lists anew by age, weight or both, and orders the lists by it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.shaping import Composite, Provenance, Recency
from hyrecall.ask.shaping.checks import read_duration
from hyrecall.base.ages import age_seconds, importances
from hyrecall.recall.fused_lists import Array, FusedLists, by_value
from hyrecall.recall.leading import lead
from hyrecall.segments.segments import State, gather_column

__all__ = ["rescored"]


def rescored(
    stage: Provenance | Recency | Composite,
    pool: FusedLists,
    state: State,
    now: datetime,
    threads: int,
) -> FusedLists:
    """Return the lists after a stage whose new score of an entry depends on that entry alone."""
    # Equal scores are ordered as the fused lists order them, or by place where a rerank chose the
    # places. What comes first for what it holds stays there.
    entries = _Entries(pool, state, threads)
    if isinstance(stage, Provenance):
        return _by_weight(stage, entries)
    return (
        _by_age(stage, entries, now) if isinstance(stage, Recency) else _mixed(stage, entries, now)
    )


class _Entries:
    """The entries of lists, with the columns of their rows."""

    def __init__(self, pool: FusedLists, state: State, threads: int) -> None:
        self.pool = pool
        self.order = pool.arrays["tie_rank"], threads
        self._state = state

    def column(self, name: str) -> pa.Array:
        """Return a row column of every entry."""
        arrays = self.pool.arrays
        return gather_column(self._state.segments, arrays["segment"], arrays["row"], name)

    def after(self, found: Any, **told: Array) -> FusedLists:
        """Return the lists with their new scores, in the order of these."""
        scored = self.pool.with_arrays(**told, score=found["score"])
        return lead(scored.take(found["ordered"]))


def _by_weight(stage: Provenance, entries: _Entries) -> FusedLists:
    column = entries.column(stage.column)
    weight = by_value(column, stage.by_value, stage.default, stage.column)
    found = _core.shaping.rescore_by_weight(entries.pool.native, weight, *entries.order)
    change = found["score"] - entries.pool.score
    return entries.after(found, provenance_weight=weight, provenance_change=change)


def _by_age(stage: Recency, entries: _Entries, now: datetime) -> FusedLists:
    age = age_seconds(entries.column(stage.column), now)
    half_life, each = read_duration("half_life", stage.half_life), np.zeros(0)
    if stage.by is not None:
        each = by_value(entries.column(stage.by), stage.by_value, half_life, stage.by)
    found = _core.shaping.rescore_by_age(
        entries.pool.native, age, half_life, each, stage.exponent, *entries.order
    )
    factor = found["signal"]
    if (factor == 1.0).all():  # nothing is penalised: the list stays as it is, to the last bit
        return entries.pool.with_arrays(recency_factor=factor, score=found["score"])
    return entries.after(found, recency_factor=factor)


def _mixed(stage: Composite, entries: _Entries, now: datetime) -> FusedLists:
    age = age_seconds(entries.column(stage.time), now)
    half_life = read_duration("half_life", stage.half_life)
    importance = importances(entries.column(stage.rating), stage.default, stage.scale)
    weights = stage.recency, stage.importance, stage.relevance
    found = _core.shaping.rescore_by_composite(
        entries.pool.native, age, half_life, importance, weights, *entries.order
    )
    return entries.after(
        found,
        recency_score=found["signal"],
        importance_score=importance,
        relevance_score=entries.pool.score,
        composite_raw=found["raw"],
    )
