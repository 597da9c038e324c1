"""Session signals as a stage, and the checks of stages that need an index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.session import Session
from hyrecall.ask.shaping import (
    MMR,
    Budget,
    Composite,
    Dedup,
    Linear,
    Phase,
    Recency,
    Rerank,
    RerankBy,
    SessionSignals,
    Stage,
)
from hyrecall.ask.shaping.checks import read_duration
from hyrecall.errors import DTypeError, OptionError, ShapeError, error
from hyrecall.recall.arms import ordered_attribute, read_keys
from hyrecall.recall.linear import check_linear
from hyrecall.recall.plan import Plan
from hyrecall.segments.segments import IndexFacts

if TYPE_CHECKING:
    from hyrecall.recall.reach import Reach

Floats = npt.NDArray[np.float64]
Sessions = tuple[Session | None, ...]


def read_sessions(
    facts: IndexFacts, given: object, stages: Sequence[Stage], n_queries: int
) -> Sessions:
    """Take ``session=``: one for all queries, or a list with one entry per query."""
    if given is None:
        return (None,) * n_queries
    if not any(isinstance(stage, SessionSignals) for stage in stages):
        raise error(OptionError, "session", "SessionSignals among the stages", "none")
    sessions = given if isinstance(given, list) else [given] * n_queries
    if len(sessions) != n_queries:
        raise error(ShapeError, "session", f"{n_queries} entries, one per query", len(sessions))
    for at, one in enumerate(sessions):
        if one is not None and not isinstance(one, Session):
            wish = "an hr.Session, None, or a list of them"
            raise error(DTypeError, "session", wish, repr(one))
        if one is not None:
            read_keys(f"session[{at}].accessed", list(one.accessed), facts)
    return tuple(sessions)


def phase_of(stage: SessionSignals, session: Session | None) -> Phase:
    """Return the weights of a query: general alone where there is nothing to go by."""
    phase = stage.phase_of(0 if session is None else session.n_recalls)
    if session is None or not session.accessed:
        return replace(phase, general=1.0, topical=0.0, session=0.0)
    return phase


def phases_of(stages: Sequence[Stage], sessions: Sessions) -> tuple[Phase, ...] | None:
    """Return the weights of each query's signals; None where no stage weighs them."""
    stage = next((one for one in stages if isinstance(one, SessionSignals)), None)
    return None if stage is None else tuple(phase_of(stage, one) for one in sessions)


def session_signals(
    stage: SessionSignals,
    facts: IndexFacts,
    sessions: Sessions,
    offsets: npt.NDArray[np.int64],
    keys: pa.Array,
    *,
    reach: Callable[[object], Reach],
    now: datetime,
) -> tuple[Floats, Floats]:
    """Return (topical, session) of documents, per query back to back."""
    import pyarrow.compute as pc

    half_life = read_duration("half_life", stage.half_life)
    warmth = [_session_scores(one, now, half_life) for one in sessions]
    session = np.zeros(len(keys))
    for (begin, end), warm in zip(pairwise(offsets.tolist()), warmth, strict=True):
        if warm:
            met = read_keys("session.accessed", list(warm), facts)
            at = pc.index_in(keys.slice(begin, end - begin), met).fill_null(-1).to_numpy()
            session[begin:end] = np.where(at < 0, 0.0, np.array(list(warm.values()))[at])
    if stage.graph is None or not any(warmth):
        return np.zeros(len(session)), session
    hot = [_hot(stage, warm) for warm in warmth]
    near = reach(stage.graph)
    hot_offsets, hot_keys = near.bound.graph.flat_keys("hot", [list(one) for one in hot])
    scores = np.array([score for one in hot for score in one.values()], np.float64)
    topical = near.adjacency.spread(hot_offsets, hot_keys, scores, offsets, keys, stage.hops)
    return topical, session


