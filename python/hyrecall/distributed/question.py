"""A question to a shard, which may be sent before a thread waits for its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Question"]

T_ = TypeVar("T_")


@dataclass(frozen=True, slots=True)
class Question(Generic[T_]):
    """A question and the function that returns its answer."""

    answer: Callable[[], T_]
    is_under_way: bool = False
