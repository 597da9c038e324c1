"""The stages that order the first documents again: Rerank by cosine, RerankBy by a function."""

from __future__ import annotations

import inspect
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from hyrecall.base.arguments import check_keywords, convert_field
from hyrecall.base.options import (
    Duration,
    arm_name,
    column_name,
    integer,
    plain_duration,
    read_duration,
)
from hyrecall.base.threads import AllHungError, LateError, Pool
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.stages.lists import Floats, FusedLists, others
from hyrecall.stages.stage import (
    DONOR,
    Factors,
    Scored,
    Stage,
    StageCall,
    StagePlan,
    TextStage,
    shown,
    texts_of,
    vector_arm,
)

Scores: TypeAlias = "Sequence[float] | npt.NDArray[np.floating]"
Reranker: TypeAlias = "Callable[[str, list[str]], Scores | Awaitable[Scores]]"


@check_keywords
class _Reranking(Stage):
    """What both stages share: documents change their places, and a place keeps its score."""

    window: int

    def explain(self, hit: FusedLists, score: float, call: StageCall) -> Scored:
        assert call.donor_score is not None
        given = float(hit.arrays["rerank_score"][0])
        factors = {} if math.isnan(given) else {"rerank_score": given}
        return call.donor_score(self, hit), factors

    @staticmethod
    def _told(factors: Factors, before: float, after: float) -> list[str]:
        given = factors.get("rerank_score")
        told = "not reranked" if given is None else f"reranked by {shown(given)}"
        return [f", which belongs to its place: {told}"]

    def _permuted(self, lists: FusedLists, scores: Floats, call: StageCall) -> FusedLists:
        """Share out the places of the window's scored entries by these scores; NaN has none."""
        moves = (lists.places < self.window) & ~np.isnan(scores)
        places = np.flatnonzero(moves)
        first = others(lists)[places]
        by_score = places[np.lexsort((places, -scores[places], first, lists.query[places]))]
        entries = np.arange(len(lists))
        entries[places] = by_score
        # A place keeps its score. Its first holder explains that score.
        held = ["segment", "row", "arm_ranks", "arm_scores"]
        for stage in call.stages[: call.stages.index(self)]:
            held += stage.keeps
        donors = {f"{DONOR}{name}": lists.arrays[name] for name in held if name in lists.arrays}
        moved = lists.with_arrays(rerank_score=np.where(moves, scores, np.nan)).take(
            (lists.offsets, entries)
        )
        return moved.with_arrays(score=lists.score, tie_rank=lists.places, **donors)


@check_keywords
@dataclass(frozen=True)
class Rerank(_Reranking):
    """Orders the first ``window`` documents by their raw cosine to the query.

    A document without a vector keeps its position; the others change positions among themselves.
    Each position keeps its score, so documents after the window stay after it. Of an arm of
    :class:`hyrecall.MaxSim` the score is that sum; where the call's fusion gives the arm weight 0
    (``hr.RRF(weights={"tokens": 0})``), the arm is not searched, and scores the candidates of the
    other arms alone.

    Parameters
    ----------
    window : int, default 50
    vector : str, optional
        The vector arm, which must run; required if there are several.

    Examples
    --------
    >>> Rerank(window=20)
    Rerank(window=20, vector=None)
    """

    phase: ClassVar[float] = 1

    window: int = 50
    vector: str | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        convert_field(self, "window", integer, 1)
        arm_name(self.vector)

    def check(self, plan: StagePlan) -> None:
        arm = vector_arm(self, plan, many=True)
        if not plan.places(arm):
            wish = f"an arm that runs ({list(plan.arms)} do)"
            raise error(OptionError, "Rerank.vector", wish, repr(arm))

    def run(self, lists: FusedLists, call: StageCall) -> FusedLists:
        """Order the window by the arm's scores."""
        places = call.places(vector_arm(self, call, many=True))
        scores = lists.arrays["arm_scores"][:, places].max(axis=1).astype(np.float64)
        scores = np.where(np.isneginf(scores), np.nan, scores)
        return self._permuted(lists, scores, call)


