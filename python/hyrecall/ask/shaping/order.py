"""Stages that put the list in another order, or cut it by score."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from hyrecall.ask.shaping.checks import (
    Duration,
    arm_name,
    column_name,
    integer,
    plain_duration,
    plain_pairs,
)
from hyrecall.base.arguments import convert_field, number, set_fields
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, error

__all__ = ["Gate", "Provenance", "Rerank", "RerankBy"]

Reranker: TypeAlias = "Callable[[str, list[str]], Sequence[float] | Awaitable[Sequence[float]]]"


@check_keywords
@dataclass(frozen=True)
class Provenance:
    """Multiply the score by what a document's source is worth.

    Parameters
    ----------
    column : str
        A key, cell, attribute or stored column.
    weights : mapping of value to float
        In [0, 1e6].
    default : float, default 1
        Of values that are not named, and of nulls.

    Examples
    --------
    >>> Provenance("source", {"memory": 1.0, "session": 0.4}).weights
    (('memory', 1.0), ('session', 0.4))
    """

    phase: ClassVar[int] = 0

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
        """Value and weight of each that is named."""
        return tuple(dict(self.weights).items())


@check_keywords
@dataclass(frozen=True)
class Rerank:
    """Put the first ``window`` documents in order of their raw cosine to the query.

    A document without a vector keeps its place, the others share out theirs. A place keeps its
    score, so documents behind the window stay behind it.

    Parameters
    ----------
    window : int, default 50
    vector : str, optional
        The vector arm; needed where there are several. It must run.

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
    """Put the first ``window`` documents in the order of a function's scores.

    Parameters
    ----------
    function : callable
        ``function(query, texts) -> scores``, one float per text, or a coroutine of them; a
        cross-encoder, say. Called once per query with a text.
    window : int, default 50
    column : str, optional
        The stored text to hand over; default: ``hit.text``, all columns of the first text arm
        with a line break between them.
    timeout : duration, default "300ms"
        For the whole batch. A query whose scores have not come by then, or whose call failed, keeps
        its order, and ``hits.trace`` says so. A call under way cannot be stopped, only left behind.

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
    """Drop hits whose score is below a floor, after all other stages.

    Parameters
    ----------
    min_score : float
        Inclusive, in the unit of the score (with ``normalize=True`` in [0, 1]).

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