def signal_sums(phases: Sequence[Phase], counts: Any, signals: Sequence[Floats]) -> Floats:
    """Weigh (general, topical, session) of each query's documents."""
    weights = [(one.general, one.topical, one.session) for one in phases]
    general, topical, session = np.repeat(np.array(weights).reshape(-1, 3), counts, axis=0).T
    return _core.shaping.composite_sums(
        general, signals[0], topical, signals[1], session, signals[2]
    )


def _session_scores(session: Session | None, now: datetime, half_life: float) -> dict[Any, float]:
    if session is None or not session.accessed:
        return {}
    ages = np.array([(now - time).total_seconds() for time in session.accessed.values()])
    scores = _core.shaping.recency_factors(ages, half_life, 1.0)
    return dict(zip(session.accessed, scores.tolist(), strict=True))


def _hot(stage: SessionSignals, warm: dict[Any, float]) -> dict[Any, float]:
    kept = [(key, score) for key, score in warm.items() if score >= stage.min_hot]
    return dict(sorted(kept, key=lambda one: (-one[1], one[0]))[: stage.n_hot])


# ---- Whether an index can answer the stages of a call ----


def check_shaping(facts: IndexFacts, plan: Plan) -> None:
    """Check that an index and a plan can answer the stages; before anything is computed."""
    known = facts.schema.row_columns
    if plan.fill is not None:
        ordered_attribute("Fill.column", plan.fill.column, facts)
    for tie in plan.tie_break:
        if tie.column not in known:
            raise error(OptionError, "tie_break", f"columns of {list(known)}", repr(tie.column))
    for stage in plan.stages:
        for option in ("column", "by", "keep", "time", "rating"):
            column = getattr(stage, option, None)
            if column is not None and column not in known:
                wish = f"a column of {list(known)}"
                raise error(OptionError, f"{type(stage).__name__}.{option}", wish, repr(column))
        _check_kinds(facts, stage)
        if isinstance(stage, Linear):
            check_linear(facts, plan, stage)
        if isinstance(stage, RerankBy | Budget):
            text_columns(facts, stage)
        if isinstance(stage, Rerank | Dedup | MMR):
            arm = vector_arm(facts, stage)
            if isinstance(stage, Rerank) and not plan.places(arm):
                wish = f"an arm that runs ({list(plan.arms)} do)"
                raise error(OptionError, "Rerank.vector", wish, repr(arm))


def _check_kinds(facts: IndexFacts, stage: Stage) -> None:
    times = {"Recency.column": stage.column} if isinstance(stage, Recency) else {}
    if isinstance(stage, Composite):
        times["Composite.time"] = stage.time
        kind = facts.row_types[stage.rating]
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            got = f"{stage.rating!r} of {kind}"
            raise error(DTypeError, "Composite.rating", "a numeric column", got)
    for argument, column in times.items():
        kind = facts.row_types[column]
        if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
            raise error(DTypeError, argument, "a timestamp or date column", f"{column!r} of {kind}")


def vector_arm(facts: IndexFacts, stage: Rerank | Dedup | MMR) -> str:
    """Return the vector arm that a stage reads."""
    arms = list(facts.vector_arms)
    argument = f"{type(stage).__name__}.vector"
    if stage.vector is None and len(arms) != 1:
        wish = f"one of {arms}" if arms else "an index with a vector arm"
        raise error(OptionError, argument, wish, "None" if arms else "one without")
    if stage.vector is not None and stage.vector not in arms:
        raise error(OptionError, argument, f"one of {arms}", repr(stage.vector))
    return stage.vector or arms[0]


def text_columns(facts: IndexFacts, stage: RerankBy | Budget) -> tuple[str, ...]:
    """Return the stored columns whose joined text a stage reads: its own, or the first arm's."""
    stored = facts.schema.row_columns
    columns = facts.schema.first_texts if stage.column is None else (stage.column,)
    argument = f"{type(stage).__name__}.column"
    for column in columns or (None,):
        if column is None or column not in stored:
            raise error(OptionError, argument, f"a stored column of {list(stored)}", repr(column))
        if not pa.types.is_large_string(facts.row_types[column]):
            raise error(DTypeError, argument, "a text column", facts.row_types[column])
    return columns
