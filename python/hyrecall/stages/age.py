"""The stages that score by age and importance: Recency and Composite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from hyrecall import _core
from hyrecall.base.arguments import check_keywords, convert_field, number, set_fields
from hyrecall.base.options import (
    Duration,
    column_name,
    plain_duration,
    plain_pairs,
    read_duration,
)
from hyrecall.base.times import age_seconds, importances
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.stages.lists import Floats, FusedLists, by_value
from hyrecall.stages.stage import (
    Factors,
    Scored,
    Stage,
    StageCall,
    StagePlan,
    check_time,
    operand,
    shown,
    weighted_sum,
)

_DAY = 86_400.0  # seconds


@check_keywords
@dataclass(frozen=True)
class Recency(Stage):
    """Multiplies scores by 0.5 ^ (exponent x age / half_life).

    Ages count from ``now=`` of the call. A missing or future time has the factor 1; no document is
    dropped.

    Parameters
    ----------
    column : str
        A timestamp or date column.
    half_life : duration, default "36500d"
        The default has almost no effect: a year costs 0.7 %.
    by : str, optional
        A column whose value chooses the half-life in ``half_lives``.
    half_lives : mapping of value to duration, optional
        Half-lives by value; other values have ``half_life``.
    exponent : float, default 1
        In [0, 100].

    Examples
    --------
    >>> Recency("created_at", half_life="30d").half_life
    '30d'
    """

    phase: ClassVar[float] = 3
    column_options = ("column", "by")

    column: str
    half_life: Duration = field(default="36500d", kw_only=True)
    by: str | None = field(default=None, kw_only=True)
    half_lives: Mapping[object, Duration] | tuple[tuple[object, Duration], ...] = field(
        default=(), kw_only=True
    )
    exponent: float = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        """Check the options."""
        column_name("column", self.column)
        convert_field(self, "half_life", plain_duration)
        pairs = tuple(
            (value, plain_duration(f"half_lives[{value!r}]", duration))
            for value, duration in plain_pairs("half_lives", self.half_lives)
        )
        set_fields(self, half_lives=pairs)
        if self.by is not None:
            column_name("by", self.by)
        if (self.by is None) != (not pairs):
            raise error(OptionError, "by", "by= and half_lives= together", "one of them")
        wish = "a number in [0, 100]"
        convert_field(self, "exponent", number, 0.0, 100.0, wish)

    @property
    def by_value(self) -> tuple[tuple[object, float], ...]:
        """The pairs of value and half-life in seconds."""
        return tuple((v, read_duration("half_lives", d)) for v, d in dict(self.half_lives).items())

    def check(self, plan: StagePlan) -> None:
        super().check(plan)
        check_time("Recency.column", self.column, plan)

    def run(self, lists: FusedLists, call: StageCall) -> FusedLists:
        """Multiply each score by what its age leaves of it."""
        age, half_life, each = self._ages(lists, call)
        factor = _core.shaping.recency_factors(age, each if len(each) else half_life, self.exponent)
        scored = lists.with_arrays(recency_factor=factor, score=lists.score * factor)
        return scored if (factor == 1.0).all() else call.ordered(scored)  # 1: to the last bit

    def explain(self, hit: FusedLists, score: float, call: StageCall) -> Scored:
        age, half_life, each = self._ages(hit, call)
        half_life = float(each[0]) if len(each) else half_life
        factor = float(_core.shaping.recency_factors(age, half_life, self.exponent)[0])
        return score * factor, {
            "age": float(age[0]), "half_life": half_life, "exponent": self.exponent,
            "factor": factor,
        }  # fmt: skip

    @staticmethod
    def _told(factors: Factors, before: float, after: float) -> list[str]:
        factor = shown(factors["factor"])
        return [f" = {operand(before)} x {factor}", _decay("factor", factors)]

    def _ages(self, lists: FusedLists, call: StageCall) -> tuple[Floats, float, Floats]:
        """Return the ages, the half-life, and that of each entry if they differ."""
        age = age_seconds(call.column(lists, self.column), call.now)
        half_life, each = read_duration("half_life", self.half_life), np.zeros(0)
        if self.by is not None:
            each = by_value(call.column(lists, self.by), self.by_value, half_life, self.by)
        return age, half_life, each


@check_keywords
@dataclass(frozen=True, kw_only=True)
class Composite(Stage):
    """Replaces scores by a weighted mean of recency, importance and relevance.

    Recency is 0.5 ^ (age / half_life), importance is rating / scale clipped to [0, 1], relevance is
    the score before this stage. The new score is the weighted sum divided by the sum of the weights
    (0 if that is 0); the weighted sum is ``composite_raw`` of the hits.

    Parameters
    ----------
    recency, importance, relevance : float, default 1
        Weights, in [0, 1e6].
    time : str
        A timestamp or date column. A missing or future time has recency 1.
    half_life : duration
    rating : str
        A numeric column.
    scale : float, default 10
        The highest rating.
    default : float, default 5
        The rating of documents without one: null or NaN.

    Examples
    --------
    >>> Composite(time="last_accessed", half_life="69h", rating="importance").relevance
    1.0
    """

    phase: ClassVar[float] = 3
    column_options = ("time", "rating")

    time: str
    half_life: Duration
    rating: str
    recency: float = 1.0
    importance: float = 1.0
    relevance: float = 1.0
    scale: float = 10.0
    default: float = 5.0

    def __post_init__(self) -> None:
        """Check the options."""
        column_name("time", self.time)
        column_name("rating", self.rating)
        convert_field(self, "half_life", plain_duration)
        for name, low in (
            ("recency", 0.0), ("importance", 0.0), ("relevance", 0.0), ("scale", 1e-6),
            ("default", 0.0),
        ):  # fmt: skip
            wish = f"a number in [{low:g}, 1e6]"
            convert_field(self, name, number, low, 1e6, wish)

    def check(self, plan: StagePlan) -> None:
        super().check(plan)
        kind = plan.row_types[self.rating]
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            got = f"{self.rating!r} of {kind}"
            raise error(DTypeError, "Composite.rating", "a numeric column", got)
        check_time("Composite.time", self.time, plan)

    def run(self, lists: FusedLists, call: StageCall) -> FusedLists:
        """Replace each score by the weighted mean."""
        age, half_life, importance = self._given(lists, call)
        recency = _core.shaping.recency_factors(age, half_life, 1.0)
        raw, score = self._sum(recency, importance, lists.score)
        return call.ordered(lists.with_arrays(
            recency_score=recency, importance_score=importance, relevance_score=lists.score,
            composite_raw=raw, score=score,
        ))  # fmt: skip

    def explain(self, hit: FusedLists, score: float, call: StageCall) -> Scored:
        age, half_life, rated = self._given(hit, call)
        recency = float(_core.shaping.recency_factors(age, half_life, 1.0)[0])
        importance = float(rated[0])
        raw, mean = self._sum(recency, importance, score)
        return float(mean), {
            "age": float(age[0]), "half_life": half_life, "recency": recency,
            "importance": importance, "relevance": score, "recency_weight": self.recency,
            "importance_weight": self.importance, "relevance_weight": self.relevance,
            "raw": float(raw),
        }  # fmt: skip

    def _sum(self, recency: Any, importance: Any, relevance: Any) -> tuple[Any, Any]:
        """Return the weighted sum of three signals, and their mean."""
        weights = self.recency, recency, self.importance, importance, self.relevance, relevance
        raw, total = _core.shaping.composite_sums(*weights), self.recency + self.importance
        return raw, _core.shaping.composite_means(raw, total + self.relevance)

    @staticmethod
    def _told(factors: Factors, before: float, after: float) -> list[str]:
        names = ("recency", "importance", "relevance")
        weights = [factors[f"{name}_weight"] for name in names]
        if not sum(weights):
            return [": all weights are 0"]
        total = " + ".join(map(shown, weights))
        parts = weighted_sum(factors, names)
        return [
            f" = ({parts}) / ({total}): weights x recency, importance, relevance",
            _decay("recency", factors),
        ]

    def _given(self, lists: FusedLists, call: StageCall) -> tuple[Floats, float, Floats]:
        """Return the ages, the half-life and the importances."""
        age = age_seconds(call.column(lists, self.time), call.now)
        ratings = call.column(lists, self.rating)
        half_life = read_duration("half_life", self.half_life)
        return age, half_life, importances(ratings, self.default, self.scale)


def _decay(name: str, factors: Mapping[str, float]) -> str:
    """Write out how an age became a factor."""
    age, half_life, power = factors["age"], factors["half_life"], factors.get("exponent", 1.0)
    unit, per = ("days", _DAY) if half_life >= _DAY else ("seconds", 1.0)
    factor = factors["factor" if "factor" in factors else "recency"]
    if not age > 0:  # or it is NaN
        return f"{name} {shown(factor)}: no time, or none that is past"
    ages = f"{shown(age / per)} / {shown(half_life / per)}"
    exponent = ages if power == 1 else f"{shown(power)} x {ages}"
    return f"{name} {shown(factor)} = 0.5 ^ ({exponent}): age / half-life in {unit}"
