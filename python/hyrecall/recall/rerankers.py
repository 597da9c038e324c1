"""Calls a reranking function: bounded in time, and its failures are only told."""

from __future__ import annotations

import inspect
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hyrecall.ask.shaping import RerankBy
from hyrecall.ask.shaping.checks import read_duration
from hyrecall.base.pool import AllHungError, LateError, Pool
from hyrecall.recall.fused_lists import Floats

__all__ = ["rerank_scores", "told_of"]

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
