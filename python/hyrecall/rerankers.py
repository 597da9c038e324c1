"""Calls a reranking function: bounded in time, and its failures are only told."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as OutOfTime
from typing import Any

import numpy as np
import numpy.typing as npt

from hyrecall.shaping import RerankBy
from hyrecall.shaping.checks import read_duration

__all__ = ["rerank_scores"]

Floats = npt.NDArray[np.float64]


def rerank_scores(
    stage: RerankBy, queries: Sequence[str | None], texts: Sequence[list[str | None]]
) -> tuple[list[Floats], str | None]:
    """Give each query's scores, NaN where there are none, and what went wrong."""
    found = [np.full(len(one), np.nan) for one in texts]
    deadline = time.monotonic() + read_duration("timeout", stage.timeout)
    faults: dict[str, int] = {}
    # One thread: a model is seldom safe to call from several. It is left behind when time is up.
    worker = ThreadPoolExecutor(1, thread_name_prefix="hyrecall-rerank")
    try:
        for at, (query, one) in enumerate(zip(queries, texts, strict=True)):
            if not one:
                continue
            if query is None:
                faults["no text"] = faults.get("no text", 0) + 1
                continue
            left = deadline - time.monotonic()
            call = worker.submit(_call, stage, query, [text or "" for text in one])
            try:
                found[at] = call.result(timeout=max(left, 0.0))
            except OutOfTime:
                call.cancel()
                faults["out of time"] = faults.get("out of time", 0) + 1
            except Exception as fault:
                name = type(fault).__name__
                faults[name] = faults.get(name, 0) + 1
    finally:
        worker.shutdown(wait=False, cancel_futures=True)
    if not faults:
        return found, None
    told = ", ".join(f"{name} for {count}" for name, count in sorted(faults.items()))
    return found, f"RerankBy kept the order: {told}"


def _call(stage: RerankBy, query: str, texts: list[str]) -> Floats:
    made: Any = stage.function(query, texts)
    if inspect.isawaitable(made):
        made = asyncio.run(_result(made))
    scores = np.asarray(made, np.float64)
    if scores.shape != (len(texts),):
        raise ValueError(f"expected {len(texts)} scores, got shape {scores.shape}")
    if np.isnan(scores).any():
        raise ValueError("expected scores, got NaN")
    return scores


async def _result(made: Any) -> Any:
    return await made
