"""A question to a shard: it may be sent before its answer is waited for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Question"]

T_ = TypeVar("T_")


@dataclass(frozen=True, slots=True)
class Question(Generic[T_]):
    """A question that has an answer when it is called for.

    Attributes
    ----------
    answer : callable
        Returns the answer; raises what the shard raises. Called once.
    is_sent : bool
        Whether ``answer`` only waits, since the shard has the question: one thread may send
        several and wait for one after the other. Otherwise ``answer`` asks.
    """

    answer: Callable[[], T_]
    is_sent: bool = False
