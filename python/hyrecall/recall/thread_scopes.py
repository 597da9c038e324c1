"""Says which queries of a batch see threads, and by which form of a recipe each is answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from hyrecall.ask.filters import Filter
from hyrecall.ask.predicates import NotNull
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.request import Request
from hyrecall.errors import HyrecallError
from hyrecall.recall.recipe_ranking import n_queries_of
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.lookup import count_where
from hyrecall.segments.segments import State

__all__ = ["Chosen", "by_form", "by_threads", "sees_threads"]

Chosen = tuple[Recipe, npt.NDArray[np.bool_] | None]
"""A recipe, and the queries that it answers; None: all of them."""

MOST_KNOWN = 10_000
"""Scopes of a state whose answer is kept."""


def by_threads(
    chosen: Sequence[Chosen], sees: Callable[[], bool | npt.NDArray[np.bool_]]
) -> list[Chosen]:
    """Give each recipe with a form for threads the queries of either form."""
    # Which form answers a query depends on the live rows of its scope alone: ``sees`` returns what
    # :func:`sees_threads` does.
    if all(one.with_threads is None for one, _ in chosen):
        return list(chosen)
    return by_form(chosen, sees())


def by_form(chosen: Sequence[Chosen], sees: bool | npt.NDArray[np.bool_]) -> list[Chosen]:
    """Give each recipe the queries that see no threads, and its form for threads the others."""
    out: list[Chosen] = []
    for recipe, selected in chosen:
        if isinstance(sees, bool):
            out.append((recipe.for_threads() if sees else recipe, selected))
            continue
        asked = np.ones(len(sees), np.bool_) if selected is None else selected
        if len(asked) != len(sees):  # the plan refuses the scope or the recipes
            out.append((recipe, selected))
            continue
        parts = [(recipe, asked & ~sees), (recipe.for_threads(), asked & sees)]
        out += [part for part in parts if part[1].any()]
    return out


def sees_threads(facts: IndexFacts, state: State, request: Request) -> bool | npt.NDArray[np.bool_]:
    """Say of each query whether its scope holds a row in a thread; a bool if all are alike."""
    thread = facts.schema.thread
    if thread is None or _has_no_thread(state, thread):
        return False
    scope = request.scope
    if not isinstance(scope, list):
        return _holds_thread(facts, state, scope, thread)
    n_queries = n_queries_of(request)
    if n_queries not in (None, len(scope)):  # the plan refuses it
        return False
    found = [_holds_thread(facts, state, one, thread) for one in scope]
    return np.array(found, np.bool_) if len(set(found)) > 1 else any(found)


def _has_no_thread(state: State, thread: str) -> bool:
    """Say whether no row of any scope is in a thread; Arrow keeps a column's count of nulls."""
    columns = [segment.column(thread) for segment in state.segments]
    return all(column.null_count == len(column) for column in columns)


def _holds_thread(facts: IndexFacts, state: State, scope: object, thread: str) -> bool:
    """Say whether a live row of a scope is in a thread; False for a scope that is refused later."""
    known = state.threaded_scopes
    try:
        found = known.get(scope)
        if found is None:
            found = count_where(facts, state, scope, Filter(**{thread: NotNull()})) > 0
            if len(known) >= MOST_KNOWN:
                known.clear()
            known[scope] = found
    except (HyrecallError, TypeError):  # not hashable
        return False
    return found
