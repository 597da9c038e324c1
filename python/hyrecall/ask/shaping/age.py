"""Options of the stages that score by age and importance: Recency and Composite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from hyrecall.ask.shaping.checks import (
    Duration,
    column_name,
    plain_duration,
    plain_pairs,
    read_duration,
)
from hyrecall.base.arguments import check_keywords, convert_field, number, set_fields
from hyrecall.errors import OptionError, error


@check_keywords
@dataclass(frozen=True)
class Recency:
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

    phase: ClassVar[int] = 3

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


@check_keywords
@dataclass(frozen=True, kw_only=True)
class Composite:
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

    phase: ClassVar[int] = 3

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
