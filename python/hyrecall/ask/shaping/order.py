"""Options of the stages that reorder the list or cut it by score: Provenance, Rerank, Gate."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from hyrecall.ask.shaping.checks import (
    Duration,
    arm_name,
    column_name,
    integer,
    plain_duration,
    plain_pairs,
)
from hyrecall.base.arguments import check_keywords, convert_field, number, set_fields
from hyrecall.errors import DTypeError, error

Scores: TypeAlias = "Sequence[float] | npt.NDArray[np.floating]"
Reranker: TypeAlias = "Callable[[str, list[str]], Scores | Awaitable[Scores]]"


@check_keywords
@dataclass(frozen=True)
class Provenance:
    """Multiplies scores by the weight of a column's value, such as the document's source.

    Parameters
    ----------
    column : str
        A key, cell, attribute or stored column.
    weights : mapping of value to float
        Weights, in [0, 1e6].
    default : float, default 1
        The weight of other values and of nulls.

    Examples
    --------
    >>> Provenance("source", {"memory": 1.0, "session": 0.4}).weights
    (('memory', 1.0), ('session', 0.4))
    """

    phase: ClassVar[int] = -1

    column: str
    weights: Mapping[object, float] | tuple[tuple[object, float], ...]
    default: float = 1.0

    def __post_init__(self) -> None:
        """Check the options."""
        column_name("column", self.column)
        wish = "a number in [0, 1e6]"
        pairs = plain_pairs("weights", self.weights)
        checked = tuple((v, number(f"weights[{v!r}]", w, 0.0, 1e6, wish)) for v, w in pairs)
        set_fields(self, weights=checked)
        convert_field(self, "default", number, 0.0, 1e6, wish)

    @property
    def by_value(self) -> tuple[tuple[object, float], ...]:
        """The pairs of value and weight."""
        return tuple(dict(self.weights).items())


@check_keywords
@dataclass(frozen=True)
class Rerank:
    """Orders the first ``window`` documents by their raw cosine to the query.

    A document without a vector keeps its position; the others change positions among themselves.
    Each position keeps its score, so documents after the window stay after it.

    Parameters
    ----------
    window : int, default 50
    vector : str, optional
        The vector arm, which must run; required if there are several.

    Examples
    --------
    >>> Rerank(window=20)
    Rerank(window=20, vector=None)
    """

    phase: ClassVar[int] = 1

    window: int = 50
    vector: str | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        convert_field(self, "window", integer, 1)
        arm_name(self.vector)


@check_keywords
@dataclass(frozen=True)
class RerankBy:
    """Orders the first ``window`` documents by the scores of a function.

    Parameters
    ----------
    function : callable
        ``function(query, texts) -> scores``, such as :class:`hyrecall.rerank.CrossEncoder`,
        returns one float per text, or is a coroutine function that does. Called once for each query
        with a text. If it has a method ``scores_within(query, texts, seconds)``, that is called
        instead, and should raise TimeoutError when so many seconds have passed.
    window : int, default 50
    column : str, optional
        The stored text that is passed; default: ``hit.text``, all columns of the first text arm
        with a line break between them.
    timeout : duration, default "300ms"
        For the whole batch. A query whose call fails or is not finished by then keeps its order,
        and ``hits.trace`` says so. A running call is not stopped; its result is ignored.

    Notes
    -----
    Scores have any scale, such as logits or probabilities, because only their order counts: the
    larger the better, equal ones keep their order, NaN is refused. ``rerank_score`` of a hit is the
    function's own score. The function gets texts of documents that the query's scope holds, and no
    others.

    Examples
    --------
    >>> RerankBy(lambda query, texts: [len(text) for text in texts], window=5).window
    5
    """

    phase: ClassVar[int] = 1

    function: Reranker
    window: int = 50
    column: str | None = None
    timeout: Duration = "300ms"

    def __post_init__(self) -> None:
        """Check the options."""
        if not callable(self.function):
            raise error(DTypeError, "function", "a callable", type(self.function).__name__)
        convert_field(self, "window", integer, 1)
        if self.column is not None:
            column_name("column", self.column)
        convert_field(self, "timeout", plain_duration)


@check_keywords
@dataclass(frozen=True)
class Gate:
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

    phase: ClassVar[int] = 5

    min_score: float

    def __post_init__(self) -> None:
        """Check the floor."""
        convert_field(self, "min_score", number, -math.inf, math.inf, "a finite number")
