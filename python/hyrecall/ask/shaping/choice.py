"""Options of the stages that choose which documents stay: Dedup, Budget and MMR."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.ask.shaping.checks import arm_name, column_name, integer, plain_values
from hyrecall.base.arguments import check_keywords, convert_field, number, one_of
from hyrecall.errors import DTypeError, OptionError, ShapeError, error

Estimate: TypeAlias = "Callable[[list[str]], Sequence[int]]"


@check_keywords
@dataclass(frozen=True)
class Dedup:
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
        """The threshold in its scale, after rounding its cosine to float32."""
        if self.scale == "raw":
            return float(np.float32(self.threshold))
        return (1.0 + float(np.float32(2.0 * self.threshold - 1.0))) / 2.0


@check_keywords
@dataclass(frozen=True)
class Budget:
    """Keeps the first document, then each next one whose tokens still fit into a token budget.

    With :class:`MMR`, that stage chooses among the documents that fit. A recipe's ``fill`` does
    nothing if there is a budget, and ``hits.trace.notes`` says so. With ``group`` or
    ``surrounding``, hits and the rows around them are kept while they fit, in the order of the
    list, which MMR then orders as a whole.

    Parameters
    ----------
    tokens : int or None
        The budget; None, 0 or less means no budget.
    column : str, optional
        The stored text whose tokens count; default: ``hit.text``, all columns of the first text arm
        with a line break between them.
    estimate : callable, optional
        ``estimate(texts) -> ints`` returns token counts. Default: the number of characters without
        outer white space / 4, rounded up, at least 1.

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


def token_counts(budget: Budget, texts: pa.Array) -> npt.NDArray[np.int64]:
    """Return the tokens of each text, by the budget's own estimate if it has one."""
    import pyarrow.compute as pc

    if budget.estimate is None:
        lengths = pc.utf8_length(pc.utf8_trim_whitespace(texts)).fill_null(0).to_numpy()
        return np.asarray(np.maximum(1, -(-lengths.astype(np.int64) // 4)), np.int64)
    if not len(texts):
        return np.zeros(0, np.int64)
    counts = np.asarray(budget.estimate([text or "" for text in texts.to_pylist()]))
    if counts.shape != (len(texts),):
        raise error(ShapeError, "Budget.estimate", f"{len(texts)} numbers", counts.shape)
    if not np.issubdtype(counts.dtype, np.integer) or (counts < 0).any():
        raise error(DTypeError, "Budget.estimate", "ints >= 0", counts.dtype)
    return counts.astype(np.int64)


@check_keywords
@dataclass(frozen=True)
class MMR:
    """Chooses by maximal marginal relevance: w x relevance - (1 - w) x similarity to chosen ones.

    The first document of the list is chosen first. Similarity is the largest cosine to a document
    that is already chosen, at least 0. The value at the time of choice is the new score.

    Parameters
    ----------
    relevance_weight : float
        w, in [0, 1]; 1 keeps the order.
    relevance : {"max", "minmax", "raw"}, default "max"
        "max" divides the score by the list's best score, "minmax" scales it to [0, 1], "raw" does
        not change it.
    vector : str, optional
        The vector arm whose rows are compared; required if there are several.

    Notes
    -----
    Cost: (offset + limit) x pool cosines; with ``group`` or ``surrounding`` pool x pool. Source:
    Carbonell and Goldstein, SIGIR 1998.

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
