"""Says whether queries by a recipe may be searched together with others' queries."""

from __future__ import annotations

from hyrecall.ask.graph_names import has_graphs
from hyrecall.ask.recipe import Recipe

__all__ = ["is_joinable"]


def is_joinable(recipe: Recipe) -> bool:
    """Return whether a query's reply says the same in a batch as alone.

    Stages and neighbours have the time of the call, and their counts in the trace are those of the
    whole batch. Where some queries fall back to other arms, the trace names these arms to all.
    """
    tells_of_all = recipe.shaping or recipe.expansion or recipe.on_no_match
    return not (tells_of_all or has_graphs(recipe))
