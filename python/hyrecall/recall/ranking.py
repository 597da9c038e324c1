"""How one index answers one request: a recipe, or a call's options, read for the index's arms."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from hyrecall.ask.request import CallOptions, Request
from hyrecall.hits.trace import Notes

if TYPE_CHECKING:
    from hyrecall.ask.recipe import Fill, Recipe, Tables
    from hyrecall.recall.exact import ExactTexts

__all__ = ["Ranking", "rank_by_options"]


class Ranking(NamedTuple):
    """What the arms of an index get of a request, and how their lists are joined.

    Attributes
    ----------
    how : Recipe or CallOptions
        With graphs in the place of their names. Its other arms, stages, expansion, tie-break and
        ``normalize`` hold as they are.
    text, vectors : object
        What the arms read.
    fusion, min_score, min_fused, bm25 : object
        By the names of arms. ``fusion`` None: the default, where several arms run.
    depth : object
    tables, fill
        Of a recipe.
    exact_texts : mapping of str to sequence, optional
        What rows must hold whole to come first; None: no rows come first.
    blank_queries : tuple of int
        Queries without a word, which get nothing but what fills.
    selected : ndarray of bool, optional
        The queries that are answered; None: all.
    n_queries : int, optional
        How many there are, where no arm reads what says so.
    notes : Notes
        For the trace.
    """

    how: Recipe | CallOptions
    text: object
    vectors: object
    fusion: object
    min_score: object
    min_fused: object
    bm25: object
    depth: object
    tables: Tables | None = None
    fill: Fill | None = None
    exact_texts: ExactTexts | None = None
    blank_queries: tuple[int, ...] = ()
    selected: npt.NDArray[np.bool_] | None = None
    n_queries: int | None = None
    notes: Notes = MappingProxyType({})


def rank_by_options(request: Request, options: CallOptions) -> Ranking:
    """Return the ranking of a call without a recipe: every arm that is asked gets what is asked."""
    return Ranking(
        options, request.text, request.vectors, options.fusion, options.min_score,
        options.min_fused, options.bm25, options.depth,
    )  # fmt: skip
