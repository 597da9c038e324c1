"""What a follower returns: an index to search, why there is none, how it was opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from hyrecall.graph.graph import Graph
from hyrecall.index import Index
from hyrecall.memory.data.degradation import DegradedReason
from hyrecall.memory.derived.layout import Layout

__all__ = ["BEHIND", "How", "IndexNotReadyError", "OpenReport", "Ready"]

BEHIND = "changes are being applied"
"""What is known of an index that is there, and not up to date."""

How: TypeAlias = Literal["snapshot", "rebuilt", "later", "failed"]


class IndexNotReadyError(Exception):
    """There is no index now. Raised inside the package only: recall then answers without it."""

    def __init__(self, reason: DegradedReason, detail: str) -> None:
        """Set the reason that a caller sees, and its detail."""
        super().__init__(f"{reason} ({detail})")
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Ready:
    """An index that has applied every change up to ``sequence``."""

    # ``graph`` is there without edges too: recipes name it. ``behind``: changes of another process
    # are being applied, and it lacks them.

    index: Index
    graph: Graph
    sequence: int
    layout: Layout
    model: str | None
    dim: int
    behind: bool = False


@dataclass(frozen=True)
class OpenReport:
    """How a follower got its index: opened, built, or left for later."""

    how: How
    reason: str
    seconds: float
