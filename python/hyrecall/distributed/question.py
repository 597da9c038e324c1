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
    is_under_way : bool
        Whether ``answer`` only waits: one thread may begin several and wait for one after the
        other. Otherwise ``answer`` asks.
    """

    answer: Callable[[], T_]
    is_under_way: bool = False
