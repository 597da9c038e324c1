"""The stage that raises documents a conversation has received before: SessionSignals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from hyrecall import _core
from hyrecall.base.arguments import check_keywords, check_objects, convert_field, number, set_fields
from hyrecall.base.options import Duration, GraphLike, integer, plain_duration, read_duration, text
from hyrecall.errors import DTypeError, OptionError, ShapeError, error
from hyrecall.stages.lists import Floats, FusedLists
from hyrecall.stages.session import Session
from hyrecall.stages.stage import Factors, Scored, Stage, StageCall, operand, shown, weighted_sum
from hyrecall.table.attributes import RowTypes, read_keys

MOST_HOPS = 16


@check_keywords
@dataclass(frozen=True)
class Phase:
    """The weights of the signals, from a given recall of a conversation on.

    Parameters
    ----------
    name : str
    first : int
        The number of earlier recalls from which the phase holds.
    general, topical, session : float
        Weights in [0, 1] that add up to 1.

    Raises
    ------
    OptionError
        A weight out of range, weights that do not add up to 1, or a negative ``first``.
    DTypeError
        A name that is not a str, or a weight that is not a number.
    """

    name: str
    first: int
    general: float
    topical: float
    session: float

    def __post_init__(self) -> None:
        """Check the weights."""
        text("name", self.name)
        convert_field(self, "first", integer, 0)
        for weight in ("general", "topical", "session"):
            convert_field(self, weight, number, 0.0, 1.0, "a number in [0, 1]")
        total = self.general + self.topical + self.session
        if abs(total - 1.0) > 1e-9:
            raise error(OptionError, "Phase", "weights that add up to 1", total)


PHASES = (
    Phase("early", 0, 0.8, 0.1, 0.1),
    Phase("mid", 3, 0.6, 0.2, 0.2),
    Phase("deep", 10, 0.5, 0.25, 0.25),
)


@check_keywords
@dataclass(frozen=True)
class SessionSignals(Stage):
    """Raises documents that a conversation received before, and their neighbours in a graph.

    score = general x (score / best score) + topical x t + session x s, with the weights of the
    phase. s = 2 ^ (-age / half_life), with the time since the conversation last received the
    document, or 0 if it never did; t = the largest s x 2 ^ -hops over the hot documents within
    reach. No document is added: the signals only reorder what the arms found. Without a session, or
    with an empty one, the weight of general is 1.

    Parameters
    ----------
    graph : Graph or str, optional
        A graph over the recalled index, or its name in ``graphs=``. Without a graph, topical
        weights must be 0.
    half_life : duration, default "1800s"
    hops : int, default 3
        The most hops from a hot document, in [0, 16].
    n_hot, min_hot : int, float, default 10, 0.05
        The most hot documents, with the largest s (ties by key), and the least s of a hot document.
    phases : tuple of Phase
        Phases by the number of earlier recalls; the first starts at 0. Default: early .8/.1/.1,
        from 3 mid .6/.2/.2, from 10 deep .5/.25/.25.

    Raises
    ------
    OptionError
        A number out of range, phases that do not increase from 0, or a topical weight without a
        graph.
    DTypeError
        A setting of another type.

    Notes
    -----
    A session identifies documents by key: a key in several cells of the query's scope means all of
    its documents, as in :class:`hyrecall.Graph`.

    Examples
    --------
    >>> SessionSignals("graph").phase_of(4).name
    'mid'
    """

    phase: ClassVar[float] = 3

    graph: GraphLike | str | None = None
    half_life: Duration = field(default="1800s", kw_only=True)
    hops: int = field(default=3, kw_only=True)
    n_hot: int = field(default=10, kw_only=True)
    min_hot: float = field(default=0.05, kw_only=True)
    phases: tuple[Phase, ...] = field(default=PHASES, kw_only=True)

    def __post_init__(self) -> None:
        """Check the options."""
        convert_field(self, "half_life", plain_duration)
        convert_field(self, "hops", integer, 0, MOST_HOPS)
        convert_field(self, "n_hot", integer, 0)
        convert_field(self, "min_hot", number, 0.0, 1.0, "a number in [0, 1]")
        phases = self.phases
        if not isinstance(phases, Sequence) or not all(isinstance(p, Phase) for p in phases):
            raise error(DTypeError, "phases", "a sequence of Phase", repr(phases))
        set_fields(self, phases=tuple(phases))
        starts = [one.first for one in phases]
        if not starts or starts[0] != 0 or any(a >= b for a, b in pairwise(starts)):
            raise error(OptionError, "phases", "phases with increasing first, from 0", starts)
        if self.graph is None and any(one.topical > 0 for one in phases):
            raise error(OptionError, "graph", "a graph, or phases with topical=0", "None")

    def run(self, lists: FusedLists, call: StageCall) -> FusedLists:
        """Add the signals of each query's session."""
        sessions = call.sessions[call.first_query :][: len(lists.offsets) - 1]
        topical, session = _signals(self, sessions, lists, call)
        best, _ = lists.extremes
        general = np.where(best > 0, lists.score / np.where(best > 0, best, 1.0), 0.0)
        phases = [phase_of(self, one) for one in sessions]
        scored = lists.with_arrays(
            general_score=general,
            topical_score=topical,
            session_score=session,
            general_best=best,
            score=_sums(phases, np.diff(lists.offsets), (general, topical, session)),
        )
        return call.ordered(scored)

    def explain(self, hit: FusedLists, score: float, call: StageCall) -> Scored:
        best = float(hit.arrays["general_best"][0])
        general = score / best if best > 0 else 0.0
        own = call.sessions[call.first_query :][:1]
        topical, session = _signals(self, own, hit, call)
        phase = phase_of(self, own[0])
        signals = (np.array([general]), topical, session)
        return float(_sums([phase], [1], signals)[0]), {
            "general": general, "topical": float(topical[0]), "session": float(session[0]),
            "general_weight": phase.general, "topical_weight": phase.topical,
            "session_weight": phase.session, "best": best,
        }  # fmt: skip

    @staticmethod
    def _told(factors: Factors, before: float, after: float) -> list[str]:
        names = ("general", "topical", "session")
        general, best = f"general {shown(factors['general'])}", factors["best"]
        how = f" = {operand(before)} / {shown(best)}, the best score"
        how = how if best > 0 else ": no score is above 0"
        sums = weighted_sum(factors, names)
        return [f" = {sums}: weights x {', '.join(names)}", general + how]

    @check_objects
    def phase_of(self, n_recalls: int) -> Phase:
        """Return the phase of a conversation with this number of earlier recalls."""
        return next(
            (one for one in reversed(self.phases) if one.first <= n_recalls), self.phases[0]
        )


