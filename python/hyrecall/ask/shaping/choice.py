"""Stages that choose which documents stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from hyrecall.ask.shaping.checks import arm_name, column_name, integer, plain_values
from hyrecall.base.arguments import convert_field, number, one_of
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, OptionError, error

__all__ = ["MMR", "Budget", "Dedup"]

Estimate: TypeAlias = "Callable[[list[str]], Sequence[int]]"


@check_keywords
@dataclass(frozen=True)
class Dedup:
    """Collapse near-duplicates: of a cluster one document stays.

    In list order, a document joins the first cluster one of whose members it is closer to than the
    threshold (strictly), or founds one. Documents without a vector are alone.

    Parameters
    ----------
    threshold : float
        Of the cosine, in [-1, 1].
    scale : {"raw", "unit"}, default "raw"
        "unit": the threshold is one of (1 + cosine) / 2, in [0, 1]. As a cosine it is rounded to
        float32 once, so a cosine that equals it is not above it.
    vector : str, optional
        The vector arm whose rows are compared; needed where there are several.
    keep : str, optional
        A column whose value decides which document of a cluster stays: the one that comes first in
        ``prefer``; among equals the first of the list. Default: the first of the list.
    prefer : sequence, optional
        Values of ``keep``, best first; others come last.

    Notes
    -----
    Cost: up to one cosine per pair of the pool.

    Examples
    --------
    >>> Dedup(0.9, scale="unit", keep="source", prefer=("memory", "summary", "session")).threshold
    0.9
    """

    phase: ClassVar[int] = 2

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
        """The threshold, in its scale, at the cosine of float32 that is nearest to it."""
        if self.scale == "raw":
            return float(np.float32(self.threshold))
        return (1.0 + float(np.float32(2.0 * self.threshold - 1.0))) / 2.0


@check_keywords
@dataclass(frozen=True)
class Budget:
    """Take documents while their tokens fit: the first always, then the next that fits, and so on.

    Together with :class:`MMR`, which then chooses among those that fit. A recipe's ``fill`` steps
    aside where there is a budget, and ``hits.trace.notes`` says so.

    Parameters
    ----------
    tokens : int or None
        None, 0 or less: no budget.
    column : str, optional
        The stored text that is counted; default: ``hit.text``, all columns of the first text arm
        with a line break between them.
    estimate : callable, optional
        ``estimate(texts) -> ints``. Default: characters without outer white space / 4, rounded up,
        at least 1.

    Examples
    --------
    >>> Budget(2000).tokens
    2000
    """

    phase: ClassVar[int] = 4

    tokens: int | None
    column: str | None = field(default=None, kw_only=True)
    estimate: Estimate | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Check the options."""
        if self.tokens is not None:
            convert_field(self, "tokens", integer, -(2**31))
        if self.column is not None:
            column_name("column", self.column)
        if self.estimate is not None and not callable(self.estimate):
            raise error(DTypeError, "estimate", "a callable", type(self.estimate).__name__)

    @property
    def bounds(self) -> bool:
        """Whether there is a budget: more than 0 tokens."""
        return self.tokens is not None and self.tokens > 0


@check_keywords
@dataclass(frozen=True)
class MMR:
    """Choose by maximal marginal relevance: w x relevance - (1 - w) x similarity to the chosen.

    The first of the list is chosen first. Similarity is the largest cosine to a document chosen
    before, at least 0. The value at the time of choice is the new score.

    Parameters
    ----------
    relevance_weight : float
        w, in [0, 1]; 1 leaves the order.
    relevance : {"max", "minmax", "raw"}, default "max"
        The score over the list's best, scaled into [0, 1], or as it is.
    vector : str, optional
        The vector arm whose rows are compared; needed where there are several.

    Notes
    -----
    Cost: (offset + limit) x pool cosines. Source: Carbonell and Goldstein, SIGIR 1998.

    Examples
    --------
    >>> MMR(0.7)
    MMR(relevance_weight=0.7, relevance='max', vector=None)
    """

    phase: ClassVar[int] = 4

    relevance_weight: float
    relevance: Literal["max", "minmax", "raw"] = field(default="max", kw_only=True)
    vector: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Check the options."""
        convert_field(self, "relevance_weight", number, 0.0, 1.0, "a number in [0, 1]")
        one_of("relevance", self.relevance, ("max", "minmax", "raw"))
        arm_name(self.vector)