@check_keywords
@dataclass(frozen=True)
class RerankBy(_Reranking, TextStage):
    """Orders the first ``window`` documents by the scores of a function.

    Parameters
    ----------
    function : callable
        ``function(query, texts) -> scores``, such as :class:`hyrecall.rerank.CrossEncoder`,
        returns one float per text, or is a coroutine function that does. Called once for each query
        with a text. If it has a method ``scores_within(query, texts, seconds)``, that is called
        instead, and should raise TimeoutError when so many seconds have passed.
    window : int, default 50
    column : str, optional
        The stored text that is passed; default: ``hit.text``, all columns of the first text arm
        with a line break between them.
    timeout : duration, default "300ms"
        For the whole batch. A query whose call fails or is not finished by then keeps its order,
        and ``hits.trace`` says so. A running call is not stopped; its result is ignored.

    Notes
    -----
    Scores have any scale, such as logits or probabilities, because only their order counts: the
    larger the better, equal ones keep their order, NaN is refused. ``rerank_score`` of a hit is the
    function's own score. The function gets texts of documents that the query's scope holds, and no
    others.

    Examples
    --------
    >>> RerankBy(lambda query, texts: [len(text) for text in texts], window=5).window
    5
    """

    phase: ClassVar[float] = 1

    function: Reranker
    window: int = 50
    column: str | None = None
    timeout: Duration = "300ms"

    def __post_init__(self) -> None:
        """Check the options."""
        if not callable(self.function):
            raise error(DTypeError, "function", "a callable", type(self.function).__name__)
        convert_field(self, "window", integer, 1)
        if self.column is not None:
            column_name("column", self.column)
        convert_field(self, "timeout", plain_duration)

    def run(self, lists: FusedLists, call: StageCall) -> FusedLists:
        """Order the window by the function's scores."""
        if not len(lists):
            return self._permuted(lists, np.zeros(0), call)
        scores = call.once(self, lists, lambda: self._scores(lists, call))
        return self._permuted(lists, scores, call)

    def _scores(self, lists: FusedLists, call: StageCall) -> Floats:
        """Ask the function for the scores of each window; NaN outside."""
        inside = lists.places < self.window
        texts = texts_of(self, lists.keep(inside), call)
        counts = np.minimum(np.diff(lists.offsets), self.window)
        ends = np.cumsum(counts)
        given = [texts[end - n : end].to_pylist() for n, end in zip(counts, ends, strict=True)]
        first = call.first_query
        found, faults = rerank_scores(self, call.texts[first : first + len(counts)], given)
        if faults:
            alone = {first + query: told_of((fault,)) for query, fault in faults.items()}
            call.note(told_of(faults.values()), alone)
        scores = np.full(len(lists), np.nan)
        scores[inside] = np.concatenate([np.asarray(one, np.float64) for one in found])
        return scores


# ---- Calls a reranking function: bounded in time, and its failures are only told ----

_LATE = "out of time"


def rerank_scores(
    stage: RerankBy, queries: Sequence[str | None], texts: Sequence[list[str | None]]
) -> tuple[list[Floats], dict[int, str]]:
    """Return each query's scores, NaN where there are none, and the faults by query."""
    found = [np.full(len(one), np.nan) for one in texts]
    deadline = time.monotonic() + read_duration("timeout", stage.timeout)
    faults: dict[int, str] = {}
    # One thread: a model is seldom safe to call from several. It is left behind when time is up.
    worker = Pool(_call, workers=1, most=1, name="hyrecall-rerank")
    try:
        for at, (query, one) in enumerate(zip(queries, texts, strict=True)):
            if not one:
                continue
            if query is None:
                faults[at] = "no text"
                continue
            given = (stage, query, [text or "" for text in one])
            made: Floats | str
            try:
                made = worker.run(given, max(deadline - time.monotonic(), 0.0))
            except (LateError, AllHungError):
                made = _LATE
            if isinstance(made, str):
                faults[at] = made
            else:
                found[at] = made
    finally:
        worker.close()
    return found, faults


def told_of(faults: Iterable[str]) -> str:
    """Return the note that queries kept their order, and why."""
    counts = sorted(Counter(faults).items())
    told = ", ".join(f"{name} for {count}" for name, count in counts)
    return f"RerankBy kept the order: {told}"


def _call(given: tuple[RerankBy, str, list[str]], until: float) -> Floats | str:
    """Return the scores, or the name of what was raised."""
    try:
        return _scores(*given, until)
    except TimeoutError:
        return _LATE
    except BaseException as fault:  # SystemExit too: it must not end the caller
        return type(fault).__name__


def _scores(stage: RerankBy, query: str, texts: list[str], until: float) -> Floats:
    within = getattr(stage.function, "scores_within", None)
    if within is None:
        made: Any = stage.function(query, texts)
    else:  # it ends by itself, so that a late call keeps no core busy
        made = within(query, texts, max(0.0, until - time.monotonic()))
    if inspect.isawaitable(made):
        import asyncio

        made = asyncio.run(_result(made))
    scores = np.asarray(made, np.float64)
    if scores.shape != (len(texts),):
        raise ValueError(f"expected {len(texts)} scores, got shape {scores.shape}")
    if np.isnan(scores).any():
        raise ValueError("expected scores, got NaN")
    return scores


async def _result(made: Any) -> Any:
    return await made
