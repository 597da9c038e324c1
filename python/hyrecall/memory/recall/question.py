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
    """What a recall asks of the index.

    Attributes
    ----------
    query : str
    cells : tuple of (int, Cell)
        What the caller may see: numbers and cells.
    recipe, by_words : Recipe
        How to rank with a vector, and without one.
    now : datetime
    vector : ndarray or None
        Of the query; one of another length than the index's counts as none.
    ranks_words_alone : bool
        Whether ``recipe`` ranks also without a vector.
    filter : Filter or None
    limit, offset : int
    session : Session or None
    candidates : tuple of str, or dict of str to float, or None
        Memories that the caller names.
    around : int
        How many rows on either side of a hit in its session are found with it.
    budget : float
        Seconds to wait for changes that another thread is applying.
    """

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
    """The rows that the index ranked, best first, with everything that a match tells of them.

    Attributes
    ----------
    rows : tuple of int
        Of versions in the store.
    scores : tuple of float
    vector_scores, bm25_scores : tuple of float or None
        None: not computed.
    stages : dict of str to tuple
        Of each row what a stage computed, by its column: "rerank_score", "recency_factor"; None:
        nothing.
    ranks : dict of str to tuple
        Of each row the rank in each arm that ran, from 1; None: outside its list.
    fills : tuple of bool
        Which are no hits but fill the list.
    exact : tuple of bool
        Which hold the query whole.
    n_candidates : dict of str to int
        How many candidates each arm found.
    trace : Trace
    phase : Phase or None
    related : tuple of (tuple, str)
        Cell and id of memories that share tags with the hits.
    context : tuple of tuple of str
        Of each row the ids of its neighbours in the graph; empty: no row has one.
    around : tuple of tuple of int
        Of each row the versions around it in its session; empty: not asked.
    edges : tuple of (str or None)
        Of each row the edge whose text speaks for it, where the recipe shows context.
    reasons : tuple of Degradation
        What the index could not do.
    is_behind : bool
        Whether changes of another process are missing.
    ranked : Ranked or None
        Recomputes scores. It stays in its process: whoever receives rows puts in its own.
    """

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
