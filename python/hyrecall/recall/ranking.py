"""The ranking of one request: a recipe or a call's options, resolved for an index's arms."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from hyrecall.ask.request import CallOptions, Search
from hyrecall.hits.trace import Notes

if TYPE_CHECKING:
    from hyrecall.ask.recipe import Fill, Recipe, Tables
    from hyrecall.recall.exact import ExactTexts


class Ranking(NamedTuple):
    """How an index ranks one request: queries of the arms, constants, fusion, floors."""

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


def rank_by_options(request: Search, options: CallOptions) -> Ranking:
    """Return the ranking of a call without a recipe: every arm that is asked gets what is asked."""
    return Ranking(
        options, request.text, request.vectors, options.fusion, options.min_score,
        options.min_fused, options.bm25, options.depth,
    )  # fmt: skip