def read_sessions(
    facts: RowTypes, given: object, stages: Sequence[Stage], n_queries: int
) -> tuple[Session | None, ...]:
    """Take ``session=``: one for all queries, or a list with one entry per query."""
    if given is None:
        return (None,) * n_queries
    if SessionSignals.among(stages) is None:
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


def phases_of(
    stages: Sequence[Stage], sessions: Sequence[Session | None]
) -> tuple[Phase, ...] | None:
    """Return the weights of each query's signals; None where no stage weighs them."""
    stage = SessionSignals.among(stages)
    return None if stage is None else tuple(phase_of(stage, one) for one in sessions)


def _signals(
    stage: SessionSignals, sessions: Sequence[Session | None], lists: FusedLists, call: StageCall
) -> tuple[Floats, Floats]:
    """Return (topical, session) of each entry."""
    import pyarrow.compute as pc

    keys = call.column(lists, call.schema.key)
    half_life = read_duration("half_life", stage.half_life)
    warmth = [_session_scores(one, call.now, half_life) for one in sessions]
    session = np.zeros(len(keys))
    for (begin, end), warm in zip(pairwise(lists.offsets.tolist()), warmth, strict=True):
        if warm:
            met = read_keys("session.accessed", list(warm), call)
            at = pc.index_in(keys.slice(begin, end - begin), met).fill_null(-1).to_numpy()
            session[begin:end] = np.where(at < 0, 0.0, np.array(list(warm.values()))[at])
    if stage.graph is None or not any(warmth):
        return np.zeros(len(session)), session
    hot = [_hot(stage, warm) for warm in warmth]
    first = call.first_query
    near = call.reach(stage.graph, first, first + len(hot))
    hot_offsets, hot_keys = near.bound.graph.flat_keys("hot", [list(one) for one in hot])
    scores = np.array([score for one in hot for score in one.values()], np.float64)
    topical = near.adjacency.spread(hot_offsets, hot_keys, scores, lists.offsets, keys, stage.hops)
    return topical, session


def _sums(phases: Sequence[Phase], counts: Any, signals: Sequence[Floats]) -> Floats:
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
