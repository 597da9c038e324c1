"""Says whether queries by a recipe may be searched together with others' queries."""

from __future__ import annotations

from hyrecall.ask.arms.regex import Regex
from hyrecall.ask.graph_names import has_graphs
from hyrecall.ask.recipe import Recipe

__all__ = ["is_joinable"]


def is_joinable(recipe: Recipe) -> bool:
    """Return whether a query's reply says the same in a batch as alone."""
    # Stages and neighbours have the time of the call, and their counts in the trace are those
    # of the
    # whole batch. Where some queries fall back to other arms, the trace names these arms to all.
    # A pattern takes its time in the texts; no other caller's query should wait for it.
    tells_of_all = recipe.shaping or recipe.expansion or recipe.on_no_match
    has_patterns = any(isinstance(arm, Regex) for arm in recipe.more)
    return not (tells_of_all or has_patterns or has_graphs(recipe))
