"""The stage that removes near-duplicates: Dedup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from hyrecall import _core
from hyrecall.base.arguments import check_keywords, convert_field, number, one_of
from hyrecall.base.options import arm_name, column_name, plain_values
from hyrecall.errors import OptionError, error
from hyrecall.stages.lists import FusedLists, by_value, others
from hyrecall.stages.stage import (
    Scored,
    Stage,
    StageCall,
    StagePlan,
    Why,
    WhyOf,
    row_cosine,
    vector_arm,
    vector_number,
)


@check_keywords
@dataclass(frozen=True)
class Dedup(Stage):
    """Removes near-duplicates: one document of each cluster stays.

    In list order, each document joins the first cluster with a member whose cosine to it is above
    the threshold, or starts a new cluster. Documents without a vector stay alone.

    Parameters
    ----------
    threshold : float
        The cosine that must be exceeded, in [-1, 1].
    scale : {"raw", "unit"}, default "raw"
        "unit": the threshold is in the scale (1 + cosine) / 2, in [0, 1]. As a cosine, it is
        rounded to float32 once, so that a cosine equal to it does not exceed it.
    vector : str, optional
        The vector arm whose rows are compared; required if there are several.
    keep : str, optional
        A column that decides which document of a cluster stays: the one whose value comes first in
        ``prefer``, then the first in the list. Default: the first in the list.
    prefer : sequence, optional
        Values of ``keep``, best first; other values come last.

    Notes
    -----
    Cost: up to one cosine per pair of documents in the pool.

    Examples
    --------
    >>> Dedup(0.9, scale="unit", keep="source", prefer=("memory", "summary", "session")).threshold
    0.9
    """

    phase: ClassVar[float] = 2
    column_options = ("keep",)

    threshold: float
    scale: Literal["raw", "unit"] = field(default="raw", kw_only=True)
    vector: str | None = field(default=None, kw_only=True)
    keep: str | None = field(default=None, kw_only=True)
    prefer: Sequence[object] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        """Check the options."""
        one_of("scale", self.scale, ("raw", "unit"))
        low = -1.0 if self.scale == "raw" else 0.0
        wish = f"a number in [{low:g}, 1]"
        convert_field(self, "threshold", number, low, 1.0, wish)
        arm_name(self.vector)
        convert_field(self, "prefer", plain_values)
        if (self.keep is None) != (not self.prefer):
            raise error(OptionError, "keep", "keep= and prefer= together", "one of them")
        if self.keep is not None:
            column_name("keep", self.keep)

    @property
    def limit(self) -> float:
        """The threshold in its scale, after rounding its cosine to float32."""
        if self.scale == "raw":
            return float(np.float32(self.threshold))
        return (1.0 + float(np.float32(2.0 * self.threshold - 1.0))) / 2.0

    def check(self, plan: StagePlan) -> None:
        super().check(plan)
        vector_arm(self, plan)

    def reads(self, plan: StagePlan) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.columns, (vector_arm(self, plan),)

    def run(self, lists: FusedLists, call: StageCall) -> FusedLists:
        """Keep one document of each cluster."""
        found = clusters(self, lists, call)
        return lists.take(found["kept"]).with_arrays(n_duplicates=found["duplicates"])

    def explain(self, hit: FusedLists, score: float, call: StageCall) -> Scored:
        return score, {"duplicates": float(hit.arrays["n_duplicates"][0])}

    def why(self, before: FusedLists, after: FusedLists, call: StageCall) -> WhyOf:
        kept_for = clusters(self, before, call)["kept_for"]
        column = vector_number(self, call)

        def similarity(one: int, other: int) -> float:
            cosine = row_cosine(call, column, before, min(one, other), max(one, other))
            return (1.0 + cosine) / 2.0 if self.scale == "unit" else cosine

        def why(entry: int) -> Why:
            kept = int(kept_for[entry])
            value = similarity(kept, entry)
            if value > self.limit:
                return Why("duplicate", value, self.limit, kept)
            members = [at for at in np.flatnonzero(kept_for == kept).tolist() if at != entry]
            value, first = max((similarity(at, entry), -at) for at in members)
            return Why("duplicate", value, self.limit, kept, -first)

        return why


def clusters(stage: Dedup, lists: FusedLists, call: StageCall) -> Any:
    """Return the clusters of near-duplicates, as ``_core.shaping.dedup`` gives them."""
    preference = np.zeros(0, np.int64)
    if stage.keep is not None:
        pairs = [(value, float(at)) for at, value in enumerate(stage.prefer)]
        values, last = call.column(lists, stage.keep), float(len(stage.prefer))
        ranks = by_value(values, pairs, last, stage.keep)
        # A copy that does not hold what was asked for stands for none that does.
        preference = ranks.astype(np.int64) + others(lists) * (len(stage.prefer) + 1)
    column = vector_number(stage, call)
    return _core.shaping.dedup(
        lists.native, call.execution, column, stage.limit, stage.scale == "unit", preference
    )
