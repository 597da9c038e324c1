"""One batch through the engine: statistics, candidates, merge."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hyrecall import _core
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.hits import Hits, Trace
from hyrecall.request import IndexFacts, Options, make_plan
from hyrecall.scope import check_no_list
from hyrecall.segments import State

__all__ = ["batch_of_one", "run_recall"]


def batch_of_one(text: object, vector: object, options: dict[str, Any]) -> dict[str, Any]:
    """Turn recall_one()'s arguments into recall()'s."""
    check_no_list(options.get("scope"))
    if "vectors" in options:
        raise TypeError("recall_one() got an unexpected keyword argument 'vectors'; use vector=")
    batch = dict(options)
    if text is not None:
        batch["text"] = {a: [t] for a, t in text.items()} if isinstance(text, Mapping) else [text]
    if vector is not None:
        one = {a: [v] for a, v in vector.items()} if isinstance(vector, Mapping) else [vector]
        batch["vectors"] = one
    return batch


def run_recall(
    facts: IndexFacts,
    state: State,
    device: str,
    options: Options,
    *,
    columns: Sequence[str],
    now: datetime | None,
) -> Hits:
    """Answer a batch on one state; what is read later is read from that state too."""
    started = time.perf_counter()
    known = facts.schema.row_columns
    if isinstance(columns, str) or any(name not in known for name in columns):
        raise error(OptionError, "columns", f"a sequence of columns of {list(known)}", repr(columns))
    asked_at = _utc(now)
    plan = make_plan(facts, state.snapshot, options)
    planned = time.perf_counter()
    execution = _core.Execution(state.snapshot, plan.request)
    statistics = execution.statistics()
    counted = time.perf_counter()
    candidates = execution.candidates(statistics)
    ranked = time.perf_counter()
    arrays = _core.merge(plan.request, [candidates])
    ended = time.perf_counter()
    steps = {"plan": planned - started, "statistics": counted - planned}
    steps |= {"candidates": ranked - counted, "fusion": ended - ranked}
    empty = tuple(
        f"{arm}[{query}] has no indexable token"
        for at, arm in enumerate(plan.arms[: plan.n_lexical])
        for query in execution.empty_queries(at)
    )
    trace = Trace(
        device=device,
        n_queries=plan.n_queries,
        arms=plan.arms,
        depth=plan.depth,
        milliseconds={step: seconds * 1e3 for step, seconds in steps.items()},
        degraded=(),
        notes=plan.notes + empty,
    )
    return Hits(
        arrays,
        plan=plan,
        facts=facts,
        state=state,
        execution=execution,
        statistics=statistics,
        columns=columns,
        now=asked_at,
        trace=trace,
    )


def _utc(now: datetime | None) -> datetime:
    if now is None:
        return datetime.now(UTC)
    if not isinstance(now, datetime):
        raise error(DTypeError, "now", "a datetime", type(now).__name__)
    return now.replace(tzinfo=UTC) if now.tzinfo is None else now
