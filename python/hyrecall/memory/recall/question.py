"""What a recall asks of the index, and what the index found: plain data, which may cross processes.

:mod:`hyrecall.memory.recall.index_search` answers it, beside the index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from hyrecall.ask.filters import Filter
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.session import Session
from hyrecall.ask.shaping import Phase
from hyrecall.hits.trace import Trace
from hyrecall.memory.data.degradation import Degradation
from hyrecall.memory.data.match_origin import Ranked
from hyrecall.memory.recall.call import Hints
from hyrecall.memory.sql.cells import Cell

__all__ = ["FoundRows", "Question"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Question:
    """What a recall asks of the index."""

    query: str
    cells: tuple[tuple[int, Cell], ...]
    recipe: Recipe
    by_words: Recipe
    now: datetime
    vector: npt.NDArray[np.float32] | None = None
    ranks_words_alone: bool = False
    filter: Filter | None = None
    limit: int = 10
    offset: int = 0
    session: Session | None = None
    candidates: Hints | None = None
    around: int = 0
    budget: float = 1.5


@dataclass(frozen=True, eq=False, kw_only=True)
class FoundRows:
    """The rows that the index ranked, best first, with everything that a match tells of them."""

    rows: tuple[int, ...]
    scores: tuple[float, ...]
    vector_scores: tuple[float | None, ...]
    bm25_scores: tuple[float | None, ...]
    stages: Mapping[str, tuple[Any, ...]]
    ranks: Mapping[str, tuple[int | None, ...]]
    fills: tuple[bool, ...]
    exact: tuple[bool, ...]
    n_candidates: Mapping[str, int]
    trace: Trace
    phase: Phase | None = None
    related: tuple[tuple[tuple[str | None, ...], str], ...] = ()
    context: tuple[tuple[str, ...], ...] = ()
    around: tuple[tuple[int, ...], ...] = ()
    edges: tuple[Any, ...] = ()
    reasons: tuple[Degradation, ...] = ()
    is_behind: bool = False
    ranked: Ranked | None = field(default=None, repr=False)
