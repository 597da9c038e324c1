"""The stage that drops hits whose score is below a floor: Gate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from hyrecall.base.arguments import check_keywords, convert_field, number
from hyrecall.stages.lists import FusedLists
from hyrecall.stages.stage import Scored, Stage, StageCall, Why, WhyOf


@check_keywords
@dataclass(frozen=True)
class Gate(Stage):
    """Drops hits whose score is below a floor, after all other stages.

    Parameters
    ----------
    min_score : float
        The lowest score that stays, in the unit of the score (with ``normalize=True`` in [0, 1]).

    Examples
    --------
    >>> Gate(0.6)
    Gate(min_score=0.6)
    """

    phase: ClassVar[float] = 5

    min_score: float

    def __post_init__(self) -> None:
        """Check the floor."""
        convert_field(self, "min_score", number, -math.inf, math.inf, "a finite number")

    def run(self, lists: FusedLists, call: StageCall) -> FusedLists:
        """Keep the entries whose score reaches the floor."""
        return lists.keep(lists.score >= self.min_score)

    def explain(self, hit: FusedLists, score: float, call: StageCall) -> Scored:
        return score, {"min_score": self.min_score}

    def why(self, before: FusedLists, after: FusedLists, call: StageCall) -> WhyOf:
        return lambda entry: Why("floor", float(before.score[entry]), self.min_score)
