"""The runs of a call: one for its options, or one for each recipe and form, with fixed names.

All shards and the merge use the same runs, so the results of a run are found by its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.arm.arm import FoundDocs, no_candidates
from hyrecall.errors import DTypeError, OptionError, ShapeError
from hyrecall.recall.plan import Ranking, rank_by_options
from hyrecall.recall.recipe_answer import Shares, by_recipe, fallback, with_lists, with_options
from hyrecall.recall.recipe_ranking import by_form, rank_by_recipe

if TYPE_CHECKING:
    from hyrecall.ask.recipe import Recipe
    from hyrecall.ask.request import CallOptions, Search
    from hyrecall.parts.request import ReadRequest
    from hyrecall.recall.plan import Plan
    from hyrecall.segments.segments import IndexFacts


Asked = npt.NDArray[np.bool_]

REFUSALS = (DTypeError, OptionError, ShapeError)
"""Errors about the arguments of a call."""

_THREADS = " threads"


class CallRun(NamedTuple):
    """One run of a call."""

    name: str
    how: Recipe | CallOptions
    request: Search
    ranking: Ranking

    @property
    def is_for_threads(self) -> bool:
        """Whether it runs the form of a recipe for queries that see threads."""
        return _THREADS in self.name


def has_forms(facts: IndexFacts, call: ReadRequest) -> bool:
    """Whether a recipe has another form for queries whose scope holds threads."""
    if call.recipe is None or facts.schema.thread is None:
        return False
    return any(one.with_threads is not None for one, _ in by_recipe(call.recipe))


def _recipe_runs(
    call: ReadRequest, sees: bool | Asked | None
) -> list[tuple[str, Recipe, Asked | None]]:
    """Return each recipe of a call with its name and its queries."""
    # ``sees``: which queries see threads; None: not known yet, so every recipe runs in both forms.
    chosen = [(with_options(one, call.options), own) for one, own in by_recipe(call.recipe)]
    if all(recipe.with_threads is None for recipe, _ in chosen):
        return [(str(number), *one) for number, one in enumerate(chosen)]
    out: list[tuple[str, Recipe, Asked | None]] = []
    for number, one in enumerate(chosen):
        if sees is None:
            forms = [(one[0], one[1]), (one[0].for_threads(), one[1])]
            names = ["", _THREADS]
        else:  # as a single index does: a recipe without such a form runs once for both
            forms = by_form([one], sees)
            names = [_THREADS if _is_for_threads(own, sees) else "" for _, own in forms]
        out += [(f"{number}{name}", *form) for name, form in zip(names, forms, strict=True)]
    return out


def _is_for_threads(selected: Asked | None, sees: bool | Asked) -> bool:
    """Whether a group of queries from by_form is that of queries that see threads."""
    if isinstance(sees, bool):
        return sees
    if selected is None or len(selected) != len(sees):
        return False
    return bool((selected & sees).any())


def runs_of(facts: IndexFacts, call: ReadRequest, sees: bool | Asked | None) -> Iterator[CallRun]:
    """Yield the runs of a call on one shard, in order, without those of :func:`again`."""
    if call.recipe is None:
        request = call.asked.with_own_scope()
        yield CallRun("0", call.options, request, rank_by_options(request, call.options))
        return
    request = with_lists(call.asked)
    chosen = _recipe_runs(call, sees)
    shares = Shares(request, [recipe for _, recipe, _ in chosen])
    for name, recipe, selected in chosen:
        own = shares.of(recipe)
        yield CallRun(name, recipe, own, rank_by_recipe(facts, own, recipe, selected))


def again(facts: IndexFacts, call: ReadRequest, run: CallRun, unanswered: Asked) -> CallRun | None:
    """Return the run for the queries that a run did not answer; None if the recipe has none."""
    if call.recipe is None or not run.how.on_no_match or not unanswered.any():
        return None
    request = with_lists(call.asked)
    recipes = [recipe for _, recipe, _ in _recipe_runs(call, None)]
    shares = Shares(request, recipes)
    if not shares.asks(run.how.on_no_match):
        return None
    recipe = fallback(run.how)  # type: ignore[arg-type]
    own = shares.of(recipe)
    ranking = rank_by_recipe(facts, own, recipe, unanswered)
    return CallRun(f"{run.name} again", recipe, own, ranking)


def named_runs(call: ReadRequest, sees: bool | Asked) -> list[tuple[str, Recipe | CallOptions]]:
    """Return the name of every run that a merge may need, in order."""
    if call.recipe is None:
        return [("0", call.options)]
    out: list[tuple[str, Recipe | CallOptions]] = []
    for name, recipe, _ in _recipe_runs(call, sees):
        out.append((name, recipe))
        if recipe.on_no_match:
            out.append((f"{name} again", fallback(recipe)))
    return out


def native(plan: Plan) -> _core.BatchRequest:
    """Return the plan's request with all arms; those of ``arms=`` have no documents."""
    plan.complete(plan.request, 0, nothing_found(plan, plan.n_queries))
    return plan.request


def nothing_found(plan: Plan, n_queries: int) -> dict[str, FoundDocs]:
    """Return empty lists for some queries, for each arm of ``arms=`` that runs."""
    asked = () if plan.searches is None else plan.searches.asked
    return {arm.name: no_candidates(n_queries) for arm, _ in asked}
