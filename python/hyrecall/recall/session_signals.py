"""How much a conversation's past speaks for each document of a list."""

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
from hyrecall.ask.shaping import Phase, SessionSignals, Stage
from hyrecall.ask.shaping.checks import read_duration
from hyrecall.errors import DTypeError, OptionError, ShapeError, error
from hyrecall.recall.arms import read_keys

if TYPE_CHECKING:
    from hyrecall.recall.reach import Reach
    from hyrecall.segments.segments import IndexFacts


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
    reach: Callable[[object, Sequence[Sequence[Any]], int], Reach],
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
    sources = [list(one) for one in hot]
    near = reach(stage.graph, sources, stage.hops)
    hot_offsets, hot_keys = near.bound.graph.flat_keys("hot", sources)
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
