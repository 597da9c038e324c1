"""Whether an index can answer the stages of a call."""

from __future__ import annotations

import pyarrow as pa

from hyrecall.ask.shaping import (
    MMR,
    Budget,
    Composite,
    Dedup,
    Linear,
    Recency,
    Rerank,
    RerankBy,
    Stage,
)
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.recall.arms import ordered_attribute
from hyrecall.recall.linear import check_linear
from hyrecall.recall.plan import Plan
from hyrecall.segments.segments import IndexFacts


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
